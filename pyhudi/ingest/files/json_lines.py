"""JSON lines: a file read in blocks of whole lines, without those that cannot be decoded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from pyhudi.errors import UserError
from pyhudi.ingest.source import RejectedRows, rejected_batch

_BLOCK_BYTES: Final = 8 << 20
_LINE_BYTES_MAX: Final = 1 << 30
_END: Final = ord("\n")


class _Lines(NamedTuple):
    """Whole lines.  first: the number of the first one in its file, from 1."""

    first: int
    data: bytes


class _BadLine(NamedTuple):
    number: int
    raw: bytes
    reason: str


def json_facts(file: Any, known: pa.Schema) -> tuple[pa.Schema, int]:
    """The fields that some line has a value for, typed by `known` or by their values, and the
    number of rows.  Raises UserError for values of a field that have no common type."""
    found = pa.schema([])
    named: set[str] = set()
    count = 0
    for lines in _blocks(file):
        for rows in _decoded(lines, known, "infer", []):
            count += rows.num_rows
            named |= {name for name in rows.column_names if rows[name].null_count < rows.num_rows}
            found = _common(found, rows.schema)
    return pa.schema([field for field in found if field.name in named]), count


def json_batches(
    file: Any, path: str, schema: pa.Schema, rejected: RejectedRows
) -> Iterator[pa.RecordBatch]:
    """The rows with the fields of `schema`; others are left out."""
    for lines in _blocks(file):
        bad: list[_BadLine] = []
        for rows in _decoded(lines, schema, "ignore", bad):
            yield from rows.to_batches()
        rejected.add(_rejected(bad, path))


def _rejected(bad: list[_BadLine], path: str) -> pa.RecordBatch:
    positions = [f"{path}:{line.number}" for line in bad]
    return rejected_batch([line.raw for line in bad], [line.reason for line in bad], positions)


def _blocks(file: Any) -> Iterator[_Lines]:
    """The file in blocks that end with a line.  Raises UserError for a line over 1 GiB."""
    first, rest = 1, b""
    while chunk := file.read(max(_BLOCK_BYTES, len(rest))):
        end = chunk.rfind(b"\n") + 1
        data = rest + chunk[:end] if end else rest + chunk
        if not end:
            rest = data
            if len(rest) > _LINE_BYTES_MAX:
                raise UserError("a line of a JSON file is too long", line=first, bytes=len(rest))
            continue
        yield _Lines(first, data)
        first, rest = first + data.count(b"\n"), chunk[end:]
    if rest:
        yield _Lines(first, rest)


def _decoded(
    lines: _Lines, schema: pa.Schema, unexpected: str, bad: list[_BadLine]
) -> list[pa.Table]:
    """The rows of the lines in order.  bad: gets the lines that cannot be decoded, which are found
    by halving."""
    found: list[pa.Table] = []
    todo = [lines]
    while todo:
        part = todo.pop()
        try:
            found.append(_parsed(part.data, schema, unexpected))
        except pa.ArrowInvalid as error:
            halves = _halves(part)
            todo += halves
            if not halves:
                raw = part.data.rstrip(b"\r\n")
                bad.append(_BadLine(part.first, raw, str(error).removesuffix(" in row 0")))
    return found


def _parsed(data: bytes, schema: pa.Schema, unexpected: str) -> pa.Table:
    import pyarrow.json as pj

    rows = pj.read_json(
        pa.BufferReader(data),
        pj.ReadOptions(use_threads=False, block_size=len(data) + 1),
        pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior=unexpected),
    )
    rows.validate(full=True)  # text that is not UTF-8
    return rows


def _halves(lines: _Lines) -> list[_Lines]:
    """Two halves, the first one last; none for a single line."""
    ends = np.flatnonzero(np.frombuffer(lines.data, np.uint8) == _END) + 1
    ends = ends[ends < len(lines.data)]
    if not len(ends):
        return []
    middle = len(ends) // 2
    at = int(ends[middle])
    second = _Lines(lines.first + middle + 1, lines.data[at:])
    return [second, _Lines(lines.first, lines.data[:at])]


def _common(left: pa.Schema, right: pa.Schema) -> pa.Schema:
    """Columns of both.  A field with times and other text is text."""
    merged = {field.name: field for field in left}
    for field in right:
        known = merged.get(field.name, field)
        if {True, False} == {pt.is_string(t) for t in (known.type, field.type)} and any(
            pt.is_temporal(t) for t in (known.type, field.type)
        ):
            known = field = field.with_type(pa.string())
        try:
            pair = [pa.schema([known]), pa.schema([field])]
            merged[field.name] = pa.unify_schemas(pair, promote_options="permissive").field(0)
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            raise UserError(
                "values of a field have no common type", field=field.name, reason=str(error)
            ) from error
    return pa.schema(list(merged.values()))
