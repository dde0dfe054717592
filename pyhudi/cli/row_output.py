"""Rows as CSV, JSON lines or Parquet, to a new file or to standard output, batch by batch."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, Final

import pyarrow as pa
import pyarrow.types as pt

from pyhudi.cli.output import json_text, row_values
from pyhudi.errors import UserError
from pyhudi.formats.nan_statistics import has_floats
from pyhudi.read.scan import Scan

FORMATS: Final = ("table", "csv", "json", "parquet")

_Write = Callable[[pa.RecordBatch], object]


def write_rows(rows: Scan | pa.Table, form: str, output: str | None, limit: int | None) -> int:
    """Write rows in a format, to a new file or (None) to standard output; their number.

    limit: None for all.  A file that is incomplete because of an error is removed.
    Raises UserError if the file exists, and for a format that cannot have these rows.
    """
    if form == "table":
        raise UserError("rows in a file need a format", hint="add --format csv, json or parquet")
    if form == "csv":
        nested = [field.name for field in rows.schema if pt.is_nested(field.type)]
        if nested:
            raise UserError(
                "CSV cannot have columns of this type",
                columns=", ".join(nested),
                hint="use --format json or parquet, or select --columns",
            )
    written = 0
    with ExitStack() as stack:
        sink = stack.enter_context(_sink(output))
        write = _writer(form, sink, rows.schema, stack)
        for batch in _limited(rows, limit):
            write(batch)
            written += batch.num_rows
    return written


def _limited(rows: Scan | pa.Table, limit: int | None) -> Iterator[pa.RecordBatch]:
    """Batches of the first rows."""
    batches = rows.to_reader() if isinstance(rows, pa.Table) else rows.to_batches()
    left = limit
    with batches:
        for batch in batches:
            if left is None:
                yield batch
                continue
            yield batch.slice(0, left)
            left -= min(left, batch.num_rows)
            if not left:
                return


@contextmanager
def _sink(output: str | None) -> Iterator[BinaryIO]:
    if output is None:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    try:
        Path(output).touch(exist_ok=False)
    except OSError as error:
        raise UserError(
            "cannot create the file", path=output, why=error.strerror, hint="use a new file"
        ) from None
    try:
        with Path(output).open("wb") as file:
            yield file
    except BaseException:
        with suppress(OSError):
            Path(output).unlink()
        raise


def _writer(form: str, sink: BinaryIO, schema: pa.Schema, stack: ExitStack) -> _Write:
    """A function that writes one batch; the stack closes what it needs."""
    if form == "csv":
        import pyarrow.csv as pc

        writer: Any = stack.enter_context(pc.CSVWriter(sink, schema))
        return lambda batch: writer.write_batch(_readable(batch, form))
    if form == "parquet":
        import pyarrow.parquet as pq

        # bounds of Arrow leave NaN out, and readers then skip it
        ordered = [f.name for f in schema if not pt.is_nested(f.type) and not has_floats(f.type)]
        parquet: Any = stack.enter_context(pq.ParquetWriter(sink, schema, write_statistics=ordered))
        return lambda batch: parquet.write_batch(batch)
    return lambda batch: sink.write(_json_lines(batch))


def _json_lines(batch: pa.RecordBatch) -> bytes:
    rows = row_values(_readable(batch, "json"))
    return "".join(f"{json_text(row)}\n" for row in rows).encode()


def _readable(batch: pa.RecordBatch, form: str) -> pa.RecordBatch:
    """The batch.  Raises UserError for bytes that are no UTF-8: a reader of the text would get
    other bytes."""
    for field in batch.schema:
        if not (pt.is_binary(field.type) or pt.is_large_binary(field.type)):
            continue
        try:
            batch.column(field.name).cast(pa.large_string())
        except pa.ArrowInvalid:
            raise UserError(
                f"bytes that are no UTF-8 have no form in {form}",
                column=field.name,
                hint="use --format parquet, or select --columns",
            ) from None
    return batch
