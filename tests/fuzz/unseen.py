"""What no reader can see: regions of a format whose change may give other values without an error.

Held against every run of the fuzz program: a silent change of a region that is not here is a
failure.  Each has the reason why nothing in the file contradicts the change.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

END: Final = "the end, cut off"
SHIFTED: Final = ", bytes put in or taken out"
"""Behind a region: its length changed.  A region that is listed is listed with it, too."""

_TEXT: Final = "any text is a text; the format has no checksum over it"
_NAME: Final = "unknown names are legal, and what is missing has a default, as in Apache Hudi"
_LINES: Final = "lines stand for themselves: one less, or two in one, is a legal file"
_SCHEMA: Final = "another legal schema; columns that a schema lacks are null, as after an evolution"
_ROW: Final = "another legal value of the same length; rows have no checksum"
_VERSION_BEFORE: Final = "the version before the largest, as an interrupted publication leaves it"
_FAILED_APPEND: Final = (
    "a block that does not frame, and whose instant cannot be read, is what a failed append left"
)
_WHOLE_BLOCKS: Final = "whole blocks; in a table the size that commits state shows it"

_PROPERTIES: Final = {
    "comment": "comments are not read, and a comment that ends early is a property",
    "end of line": _LINES,
    "name": _NAME,
    "separator": "blanks, `=` and `:` separate; without one the whole line is a name",
    END: _LINES,
}

_CONTAINER: Final = {
    "record": _ROW,
    "avro.schema": "another legal schema of the same bytes",
    END: "the end of the last marker, which nothing stands behind",
}

_TABLE_LOG: Final = {
    "row": _ROW,
    "deletes": _ROW,
    "content: hfile": "bodies have no checksums: released readers accept no others in logs",
    "header: instant": "blocks of instants that are not on the timeline do not count",
    "header: schema": _SCHEMA,
    "key of a header": "a header of another key may hide the instant",
    "count of headers": _FAILED_APPEND,
    "length of a header": _FAILED_APPEND,
    "length of a block": _FAILED_APPEND,
    "magic" + SHIFTED: _FAILED_APPEND,
    "version" + SHIFTED: _FAILED_APPEND,
    "kind of a block" + SHIFTED: _FAILED_APPEND,
    END: "longer than before by bytes put in elsewhere, or else its size shows it",
}

UNSEEN: Final[Mapping[str, Mapping[str, str]]] = {
    "properties": {
        **_PROPERTIES,
        "value of hoodie.table.create.schema": _TEXT,
        "value of hoodie.table.recordkey.fields": _TEXT,
        "value of hoodie.table.checksum": "lines put in between two halves of one number",
        "value of hoodie.table.type": "a letter of the other case is the same type",
        "value of hoodie.table.version": "another version that is read; only names have a checksum",
    },
    "partition metadata": {
        **_PROPERTIES,
        "value of commitTime": "readers look whether the file is there; doctor looks into it",
        "value of partitionDepth": "readers look whether the file is there; doctor looks into it",
    },
    "markers": {
        "line": "a marker that is no data file's name is skipped; what it named stays",
        "end of line": _LINES,
        END: _LINES,
    },
    "commit (JSON)": {
        "name": _NAME,
        "text": _TEXT,
        "schema": "a text like any other; in a table it is parsed",
        "number, true, false or null": "another number; statistics are compared by verify",
        "structure": "a value that is moved into another of the same form",
        END: "white space behind the object",
    },
    "plan (Avro)": _CONTAINER,
    "commit (Avro)": _CONTAINER,
    "Avro block": {"row": _ROW},
    "log": {
        "row": _ROW,
        "deletes": _ROW,
        "content: parquet": "pages have no checksums",
        "header: instant": _TEXT,
        "header: target instant": _TEXT,
        "header: command": "commands of other numbers are skipped, as in Apache Hudi",
        "header: schema": _SCHEMA,
        "kind of a block": "captured changes are not decoded here; a table's reader rejects them",
        "key of a header": "unknown keys are legal, and a rollback may have no target",
        "magic" + SHIFTED: _WHOLE_BLOCKS,
        "length of a block" + SHIFTED: _WHOLE_BLOCKS,
        "pointer" + SHIFTED: _WHOLE_BLOCKS,
        END: _WHOLE_BLOCKS,
    },
    "base file": {"pages and footer": "pages have no checksums", END: "not possible: the footer"},
    "HFile, no checksums": {
        "key of a cell": "another key that is still in order",
        "rest of a cell's key": "column, time and type of a cell are not used",
        "value of a cell": _ROW,
        "index": "another first key that still separates its blocks",
        "checksums": "room for sums of which the header says that there are none",
        "version of a cell": "versions of cells are not used",
        "lengths of a cell": "two lengths of one sum: bytes of a key become those of its value",
    },
    "table: properties": {
        **_PROPERTIES,
        "value of hoodie.table.create.schema": "the schema of the newest commit counts",
    },
    "table: commit": {
        "name": _NAME,
        "schema": _SCHEMA,
    },
    "table: log": _TABLE_LOG,
    "instants (layout 2)": {
        "line": "a name that is no instant is another file; other digits are another time",
        "end of line": _LINES,
        END: _LINES,
    },
    "commit (Avro, all fields)": _CONTAINER,
    "bitmap": {"bitmap": "other legal row numbers; the format has no checksum"},
    "positions in a header": {"base64": "as many other row numbers; headers have no checksum"},
    "index definitions": {
        "name": _NAME,
        "text": _TEXT,
        "structure": "a value that is moved into another of the same form",
    },
    "archive: version": {
        "number": _VERSION_BEFORE,
        END: _VERSION_BEFORE,
    },
    "archive: manifest": {},
    "archive: file": {},
    "table 9: commit": {},
    "table 9: log": _TABLE_LOG,
    "table 9: properties": {
        **_PROPERTIES,
        "value of hoodie.table.create.schema": "the schema of the newest commit counts",
    },
    "table: listing": {},
    "table: listing's logs": _TABLE_LOG,
    "table: index's logs": _TABLE_LOG,
}
"""Format -> region -> reason."""

_HEADER: Final = (
    "header: instant", "header: schema", "key of a header", "count of headers",
    "length of a header", "length of a block",
)  # fmt: skip
_WITH_HEADER: Final = {
    "magic": _HEADER, "version": _HEADER,
    "kind of a block": (*_HEADER, "length of the content"),  # a command that does not frame
    "length of the content": (*_HEADER, "kind of a block"), "version of the content": _HEADER,
    "count of rows, or bytes of deletes": _HEADER, "length of a row": _HEADER,
    "footer": _HEADER, "pointer": _HEADER,
}  # fmt: skip

ONLY_WITH: Final[Mapping[str, Mapping[str, tuple[str, ...]]]] = {
    "bitmap": {END: ("bitmap",)},
    "properties": {"value of hoodie.table.name": ("name", "separator")},
    "table: log": _WITH_HEADER,
    "table 9: log": _WITH_HEADER,
    "table: listing's logs": _WITH_HEADER,
    "table: index's logs": _WITH_HEADER,
}
"""Regions that are listed only where one of others is changed with them: a property whose name is
damaged as well is missing, a block whose header is damaged as well looks as a failed append, the
containers that are cut off are not missing where their count is damaged as well."""
