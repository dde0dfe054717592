"""The choice between seek and scan by estimated cost, from the constants in `costs.py`.

On a mapped file the sorted merge skips untouched blocks and is never slower than a scan.  If a
request is expensive, ranges closer than the bytes transferred in one request's latency are
fetched together, and above some density one read of the whole file is cheapest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyhudi._native.hfile.costs import lookup_costs
from pyhudi._native.hfile.source import LOCAL_BYTES_PER_SECOND, REMOTE_BYTES_PER_SECOND


@dataclass(frozen=True, slots=True)
class LookupPlan:
    """The choice for one batch, both estimated costs in seconds, and their inputs.

    method: "seek" or "scan"; "hash" once all cells of the open file are hashed in memory.
    """

    method: str
    seek_cost: float
    scan_cost: float
    keys: int
    touched_blocks: int
    touched_bytes: int
    requests: int
    blocks: int
    file_bytes: int


def plan_lookup(
    source: Any,
    *,
    keys: int,
    touched_blocks: int,
    touched_bytes: int,
    requests: int,
    requested_bytes: int,
    scan_requests: int,
    blocks: int,
    file_bytes: int,
    entries: int,
    compressed: bool,
    hashed: bool,
) -> LookupPlan:
    """keys: those that can be in the file.  touched_*: blocks not yet decoded that can contain
    them.  requests, requested_bytes: ranges that fetch these, gaps included.  Ties use seek.
    """
    latency = getattr(source, "request_cost_seconds", 0.0)
    speed = getattr(
        source, "bytes_per_second", REMOTE_BYTES_PER_SECOND if latency else LOCAL_BYTES_PER_SECOND
    )

    costs = lookup_costs()

    def cost(requests: int, fetched: int, decoded: int, count: int) -> float:
        return (
            requests * latency
            + fetched / speed
            + (decoded / costs.inflate_bytes_per_second if compressed else 0.0)
            + count * costs.block_seconds
            + entries * (count / max(blocks, 1)) * costs.cell_seconds
            + keys * costs.key_seconds
        )

    seek = cost(requests, requested_bytes, touched_bytes, touched_blocks)
    scan = cost(scan_requests, file_bytes, file_bytes, blocks)
    return LookupPlan(
        method="hash" if hashed else "seek" if seek <= scan else "scan",
        seek_cost=seek,
        scan_cost=scan,
        keys=keys,
        touched_blocks=touched_blocks,
        touched_bytes=touched_bytes,
        requests=requests,
        blocks=blocks,
        file_bytes=file_bytes,
    )
