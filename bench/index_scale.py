"""What a look-up in a very large record index takes, simulated with the constants of this machine.

    python -m bench.index_scale

Buckets of 1 M entries, each a base HFile (GZ, blocks of 24 KiB) under some logs of one commit each.
Keys of a batch fall into buckets and blocks at random; each file is asked by the choice that
`plan_lookup` makes.  A bucket is a task; a core takes the next as it comes free.  Not in it: the
shuffle of the keys, the scheduler's own time, other users of the store.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from pyhudi._native.hfile.costs import LookupCosts, lookup_costs
from pyhudi._native.hfile.plan import plan_lookup

ENTRY_BYTES = 29.0  # stored, of random 36-character keys: bench/large_index
PLAIN_BYTES = 100  # decoded
BLOCK_BYTES = 24 << 10
BUCKET = 1_000_000
LOG_ENTRIES = 20_000
START_SECONDS = 0.05  # of a task, on Spark: spark_costs


@dataclass(frozen=True, slots=True)
class Store:
    """Where the index lies.  dollars_per_request: of a GET."""

    name: str
    request_cost_seconds: float
    bytes_per_second: float
    dollars_per_request: float = 0.0


@dataclass(frozen=True, slots=True)
class Index:
    name: str
    buckets: int
    logs: int


@dataclass(frozen=True, slots=True)
class Cost:
    """One batch.  seconds: from the first task to the last; core_seconds: of all."""

    tasks: int
    requests: int
    gigabytes: float
    core_seconds: float
    seconds: float
    dollars: float


STORES = (Store("local disk", 0.0, 2e9), Store("object store", 0.03, 90e6, 0.4e-6))
INDEXES = (Index("1 billion", 1_000, 5), Index("10 billion", 10_000, 5))
BATCHES = (10, 10_000, 1_000_000, 100_000_000)
CORES = 200


def file_cost(store: Store, entries: int, keys: float) -> tuple[float, float, float]:
    """(seconds, requests, bytes) of asking one file for `keys` of its keys, its index included."""
    blocks = max(1, entries * PLAIN_BYTES // BLOCK_BYTES)
    size = int(entries * ENTRY_BYTES)
    touched = min(blocks * (1 - math.exp(-keys / blocks)), max(1.0, blocks))
    stored = size / blocks
    gap = store.request_cost_seconds * store.bytes_per_second
    joined = max(1.0, touched * math.exp(-touched * gap / size)) if gap else 1.0
    plan = plan_lookup(
        store,
        keys=math.ceil(keys),
        touched_blocks=math.ceil(touched),
        touched_bytes=int(touched * stored),
        requests=math.ceil(joined),
        requested_bytes=int(min(size, touched * stored + (touched - joined) * gap / 2)),
        scan_requests=1,
        blocks=blocks,
        file_bytes=size,
        entries=entries,
        compressed=True,
        hashed=False,
    )
    if plan.method == "seek":
        seconds, requests, fetched = plan.seek_cost, joined, touched * stored
    else:
        seconds, requests, fetched = plan.scan_cost, 1.0, float(size)
    head = 2 * store.request_cost_seconds  # trailer, and the index with it
    return seconds + head, requests + 2, fetched + blocks * 40


def batch_cost(store: Store, index: Index, keys: int) -> Cost:
    touched = index.buckets * (1 - math.exp(-keys / index.buckets))
    tasks = max(1, round(touched))
    mine = keys / tasks
    base = file_cost(store, BUCKET, mine)
    log = file_cost(store, LOG_ENTRIES, mine)
    seconds = START_SECONDS + base[0] + index.logs * log[0]
    requests = round(tasks * (base[1] + index.logs * log[1]))
    fetched = tasks * (base[2] + index.logs * log[2])
    return Cost(
        tasks,
        requests,
        fetched / 1e9,
        tasks * seconds,
        math.ceil(tasks / CORES) * seconds,
        requests * store.dollars_per_request,
    )


def table(costs: LookupCosts) -> str:
    lines = [
        "| index | store | keys of a batch | tasks | requests | GB read | core seconds | "
        f"seconds on {CORES} cores | requests, $ |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for index in INDEXES:
        for store in STORES:
            for keys in BATCHES:
                c = batch_cost(store, index, keys)
                lines.append(
                    f"| {index.name} | {store.name} | {keys:,} | {c.tasks:,} | {c.requests:,} | "
                    f"{c.gigabytes:,.2f} | {c.core_seconds:,.0f} | {c.seconds:,.1f} | "
                    f"{c.dollars:,.4f} |"
                )
    lines.append("")
    lines.append(
        f"Constants: inflating {costs.inflate_bytes_per_second / 1e6:,.0f} MB/s, a cell "
        f"{costs.cell_seconds * 1e9:.0f} ns, a key {costs.key_seconds * 1e9:.0f} ns, a block "
        f"{costs.block_seconds * 1e6:.1f} us."
    )
    return "\n".join(lines)


if __name__ == "__main__":
    print(table(lookup_costs()))
