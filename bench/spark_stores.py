"""Tables on HDFS and S3, written and read by Spark, beside the same tables on the local disk.

    python -m bench.spark_stores [--rows 500000] [--batch 50000] [--batches 3]
        [--stores disk,hdfs,s3] [--kinds cow,mor] [--s3 JSON] [--limit 600] [--smoke]

The load, the upserts and the reads of bench/spark_engine.py (`scan`), each table in sessions of
`local[2]`; a tenth of the rows of bench.spark_upsert.  HDFS is a name node and a data node of this
machine (`tests.support.hdfs`), S3 a server in this process (moto), or the one whose
`storage_options` --s3 states, with its `bucket`.

Counts the requests of each step and, for files of the table, those that read none of their bytes:
the greatest number for one file in a read must not exceed BEYOND_MAX.  HDFS counts requests to the
name node; a server of --s3 is not counted.  The rows of every read are compared with values
computed from the input; a difference makes the exit status 1.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from bench import machine
from bench.spark_goals import QUERIES
from bench.spark_peers import session_environment
from bench.spark_rows import make
from bench.spark_upsert import Bench
from tests.support import hdfs, object_stores, spark_s3

BEYOND_MAX = 2
STEPS = ("load", "upsert", *QUERIES)


@dataclass(frozen=True)
class Request:
    """A request to a store.  file: the name of the table's data file or log it is about, or "".
    is_data: it reads or writes bytes of the file."""

    file: str
    is_data: bool


@dataclass
class Store:
    """A place for tables.

    url: of a folder.  taken: the requests since the last call; None if they are not counted.
    """

    url: str
    facts: dict[str, Any] = field(default_factory=dict)
    """What `bench.spark_engine --store` reads; empty for the disk."""
    taken: Callable[[], list[Request]] | None = None


@contextmanager
def disk(_: argparse.Namespace) -> Iterator[Store]:
    with tempfile.TemporaryDirectory(prefix="spark-stores-") as folder:
        yield Store(folder)


@contextmanager
def on_hdfs(_: argparse.Namespace) -> Iterator[Store]:
    hdfs.prepare()
    with hdfs.hdfs() as server:
        assert server.audit is not None
        log = server.audit.open()

        def taken() -> list[Request]:
            return [found for line in log for found in hdfs_requests(line)]

        facts = {"storage_options": server.options, "properties": {}}
        yield Store(f"hdfs://{server.address}/bench", facts, taken)
        log.close()


def hdfs_requests(line: str) -> Iterator[Request]:
    """The request in a line of the name node's log: tab-separated `name=value`."""
    facts = dict(part.split("=", 1) for part in line.split("\t") if "=" in part)
    if "cmd" in facts:
        file = _data_file(facts.get("src", ""))
        yield Request(file, facts["cmd"] in ("open", "create", "append"))


@contextmanager
def on_s3(given: argparse.Namespace) -> Iterator[Store]:
    spark_s3.prepare()
    if given.s3:
        options = json.loads(given.s3)
        bucket = options.pop("bucket")
        yield Store(f"s3://{bucket}/bench", _s3_facts(options))
        return
    with object_stores.s3_server() as server:

        def taken() -> list[Request]:
            found, server.requests[:] = list(server.requests), []
            return list(map(s3_request, found))

        yield Store("s3://bucket/bench", _s3_facts(server.options), taken)


def _s3_facts(options: dict[str, str]) -> dict[str, Any]:
    properties = {f"spark.hadoop.{n}": text for n, text in spark_s3.properties(options).items()}
    return {
        "storage_options": options,
        "properties": {"spark.jars": spark_s3.jars(), **properties},
    }


def s3_request(request: str) -> Request:
    """Of `METHOD path?query`.  A listing is about the file of its prefix."""
    method, _, target = unquote(request).partition(" ")
    path, _, query = target.partition("?")
    file = _data_file(path) or _data_file(query.partition("prefix=")[2].partition("&")[0])
    return Request(file, method in ("GET", "PUT", "POST") and bool(_data_file(path)))


def _data_file(path: str) -> str:
    """The name of a base file or log in a path, if it is outside the metadata folder."""
    name = path.rstrip("/").rpartition("/")[2]
    is_data = name.endswith(".parquet") or ".log." in name
    return name if is_data and "/.hoodie/" not in path else ""


STORES = {"disk": disk, "hdfs": on_hdfs, "s3": on_s3}


@dataclass
class Measured:
    """Of one table: seconds and requests of each step, in the order measured."""

    seconds: dict[str, list[float]] = field(default_factory=dict)
    requests: dict[str, list[list[Request]]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def later(self, step: str) -> float:
        """The median of all but the first; of one alone, that one."""
        values = self.seconds[step]
        return statistics.median(values[1:] or values)


def run(bench: Bench, kind: str, store: Store, place: str, limit_seconds: float) -> Measured:
    """Write and read one table."""
    found = Measured()
    with tempfile.NamedTemporaryFile("w", suffix=".json") as facts:
        facts.write(json.dumps(store.facts))
        facts.flush()

        def take(line: str) -> None:
            _take(bench, store, found, line)

        for way in ("write", "scan"):
            command = [
                sys.executable, "-m", "bench.spark_engine", f"pyhudi-{kind}", way,
                "--data", str(bench.data), "--table", f"{store.url}/{place}",
                "--batches", str(bench.batches), "--store", facts.name,
            ]  # fmt: skip
            if store.taken is not None:
                store.taken()
            ended = machine.run(
                command,
                on_line=take,
                limit_seconds=limit_seconds,
                environment=session_environment(sys.executable),
            )
            if ended.verdict:
                raise SystemExit(f"{store.url} {kind} {way} {ended.verdict}\n{ended.error}")
    return found


def _take(bench: Bench, store: Store, found: Measured, line: str) -> None:
    """One measurement of an engine, with the requests since the last one."""
    if not line.startswith("BENCH "):
        return
    facts = json.loads(line.removeprefix("BENCH "))
    what, rows = facts["what"], facts.get("rows")
    found.problems += [
        f"{what}: {text}" for text in ([] if rows is None else bench.wrong(what, rows))
    ]
    print(f"{machine.PROGRESS}{store.url} {what} {facts['value']}", flush=True)
    if what not in STEPS:
        return
    found.seconds.setdefault(what, []).append(facts["value"])
    if store.taken is not None:
        found.requests.setdefault(what, []).append(store.taken())


def table_lines(measured: dict[tuple[str, str], Measured]) -> Iterator[str]:
    yield f"| store | kind | {' | '.join(f'{step} s' for step in STEPS)} |"
    yield f"|---|---|{'---|' * len(STEPS)}"
    for (store, kind), found in measured.items():
        cells = [f"{found.seconds[s][0]:.3g}, {found.later(s):.3g}" for s in STEPS]
        yield f"| {store} | {kind} | {' | '.join(cells)} |"
    yield ""
    yield "requests of the last run of each step: all, and for one file beyond its bytes"
    yield f"| store | kind | {' | '.join(STEPS)} |"
    yield f"|---|---|{'---|' * len(STEPS)}"
    for (store, kind), found in measured.items():
        if found.requests:
            cells = [_counts(found.requests[step][-1]) for step in STEPS]
            yield f"| {store} | {kind} | {' | '.join(cells)} |"


def _counts(requests: list[Request]) -> str:
    return f"{len(requests)}, {max(beyond_bytes(requests).values(), default=0)}"


def beyond_bytes(requests: Iterable[Request]) -> Counter[str]:
    """For each file, the requests that read none of its bytes."""
    return Counter(request.file for request in requests if request.file and not request.is_data)


def problems(measured: dict[tuple[str, str], Measured]) -> Iterator[str]:
    for (store, kind), found in measured.items():
        yield from (f"{store} {kind}: {problem}" for problem in found.problems)
        for step in QUERIES:
            for number, requests in enumerate(found.requests.get(step, ())):
                worst = beyond_bytes(requests).most_common(1)
                if worst and worst[0][1] > BEYOND_MAX:
                    yield f"{store} {kind}: {step}, read {number}: {worst[0]}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--batch", type=int, default=50_000)
    parser.add_argument("--batches", type=int, default=3)
    parser.add_argument("--stores", default=",".join(STORES))
    parser.add_argument("--kinds", default="cow,mor")
    parser.add_argument("--s3", help="JSON: storage_options and bucket")
    parser.add_argument("--limit", type=float, default=600.0, help="seconds of one process")
    parser.add_argument("--smoke", action="store_true")
    given = parser.parse_args()
    if given.smoke:
        given.rows, given.batch, given.batches = 4_000, 400, 2
    data = Path(tempfile.mkdtemp(prefix="spark-stores-data-"))
    measured = {}
    try:
        make(data, given.rows, given.batch, given.batches)
        bench = Bench(data, given.batches, given.limit, 0.0, "", ())
        for name in given.stores.split(","):
            with STORES[name](given) as store:
                for kind in given.kinds.split(","):
                    measured[name, kind] = run(bench, kind, store, kind, given.limit)
    finally:
        shutil.rmtree(data)
    print(f"{given.rows:,} rows, {given.batches} batches of {given.batch:,}")
    print(*table_lines(measured), sep="\n")
    wrong = list(problems(measured))
    print(*wrong, sep="\n")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
