"""Rows of a file as a stream of Arrow batches: Parquet, Arrow, CSV and JSON lines."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from pyhudi.errors import CorruptFileError, UserError

FORMATS: Final = ("parquet", "arrow", "csv", "json")
_SUFFIXES: Final = {
    ".parquet": "parquet", ".arrow": "arrow", ".feather": "arrow", ".csv": "csv",
    ".json": "json", ".jsonl": "json", ".ndjson": "json",
}  # fmt: skip


def read_rows(path: str, form: str | None, schema: pa.Schema) -> pa.RecordBatchReader:
    """The rows of a file.

    form: one of FORMATS; None takes it from the suffix.  schema: of the table, which types the
    columns of CSV and JSON files that it has.  Memory: a row group, or one block of text.
    Raises UserError for an unknown suffix, CorruptFileError for a file that is not of the format.
    """
    form = form or _SUFFIXES.get(Path(path).suffix.lower())
    if form is None:
        raise UserError(
            "the format of the file is not known", path=path,
            hint=f"add --format {', '.join(FORMATS)}",
        )  # fmt: skip
    try:
        return _reader(path, form, schema)
    except (pa.ArrowException, OSError) as error:
        raise CorruptFileError(
            f"not a {form} file that fits the table", path=path, reason=str(error),
            hint="check the file, or state its format with --format",
        ) from error  # fmt: skip


def _reader(path: str, form: str, schema: pa.Schema) -> pa.RecordBatchReader:
    match form:
        case "parquet":
            import pyarrow.parquet as pq

            file = pq.ParquetFile(path)
            return _streamed(file.schema_arrow, file.iter_batches())
        case "arrow":
            return _arrow(path)
        case "csv":
            import pyarrow.csv as pc

            types = {field.name: field.type for field in schema}
            options = pc.ConvertOptions(column_types=types, strings_can_be_null=True)
            reader = pc.open_csv(path, convert_options=options)
            return _streamed(reader.schema, reader)
        case _:
            return _json(path, schema)


def _json(path: str, schema: pa.Schema) -> pa.RecordBatchReader:
    import pyarrow.json as pj

    options = pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior="infer")
    rows = pj.read_json(path, parse_options=options)
    found = _stated_fields(path)
    return rows.select([name for name in rows.schema.names if name in found]).to_reader()


def _stated_fields(path: str) -> set[str]:
    """Fields that some object of the file has; others are columns of the table alone."""
    import pyarrow.json as pj

    return set(pj.read_json(path).schema.names)


def _arrow(path: str) -> pa.RecordBatchReader:
    """An Arrow file, or a stream."""
    with pa.OSFile(path) as file:
        is_file = file.read(6) == b"ARROW1"
    if not is_file:
        return pa.ipc.open_stream(pa.OSFile(path))
    reader: Any = pa.ipc.open_file(pa.memory_map(path))
    batches = (reader.get_batch(number) for number in range(reader.num_record_batches))
    return _streamed(reader.schema, batches)


def _streamed(schema: pa.Schema, batches: Any) -> pa.RecordBatchReader:
    return pa.RecordBatchReader.from_batches(schema, batches)
