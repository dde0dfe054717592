"""Upsert on one machine, against delta-rs merge on the same rows, in one run.

    python -m bench.local_upsert [--rows 5000000] [--batch 500000] [--smoke]

Nine columns in eight partitions; three batches of 90 % updates.  Prints the seconds of each step
(median of the batches, merge and upsert in turns) and the ratios.  Memory: bench.upsert_memory.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import pyhudi
from bench.results import state

GOALS = {"cow": 1.3, "mor": 4.0}
"""Times as fast as delta-rs's merge."""


def rows_of(ids: np.ndarray, version: int, seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    count = len(ids)
    ids = ids.astype(np.uint64)
    mixed = (ids * np.uint64(0x9E3779B97F4A7C15)).tolist()
    return pa.table(
        {
            "id": [f"{a:016x}-{b:08d}" for a, b in zip(mixed, ids.tolist(), strict=True)],
            "ts": np.full(count, version, "int64"),
            "part": [f"p{i % 8}" for i in ids.tolist()],
            "a": rng.integers(0, 1 << 40, count),
            "b": rng.random(count),
            "c": rng.random(count),
            "d": rng.integers(0, 1000, count),
            "s1": [f"name-{x}" for x in rng.integers(0, 100_000, count).tolist()],
            "s2": [f"some longer text value {x}" for x in rng.integers(0, 1 << 30, count).tolist()],
        }
    )


def batches(rows: int, size: int) -> list[pa.Table]:
    found = []
    for number in range(3):
        rng = np.random.default_rng(100 + number)
        fresh = size // 10
        ids = np.concatenate(
            [
                rng.choice(rows, size - fresh, replace=False),
                np.arange(rows + number * fresh, rows + (number + 1) * fresh),
            ]
        )
        found.append(rows_of(ids, number + 1, 10 + number))
    return found


def seconds(act: Callable[[], object]) -> float:
    began = time.perf_counter()
    act()
    return time.perf_counter() - began


def delta_rows(path: str, query: str) -> pa.Table:
    """The rows of a query of the Delta table `t` at a path, by delta-rs' own engine: its dataset
    for Arrow leaves threads that often abort the process at its end."""
    import deltalake

    engine = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(path))
    return pa.table(engine.execute(query).read_all())


def run(rows: int, size: int) -> None:
    import deltalake

    base = rows_of(np.arange(rows), 0, 0)
    spent: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        delta = f"{folder}/delta"
        load = seconds(lambda: deltalake.write_deltalake(delta, base, partition_by=["part"]))
        print(f"delta-rs load {load:.2f} s")
        for kind in ("cow", "mor"):
            table = pyhudi.create_table(
                f"{folder}/{kind}",
                base.schema,
                record_key="id",
                partition_by="part",
                ordering="ts",
                table_type=kind,
            )
            print(f"{kind} bulk_insert {seconds(lambda t=table: t.bulk_insert(base)):.2f} s")
        for batch in batches(rows, size):
            merge = lambda b=batch: (  # noqa: E731
                deltalake.DeltaTable(delta)
                .merge(b, "t.part = s.part and t.id = s.id", source_alias="s", target_alias="t")
                .when_matched_update_all()
                .when_not_matched_insert_all()
                .execute()
            )
            spent.setdefault("delta-rs", []).append(seconds(merge))
            for kind in ("cow", "mor"):
                table = pyhudi.open_table(f"{folder}/{kind}")
                spent.setdefault(kind, []).append(seconds(lambda t=table, b=batch: t.upsert(b)))
        peer = statistics.median(spent["delta-rs"])
        for name, times in spent.items():
            median = statistics.median(times)
            shown = ", ".join(f"{t:.2f}" for t in times)
            print(
                f"{name} upsert {median:.2f} s ({shown}); delta-rs / {name} = {peer / median:.2f}"
            )
        for name, goal in GOALS.items():
            times = peer / statistics.median(spent[name])
            state(
                f"upsert {name.upper()}, {size:,} into {rows:,}: {goal:g}x as fast as delta-rs",
                f"{statistics.median(spent[name]):.2f} s and {peer:.2f} s",
                f"{times:.2f}x",
                is_held=times >= goal,
            )
        counts = [
            pyhudi.open_table(f"{folder}/{kind}").scan(columns=["a", "ts"]).to_arrow()
            for kind in ("cow", "mor")
        ]
        print("result", *(f"{t.num_rows}/{pc.sum(t['a'])}/{pc.sum(t['ts'])}" for t in counts))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--batch", type=int, default=500_000)
    parser.add_argument("--smoke", action="store_true")
    given = parser.parse_args()
    run(20_000, 2_000) if given.smoke else run(given.rows, given.batch)
