"""Upserts on Spark beside Apache Hudi and Delta Lake, on the same rows, in one run.

    python -m bench.spark_upsert [--rows 5000000] [--batch 500000] [--batches 4] [--data DIR]
        [--engines pyhudi-cow,hudi-cow,delta,...] [--hudi 0.15.0] [--repeats 1] [--minutes 60]
        [--limit 900] [--ways write,scan,...] [--no-peers] [--smoke]

A bulk load of `rows` rows of 9 columns into 8 partitions, then batches of `batch` rows of which
90 % are updates; then, each in a new session, the reads of bench/spark_engine.py.  Each engine runs
in processes of its own with a session of `local[2]`; the peers with PySpark 3.5 and the published
jars (bench/spark_peers.py).  The goals of bench/spark_goals.py are printed with what was measured.

Every result is verified against values computed from the input: counts and sums by partition, of
the changes, and of each read.  A difference is printed, marks the engine as wrong, and makes the
exit status 1.

An engine whose batches after the first differ by more than 20 % of their median is run again, up to
`--repeats` times and if there is time for it within `--minutes`; the run with the smallest spread
is reported.  At `--minutes` the engine that runs is stopped.  `others` is the share of the machine
that programs outside this bench used meanwhile.

`pyhudi-cow-jvm` and `pyhudi-mor-jvm` are given frames with a `withColumn` and a `where`, whose rows
come out of the JVM; the others are given frames as `spark.read.parquet` returns them, whose files
workers read.  `-bloom` engines find keys by the bloom index, the others by the record index.  `-9`
engines write table version 9 (those of the rival with `--hudi 1.2.0`), the others version 6.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow.compute as pc

from bench import machine
from bench.machine import PROGRESS
from bench.spark_engine import PEERS, WAYS, ways_of
from bench.spark_goals import QUERIES, goal_lines
from bench.spark_peers import Peers, peers, session_environment
from bench.spark_rows import (
    FILTER,
    SNAPSHOT,
    differences,
    expected_changes,
    expected_sums,
    expected_table,
    make,
    newest_rows,
)

SPREAD_MAX = 0.20
ENGINES = "pyhudi-cow,pyhudi-mor,pyhudi-cow-jvm,pyhudi-mor-jvm,hudi-cow,hudi-mor,delta"


@dataclass
class Result:
    """One run of one engine.  values: seconds by (way, what), in the order measured."""

    engine: str
    values: dict[tuple[str, str], list[float]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    others: list[float] = field(default_factory=list)

    def add(self, way: str, what: str, value: float) -> None:
        self.values.setdefault((way, what), []).append(value)

    def first(self, way: str, what: str) -> float | None:
        return next(iter(self.values.get((way, what), ())), None)

    def later(self, way: str, what: str) -> float | None:
        """The median of all but the first; of one alone, that one."""
        values = self.values.get((way, what), [])
        return statistics.median(values[1:] or values) if values else None

    @property
    def load(self) -> float | None:
        return self.first("write", "load")

    @property
    def upsert(self) -> float | None:
        return self.later("write", "upsert")

    @property
    def spread(self) -> float:
        """Of the batches after the first: the greatest less the least, over the median."""
        warm = self.values.get(("write", "upsert"), [])[1:]
        return (max(warm) - min(warm)) / statistics.median(warm) if len(warm) > 1 else 0.0


@dataclass(frozen=True)
class Bench:
    """What all engines have in common."""

    data: Path
    batches: int
    limit_seconds: float
    until: float
    peers: Peers | str
    ways: tuple[str, ...]
    """The sessions of pyhudi's engines that are run."""

    @cached_property
    def table_expected(self) -> dict[str, list[int]]:
        return expected_table(newest_rows(self.data, self.batches))

    @cached_property
    def reads_expected(self) -> dict[str, list[int]]:
        """By query."""
        rows = newest_rows(self.data, self.batches)
        sums = expected_sums(rows)
        few = rows.filter(pc.less(rows["d"], int(FILTER.split()[-1])))
        return {
            "snapshot": sums[: len(SNAPSHOT)],
            "columns": sums[: len(SNAPSHOT)],
            "all columns": sums,
            "filter": expected_sums(few)[: len(SNAPSHOT)],
            "incremental": expected_changes(self.data, self.batches),
        }

    def run(self, engine: str) -> Result:
        """Write and read once."""
        result = Result(engine)
        folder = Path(tempfile.mkdtemp(prefix="spark-upsert-"))
        try:
            for way in self.ways_of(engine):
                self._process(result, way, folder / "t")
                if result.problems:
                    break
        finally:
            shutil.rmtree(folder)
        return result

    def ways_of(self, engine: str) -> list[str]:
        return [way for way in ways_of(engine) if engine in PEERS or way in self.ways]

    def _process(self, result: Result, way: str, table: Path) -> None:
        python, jars = sys.executable, ""
        if result.engine in PEERS:
            assert isinstance(self.peers, Peers)
            python, jars = str(self.peers.python), self.peers.jars(result.engine)
        environment = session_environment(python, jars if result.engine == "delta" else "")
        command = [
            *(python, "-m", "bench.spark_engine", result.engine, way),
            *("--data", str(self.data), "--table", str(table)),
            *("--batches", str(self.batches), "--jars", jars),
        ]
        ended = machine.run(
            command,
            on_line=lambda line: self._take(result, way, line),
            limit_seconds=min(self.limit_seconds, max(1.0, self.until - time.monotonic())),
            environment=environment,
        )
        result.others.append(ended.others)
        if ended.verdict:
            result.problems.append(f"{way} {ended.verdict}")
            print(ended.error)

    def _take(self, result: Result, way: str, line: str) -> None:
        """One measurement: stored, verified and printed."""
        if not line.startswith("BENCH "):
            return
        facts = json.loads(line.removeprefix("BENCH "))
        what, value, rows = facts.pop("what"), facts.pop("value"), facts.pop("rows", None)
        if what != "table":
            result.add(way, what, value)
        wrong = [] if rows is None else self.wrong(what, rows)
        result.problems += [f"{way} {what} is wrong: {text}" for text in wrong]
        shown = " ".join([*(f"{k}={v}" for k, v in facts.items()), *(f"WRONG {w}" for w in wrong)])
        print(f"{PROGRESS}{result.engine:16} {way:6} {what:12} {value:9} {shown}", flush=True)

    def wrong(self, what: str, rows: list[list[Any]]) -> list[str]:
        """How the rows that a query returned differ from those expected."""
        if what == "table":
            return differences(self.table_expected, rows)
        expected = self.reads_expected[what]
        return [] if rows == [expected] else [f"{rows} and not {[expected]}"]


def run_all(bench: Bench, engines: list[str], *, repeats: int) -> list[Result]:
    """The best run of each engine; all are run once before any is repeated, and one is repeated
    only if there is time for as long a run again."""
    took: dict[str, float] = {}
    best: dict[str, Result] = {}
    for engine in engines:
        if engine in PEERS and isinstance(bench.peers, str):
            print(f"{engine}: left out, {bench.peers}", flush=True)
            continue
        began = time.monotonic()
        best[engine] = bench.run(engine)
        took[engine] = time.monotonic() - began
    for _ in range(repeats):
        for engine, result in best.items():
            if result.problems or result.spread <= SPREAD_MAX:
                continue
            if time.monotonic() + took[engine] > bench.until:
                print(f"{engine}: spread {result.spread:.0%}, no time to run it again", flush=True)
                continue
            print(f"{engine}: spread {result.spread:.0%}, run again", flush=True)
            again = bench.run(engine)
            if again.problems or again.spread < result.spread:
                best[engine] = again
    return list(best.values())


def summary(results: list[Result]) -> Iterator[str]:
    """Ratios first, then what they are made of."""
    by_name = {result.engine: result for result in results if not result.problems}
    yield from goal_lines(by_name)
    yield ""
    yield "upserts: the first batch, the median of the others and their spread"
    yield "| engine | load s | first upsert s | upsert s | spread | disk MB | others' CPU | rows |"
    yield "|---|---|---|---|---|---|---|---|"
    for r in results:
        cells = (r.load, r.first("write", "upsert"), r.upsert)
        verdict = "wrong or failed" if r.problems else "as expected"
        others = max(r.others, default=0.0)
        yield (
            f"| {r.engine} | {' | '.join(map(_cell, cells))} | {r.spread:.0%} | "
            f"{_cell(r.first('source', 'disk MB'))} | {others:.0%} | {verdict} |"
        )
    yield ""
    yield "reads, in a new session: the first and the median of the later ones, seconds"
    yield f"| engine | by | {' | '.join(QUERIES)} |"
    yield f"|---|---|{'---|' * len(QUERIES)}"
    for r in results:
        for way in ("scan", "source", "enabled"):
            if (way, "snapshot") in r.values:
                times = [f"{_cell(r.first(way, q))}, {_cell(r.later(way, q))}" for q in QUERIES]
                yield f"| {r.engine} | {way} | {' | '.join(times)} |"
    for r in results:
        yield from (f"{r.engine}: {problem}" for problem in r.problems)


def _cell(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--batch", type=int, default=500_000)
    parser.add_argument("--batches", type=int, default=4)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--engines", default=ENGINES)
    parser.add_argument("--hudi", default="0.15.0", help="release of Apache Hudi")
    parser.add_argument("--ways", default=",".join(WAYS), help="sessions of pyhudi's engines")
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=60.0, help="of the whole run")
    parser.add_argument("--limit", type=float, default=900.0, help="seconds of one process")
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument("--smoke", action="store_true", help="pyhudi alone, few rows")
    given = parser.parse_args()
    until = time.monotonic() + given.minutes * 60
    if given.smoke:
        given.rows, given.batch, given.batches, given.no_peers = 4_000, 400, 2, True
        given.repeats = 0
    data = given.data or Path(tempfile.gettempdir()) / f"pyhudi-bench-{given.rows}-{given.batch}"
    make(data, given.rows, given.batch, given.batches)
    found = "--no-peers or --smoke is given" if given.no_peers else peers(given.hudi)
    bench = Bench(data, given.batches, given.limit, until, found, tuple(given.ways.split(",")))
    print(
        f"{given.rows:,} rows, {given.batches} batches of {given.batch:,} (90 % updates), "
        f"local[2]; Apache Hudi {given.hudi}",
        flush=True,
    )
    assert bench.table_expected and bench.reads_expected  # computed before anything is timed
    results = run_all(bench, given.engines.split(","), repeats=given.repeats)
    print(*summary(results), sep="\n")
    return 1 if any(result.problems for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
