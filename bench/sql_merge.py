"""MERGE INTO on one machine beside delta-rs and DuckDB: four shapes on TPC-H line items.

    python -m bench.sql_merge [--rows 6000000] [--smoke]

Shapes: `mixed` (1 % of the rows, a tenth of them new), `updates` (5 %, all stored), `cdc` (1 %:
updates, inserts and deletes by an operation column), `sync` (all rows of a ship year but 1 %:
the stored ones that the source lacks are deleted).  The statements run one after another on the
same table, each in a process of its own, so its peak memory (VmHWM) is of that statement; the
program is loaded before.  Rows are compared at the end: their number, and sums of two columns.
"""

from __future__ import annotations

import argparse
import importlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import pyhudi
from bench.lineitem import lineitem
from bench.local_upsert import delta_rows
from bench.results import state

ENGINES = ("cow", "mor", "delta-rs", "duckdb")
SHAPES = ("mixed", "updates", "cdc", "sync")
YEAR = "1995"
KEYS = ("l_orderkey", "l_linenumber")
ON = " and ".join(f"t.{name} = s.{name}" for name in (*KEYS, "l_shipyear"))


def sources(folder: Path, rows: int) -> None:
    """The base rows and the source of each shape, as Parquet files."""
    pq.write_table(lineitem(np.arange(rows), 1), folder / "base.parquet")
    picked = np.random.default_rng(2).permutation(rows)
    small, large = rows // 100, rows // 20
    fresh = np.arange(rows, rows + small // 10)
    changed = lineitem(np.concatenate([picked[: small - len(fresh)], fresh]), 3)
    pq.write_table(changed, folder / "mixed.parquet")
    pq.write_table(lineitem(picked[-large:], 4), folder / "updates.parquet")
    more = np.arange(rows + small, rows + small + len(fresh))
    events = lineitem(np.concatenate([picked[small : 2 * small - len(more)], more]), 5)
    operations = np.array(["U", "U", "U", "D"])[np.arange(events.num_rows) % 4]
    operations[-len(more) :] = "I"
    pq.write_table(events.append_column("op", pa.array(operations)), folder / "cdc.parquet")
    year = np.arange(rows)[1992 + np.arange(rows) % 7 == int(YEAR)]
    pq.write_table(lineitem(year[np.arange(len(year)) % 100 != 0], 6), folder / "sync.parquet")


def statement(shape: str, columns: list[str], *, star: bool) -> str:
    """star: whether `*` takes the columns of the target, as in Spark's SQL."""
    taken = "*" if star else ", ".join(f"{name} = s.{name}" for name in columns)
    values = f"({', '.join(columns)}) values ({', '.join(f's.{name}' for name in columns)})"
    inserted = "*" if star else values
    clauses = {
        "mixed": f"when matched then update set {taken} when not matched then insert {inserted}",
        "updates": f"when matched then update set {taken}",
        "cdc": (
            f"when matched and s.op = 'D' then delete when matched then update set {taken}"
            f" when not matched and s.op <> 'D' then insert {inserted}"
        ),
        "sync": (
            f"when matched then update set {taken} when not matched then insert {inserted}"
            f" when not matched by source and t.l_shipyear = '{YEAR}' then delete"
        ),
    }
    return f"merge into t using s on {ON} {clauses[shape]}"


def merge_hudi(path: Path, source: pa.Table, shape: str) -> None:
    columns = [name for name in source.schema.names if name != "op"]
    text = statement(shape, columns, star=shape != "cdc")
    pyhudi.sql(text, tables={"t": path, "s": source})


def merge_delta(path: Path, source: pa.Table, shape: str) -> None:
    import deltalake

    columns = {name: f"s.{name}" for name in source.schema.names if name != "op"}
    merge = deltalake.DeltaTable(path).merge(source, ON, source_alias="s", target_alias="t")
    if shape == "cdc":
        merge = merge.when_matched_delete("s.op = 'D'")
    merge = merge.when_matched_update(columns)
    if shape != "updates":
        merge = merge.when_not_matched_insert(columns, "s.op <> 'D'" if shape == "cdc" else None)
    if shape == "sync":
        merge = merge.when_not_matched_by_source_delete(f"t.l_shipyear = '{YEAR}'")
    merge.execute()


def merge_duckdb(path: Path, source: pa.Table, shape: str) -> None:
    import duckdb

    columns = [name for name in source.schema.names if name != "op"]
    with duckdb.connect(str(path)) as con:
        con.register("s", source)
        con.execute(statement(shape, columns, star=False))


MERGES: dict[str, Callable[[Path, pa.Table, str], None]] = {
    "cow": merge_hudi, "mor": merge_hudi, "delta-rs": merge_delta, "duckdb": merge_duckdb,
}  # fmt: skip


def load(folder: Path, engine: str) -> None:
    base = pq.read_table(folder / "base.parquet")
    if engine == "delta-rs":
        import deltalake

        deltalake.write_deltalake(folder / engine, base, partition_by=["l_shipyear"])
    elif engine == "duckdb":
        import duckdb

        with duckdb.connect(str(folder / engine)) as con:
            con.register("base", base)
            con.execute("create table t as select * from base")
    else:
        pyhudi.create_table(
            folder / engine, base.schema, record_key=KEYS, partition_by="l_shipyear",
            table_type=engine,
        ).bulk_insert(base)  # fmt: skip


def checksum(folder: Path, engine: str) -> tuple[int, float, float]:
    columns = ["l_quantity", "l_extendedprice"]
    if engine == "delta-rs":
        rows = delta_rows(str(folder / engine), f"select {', '.join(columns)} from t")
    elif engine == "duckdb":
        import duckdb

        with duckdb.connect(str(folder / engine), read_only=True) as con:
            rows = con.sql(f"select {', '.join(columns)} from t").arrow().read_all()
    else:
        rows = pyhudi.open_table(folder / engine).scan(columns).to_arrow()
    return rows.num_rows, *(float(pc.sum(rows[name]).as_py() or 0) for name in columns)


def act(folder: Path, engine: str, shape: str) -> None:
    """Run one statement in this process; print its seconds and the peak memory in MiB."""
    source = pq.read_table(folder / f"{shape}.parquet")
    if engine in ("cow", "mor"):
        pyhudi.sql("select 1")
    else:
        importlib.import_module("deltalake" if engine == "delta-rs" else engine)
    began = time.perf_counter()
    MERGES[engine](folder / engine, source, shape)
    seconds = time.perf_counter() - began
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    print(json.dumps([seconds, int(lines["VmHWM"].split()[0]) // 1024]))


def run(rows: int, shapes: tuple[str, ...] = SHAPES) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sources(folder, rows)
        for engine in ENGINES:
            load(folder, engine)
        for shape in shapes:
            found: dict[str, Any] = {}
            for engine in ENGINES:
                command = [sys.executable, "-m", "bench.sql_merge", "--act", name, engine, shape]
                found[engine] = json.loads(subprocess.check_output(command))
                print(f"{shape} {engine}: {found[engine][0]:.2f} s, {found[engine][1]} MiB")
            (peer, peer_peak), (own, own_peak) = found["delta-rs"], found["duckdb"]
            for kind in ("cow", "mor"):
                taken, peak = found[kind]
                state(
                    f"MERGE of line items, {shape}, {rows:,} rows, {kind.upper()}: ahead of"
                    " delta-rs in time and memory",
                    f"{taken:.2f} s, {peak} MiB; delta-rs {peer:.2f} s, {peer_peak} MiB; "
                    f"DuckDB's own table {own:.2f} s, {own_peak} MiB",
                    f"{peer / taken:.2f}x, memory {peer_peak / peak:.2f}x",
                    is_held=taken <= peer and peak <= peer_peak,
                )
        sums = {engine: checksum(folder, engine) for engine in ENGINES}
        print(sums)
        if len(set(sums.values())) != 1:
            sys.exit("the tables have different rows")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=6_000_000)
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--act", nargs=3, metavar=("FOLDER", "ENGINE", "SHAPE"))
    given = parser.parse_args()
    if given.act:
        act(Path(given.act[0]), *given.act[1:])
    else:
        run(7_000, ("sync",)) if given.smoke else run(given.rows)
