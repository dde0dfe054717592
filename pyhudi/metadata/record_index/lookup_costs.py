"""What look-ups in files of an index chose, what that was expected to cost, and what it did."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any

import pyarrow as pa

from pyhudi._native.hfile.reader import HFileReader


@dataclass(frozen=True, slots=True)
class LookupCost:
    """files: asked; of these by seek, by scan, and by a hash of all cells that was there already.
    keys: asked for, once a file.  seek_seconds, scan_seconds: expected of either for all files,
    what is in memory counted as such; seconds: taken, of all tasks together."""

    files: int = 0
    keys: int = 0
    seek: int = 0
    scan: int = 0
    hash: int = 0
    seek_seconds: float = 0.0
    scan_seconds: float = 0.0
    seconds: float = 0.0

    @classmethod
    def sum(cls, costs: Iterable[LookupCost | None]) -> LookupCost:
        some = [cost for cost in costs if cost is not None]
        return cls(*(sum(getattr(cost, field.name) for cost in some) for field in fields(cls)))

    def to_dict(self) -> dict[str, Any]:
        """Nothing where no file was asked."""
        if not self.files:
            return {}
        return {field.name: round(getattr(self, field.name), 6) for field in fields(self)}


def timed_get(
    reader: HFileReader, keys: pa.Array, method: str, told: list[LookupCost]
) -> pa.BinaryArray:
    """`reader.get_many`; what it took is added to `told`.  Cost: also `reader.plan`, a small part
    of it."""
    plan = reader.plan(keys)
    chosen = plan.method if method == "auto" else method
    began = time.perf_counter()
    values = reader.get_many(keys, method=method)
    spent = time.perf_counter() - began
    cost = LookupCost(
        files=1,
        keys=len(keys),
        seek=int(chosen == "seek"),
        scan=int(chosen == "scan"),
        hash=int(chosen == "hash"),
        seek_seconds=plan.seek_cost,
        scan_seconds=plan.scan_cost,
        seconds=spent,
    )
    told.append(cost)
    return values
