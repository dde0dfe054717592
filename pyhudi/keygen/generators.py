"""Columnar key generators: the record key and partition path of each row.

simple, timestamp, one field      the value as text; null or empty is an error
complex, or several key fields    `f1:v1,f2:v2`; null -> `__null__`, empty -> `__empty__`
complex with one field            `f:v`, or the bare value: releases differ; see table_key_rule
partition path                    for each field the value as text, null or empty ->
                                  `__HIVE_DEFAULT_PARTITION__`; hive style `f=v`; joined by `/`
timestamp fields of a path        see keygen/timestamp_generator
Source: table_format 5.7.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from pyhudi.errors import UserError
from pyhudi.filenames import HOODIE
from pyhudi.formats.java_text import as_text
from pyhudi.formats.nested_fields import has_fields, root_of, values_at
from pyhudi.keygen.timestamp_generator import TimeRule, time_texts
from pyhudi.records import DEFAULT_PARTITION

NULL_PLACEHOLDER: Final = "__null__"
EMPTY_PLACEHOLDER: Final = "__empty__"
_PATHS: Final = pa.dictionary(pa.int32(), pa.string())
_ESCAPED: Final = frozenset("\"#%'*/:=?\\{[]^\x7f") | {chr(code) for code in range(0x20)}

RowFunction = Callable[[pa.Table], Any]


@dataclass(frozen=True, slots=True)
class PythonKeys:
    """A custom key generator: Python functions for record keys and partition paths.

    Each function takes rows (a pyarrow.Table) and returns one string a row, without nulls.  `keys`
    None: keys are made from the table's record key columns; `paths` None: paths are made from its
    partition columns.  columns: the columns that the functions use beyond those of the record key;
    they get no others, and updates cannot change them.

    The functions are not stored in the table: pass them each time it is opened for writing.
    Apache Hudi cannot write such tables.
    """

    paths: RowFunction | None = None
    keys: RowFunction | None = None
    columns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class KeyRule:
    """How the keys and partition paths of a table are made from its columns.

    slashes: whether `2026-11-21` becomes the path `2026/11/21`.
    times: for each partition field its timestamp rule, None for plain values; (): all are plain.
    Invariant: `composite` is set when there is more than one key field.
    """

    key_fields: tuple[str, ...]
    partition_fields: tuple[str, ...]
    composite: bool
    hive_style: bool
    url_encoded: bool
    slashes: bool = False
    times: tuple[TimeRule | None, ...] = ()
    functions: PythonKeys = PythonKeys()


def record_keys(rows: pa.Table, rule: KeyRule, *, first_row: int = 0) -> pa.ChunkedArray:
    """The record key of each row, as strings without nulls.

    Raises UserError naming the first row (counted from `first_row`) whose key is null or empty.
    """
    if rule.functions.keys is not None:
        keys = _returned(rule.functions.keys, rows, rule, "keys")
        _reject_blank(_blank(keys), "the function for keys", first_row)
        return keys
    if not rule.composite:
        name = rule.key_fields[0]
        keys = as_text(values_at(rows, name), name)
        _reject_blank(_blank(keys), name, first_row)
        return keys
    parts: list[Any] = []
    all_blank: Any = None
    for name in rule.key_fields:
        text = as_text(values_at(rows, name), name)
        missing = pc.is_null(text)
        blank = pc.equal(pc.fill_null(text, ""), "")
        all_blank = blank if all_blank is None else pc.and_(all_blank, blank)
        filled = pc.if_else(
            missing, NULL_PLACEHOLDER, pc.if_else(blank, EMPTY_PLACEHOLDER, pc.fill_null(text, ""))
        )
        parts.append(pc.binary_join_element_wise(pa.scalar(name), filled, ":"))
    _reject_blank(all_blank, ",".join(rule.key_fields), first_row)
    return pc.binary_join_element_wise(*parts, ",")


def _blank(texts: Any) -> Any:
    return pc.equal(pc.fill_null(texts, ""), "")


def _returned(function: RowFunction, rows: pa.Table, rule: KeyRule, what: str) -> pa.ChunkedArray:
    """The result of a function as a column of strings.  Raises UserError."""
    fields = (*rule.key_fields, *rule.partition_fields, *rule.functions.columns)
    names = [name for name in dict.fromkeys(map(root_of, fields)) if name in rows.schema.names]
    try:
        column = function(rows.select(names))
    except KeyError as error:
        raise UserError(
            f"the function for {what} uses a column that it does not get",
            cause=str(error),
            columns=", ".join(names),
            hint="state the columns that it uses in columns= of PythonKeys, or as record key",
        ) from error
    if isinstance(column, pa.Array):
        column = pa.chunked_array([column])
    elif not isinstance(column, pa.ChunkedArray):
        column = pa.chunked_array([pa.array(column, pa.string())])
    if len(column) != rows.num_rows:
        raise UserError(
            f"the function for {what} must return one value for each row",
            rows=rows.num_rows,
            values=len(column),
        )
    return column.cast(pa.string())


def _reject_blank(bad: Any, names: str, first_row: int) -> None:
    at = pc.index(bad, True).as_py()
    if at >= 0:
        raise UserError(
            "a record key is null or empty",
            column=names,
            row=first_row + at,
            hint="every row needs a key; filter these rows out or set the key",
        )


def partition_paths(rows: pa.Table, rule: KeyRule, *, first_row: int = 0) -> pa.ChunkedArray:
    """The partition path of each row: dictionary<int32, string> without nulls.

    Cost depends on the distinct values of a partition column, not on its rows.
    """
    count = rows.num_rows
    if rule.functions.paths is not None:
        return _custom_paths(_returned(rule.functions.paths, rows, rule, "paths"))
    if not rule.partition_fields:
        zeros = pa.nulls(count, pa.int32()).fill_null(0)
        return pa.chunked_array([pa.DictionaryArray.from_arrays(zeros, pa.array([""]))])
    times = rule.times or (None,) * len(rule.partition_fields)
    joined: Any = None
    for name, time in zip(rule.partition_fields, times, strict=True):
        column = values_at(rows, name)
        if time is None:
            segments = _path_segments(column, name, rule).combine_chunks()
        else:
            texts = time_texts(column, name, rule=time, first_row=first_row)
            segments = _time_segments(texts, name, rule)
        joined = segments if joined is None else _joined(joined, segments)
    chunks = joined.chunks if isinstance(joined, pa.ChunkedArray) else [joined]
    return pa.chunked_array([_each_once(chunk) for chunk in chunks], _PATHS)


def _each_once(paths: pa.DictionaryArray) -> pa.DictionaryArray:
    """The same paths with a dictionary of distinct values: several values may share a path."""
    texts = paths.dictionary.dictionary_encode()
    if len(texts.dictionary) == len(paths.dictionary):
        return paths
    indices = texts.indices.take(paths.indices)
    return pa.DictionaryArray.from_arrays(indices, texts.dictionary)


def _custom_paths(paths: pa.ChunkedArray) -> pa.ChunkedArray:
    if paths.null_count:
        raise UserError("the function for paths returned a null")
    encoded = paths.dictionary_encode().unify_dictionaries()
    for path in encoded.chunk(0).dictionary.to_pylist() if encoded.num_chunks else ():
        if path:  # "" is the root of a table without partitions
            _check_path(path, "the function for paths", path)
    return encoded


def _time_segments(texts: pa.DictionaryArray, name: str, rule: KeyRule) -> pa.DictionaryArray:
    segments = [_segment(text, name, rule) for text in texts.dictionary.to_pylist()]
    return pa.DictionaryArray.from_arrays(texts.indices, pa.array(segments, pa.string()))


def paths_where_known(rows: pa.Table, rule: KeyRule) -> pa.ChunkedArray | None:
    """Partition paths of rows that may lack partition columns; None if they do."""
    is_custom = rule.functions.paths is not None
    needed = rule.functions.columns if is_custom else rule.partition_fields
    is_known = (needed or not is_custom) and has_fields(rows.schema, needed)
    return partition_paths(rows, rule) if is_known else None


def _path_segments(column: pa.ChunkedArray, name: str, rule: KeyRule) -> pa.ChunkedArray:
    """One column's path segments, computed on its distinct values."""
    if pt.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pt.is_run_end_encoded(column.type):
        column = pc.run_end_decode(column)
    encoded = column.dictionary_encode().unify_dictionaries()
    if encoded.num_chunks == 0:
        return pa.chunked_array(
            [pa.DictionaryArray.from_arrays(pa.array([], pa.int32()), pa.array([], pa.string()))]
        )
    values = as_text(encoded.chunk(0).dictionary, name).to_pylist()
    segments = pa.array([_segment(v, name, rule) for v in (*values, None)], pa.string())
    return pa.chunked_array(  # null is the last code: dictionaries with nulls do not unify
        [
            pa.DictionaryArray.from_arrays(pc.fill_null(chunk.indices, len(values)), segments)
            for chunk in encoded.chunks
        ]
    )


def _segment(value: str | None, name: str, rule: KeyRule) -> str:
    if value is None or value == "":
        text = DEFAULT_PARTITION
    else:
        text = url_encode(value) if rule.url_encoded else value
        if rule.slashes:
            text = _with_slashes(text, name)
        _check_path(text, name, value)
    return f"{name}={text}" if rule.hive_style else text


def _with_slashes(text: str, name: str) -> str:
    """Readers take every slash for a dash.  Raises UserError for a value with slashes."""
    if "/" in text:
        raise UserError(
            "a partition value has a slash, which readers of this table take for a dash",
            column=name,
            value=text,
            hint="pass dates as 2026-11-21",
        )
    return text.replace("-", "/")


def _check_path(path: str, name: str, value: str) -> None:
    """Raise UserError for a path outside the table's folder or inside its `.hoodie` folder."""
    unsafe = any(part in ("", ".", "..", HOODIE) for part in path.split("/"))
    if unsafe or "\\" in path or "\0" in path:
        encodes = "set hoodie.datasource.write.partitionpath.urlencode when creating the table, or "
        raise UserError(
            "a partition value results in an unsafe path",
            column=name,
            value=value,
            hint=f"{encodes if url_encode(value) != value else ''}change the value",
        )


def _joined(left: Any, right: Any) -> Any:
    """`left/right` of each row; each distinct pair is joined once."""
    width = max(1, len(right.dictionary))
    codes = pc.add(
        pc.multiply(left.indices.cast(pa.int64()), width), right.indices.cast(pa.int64())
    )
    encoded = codes.dictionary_encode()
    pairs = encoded.dictionary.to_pylist()
    lefts, rights = left.dictionary.to_pylist(), right.dictionary.to_pylist()
    paths = pa.array([f"{lefts[p // width]}/{rights[p % width]}" for p in pairs], pa.string())
    return pa.DictionaryArray.from_arrays(encoded.indices, paths)


def url_encode(value: str) -> str:
    """Hive's path escaping: `%XX` in upper case for characters that are unsafe in a path."""
    return "".join(f"%{ord(c):02X}" if c in _ESCAPED else c for c in value)
