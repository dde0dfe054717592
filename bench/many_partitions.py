"""Many small files: a load into many partitions and an upsert that touches all, beside delta-rs.

    python -m bench.many_partitions [--size small|full|smoke] [--turns 3]

small: 120 k rows in 600 partitions; full: 400 k rows in 2,000.  The upsert has 90 % updates and
10 % new keys, spread over every partition.  Each engine takes its turn in every round and writes a
new table, in a process of its own; prints the median of the CPU seconds (all threads and
processes) and the wall seconds of each step, and CPU seconds beside delta-rs.  Sums that are read
back must equal those of the input.  At the end: bytes that an upsert of two rows into two
partitions writes.

pyarrow: the limit of what a table could cost: the same rows in one file for each partition, without
a table; an upsert reads and writes all of them.  Tables of earlier turns are deleted at the end.
Files deleted on the same ext4 disk within the last minutes make new ones dearer: bench after some
minutes without deletes.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bench import machine
from bench.local_upsert import delta_rows
from bench.results import state

SIZES = {"smoke": (200, 4), "small": (120_000, 600), "full": (400_000, 2_000)}
BARE = "pyarrow"
ENGINES = ("delta-rs", "cow-6", "cow-9", "mor-6", "mor-9", BARE)
STEPS = ("load", "upsert", "two rows")
GOAL = 2.0
_LIMIT_SECONDS = 900.0


def rows_of(ids: np.ndarray, partitions: int, version: int) -> pa.Table:
    """Rows of record numbers: seven columns of data; the partition follows from the number."""
    numbers = pa.array(ids)
    text = pc.utf8_lpad(numbers.cast(pa.string()), 9, "0")
    parts = pc.utf8_lpad(pa.array(ids % partitions).cast(pa.string()), 5, "0")
    mixed = (ids.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(20)
    return pa.table(
        {
            "id": pc.binary_join_element_wise("key", text, "-"),
            "ts": np.full(len(ids), version, np.int64),
            "part": pc.binary_join_element_wise("p", parts, ""),
            "a": mixed.astype(np.int64) + version,
            "b": (mixed % np.uint64(1009)).astype(np.float64),
            "s1": pc.binary_join_element_wise("name", pa.array(mixed % 977).cast(pa.string()), "-"),
            "s2": pc.binary_join_element_wise("value", pa.array(mixed).cast(pa.string()), " "),
        }
    )


def changes_of(rows: int, partitions: int) -> pa.Table:
    """A tenth as many rows as were loaded (at least three a partition), 90 % of them updates."""
    count = max(rows // 10, 3 * partitions)
    fresh = count // 10
    rng = np.random.default_rng(7)
    old = rng.choice(rows // partitions, -(-count // partitions), replace=False)
    numbers = (old[:, None] * partitions + np.arange(partitions)[None, :]).ravel()
    return rows_of(
        np.concatenate([numbers[: count - fresh], rows + np.arange(fresh)]), partitions, 1
    )


def spent() -> float:
    """CPU seconds of this process, its threads and its ended children."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in used)


def measured(step: str, act: Callable[[], object]) -> None:
    cpu, began = spent(), time.perf_counter()
    act()
    wall, used = time.perf_counter() - began, spent() - cpu
    print(json.dumps({"step": step, "wall": wall, "cpu": used}), flush=True)


def _files_of(folder: str) -> dict[str, int]:
    return {str(p): p.stat().st_size for p in Path(folder).rglob("*") if p.is_file()}


def run_engine(engine: str, rows: int, partitions: int) -> None:
    """The steps of one engine on a new table, which is left; prints a line of JSON for each."""
    base, changes = rows_of(np.arange(rows), partitions, 0), changes_of(rows, partitions)
    few = rows_of(np.array([0, 1]), partitions, 2)
    folder = tempfile.mkdtemp()
    start = {"delta-rs": _delta, BARE: _bare}.get(engine, _pyhudi)
    load, upsert, read = start(engine, folder, base)
    measured("load", load)
    measured("upsert", lambda: upsert(changes))
    before = _files_of(folder)
    measured("two rows", lambda: upsert(few))
    new = sum(s for path, s in _files_of(folder).items() if before.get(path) != s)
    print(json.dumps({"step": "two rows", "bytes": new}), flush=True)
    _check(read(), base, changes, few)


def _check(found: pa.Table, *written: pa.Table) -> None:
    """Counts and sums equal those of the last version of each key."""
    rows = pa.concat_tables(written).select(["id", "ts", "a"])
    last = rows.sort_by("ts").group_by("id", use_threads=False).aggregate([("a", "last")])
    expected = (last.num_rows, pc.sum(last["a_last"]).as_py())
    if (found.num_rows, pc.sum(found["a"]).as_py()) != expected:
        raise SystemExit(f"wrong result: {found.num_rows} rows, expected {expected[0]}")


def _pyhudi(engine: str, folder: str, base: pa.Table) -> tuple[Callable[..., object], ...]:
    import pyhudi

    kind, version = engine.split("-")
    table = pyhudi.create_table(
        f"{folder}/table",
        base.schema,
        record_key="id",
        partition_by="part",
        ordering="ts",
        table_type=kind,
        options={"hoodie.write.table.version": version},
    )
    return (
        lambda: table.bulk_insert(base),
        lambda rows: pyhudi.open_table(f"{folder}/table").upsert(rows),
        lambda: pyhudi.open_table(f"{folder}/table").scan(columns=["id", "a"]).to_arrow(),
    )


def _delta(engine: str, folder: str, base: pa.Table) -> tuple[Callable[..., object], ...]:
    import deltalake

    path = f"{folder}/table"
    return (
        lambda: deltalake.write_deltalake(path, base, partition_by=["part"]),
        lambda rows: (
            deltalake.DeltaTable(path)
            .merge(rows, "t.part = s.part and t.id = s.id", source_alias="s", target_alias="t")
            .when_matched_update_all()
            .when_not_matched_insert_all()
            .execute()
        ),
        lambda: delta_rows(path, "select id, a from t"),
    )


def _bare(engine: str, folder: str, base: pa.Table) -> tuple[Callable[..., object], ...]:
    def write(rows: pa.Table, *, with_stored: bool = True) -> None:
        ordered, begin = rows.sort_by("part"), 0
        for run in pc.run_end_encode(ordered["part"].combine_chunks()).run_ends.tolist():
            part = ordered.slice(begin, run - begin)
            path, begin = f"{folder}/{part['part'][0]}.parquet", run
            if with_stored:
                stored = pq.ParquetFile(path).read(use_threads=False)
                left = stored.filter(pc.invert(pc.is_in(stored["id"], part["id"])))
                part = pa.concat_tables([left, part])
            pq.write_table(part, path)

    return (
        lambda: write(base, with_stored=False),
        write,
        lambda: pq.read_table(folder, columns=["id", "a"]),
    )


def run(size: str, turns: int, engines: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        _run(size, turns, engines, {**os.environ, "TMPDIR": folder})


def _run(size: str, turns: int, engines: list[str], environment: dict[str, str]) -> None:
    found: dict[tuple[str, str, str], list[float]] = {}
    for _ in range(turns):
        for engine in engines:
            lines: list[str] = []
            program = [sys.executable, "-m", "bench.many_partitions", "--size", size]
            ended = machine.run(
                [*program, "--engine", engine],
                on_line=lines.append,
                limit_seconds=_LIMIT_SECONDS,
                environment=environment,
            )
            if ended.verdict:
                raise SystemExit(f"{engine} {ended.verdict}: {ended.error}")
            for line in filter(lambda text: text.startswith("{"), lines):
                values = json.loads(line)
                step = values.pop("step")
                for name, value in values.items():
                    found.setdefault((engine, step, name), []).append(value)
    rows, partitions = SIZES[size]
    print(f"{rows} rows in {partitions} partitions, median of {turns}")
    for step in STEPS:
        peer = statistics.median(found.get((ENGINES[0], step, "cpu"), [float("nan")]))
        for engine in engines:
            cpu = statistics.median(found[engine, step, "cpu"])
            wall = statistics.median(found[engine, step, "wall"])
            sizes = found.get((engine, step, "bytes"))
            written = f"; {sizes[-1]:.0f} bytes written" if sizes else ""
            ratio = f"{cpu / peer:.2f}x delta-rs"
            print(f"{step} {engine}: CPU {cpu:.2f} s, wall {wall:.2f} s, {ratio}{written}")
            if engine not in (ENGINES[0], BARE) and step != "two rows" and peer == peer:
                state(
                    f"{step} {engine}, {rows:,} rows in {partitions} partitions: "
                    f"at most {GOAL:g}x of delta-rs, CPU",
                    f"{cpu:.2f} s and {peer:.2f} s",
                    f"{cpu / peer:.2f}x",
                    is_held=cpu <= GOAL * peer,
                )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", choices=SIZES, default="small")
    parser.add_argument("--smoke", dest="size", action="store_const", const="smoke")
    parser.add_argument("--turns", type=int, default=1)
    parser.add_argument("--only", action="append", choices=ENGINES)
    parser.add_argument("--engine", choices=ENGINES, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.engine:
        run_engine(given.engine, *SIZES[given.size])
    else:
        run(given.size, given.turns, given.only or list(ENGINES))
