"""Rows of a file as a stream of Arrow batches: Parquet, Arrow, CSV and JSON lines."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import PurePosixPath
from typing import Any, Final

import pyarrow as pa

from pyhudi.errors import CorruptFileError, UserError

FORMATS: Final = ("parquet", "arrow", "csv", "json")
_SUFFIXES: Final = {
    ".parquet": "parquet", ".arrow": "arrow", ".feather": "arrow", ".csv": "csv",
    ".json": "json", ".jsonl": "json", ".ndjson": "json",
}  # fmt: skip


def read_rows(
    opened: Callable[[], Any], path: str, form: str | None, schema: pa.Schema
) -> pa.RecordBatchReader:
    """The rows of a file.

    opened: opens the file for pyarrow; called once, for JSON twice.  path: for its suffix and for
    errors.  form: one of FORMATS; None takes it from the suffix.  schema: of the table, which types
    the columns of CSV and JSON files that it has.  Memory: a row group, or one block of CSV; files
    of JSON are read whole.
    Raises UserError for an unknown suffix, CorruptFileError for a file that is not of the format.
    """
    form = form or _SUFFIXES.get(PurePosixPath(path).suffix.lower())
    if form is None:
        raise UserError(
            "the format of the file is not known", path=path,
            hint=f"state the format: {', '.join(FORMATS)}",
        )  # fmt: skip
    try:
        return _reader(opened, form, schema)
    except (pa.ArrowException, OSError) as error:
        raise CorruptFileError(
            f"not a {form} file that fits the table", path=path, reason=str(error),
            hint="check the file, or state its format",
        ) from error  # fmt: skip


def _reader(opened: Callable[[], Any], form: str, schema: pa.Schema) -> pa.RecordBatchReader:
    match form:
        case "parquet":
            import pyarrow.parquet as pq

            file = pq.ParquetFile(opened())
            return _streamed(file.schema_arrow, file.iter_batches())
        case "arrow":
            return _arrow(opened())
        case "csv":
            import pyarrow.csv as pc

            types = {field.name: field.type for field in schema}
            options = pc.ConvertOptions(column_types=types, strings_can_be_null=True)
            reader = pc.open_csv(opened(), convert_options=options)
            return _streamed(reader.schema, reader)
        case _:
            return _json(opened, schema)


def _json(opened: Callable[[], Any], schema: pa.Schema) -> pa.RecordBatchReader:
    import pyarrow.json as pj

    options = pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior="infer")
    rows = pj.read_json(opened(), parse_options=options)
    # fields that some object of the file has; others are columns of the table alone
    stated = set(pj.read_json(opened()).schema.names)
    return rows.select([name for name in rows.schema.names if name in stated]).to_reader()


def _arrow(file: Any) -> pa.RecordBatchReader:
    """An Arrow file, or a stream."""
    is_file = file.read(6) == b"ARROW1"
    file.seek(0)
    if not is_file:
        return pa.ipc.open_stream(file)
    reader: Any = pa.ipc.open_file(file)
    batches = (reader.get_batch(number) for number in range(reader.num_record_batches))
    return _streamed(reader.schema, batches)


def _streamed(schema: pa.Schema, batches: Any) -> pa.RecordBatchReader:
    return pa.RecordBatchReader.from_batches(schema, batches)
