"""Shapes of tables and batches that differ from those of the other benches, beside delta-rs.

    python -m bench.shapes [--scale 1] [--turns 1] [--only SHAPE] [--engine ENGINE] [--growth]
        [--spark] [--smoke]

    partitions  2,000 partitions of 200 rows; 200 rows of each are written
    wide        200 columns, 50 of them nested (structs and lists)
    times       keys in time order in one partition a day; updates of the last day only
    hot         64 partitions, one with 80 % of the rows and of the changes
    tall        10 M rows of 3 columns (100 M with --scale 10), an upsert of a hundredth of them

Each engine takes its turn in every round and writes a new table in a process of its own: load,
upsert (90 % updates), snapshot of all columns, point query of one key.  Prints the median of the
CPU seconds (all threads and processes) and of the wall seconds of each step, the peak of the
resident memory during it (of driver and workers), and the ratio of CPU seconds to delta-rs in the
same run.  Counts and sums that are read back must equal those of the input.

--growth runs each shape also with four times the rows and prints the growth of each step.
--spark compares pyhudi on Spark with Delta Lake on Spark instead (bench.spark_peers).
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bench import machine
from bench.local_upsert import delta_rows
from bench.process_tree import measured
from bench.shape_engine import ENGINES as ON_SPARK
from bench.shape_rows import SHAPES, Shape, shape_of
from bench.spark_peers import peers, session_environment

LOCAL = ("delta-rs", "cow-6", "mor-9")
STEPS = ("load", "upsert", "snapshot", "point")
GROWTH_TARGET = 4.5
_LIMIT_SECONDS = 1800.0


def run_engine(engine: str, shape: Shape) -> None:
    """The steps of one engine on a new table."""
    with tempfile.TemporaryDirectory() as folder:
        steps = (_delta if engine == "delta-rs" else _pyhudi)(engine, f"{folder}/table", shape)
        measured("load", partial(steps["load"], shape.base()))
        measured("upsert", partial(steps["upsert"], shape.changes()))
        key, value, partition = shape.sample()
        found = measured("point", lambda: steps["point"](key, partition))
        if found != [value]:
            raise SystemExit(f"wrong result: {key} has {found}, expected {value}")
        rows = measured("snapshot", steps["snapshot"])
        sums = rows.num_rows, pc.sum(rows.column("a")).as_py()
        if sums != shape.expected():
            raise SystemExit(f"wrong result: {sums}, expected {shape.expected()}")


def _pyhudi(engine: str, path: str, shape: Shape) -> dict[str, Callable[..., Any]]:
    import pyhudi

    kind, version = engine.split("-")
    table = pyhudi.create_table(
        path,
        shape.schema,
        record_key="id",
        partition_by=shape.partition,
        ordering="ts",
        table_type=kind,
        options={"hoodie.write.table.version": version},
    )
    return {
        "load": table.bulk_insert,
        "upsert": lambda rows: pyhudi.open_table(path).upsert(rows),
        "snapshot": lambda: pyhudi.open_table(path).scan().to_arrow(),
        "point": lambda key, _: (
            pyhudi.open_table(path)
            .scan(where=pc.field("id") == key, columns=["a"])
            .to_arrow()["a"]
            .to_pylist()
        ),
    }


def _delta(engine: str, path: str, shape: Shape) -> dict[str, Callable[..., Any]]:
    import deltalake

    by = [shape.partition] if shape.partition else None
    same = "t.id = s.id" + (f" and t.{shape.partition} = s.{shape.partition}" if by else "")

    def upsert(rows: pa.Table) -> None:
        merge = deltalake.DeltaTable(path).merge(rows, same, source_alias="s", target_alias="t")
        merge.when_matched_update_all().when_not_matched_insert_all().execute()

    def point(key: str, partition: str | None) -> list[int]:
        return delta_rows(path, f"select a from t where id = '{key}'")["a"].to_pylist()

    return {
        "load": lambda rows: deltalake.write_deltalake(path, rows, partition_by=by),
        "upsert": upsert,
        "snapshot": lambda: delta_rows(path, "select * from t"),
        "point": point,
    }


Figures = dict[tuple[str, str, str], float]
"""Median of (engine, step, figure)."""


def run(shape: str, scale: float, turns: int, engines: list[str], *, on_spark: bool) -> Figures:
    """Every engine in turn, each in a process of its own; prints and returns the medians."""
    found: dict[tuple[str, str, str], list[float]] = {}
    others: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        if on_spark:
            _store(shape_of(shape, scale), Path(folder))
        for _ in range(turns):
            for engine in engines:
                if on_spark:
                    turn = _on_spark(engine, folder)
                else:
                    turn = _program(engine, shape, scale), None
                others.append(_take_turn(engine, turn, found))
    figures = {key: statistics.median(values) for key, values in found.items()}
    print(f"{shape_of(shape, scale)}, median of {turns}, others {max(others):.0%}", flush=True)
    _print(figures, engines)
    return figures


Turn = tuple[list[str], dict[str, str] | None]
"""A command and its environment; None for this one."""


def _take_turn(engine: str, turn: Turn, found: dict[tuple[str, str, str], list[float]]) -> float:
    """Run an engine and add its figures to `found`; the share of the machine others used."""
    lines: list[str] = []
    command, environment = turn
    ended = machine.run(
        command, on_line=lines.append, limit_seconds=_LIMIT_SECONDS, environment=environment
    )
    if ended.verdict:
        raise SystemExit(f"{engine} {ended.verdict}: {ended.error}")
    for line in filter(lambda text: text.startswith("{"), lines):
        values = json.loads(line)
        step = values.pop("step")
        for name, value in values.items():
            found.setdefault((engine, step, name), []).append(value)
    return ended.others


def _program(engine: str, shape: str, scale: float) -> list[str]:
    return [
        sys.executable, "-m", "bench.shapes", "--only", shape, "--scale", str(scale),
        "--run", engine,
    ]  # fmt: skip


def _on_spark(engine: str, folder: str) -> Turn:
    """The command of an engine on Spark, on a new table."""
    python, jars = sys.executable, ""
    if engine == "delta":
        found = peers("0.15.0")
        if isinstance(found, str):
            raise SystemExit(f"Delta Lake cannot run: {found}")
        python, jars = str(found.python), found.jars(engine)
    table = tempfile.mkdtemp(dir=folder)
    command = [
        python, "-m", "bench.shape_engine", engine, "--data", folder, "--table", f"{table}/t",
        "--jars", jars,
    ]  # fmt: skip
    return command, session_environment(python, jars)


def _store(shape: Shape, folder: Path) -> None:
    """The input of engines on Spark, as files."""
    pq.write_table(shape.base(), folder / "base.parquet", row_group_size=1 << 18)
    pq.write_table(shape.changes(), folder / "changes.parquet", row_group_size=1 << 16)
    key, value, _ = shape.sample()
    facts = {
        "partition": shape.partition, "key": key, "value": value, "expected": shape.expected(),
    }  # fmt: skip
    (folder / "facts.json").write_text(json.dumps(facts))


def _print(figures: Figures, engines: list[str]) -> None:
    peer = engines[0]
    for step in STEPS:
        for engine in engines:
            cpu, wall, mib = (figures[engine, step, name] for name in ("cpu", "wall", "mib"))
            ratio = cpu / max(figures[peer, step, "cpu"], 1e-6)
            print(
                f"  {step:8} {engine:12} CPU {cpu:8.2f} s  wall {wall:8.2f} s  peak {mib:6.0f} MiB"
                f"  {ratio:5.2f}x {peer}",
                flush=True,
            )


def print_growth(small: Figures, large: Figures, engines: list[str]) -> None:
    """Growth of CPU seconds with four times the rows."""
    for step in STEPS:
        grown = ", ".join(
            f"{engine} {large[engine, step, 'cpu'] / max(small[engine, step, 'cpu'], 1e-6):.2f}x"
            for engine in engines
        )
        print(f"  growth of {step} (1x to 4x; target {GROWTH_TARGET}): {grown}", flush=True)


def _some(engines: list[str], number: int) -> list[str]:
    """For a run that only shows that it works: the first and one of the others, by turns."""
    first, *others = engines
    return [first, others[number % len(others)]] if others else engines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="times the rows of each shape")
    parser.add_argument("--turns", type=int, default=1)
    parser.add_argument("--only", action="append", choices=SHAPES)
    parser.add_argument("--engine", action="append", choices=(*LOCAL, *ON_SPARK))
    parser.add_argument("--growth", action="store_true")
    parser.add_argument("--spark", action="store_true")
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--run", help=argparse.SUPPRESS)
    given = parser.parse_args()
    shapes = given.only or list(SHAPES)
    scale = 0.002 if given.smoke else given.scale
    if given.run:
        run_engine(given.run, shape_of(shapes[0], scale))
        return
    chosen = given.engine or list(ON_SPARK if given.spark else LOCAL)
    for number, name in enumerate(shapes):
        engines = _some(chosen, number) if given.smoke else chosen
        figures = run(name, scale, given.turns, engines, on_spark=given.spark)
        if given.growth:
            large = run(name, 4 * scale, given.turns, engines, on_spark=given.spark)
            print_growth(figures, large, engines)


if __name__ == "__main__":
    main()
