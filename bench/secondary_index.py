"""A point query by a column with a secondary index, against the same table without it.

    python -m bench.secondary_index [--rows 5000000] [--values 5000000] [--repeat 9] [--smoke]

Rows in a copy-on-write table of version 9 with a record index, bulk-inserted by this process; the
values of `c` are spread over all files.  Prints the seconds of the index's creation, the median
milliseconds of `scan(where=c == value)` in an opened table with the index and with data skipping
off, the first such query, the files that each reads, and the seconds of an upsert of 10,000 rows
with and without the index.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import pyhudi
from pyhudi.api.table import Table

SCHEMA = pa.schema({"id": pa.string(), "c": pa.string(), "ts": pa.int64(), "text": pa.string()})
_BATCH = 1 << 18
SEED = 7


def batches(rows: int, values: int) -> Any:
    """The rows, in batches; each value of `c` is in rows all over the table."""
    generator = np.random.default_rng(SEED)
    for start in range(0, rows, _BATCH):
        count = min(_BATCH, rows - start)
        numbers = pa.array(np.arange(start, start + count)).cast(pa.string())
        chosen = pa.array(generator.integers(0, values, count)).cast(pa.string())
        yield pa.record_batch(
            [
                pc.binary_join_element_wise("key", pc.utf8_lpad(numbers, 10, "0"), "-"),
                pc.binary_join_element_wise("value", chosen, "-"),
                pa.array(np.full(count, 1)),
                pc.binary_join_element_wise("some text of row", numbers, " "),
            ],
            schema=SCHEMA,
        )


def seconds(work: Callable[[], Any]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def query(table: Table, value: str) -> pa.Table:
    return table.scan(["id", "text"], where=pc.field("c") == value).to_arrow()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--values", type=int, default=5_000_000)
    parser.add_argument("--repeat", type=int, default=9)
    parser.add_argument("--smoke", action="store_true")
    given = parser.parse_args()
    if given.smoke:
        given.rows, given.values, given.repeat = 20_000, 4_000, 2
    with tempfile.TemporaryDirectory() as made:
        run(Path(made) / "t", given)


def run(path: Path, given: argparse.Namespace) -> None:
    table = pyhudi.create_table(
        path,
        SCHEMA,
        record_key="id",
        version=9,
        options={"hoodie.combine.before.insert": "true"},
    )
    reader = pa.RecordBatchReader.from_batches(SCHEMA, batches(given.rows, given.values))
    print(f"bulk insert of {given.rows} rows: {seconds(lambda: table.bulk_insert(reader)):.1f} s")
    changed = next(batches(10_000, given.values))
    plain_upsert = seconds(lambda: table.upsert(changed))
    print(f"creation: {seconds(lambda: table.index.create('secondary', 'c')):.1f} s", flush=True)
    changed = changed.set_column(1, "c", pc.binary_join_element_wise(changed["c"], "x", ""))
    print(
        f"upsert of 10,000 rows: {plain_upsert:.2f} s without the index,"
        f" {seconds(lambda: table.upsert(changed)):.2f} s with it"
    )
    off = pyhudi.open_table(path, options={"hoodie.enable.data.skipping": "false"})
    generator = np.random.default_rng(SEED + 1)
    values = [f"value-{n}" for n in generator.integers(0, given.values, given.repeat)]
    for name, opened in (("with the index", pyhudi.open_table(path)), ("full scan", off)):
        plan = opened.scan(where=pc.field("c") == values[0]).explain()
        took = [seconds(partial(query, opened, v)) for v in values]
        rows = sum(query(opened, v).num_rows for v in values)
        print(
            f"{name}: {statistics.median(took) * 1000:.1f} ms, first {took[0] * 1000:.1f} ms,"
            f" {len(plan.tasks)} files, {rows} rows",
            flush=True,
        )
    print(opened.scan(where=pc.field("c") == values[0]).explain(), flush=True)


if __name__ == "__main__":
    main()
