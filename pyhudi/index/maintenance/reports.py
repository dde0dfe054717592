"""Reports of the services of the record index."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pyhudi.reports import Report


@dataclass(frozen=True, slots=True)
class IndexCheck(Report):
    """The result of `table.index.verify`.

    keys: checked keys of the table (rows, so a key that is stored twice counts twice); entries:
    checked entries of the index.  faults: number by kind; empty if there are none.  copies: rows
    whose key is also stored elsewhere in the table, which is not a fault of the index.  examples:
    some faults of each kind, with the place of the key and the place stated in its entry.
    sampled: size of the sample; None for a full check.  fault_share_max: by direction, the largest
    share of faulty keys that is consistent with the sample at 95 % confidence.
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
        """Whether no fault was found."""
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
    """The result of `table.index.repair`, or (instant None) what it would do.

    put: entries written, for keys that are missing or elsewhere; ended: entries removed.
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
    """The result of `table.index.rebuild`, or (dry_run) what it would do.

    file_slices: to read; reused: number of runs of keys that an earlier build had staged.
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
