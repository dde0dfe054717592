"""Rows as CSV, JSON lines or Parquet, to a new file or to standard output, batch by batch."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import chain, count
from pathlib import Path
from typing import Any, BinaryIO, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from pyhudi.cli.output import json_text, row_values
from pyhudi.errors import UserError
from pyhudi.formats.nan_statistics import has_floats
from pyhudi.formats.schema_conform import is_any_list
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


def uniquely_named(rows: pa.Table) -> pa.Table:
    """The rows, with `_1`, `_2` and so on after names that columns before have."""
    names: list[str] = []
    for name in rows.column_names:
        others = (f"{name}_{number}" for number in count(1))
        free = (other for other in chain([name], others) if other not in names)
        names.append(next(free))
    return rows.rename_columns(names)


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
        from pyarrow.csv import CSVWriter

        writer: Any = stack.enter_context(CSVWriter(sink, schema))
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
    """The batch.  Raises UserError for bytes that are no UTF-8, also in structs, lists and maps: a
    reader of the text would get other bytes."""
    for field in batch.schema:
        try:
            _check_text(batch.column(field.name))
        except pa.ArrowInvalid:
            raise UserError(
                f"bytes that are no UTF-8 have no form in {form}",
                column=field.name,
                hint="use --format parquet, or select --columns",
            ) from None
    return batch


def _check_text(values: pa.Array) -> None:
    """Raises ArrowInvalid for bytes that are no UTF-8."""
    kind = values.type
    if pt.is_fixed_size_binary(kind):
        values.cast(pa.binary()).cast(pa.large_string())
    elif pt.is_binary(kind) or pt.is_large_binary(kind):
        values.cast(pa.large_string())
    elif pt.is_struct(kind):
        for child in values.flatten():
            _check_text(child)
    elif is_any_list(kind):
        _check_text(pc.list_flatten(values))
    elif pt.is_map(kind):
        entries = pa.struct([kind.key_field, kind.item_field])
        _check_text(values.cast(pa.list_(entries)))
