"""Answers to requests for metadata: catalogs, schemas, tables, and facts about the server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from pyhudi.api.table import Table
from pyhudi.errors import UserError

CATALOG: Final = "pyhudi"
DB_SCHEMA: Final = "main"
TABLE_TYPE: Final = "TABLE"
_PATTERN_CHARS_MAX: Final = 1000

_READ_ONLY: Final = 3
_INFO: Final[Mapping[int, Any]] = {
    0: "pyhudi",  # server name
    2: pa.__version__,  # version of Arrow
    _READ_ONLY: True,
    4: True,  # accepts SQL
    5: False,  # accepts Substrait
    8: 0,  # transactions: none
}
_VALUE_KINDS: Final = (
    pa.field("string_value", pa.string()),
    pa.field("bool_value", pa.bool_()),
    pa.field("bigint_value", pa.int64()),
    pa.field("int32_bitmask", pa.int32()),
    pa.field("string_list", pa.list_(pa.string())),
    pa.field("int32_to_int32_list_map", pa.map_(pa.int32(), pa.list_(pa.int32()))),
)


def catalogs() -> pa.Table:
    """The only catalog."""
    schema = pa.schema([pa.field("catalog_name", pa.string(), nullable=False)])
    return pa.table([[CATALOG]], schema=schema)


def db_schemas(catalog: str | None, pattern: str | None) -> pa.Table:
    """The only schema, if it matches."""
    schema = pa.schema(
        [
            pa.field("catalog_name", pa.string()),
            pa.field("db_schema_name", pa.string(), nullable=False),
        ]
    )
    names = [DB_SCHEMA] if catalog in (None, CATALOG) and is_like(DB_SCHEMA, pattern) else []
    return pa.table([[CATALOG] * len(names), names], schema=schema)


def tables_schema(*, with_schema: bool) -> pa.Schema:
    """The columns of `tables_of`."""
    fields = [
        pa.field("catalog_name", pa.string()),
        pa.field("db_schema_name", pa.string()),
        pa.field("table_name", pa.string(), nullable=False),
        pa.field("table_type", pa.string(), nullable=False),
    ]
    if with_schema:
        fields.append(pa.field("table_schema", pa.binary(), nullable=False))
    return pa.schema(fields)


def tables_of(
    tables: Mapping[str, Table],
    catalog: str | None,
    db_pattern: str | None,
    pattern: str | None,
    types: Sequence[str],
    *,
    with_schema: bool,
) -> pa.Table:
    """The tables that match, with their schemas in Arrow's form if requested."""
    is_here = catalog in (None, CATALOG) and is_like(DB_SCHEMA, db_pattern)
    is_here = is_here and (not types or TABLE_TYPE in types)
    names = [name for name in sorted(tables) if is_here and is_like(name, pattern)]
    count = len(names)
    columns: list[Any] = [[CATALOG] * count, [DB_SCHEMA] * count, names, [TABLE_TYPE] * count]
    if with_schema:
        schemas = [tables[name].to_pyarrow_dataset().schema for name in names]
        columns.append([schema.serialize().to_pybytes() for schema in schemas])
    return pa.table(columns, schema=tables_schema(with_schema=with_schema))


def table_types() -> pa.Table:
    """The only type of tables."""
    schema = pa.schema([pa.field("table_type", pa.string(), nullable=False)])
    return pa.table([[TABLE_TYPE]], schema=schema)


def sql_info(requested: Sequence[int], *, read_only: bool) -> pa.Table:
    """Facts about the server by number; all of them if none is requested."""
    known = {**_INFO, _READ_ONLY: read_only}
    found = [number for number in _INFO if not requested or number in requested]
    codes, offsets = [], []
    columns: list[list[Any]] = [[] for _ in _VALUE_KINDS]
    for number in found:
        value = known[number]
        code = 0 if isinstance(value, str) else 1 if isinstance(value, bool) else 2
        codes.append(code)
        offsets.append(len(columns[code]))
        columns[code].append(value)
    values = pa.UnionArray.from_dense(
        pa.array(codes, pa.int8()),
        pa.array(offsets, pa.int32()),
        [pa.array(c, field.type) for c, field in zip(columns, _VALUE_KINDS, strict=True)],
        [field.name for field in _VALUE_KINDS],
    )
    schema = pa.schema(
        [
            pa.field("info_name", pa.uint32(), nullable=False),
            pa.field("value", values.type, nullable=False),
        ]
    )
    return pa.table([pa.array(found, pa.uint32()), values], schema=schema)


def is_like(name: str, pattern: str | None) -> bool:
    """Whether a name matches a pattern of SQL's LIKE; None matches all.

    Time grows with the product of their lengths.  Raises UserError for a pattern of more than 1000
    characters.
    """
    if pattern is None:
        return True
    if len(pattern) > _PATTERN_CHARS_MAX:
        raise UserError("the pattern is too long", characters=len(pattern))
    at = place = 0
    wildcard: tuple[int, int] | None = None  # after the last %: in the pattern, in the name
    while place < len(name):
        if at < len(pattern) and pattern[at] == "%":
            at += 1
            wildcard = at, place
        elif at < len(pattern) and pattern[at] in ("_", name[place]):
            at, place = at + 1, place + 1
        elif wildcard is not None:  # the % matches one character more
            wildcard = wildcard[0], wildcard[1] + 1
            at, place = wildcard
        else:
            return False
    return not pattern[at:].strip("%")
