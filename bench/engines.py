"""What does reading through pyhudi cost?  Peer: each engine's own Parquet reader on the same rows.

    python -m bench.engines [--rows 4000000] [--repeat 7] [--engines duckdb,polars]

Tables of TPC-H shape, copy-on-write and merge-on-read (a tenth of the rows updated and a hundredth
deleted, in logs).  The peer reads one Parquet file for each ship year, with the rows that the
tables have.  Runs alternate; prints the least CPU seconds and the median wall seconds of each
query, the ratio of the sums of CPU seconds (1.2 asked for copy-on-write, 2 for merge-on-read), and
the time of a look-up of ten keys.  All answers are compared.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import pyhudi
from bench.lineitem import QUERIES, Made, make, supplier

Run = Callable[[str], list[tuple[Any, ...]]]
"""Runs the query of a name."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--repeat", type=int, default=7)
    parser.add_argument("--engines", default="duckdb,polars,datafusion,dask,daft")
    parser.add_argument("--smoke", action="store_true", help="small, to see that it works")
    given = parser.parse_args()
    rows, repeat = (20_000, 1) if given.smoke else (given.rows, given.repeat)
    with tempfile.TemporaryDirectory() as folder:
        made = {kind: make(Path(folder) / kind, rows, kind) for kind in ("cow", "mor")}
        files = plain_files(Path(folder) / "plain", made["cow"].rows)
        for name in given.engines.split(","):
            measure(name, made, files, repeat)
        if "duckdb" in given.engines:
            look_ups(made["mor"])


def plain_files(folder: Path, rows: pa.Table) -> list[str]:
    """The rows as one Parquet file for each ship year, compressed as base files are."""
    folder.mkdir()
    found = []
    for year in sorted(set(rows["l_shipyear"].to_pylist())):
        path = folder / f"{year}.parquet"
        chosen = rows.filter(pa.compute.equal(rows["l_shipyear"], year))
        pq.write_table(
            chosen, path, compression="zstd", compression_level=1, row_group_size=1 << 18
        )
        found.append(str(path))
    return found


def measure(name: str, made: dict[str, Made], files: list[str], repeat: int) -> None:
    """Print the figures of one engine, if it is installed."""
    try:
        runs: dict[str, Run] = {"files": RUNS[name](files)}
        runs |= {kind: RUNS[name](one.table) for kind, one in made.items()}
    except ImportError as missing:
        print(f"{name:10} not installed ({missing.name})")
        return
    total = dict.fromkeys(runs, 0.0)
    for query in QUERIES_OF.get(name, QUERIES):
        spent: dict[str, list[tuple[float, float]]] = {kind: [] for kind in runs}
        answers = {kind: run(query) for kind, run in runs.items()}  # warms the caches up
        assert answers["cow"] == answers["files"] == answers["mor"], query
        for _ in range(repeat):
            for kind, run in runs.items():
                wall, cpu = time.perf_counter(), time.process_time()
                run(query)
                spent[kind].append((time.process_time() - cpu, time.perf_counter() - wall))
        for kind, times in spent.items():
            cpu = min(one for one, _ in times)
            wall = statistics.median(one for _, one in times)
            total[kind] += cpu
            print(f"{name:10} {query:8} {kind:5} cpu {cpu:7.3f} s  wall {wall:7.3f} s", flush=True)
    for kind in made:
        print(f"{name:10} {kind:5} {total[kind] / total['files']:5.2f}x of its own reader (CPU)")


def look_ups(made: Made) -> None:
    """Print the time of a look-up of ten keys through DuckDB, beside a scan for them."""
    import duckdb

    import pyhudi.duckdb

    step = max(1, made.rows.num_rows // 10)
    chosen = made.rows.select(["l_orderkey", "l_linenumber"]).to_pylist()[::step][:10]
    keys = [f"l_orderkey:{row['l_orderkey']},l_linenumber:{row['l_linenumber']}" for row in chosen]
    listed = ", ".join(f"'{key}'" for key in keys)
    query = f"select count(*) from pyhudi_lookup('{made.table.path}', [{listed}])"
    best = float("inf")
    for _ in range(5):
        with duckdb.connect() as con:
            began = time.process_time()
            found = pyhudi.duckdb.sql(con, query).fetchall()
            best = min(best, time.process_time() - began)
            assert found == [(len(keys),)]
    print(f"duckdb     look-up of {len(keys)} keys with the record index: cpu {best:.4f} s")


def duckdb_run(source: Any) -> Run:
    import duckdb

    import pyhudi.duckdb

    con = duckdb.connect()
    con.register("supplier", supplier())
    if isinstance(source, pyhudi.Table):
        began = time.process_time()
        pyhudi.duckdb.attach(con, source, "lineitem")
        print(f"duckdb     attach   cpu {time.process_time() - began:7.3f} s")
    else:
        con.execute(f"create view lineitem as select * from read_parquet({source})")
    return lambda query: con.sql(_text(query)).fetchall()


def polars_run(source: Any) -> Run:
    import polars

    import pyhudi.polars

    if isinstance(source, pyhudi.Table):
        frame = pyhudi.polars.scan(source)
    else:
        frame = polars.scan_parquet(source)
    context = polars.SQLContext(lineitem=frame, supplier=polars.DataFrame(supplier()).lazy())
    return lambda query: context.execute(_text(query), eager=False).collect().rows()


def datafusion_run(source: Any) -> Run:
    import datafusion

    import pyhudi.datafusion

    context = datafusion.SessionContext()
    context.register_record_batches("supplier", [supplier().to_batches()])
    if isinstance(source, pyhudi.Table):
        pyhudi.datafusion.register(context, source, "lineitem")
    else:
        context.register_parquet("lineitem", str(Path(source[0]).parent))

    def run(query: str) -> list[tuple[Any, ...]]:
        found = pa.Table.from_batches(context.sql(_text(query)).collect())
        return [tuple(row.values()) for row in found.to_pylist()]

    return run


def dask_run(source: Any) -> Run:
    import dask.dataframe as frames

    def run(query: str) -> list[tuple[Any, ...]]:
        columns = ["l_quantity", "l_extendedprice", "l_discount", "l_shipdate"]
        if isinstance(source, pyhudi.Table):
            frame = source.scan(columns).to_dask()
        else:
            frame = frames.read_parquet(source, columns=columns, engine="pyarrow")
        chosen = frame[(frame.l_discount > 0.03) & (frame.l_quantity < 24)]
        revenue = (chosen.l_extendedprice * chosen.l_discount).sum()
        return [(revenue.compute(scheduler="threads"),)]

    return run


def daft_run(source: Any) -> Run:
    import daft

    import pyhudi.daft

    suppliers = daft.from_arrow(supplier())
    if isinstance(source, pyhudi.Table):
        frame = pyhudi.daft.read(source)
    else:
        frame = daft.read_parquet(source)

    def run(query: str) -> list[tuple[Any, ...]]:
        found = daft.sql(_text(query), lineitem=frame, supplier=suppliers).to_arrow()
        return [tuple(row.values()) for row in found.to_pylist()]

    return run


RUNS: dict[str, Callable[[Any], Run]] = {
    "duckdb": duckdb_run,
    "polars": polars_run,
    "datafusion": datafusion_run,
    "dask": dask_run,
    "daft": daft_run,
}
QUERIES_OF = {"dask": ["revenue"]}


def _text(query: str) -> str:
    return QUERIES[query].format(lineitem="lineitem", supplier="supplier")


if __name__ == "__main__":
    main()
