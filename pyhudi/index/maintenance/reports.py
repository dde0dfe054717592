"""What services of the record index tell."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pyhudi.reports import Report


@dataclass(frozen=True, slots=True)
class IndexCheck(Report):
    """What `table.index.verify` found.

    keys: of the table that were looked at (rows, so a key that is there twice counts twice);
    entries: of the index.  faults: by kind; none at all, where there are none.  copies: rows whose
    key the table has elsewhere too, which is no fault of the index.  examples: some faults of
    each kind, with where the key is and where its entry says it is.
    sampled: of a full check None.  fault_share_max: by direction, the largest share of keys with
    a fault that would still give what the sample gave in one of twenty samples.
    """

    instant: str | None
    buckets: int
    keys: int
    entries: int
    faults: Mapping[str, int] = field(default_factory=dict)
    copies: int = 0
    examples: tuple[Mapping[str, Any], ...] = ()
    sampled: int | None = None
    fault_share_max: Mapping[str, float] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def fault_count(self) -> int:
        return sum(self.faults.values())

    @property
    def is_exact(self) -> bool:
        """Whether nothing was found."""
        return not self.faults

    def to_dict(self) -> dict[str, Any]:
        return {
            **Report.to_dict(self),
            "faults": dict(self.faults),
            "fault_share_max": dict(self.fault_share_max),
            "examples": [dict(example) for example in self.examples],
            "fault_count": self.fault_count,
        }


@dataclass(frozen=True, slots=True)
class IndexRepair(Report):
    """What `table.index.repair` did, or (instant None) would do.

    put: entries written, for keys that are missing or elsewhere; ended: entries taken out.
    """

    check: IndexCheck
    put: int = 0
    ended: int = 0
    buckets: int = 0
    instant: str | None = None
    dry_run: bool = False
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        return {
            **Report.to_dict(self),
            "check": self.check.to_dict(),
        }


@dataclass(frozen=True, slots=True)
class IndexRebuild(Report):
    """What `table.index.rebuild` did, or (dry_run) would do.

    file_slices: to read; reused: how many runs of their keys an earlier build had put aside.
    buckets_before: 0 where the table had no record index.
    """

    buckets: int
    buckets_before: int
    file_slices: int
    reused: int
    entries: int = 0
    bytes_written: int = 0
    seconds: float = 0.0
    dry_run: bool = False
    notes: tuple[str, ...] = ()
