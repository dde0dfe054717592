"""Look-up costs in files of an index: the chosen methods, their estimated and actual times."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any

import pyarrow as pa

from pyhudi._native.hfile.reader import HFileReader


@dataclass(frozen=True, slots=True)
class LookupCost:
    """Costs of look-ups.  files: searched; seek, scan, hash: of these by seek, by scan, and by an
    existing hash table of all cells.  keys: looked up, counted once per file.  seek_seconds,
    scan_seconds: estimates of each method for all files, with blocks in memory taken into account;
    seconds: actual time, summed over all tasks."""

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
        """The costs by name; empty if no file was searched."""
        if not self.files:
            return {}
        return {field.name: round(getattr(self, field.name), 6) for field in fields(self)}


def timed_get(
    reader: HFileReader, keys: pa.Array, method: str, costs: list[LookupCost]
) -> pa.BinaryArray:
    """`reader.get_many`; its cost is appended to `costs`.  Overhead: `reader.plan`, a small part
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
    costs.append(cost)
    return values
