"""`pyhudi bench`: what load, upsert, look-up and scan cost on this machine and store.

The table has one partition column of 8 values, a string key, and seven other columns.  Every step
has a share of the time: the load ends when its share is over, the others repeat while there is
time left, at least once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, Final

import click
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import pyhudi
from pyhudi.api.input_conversion import TableTypeName
from pyhudi.cli.command import Answer, Call, command
from pyhudi.errors import TableNotFoundError, UserError
from pyhudi.operations.drop_table import drop_table

_BATCH_ROWS: Final = 50_000
_KEYS: Final = 1_000
_REPEATS_MAX: Final = 5
_LOAD_SHARE: Final = 0.5
_SCHEMA: Final = pa.schema(
    {
        "id": pa.string(), "city": pa.string(), "driver": pa.string(), "fare": pa.float64(),
        "distance": pa.float64(), "riders": pa.int32(), "paid": pa.bool_(), "note": pa.string(),
        "ts": pa.int64(),
    }
)  # fmt: skip


def bench_rows(first: int, count: int, *, ts: int) -> pa.RecordBatch:
    """Rows number `first` to `first + count`; the same for the same numbers."""
    number = np.arange(first, first + count, dtype=np.int64)
    mixed = (number * 2654435761) % (1 << 32)
    key = pc.binary_join_element_wise("trip", pa.array(mixed).cast(pa.string()), "-")
    text = pa.array(mixed % 997).cast(pa.string())
    columns = [
        key, pa.array([f"city{n}" for n in range(8)]).take(pa.array(mixed % 8)), text,
        pa.array(mixed % 10_000 / 100.0), pa.array(mixed % 7_919 / 10.0),
        pa.array((mixed % 4).astype(np.int32)), pa.array(mixed % 3 == 0),
        pc.binary_join_element_wise("a note about trip", text, " "),
        pa.array(np.full(count, ts, np.int64)),
    ]  # fmt: skip
    return pa.record_batch(columns, schema=_SCHEMA)


@command("bench", example="bench /tmp/pyhudi_bench --rows 200000 --seconds 20")
@click.option(
    "--rows",
    type=click.IntRange(min=1),
    default=500_000,
    show_default=True,
    help="Rows to load at most.",
)
@click.option(
    "--seconds",
    type=click.IntRange(min=1),
    default=30,
    show_default=True,
    help="Time for all steps, about.",
)
@click.option(
    "--type",
    "table_type",
    type=click.Choice(["cow", "mor"]),
    default="cow",
    show_default=True,
    help="The type of the table.",
)
def bench(call: Call, rows: int, seconds: int, table_type: TableTypeName) -> Any:
    """Measure load, upsert, look-up and scan with a new table at PATH, which is deleted at the end.

    PATH must not exist. The figures are those of this machine, of the store at PATH, and of the
    other work that they have at the time.
    """
    _check_free(call)
    table = pyhudi.create_table(
        call.path,
        _SCHEMA,
        record_key="id",
        partition_by="city",
        ordering="ts",
        table_type=table_type,
        options=call.options,
        storage_options=call.storage,
        engine=call.engine,
    )
    try:
        steps = list(_steps(table, rows, seconds))
    finally:
        drop_table(call.store, call.parsed)
        call.store.delete_folder(".hoodie")  # the lock of the drop is left in it
    return Answer(steps, f"{call.store.url}: seconds of the fastest of the runs")


def _check_free(call: Call) -> None:
    try:
        found = pyhudi.open_table(call.path, storage_options=call.storage)
    except TableNotFoundError:
        if not call.store.children(""):
            return
        raise UserError(
            "the path for the measurement is not empty",
            path=call.store.url,
            hint="choose a path that does not exist",
        ) from None
    raise UserError(
        "a table exists at the path for the measurement",
        path=found.path,
        hint="choose a path that does not exist",
    )


def _steps(table: pyhudi.Table, rows: int, seconds: float) -> Iterator[dict[str, Any]]:
    """The result of each step."""
    loaded = 0

    def batches(until: float) -> Iterator[pa.RecordBatch]:
        nonlocal loaded
        while loaded < rows and (not loaded or time.monotonic() < until):
            batch = bench_rows(loaded, min(_BATCH_ROWS, rows - loaded), ts=0)
            loaded += batch.num_rows
            yield batch

    began = time.monotonic()
    until = began + seconds * _LOAD_SHARE
    report = table.bulk_insert(pa.RecordBatchReader.from_batches(_SCHEMA, batches(until)))
    spent = time.monotonic() - began
    yield _result("load", [spent], loaded, written=report.bytes_written)
    share = max(0.0, seconds - spent) / 4
    touched = max(1, loaded // 100)
    keys = bench_rows(0, min(_KEYS, loaded), ts=0).column("id")
    changes = (bench_rows(0, touched, ts=turn) for turn in range(1, _REPEATS_MAX + 1))
    written = 0

    def upsert() -> None:
        nonlocal written
        written = table.upsert(pa.Table.from_batches([next(changes)])).bytes_written

    upserts = _timed(upsert, share)
    yield _result("upsert 1 % of the keys", upserts, touched, written=written)
    yield _result("look up keys", _timed(lambda: table.lookup(keys), share), len(keys))
    yield _result("scan all columns", _timed(lambda: table.to_arrow(), share), loaded)
    filtered = _timed(lambda: table.scan(["fare"], "city = 'city3'").to_arrow(), share)
    yield _result("scan one column of a partition", filtered, loaded // 8)


def _timed(step: Callable[[], Any], share: float) -> list[float]:
    """Seconds of each run."""
    found: list[float] = []
    while len(found) < _REPEATS_MAX and (not found or sum(found) + min(found) < share):
        began = time.monotonic()
        step()
        found.append(time.monotonic() - began)
    return found


def _result(
    step: str, seconds: list[float], rows: int, *, written: int | None = None
) -> dict[str, Any]:
    best = min(seconds)
    return {
        "step": step,
        "runs": len(seconds),
        "rows": rows,
        "seconds": round(best, 4),
        "rows_per_second": int(rows / best) if best else None,
        "bytes_written": written,
    }
