"""Conversion and validation of arguments of the public API."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Literal, Protocol, TypeAlias

import pyarrow as pa

from pyhudi.errors import OptionError, UserError
from pyhudi.formats.column_names import check_names
from pyhudi.formats.nested_fields import has_fields
from pyhudi.keygen.generators import KeyRule, partition_paths, record_keys
from pyhudi.options import HollowCommitPolicy, IndexKind, Layout, Options, SchemaMode
from pyhudi.read.scan_plan import ScanMode
from pyhudi.read.sql.sql_filter import Filter
from pyhudi.records import without_meta
from pyhudi.storage.filesystem import is_encodable
from pyhudi.table.properties import TableConfig, TableType
from pyhudi.write.input.batch import KeyRows, Rows, StreamRows, TableRows

_INDEX = re.compile(r"__index_level_\d+__")
"""The column of a pandas index without a name, which is not a column of the rows."""

TableTypeName: TypeAlias = Literal["cow", "mor", "COPY_ON_WRITE", "MERGE_ON_READ"]
IndexName: TypeAlias = Literal[
    "record", "partitioned_record", "bloom", "global_bloom", "simple", "global_simple", "bucket",
    "rocksdb", "hbase", "elastic",
]  # fmt: skip
SchemaModeName: TypeAlias = Literal["strict", "add", "widen"]
ScanModeName: TypeAlias = Literal["snapshot", "read_optimized"]

_TYPES = {"cow": TableType.COPY_ON_WRITE, "mor": TableType.MERGE_ON_READ} | {
    kind.value.lower(): kind for kind in TableType
}


def arrow_schema(schema: Any) -> pa.Schema:
    """A pyarrow schema from one, from anything with `__arrow_c_schema__`, or from rows, which stay
    unread unless they are a stream that has no schema apart from them.  Without meta columns."""
    if isinstance(schema, pa.Schema):
        return schema
    if hasattr(schema, "__arrow_c_schema__") or hasattr(schema, "__arrow_c_stream__"):
        found = _schema_of(schema)
    elif hasattr(schema, "collect_schema") and hasattr(schema, "limit"):  # a polars LazyFrame
        found = arrow_schema(schema.limit(0).collect())
    else:
        hint = _rows_hint(schema).replace("(rows)", "(rows), or its schema")
        raise UserError("not a schema or rows", type=type(schema).__name__, hint=hint)
    names = [name for name in without_meta(found).names if not _INDEX.fullmatch(name)]
    return pa.schema([found.field(name) for name in names])


def arrow_table(rows: Any) -> pa.Table:
    """Rows as a table, from any object with `__arrow_c_stream__` or `__arrow_c_array__`."""
    if isinstance(rows, pa.Table):
        return rows
    if isinstance(rows, pa.RecordBatchReader):
        return rows.read_all()
    if isinstance(rows, pa.RecordBatch):
        return pa.Table.from_batches([rows])
    if hasattr(rows, "__arrow_c_stream__") or hasattr(rows, "__arrow_c_array__"):
        with _of_columns(rows):
            found = pa.table(rows)
        unnamed = [name for name in found.column_names if _INDEX.fullmatch(name)]
        return found.drop_columns(unnamed) if unnamed else found
    if hasattr(rows, "collect_schema") and hasattr(rows, "collect"):  # a polars LazyFrame
        return arrow_table(rows.collect())
    raise UserError("rows must be Arrow data", type=type(rows).__name__, hint=_rows_hint(rows))


def stream_of(rows: Any) -> pa.RecordBatchReader:
    """The batches of an object with `__arrow_c_stream__`.  Raises UserError for one column without
    a name, such as an Arrow array."""
    with _of_columns(rows):
        return pa.RecordBatchReader.from_stream(rows)


@contextmanager
def _of_columns(rows: Any) -> Iterator[None]:
    try:
        yield
    except pa.ArrowInvalid as error:
        raise UserError(
            "rows must have named columns",
            type=type(rows).__name__,
            reason=str(error),
            hint="pass a table: pa.table({'id': array})",
        ) from error


def _schema_of(schema: Any) -> pa.Schema:
    """Raises UserError for a type or a column that is no schema."""
    try:
        if hasattr(schema, "__arrow_c_schema__"):
            return pa.schema(schema)
        return pa.RecordBatchReader.from_stream(schema).schema
    except pa.ArrowInvalid as error:
        raise UserError(
            "not a schema or rows",
            type=type(schema).__name__,
            reason=str(error),
            hint="pass a schema of named columns: pa.schema([field])",
        ) from error


def _rows_hint(rows: Any) -> str:
    """How to pass rows that are not Arrow data."""
    if isinstance(rows, Sequence) and rows and all(isinstance(row, dict) for row in rows):
        return "pass pa.Table.from_pylist(rows)"
    if isinstance(rows, list) and rows and all(isinstance(row, str | int) for row in rows):
        return "pass keys=[...] to delete or fetch by key"
    if isinstance(rows, Mapping):
        return "pass pa.table(rows)"
    if isinstance(rows, str) and re.search("[=<>]| in | is ", rows, re.IGNORECASE):
        return "a condition is passed as where="
    if isinstance(rows, str | os.PathLike):
        return "read the file first: pyarrow.parquet.read_table(path); `pyhudi write` does so"
    return "pass a pyarrow table or anything with __arrow_c_stream__ (polars, pandas, duckdb …)"


def incoming_rows(rows: Any) -> Rows:
    """Rows of a batch: in memory, or a stream that is read batch by batch.

    A stream is a pyarrow.RecordBatchReader or any other object with `__arrow_c_stream__` that is
    not a data frame (`__dataframe__`): a data frame already has its rows in memory.
    """
    if isinstance(rows, pa.RecordBatchReader):
        return StreamRows(rows)
    is_table = isinstance(rows, pa.Table) or hasattr(rows, "__dataframe__")
    if hasattr(rows, "__arrow_c_stream__") and not is_table:
        return StreamRows(stream_of(rows))
    return TableRows(arrow_table(rows))


def names_of(columns: str | Sequence[str] | None) -> tuple[str, ...]:
    """Names given as one string, a sequence of strings, or None.  Raises UserError for anything
    else."""
    if columns is None:
        return ()
    if isinstance(columns, str):
        return (columns,)
    several = isinstance(columns, Iterable) and not isinstance(columns, bytes | Mapping)
    names: tuple[Any, ...] = tuple(columns) if several else (columns,)
    if any(not isinstance(name, str) for name in names):
        raise UserError(
            "names must be a string or a sequence of strings",
            given=repr(columns)[:80],
            hint='pass "city" or ["city", "day"]',
        )
    return names


def text_of(value: str | None, name: str) -> str | None:
    """An argument that is a string or None.  Raises UserError."""
    return None if value is None else required_text(value, name)


def required_text(value: str, name: str) -> str:
    """An argument that is a string with an encoding.  Raises UserError."""
    if not isinstance(value, str):
        hint = "table.timeline.commits lists instants" if name == "instant" else ""
        raise UserError(f"{name} must be a string", type=type(value).__name__, hint=hint)
    if not is_encodable(value):
        raise UserError(f"{name} has characters that UTF-8 cannot encode", given=ascii(value)[:80])
    return value


def is_integer(value: Any) -> bool:
    """Whether an argument is an integer; True and False are none."""
    return isinstance(value, int) and not isinstance(value, bool)


def count_of(value: int | None, name: str) -> int | None:
    """An argument that is a positive integer or None.  Raises UserError."""
    if value is not None and (not is_integer(value) or value < 1):
        raise UserError(f"{name} must be a positive integer", given=repr(value)[:80])
    return value


def selected_columns(columns: str | Sequence[str] | None) -> tuple[str, ...] | None:
    """As `names_of`, but None selects all columns."""
    return None if columns is None else names_of(columns)


def table_type_of(text: str) -> TableType:
    kind = _TYPES.get(str(text).lower())
    if kind is None:
        raise UserError("unknown table type", table_type=text, hint="use 'cow' or 'mor'")
    return kind


def table_type_name(text: str | None) -> TableTypeName:
    """The argument for a table type as options name it; None: the default."""
    return "mor" if text and table_type_of(text) is TableType.MERGE_ON_READ else "cow"


def with_clustering_arguments(
    options: Options,
    *,
    sort_by: str | Sequence[str] | None,
    layout: str | None,
    partitions: str | Sequence[str] | None,
) -> Options:
    """The options with a caller's clustering arguments; the same object if all are None."""
    if sort_by is None and layout is None and partitions is None:
        return options
    settings = options.services.clustering
    if sort_by is not None:
        settings = replace(settings, sort_columns=names_of(sort_by))
    if layout is not None:
        named = str(layout).upper().replace("-", "")
        if named not in {known.value for known in Layout}:
            raise UserError(
                "unknown layout", layout=layout, hint="use 'linear', 'zorder' or 'hilbert'"
            )
        settings = replace(settings, layout=Layout(named))
    if partitions is not None:
        chosen = replace(settings.partitions, selected=names_of(partitions))
        settings = replace(settings, partitions=chosen)
    return replace(options, services=replace(options.services, clustering=settings))


def check_partition_names(
    partitions: str | Sequence[str] | None, known: Callable[[], list[str]]
) -> None:
    """Raise UserError for a partition that does not exist in the table."""
    selected = names_of(partitions)
    there = set(known()) if selected else set()
    unknown = sorted(set(selected) - there)
    if unknown:
        raise UserError(
            "the table has no such partition",
            partition=", ".join(unknown),
            hint="table.partitions() lists the partition paths",
        )


def index_of(text: str, options: Options) -> IndexKind:
    """The index kind of a new table: `text`, or `hoodie.index.type` if `text` is the default."""
    try:
        kind = IndexKind(str(text).lower())
    except ValueError:
        raise OptionError(
            "unknown index", index=text, hint="use " + ", ".join(k.value for k in IndexKind)
        ) from None
    requested = options.write.index
    if requested is None or requested is kind:
        return kind
    if not kind.traits.is_default:
        raise OptionError(
            "index= conflicts with hoodie.index.type", index=text, option=requested.option
        )
    return requested


def schema_mode_of(text: str | None) -> SchemaMode | None:
    if text is None:
        return None
    try:
        return SchemaMode(text)
    except ValueError:
        raise UserError(
            "unknown schema mode", schema_mode=text, hint="use 'strict', 'add' or 'widen'"
        ) from None


def hollow_commit_policy(text: str) -> HollowCommitPolicy:
    """The hollow commit policy with this name.  Raises UserError."""
    try:
        return HollowCommitPolicy(str(text).lower())
    except ValueError:
        raise UserError(
            "unknown hollow commit policy", hollow_commits=text, hint="use 'fail' or 'block'"
        ) from None


def scan_mode(text: str) -> ScanMode:
    """The mode of a scan with this name.  Raises UserError."""
    try:
        return ScanMode(text)
    except ValueError:
        raise UserError(
            "unknown mode", mode=text, hint="use 'snapshot' or 'read_optimized'"
        ) from None


def table_name(path: str) -> str:
    """The default name of a table: the last component of its path."""
    return path.rstrip("/").rsplit("/", 1)[-1] or "table"


class _Readable(Protocol):
    @property
    def config(self) -> TableConfig: ...

    def key_rule(self, *, with_paths: bool) -> KeyRule: ...

    def _key_texts(self, keys: Any) -> pa.Array: ...


def keys_to_delete(table: _Readable, rows: Any, keys: Any, where: Filter | None) -> KeyRows:
    """The records to delete, given by exactly one of rows, keys and where.  Raises UserError.

    Rows without the partition columns, and keys, leave the partition unknown.
    """
    if sum(given is not None for given in (rows, keys, where)) != 1:
        raise UserError(
            "pass exactly one of rows=, keys=, where=", hint="such as delete(where=\"city = 'sf'\")"
        )
    if rows is not None:
        given = arrow_table(rows)
        check_names(given.schema)
        known = has_fields(given.schema, table.config.partition_fields)
        rule = table.key_rule(with_paths=known)
        return KeyRows(
            _text(record_keys(given, rule)), partition_paths(given, rule) if known else None
        )
    return KeyRows(_text(table._key_texts(keys)))


def _text(array: Any) -> pa.ChunkedArray:
    if not pa.types.is_string(array.type):
        array = array.cast(pa.string())
    return array if isinstance(array, pa.ChunkedArray) else pa.chunked_array([array])
