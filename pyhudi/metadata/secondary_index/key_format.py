"""Keys of secondary index entries: `<escaped secondary value>$<escaped record key>`.

`\\`, `$` and NUL are escaped with `\\`; the single character NUL is the value null.  A value of the
column is stored as the text that Apache Hudi's writer on Spark makes of it: dates as days and
timestamps as microseconds since 1970.
Source: writer_v8_v9 12; SecondaryIndexKeyUtils of Apache Hudi 1.2.0.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from numpy.typing import NDArray

from pyhudi._native.hashing import bucket_of
from pyhudi.errors import CorruptFileError

SEPARATOR: Final = "$"
NULL: Final = "\0"
_PARTS: Final = r"(?s)\A(?P<value>(?:[^\\$]|\\.)*)\$(?P<key>.*)\z"


class HashedPart(Enum):
    """The part of a key whose hash determines the file group."""

    WHOLE_KEY = "V1"
    VALUE = "V2"
    """The escaped value and the separator: all entries of a value are in one file group."""


def is_indexable(kind: pa.DataType) -> bool:
    """Whether a column of this type can have a secondary index; the types of Apache Hudi 1.2.0."""
    tests = (
        pt.is_string, pt.is_large_string, pt.is_signed_integer, pt.is_date32, _is_stored_time,
    )  # fmt: skip
    return any(test(kind) for test in tests)


def _is_stored_time(kind: pa.DataType) -> bool:
    return bool(pt.is_timestamp(kind) and kind.unit in ("ms", "us"))


class TextKind(Enum):
    """What the text of a type's values is; values of one kind have equal texts in all its types."""

    PLAIN = "plain"
    DAYS = "days"
    MICROSECONDS = "microseconds"


def text_kind(kind: pa.DataType) -> TextKind:
    """The kind of text that the values of an indexable type have."""
    if pt.is_date(kind):
        return TextKind.DAYS
    return TextKind.MICROSECONDS if pt.is_timestamp(kind) else TextKind.PLAIN


def value_texts(column: pa.Array) -> pa.Array:
    """The text of each value of an indexable column; nulls stay null."""
    kind = column.type
    if pt.is_dictionary(kind):
        return value_texts(column.dictionary).take(column.indices)
    if pt.is_date32(kind):
        return column.cast(pa.int32()).cast(pa.string())
    if pt.is_timestamp(kind):
        return column.cast(pa.timestamp("us", kind.tz)).cast(pa.int64()).cast(pa.string())
    return column.cast(pa.string())


def possible_texts(values: pa.Array, part: HashedPart) -> pa.Array:
    """Every text that writers of Apache Hudi may have stored for these values, without nulls.

    Indexes of version V1 may come from 1.0, which writes dates in ISO format, and timestamps as
    stored.
    """
    values = values.drop_null()
    found = [value_texts(values)]
    if part is HashedPart.WHOLE_KEY and pt.is_date32(values.type):
        found.append(values.cast(pa.string()))
    if pt.is_timestamp(values.type) and values.type.unit == "ms":
        found.append(values.cast(pa.int64()).cast(pa.string()))
    return pc.unique(pa.concat_arrays(found))


def _escaped(texts: pa.Array) -> pa.Array:
    for special in ("\\", SEPARATOR, NULL):
        texts = pc.replace_substring(texts, special, "\\" + special)
    return texts


def _unescaped(texts: pa.Array) -> pa.Array:
    return pc.replace_substring_regex(texts, r"(?s)\\(.)", r"\1")


def key_prefixes(values: pa.Array) -> pa.Array:
    """The prefix that all keys of a value have in common: its escaped text and the separator."""
    escaped = pc.fill_null(_escaped(values), NULL)
    return pc.binary_join_element_wise(escaped, "", SEPARATOR)


def entry_keys(values: pa.Array, record_keys: pa.Array) -> pa.Array:
    """The keys of entries; values: texts of the column, null where it is null."""
    return pc.binary_join_element_wise(key_prefixes(values), _escaped(record_keys), "")


def split_keys(keys: pa.Array, *, path: str) -> tuple[pa.Array, pa.Array]:
    """(values, record keys) of keys of entries.  Raises CorruptFileError."""
    parts = pc.extract_regex(keys.cast(pa.string()), _PARTS)
    if parts.null_count:
        raise CorruptFileError("a key of the secondary index has no separator", path=path)
    value, key = parts.field("value"), parts.field("key")
    is_null = pc.equal(value, NULL)
    return pc.if_else(is_null, pa.scalar(None, pa.string()), _unescaped(value)), _unescaped(key)


def groups_of(keys: pa.Array, count: int, part: HashedPart) -> NDArray[np.int32]:
    """The file group, of `count`, of each key, as text or its bytes.  Raises CorruptFileError for a
    malformed key."""
    if part is HashedPart.WHOLE_KEY:
        return bucket_of(keys, count)
    parts: Any = pc.extract_regex(keys, _PARTS)
    if parts.null_count:
        raise CorruptFileError("a key of the secondary index has no separator", path="")
    nothing, separator = (pa.scalar(text, keys.type) for text in ("", SEPARATOR))
    prefixes = pc.binary_join_element_wise(parts.field("value"), nothing, separator)
    return bucket_of(prefixes, count)
