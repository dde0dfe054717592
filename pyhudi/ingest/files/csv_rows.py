"""CSV files: text, or rows typed by the table, without those that cannot be decoded.

A value is what its text says: only an empty value without quotes is null, and the text that
`null_value` states.  Columns that the table does not have are text.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from pyhudi._native import csv_fields as native
from pyhudi._native.csv_fields import CsvFields
from pyhudi.errors import CorruptFileError, OptionError
from pyhudi.ingest.exact_values import of_text
from pyhudi.ingest.message_formats.json_values import converted
from pyhudi.ingest.source import RejectedRows, rejected_batch

Opener = Callable[[], Any]
"""Opens the file for pyarrow, at its beginning."""

_BLOCK_BYTES: Final = 4 << 20
_ROW_BYTES_MAX: Final = 64 << 20
_SHOWN_BYTES: Final = 1 << 16
_BOM: Final = b"\xef\xbb\xbf"
_REASONS: Final = {
    native.UNCLOSED: "a quote is not closed",
    native.RESIDUE: "something follows a closed quote",
}


@dataclass(frozen=True, slots=True)
class CsvDialect:
    """Options with the names and effects of Spark's CSV reader.

    header: whether the first row has the names; otherwise the columns are those of the table, in
    its order, or `_c0`, `_c1` and so on.  quote: "" for none.  escape: a character before a quote
    within quotes, besides a doubled quote.  comment: begins lines that are left out.
    null_value: text that is null, in quotes too; an empty value without quotes always is.
    empty_value: what a value of two quotes is.  multi_line: whether values in quotes may have line
    breaks.
    """

    delimiter: str = ","
    header: bool = True
    quote: str = '"'
    escape: str | None = None
    comment: str | None = None
    null_value: str | None = None
    empty_value: str = ""
    encoding: str = "utf-8"
    multi_line: bool = True
    trims_left: bool = False
    trims_right: bool = False

    def __post_init__(self) -> None:
        marks = {"delimiter": self.delimiter, "quote": self.quote or None,
                 "escape": self.escape, "comment": self.comment}  # fmt: skip
        for name, mark in marks.items():
            if mark is not None and (len(mark) != 1 or not mark.isascii() or mark in "\r\n"):
                raise OptionError(f"the {name} of CSV must be one ASCII character", value=mark)
        try:
            codecs.lookup(self.encoding)
            "".encode(self.encoding)
        except LookupError:
            raise OptionError("unknown encoding of CSV", encoding=self.encoding) from None

    @property
    def bytes(self) -> tuple[int, int, int, int]:
        """Separator, quote, escape and comment."""
        marks = (self.delimiter, self.quote, self.escape, self.comment)
        return tuple(ord(mark) if mark else -1 for mark in marks)  # type: ignore[return-value]


@dataclass(frozen=True, slots=True)
class _Block:
    """Whole rows.  line: of the first one, from 1.  is_cut: what is left is one row that is too
    long."""

    data: bytes
    rows: CsvFields
    line: int
    is_cut: bool = False

    def raw(self, row: int) -> bytes:
        return self.data[self.rows.starts[row] : self.rows.ends[row]][:_ROW_BYTES_MAX]


def csv_facts(
    opened: Opener, path: str, known: pa.Schema, dialect: CsvDialect, *, count: bool
) -> tuple[pa.Schema, int | None]:
    """Columns: typed by `known`, others text; the number of lines.

    Raises CorruptFileError for a header that cannot be read.
    """
    first = next(_blocks(opened(), dialect), None)
    names = [] if first is None else _names(first, path, known, dialect)
    found = [known.field(n) if n in known.names else pa.field(n, pa.string()) for n in names]
    if not count:
        return pa.schema(found), None
    file, lines = opened(), 0
    while chunk := file.read(_BLOCK_BYTES):
        lines += chunk.count(b"\n")
    return pa.schema(found), lines


def _names(block: _Block, path: str, known: pa.Schema, dialect: CsvDialect) -> list[str]:
    if not len(block.rows.starts):
        return []
    count = int(block.rows.first[1])
    if not dialect.header:
        return list(known.names) if len(known) else [f"_c{number}" for number in range(count)]
    _, quote, escape, _ = dialect.bytes
    texts = native.texts(block.data, block.rows.fields[:count], quote, escape).to_pylist()
    try:
        names = [text.decode() for text in texts]
    except UnicodeDecodeError as error:
        raise CorruptFileError(
            "the header of a CSV file is not text in its encoding",
            path=path,
            encoding=dialect.encoding,
            hint="state the encoding",
        ) from error
    if len(set(names)) < len(names):
        raise CorruptFileError(
            "the header of a CSV file has a name twice",
            path=path,
            columns=sorted({name for name in names if names.count(name) > 1}),
        )
    return names


def csv_batches(
    opened: Opener, path: str, schema: pa.Schema, dialect: CsvDialect, rejected: RejectedRows
) -> Iterator[pa.RecordBatch]:
    """The rows; columns that `schema` does not have are text."""
    names: list[str] | None = None
    for block in _blocks(opened(), dialect):
        skipped = 0
        if names is None:
            names = _names(block, path, schema, dialect)
            skipped = int(dialect.header)
        faults = _faults(block, len(names), skipped)
        whole = np.setdiff1d(np.arange(skipped, len(block.rows.starts)), list(faults))
        columns = []
        for number, name in enumerate(names):
            kind = schema.field(name).type if name in schema.names else pa.string()
            values, bad = _column(block, whole, number, kind, dialect)
            for row in whole[bad].tolist():
                faults.setdefault(row, f"column {name}: not a value of type {kind}")
            columns.append(values)
        if len(whole) and columns:
            rows = pa.RecordBatch.from_arrays(columns, names)
            yield rows.filter(pa.array(~np.isin(whole, list(faults)))) if faults else rows
        bad_rows = sorted(faults)
        rejected.add(
            rejected_batch(
                [block.raw(row)[: _SHOWN_BYTES if block.is_cut else None] for row in bad_rows],
                [faults[row] for row in bad_rows],
                [f"{path}:{block.line + int(block.rows.lines[row])}" for row in bad_rows],
            )
        )


def _faults(block: _Block, columns: int, skipped: int) -> dict[int, str]:
    """Rows that have no columns, and why."""
    rows = block.rows
    counts = np.diff(rows.first)
    found = {}
    for row in np.flatnonzero((rows.faults != native.FINE) | (counts != columns)).tolist():
        reason = _REASONS.get(int(rows.faults[row]))
        found[row] = reason or f"{counts[row]} values for {columns} columns"
    if not _is_text(block.data):
        for row in range(skipped, len(rows.starts)):
            if row not in found and not _is_text(block.raw(row)):
                found[row] = "the row is not text in the encoding of the file"
    return {row: reason for row, reason in found.items() if row >= skipped}


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _column(
    block: _Block, rows: np.ndarray, number: int, kind: pa.DataType, dialect: CsvDialect
) -> tuple[pa.Array, np.ndarray]:
    """The values of one column, and the places of those that are not of its type."""
    places = block.rows.fields[block.rows.first[rows] + number]
    _, quote, escape, _ = dialect.bytes
    texts = native.texts(block.data, places, quote, escape).cast(pa.large_string())
    plain = places[:, 2] == native.PLAIN
    if dialect.trims_left or dialect.trims_right:
        trimmed = pc.utf8_ltrim_whitespace(texts) if dialect.trims_left else texts
        trimmed = pc.utf8_rtrim_whitespace(trimmed) if dialect.trims_right else trimmed
        texts = pc.if_else(pa.array(plain), trimmed, texts)
    blank = np.asarray(pc.equal(pc.binary_length(texts), 0))
    is_text = pt.is_string(kind) or pt.is_large_string(kind) or _is_bytes(kind)
    null = blank & plain if is_text else blank
    if dialect.null_value is not None:
        null |= np.asarray(pc.equal(texts, dialect.null_value)) & ~(
            blank & ~plain & is_text & (dialect.empty_value != "")
        )
    if dialect.empty_value and is_text:
        texts = pc.if_else(pa.array(blank & ~plain), dialect.empty_value, texts)
    if null.any():
        texts = pc.if_else(pa.array(null), pa.scalar(None, pa.large_string()), texts)
    if is_text:
        return texts.cast(kind), np.empty(0, np.int64)
    if pt.is_nested(kind):
        return pa.nulls(len(texts), kind), np.flatnonzero(~null)
    return converted(pc.utf8_trim_whitespace(texts), of_text(kind))


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(pt.is_binary(kind) or pt.is_large_binary(kind))


def _blocks(file: Any, dialect: CsvDialect) -> Iterator[_Block]:
    """The file in blocks of whole rows, in UTF-8."""
    rest, line = b"", 1
    read = _reader(file, dialect.encoding)
    while True:
        chunk = read(max(_BLOCK_BYTES, len(rest)))
        data = rest + chunk
        if not data:
            return
        is_cut = len(data) > _ROW_BYTES_MAX and len(rest) > _ROW_BYTES_MAX // 2
        is_end = not chunk or is_cut
        rows = CsvFields(data, *dialect.bytes, dialect.multi_line, is_end)
        if len(rows.starts):
            yield _Block(data, rows, line, is_cut)
        if is_end:
            return
        rest, line = data[rows.consumed :], line + rows.line_count


def _reader(file: Any, encoding: str) -> Callable[[int], bytes]:
    """Reads the file as UTF-8 without the mark of its beginning.  Bytes that its encoding does not
    have become bytes that are not UTF-8."""
    is_start = True
    is_utf8 = codecs.lookup(encoding).name in ("utf-8", "ascii", "utf-8-sig")
    decoder = codecs.getincrementaldecoder(encoding)(errors="pyhudi-mark")

    def read(size: int) -> bytes:
        nonlocal is_start
        while True:
            chunk = bytes(file.read(size))
            if not is_utf8:
                text = decoder.decode(chunk, final=not chunk)
                found = text.encode("utf-8", "surrogatepass")
            else:
                found = chunk
            if found and is_start:
                is_start, found = False, found.removeprefix(_BOM)
            if found or not chunk:
                return found

    return read


def _mark(error: UnicodeError) -> tuple[str, int]:
    return "\udc80", error.end  # type: ignore[attr-defined]


codecs.register_error("pyhudi-mark", _mark)
