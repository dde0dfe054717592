"""CSV files: rows typed by the table, without those that cannot be decoded."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa
import pyarrow.types as pt

from pyhudi.ingest.source import RejectedRows, rejected_batch

Opener = Callable[[], Any]
"""Opens the file for pyarrow, at its beginning."""

_BLOCK_BYTES: Final = 4 << 20


@dataclass(frozen=True, slots=True)
class CsvDialect:
    """header: whether the first row has the names; otherwise the columns are those of the table,
    in its order."""

    delimiter: str = ","
    header: bool = True


@dataclass(slots=True)
class _Ragged:
    """Rows with another number of values than the header.  numbers: of the rows, from 1."""

    path: str
    texts: list[bytes] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    reported: int = 0

    def skip(self, row: Any) -> str:
        self.texts.append(row.text.encode())
        self.reasons.append(f"{row.actual_columns} values for {row.expected_columns} columns")
        self.numbers.append(int(row.number))
        return "skip"

    def report(self, rejected: RejectedRows) -> None:
        new = slice(self.reported, None)
        rejected.add(_rejected(self.texts[new], self.reasons[new], self.numbers[new], self.path))
        self.reported = len(self.texts)

    def number(self, index: int, header: bool) -> int:
        """The number of the row that is `index` among the others, from 0."""
        number = index + 1 + header
        for skipped in self.numbers:
            number += skipped <= number
        return number


def csv_facts(
    opened: Opener, known: pa.Schema, dialect: CsvDialect, *, count: bool
) -> tuple[pa.Schema, int | None]:
    """Columns: typed by `known`, or by the values of the first block; the number of lines."""
    file = opened()
    if file.size() == 0:
        return pa.schema([]), 0
    texts = {column.name: pa.string() for column in known}
    with _opened(file, known, texts, dialect, _Ragged("")) as reader:
        found = [_typed(column, known) for column in reader.schema]
    if not count:
        return pa.schema(found), None
    file, lines = opened(), 0
    while chunk := file.read(_BLOCK_BYTES):
        lines += chunk.count(b"\n")
    return pa.schema(found), lines


def _typed(column: pa.Field, known: pa.Schema) -> pa.Field:
    position = known.get_field_index(column.name)
    if position >= 0:
        return known.field(position)
    return column.with_type(pa.string()) if pt.is_null(column.type) else column


def csv_batches(
    opened: Opener, path: str, schema: pa.Schema, dialect: CsvDialect, rejected: RejectedRows
) -> Iterator[pa.RecordBatch]:
    """The rows; columns that `schema` does not have are typed by their values."""
    file = opened()
    if file.size() == 0:
        return
    types = {column.name: column.type for column in schema}
    ragged, count = _Ragged(path), 0
    try:
        for batch in _opened(file, schema, types, dialect, ragged):
            ragged.report(rejected)
            count += batch.num_rows
            yield batch
        ragged.report(rejected)
    except pa.ArrowInvalid:  # a value that is not of its type, somewhere in a block
        yield from _row_by_row(opened, count, schema, dialect, rejected, ragged)


def _row_by_row(
    opened: Opener, done: int, schema: pa.Schema, dialect: CsvDialect,
    rejected: RejectedRows, ragged: _Ragged,
) -> Iterator[pa.RecordBatch]:  # fmt: skip
    """The rows after the first `done`: as text, then typed by halving until a row fails alone."""
    import pyarrow.csv as pc

    again = _Ragged(ragged.path, reported=ragged.reported)
    names = _names(opened(), schema, dialect)
    texts = dict.fromkeys(names, pa.binary())
    types = {column.name: column.type for column in schema}
    options = pc.ConvertOptions(column_types=types, strings_can_be_null=True)
    index = 0
    for batch in _opened(opened(), schema, texts, dialect, again, as_text=True):
        again.report(rejected)
        skipped = min(max(0, done - index), batch.num_rows)
        todo = [(index + skipped, batch.slice(skipped))]
        index += batch.num_rows
        while todo:
            at, part = todo.pop()
            if not part.num_rows:
                continue
            try:
                yield from _retyped(part, options)
            except pa.ArrowInvalid as error:
                if part.num_rows == 1:
                    text = _as_csv(part, header=False).rstrip(b"\n")
                    number = again.number(at, dialect.header)
                    rejected.add(_rejected([text], [str(error)], [number], ragged.path))
                    continue
                middle = part.num_rows // 2
                todo += [(at + middle, part.slice(middle)), (at, part.slice(0, middle))]
    again.report(rejected)


def _retyped(texts: pa.RecordBatch, options: Any) -> list[pa.RecordBatch]:
    import pyarrow.csv as pc

    data = _as_csv(texts, header=True)
    reading = pc.ReadOptions(use_threads=False, block_size=len(data) + 1)
    parsing = pc.ParseOptions(newlines_in_values=True)
    rows = pc.read_csv(pa.BufferReader(data), reading, parsing, options)
    return list(rows.to_batches())


def _as_csv(texts: pa.RecordBatch, *, header: bool) -> bytes:
    import pyarrow.csv as pc

    sink = pa.BufferOutputStream()
    pc.write_csv(texts, sink, pc.WriteOptions(include_header=header, quoting_style="all_valid"))
    return bytes(sink.getvalue())


def _names(file: Any, schema: pa.Schema, dialect: CsvDialect) -> list[str]:
    with _opened(file, schema, {}, dialect, _Ragged(""), as_text=True) as reader:
        return list(reader.schema.names)


def _opened(
    file: Any, schema: pa.Schema, types: dict[str, pa.DataType], dialect: CsvDialect,
    ragged: _Ragged, *, as_text: bool = False,
) -> Any:  # fmt: skip
    """A streaming reader; one thread, which numbers the rows."""
    import pyarrow.csv as pc

    names = None if dialect.header else schema.names
    values: dict[str, Any] = {"null_values": []} if as_text else {"strings_can_be_null": True}
    return pc.open_csv(
        file,
        pc.ReadOptions(use_threads=False, block_size=_BLOCK_BYTES, column_names=names),
        pc.ParseOptions(
            delimiter=dialect.delimiter, newlines_in_values=True, invalid_row_handler=ragged.skip
        ),
        pc.ConvertOptions(column_types=types, **values),
    )


def _rejected(
    raws: list[bytes], reasons: list[str], numbers: list[int], path: str
) -> pa.RecordBatch:
    return rejected_batch(raws, reasons, [f"{path}:{number}" for number in numbers])
