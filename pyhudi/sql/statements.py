"""Statements of SQL as values.  Expressions and queries in them are trees of sqlglot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, TypeAlias

import pyarrow as pa

from pyhudi.write.merge_clauses import Pair

Tree: TypeAlias = Any
"""A tree of sqlglot."""


@dataclass(frozen=True, slots=True)
class Name:
    """The name of a table: `trips`, `db.trips`, or the path in hudi.`path`.

    alias: what the rest of the statement calls it.
    """

    parts: tuple[str, ...]
    alias: str

    def __str__(self) -> str:
        return ".".join(self.parts)


@dataclass(frozen=True, slots=True)
class Query:
    """SELECT, VALUES, or a set operation of them."""

    tree: Tree


@dataclass(frozen=True, slots=True)
class Insert:
    """INSERT INTO or INSERT OVERWRITE.

    columns: named in the statement, or None.  partition: columns of PARTITION (...), with their
    value if it is static.  by_name: columns of the query are matched by name.
    """

    target: Name
    query: Tree
    columns: tuple[str, ...] | None = None
    partition: Mapping[str, Tree | None] | None = None
    overwrite: bool = False
    by_name: bool = False


@dataclass(frozen=True, slots=True)
class Update:
    """UPDATE.  assignments: column -> new value."""

    target: Name
    assignments: Mapping[str, Tree]
    where: Tree | None


@dataclass(frozen=True, slots=True)
class Delete:
    """DELETE FROM."""

    target: Name
    where: Tree | None


class Act(Enum):
    """What a clause of MERGE does."""

    UPDATE = "UPDATE"
    DELETE = "DELETE"
    INSERT = "INSERT"


@dataclass(frozen=True, slots=True)
class MergeClause:
    """One clause of MERGE.  assignments: column -> value; None: `*`, all columns of the source."""

    pair: Pair
    act: Act
    condition: Tree | None = None
    assignments: Mapping[str, Tree] | None = None


@dataclass(frozen=True, slots=True)
class Merge:
    """MERGE INTO.  source: a table, subquery or VALUES; source_alias: what conditions call it."""

    target: Name
    source: Tree
    source_alias: str
    on: Tree
    clauses: tuple[MergeClause, ...]


Write: TypeAlias = Insert | Update | Delete | Merge


@dataclass(frozen=True, slots=True)
class Explain:
    """EXPLAIN of a query or a write."""

    statement: Query | Write


@dataclass(frozen=True, slots=True)
class Call:
    """CALL.  positional, named: the arguments, constants or parameters."""

    procedure: str
    positional: tuple[Tree, ...] = ()
    named: Mapping[str, Tree] = field(default_factory=dict)


class Topic(Enum):
    """What SHOW or DESCRIBE shows of a table."""

    COLUMNS = "DESCRIBE"
    EXTENDED = "DESCRIBE EXTENDED"
    HISTORY = "DESCRIBE HISTORY"
    PROPERTIES = "SHOW TBLPROPERTIES"
    PARTITIONS = "SHOW PARTITIONS"
    CREATION = "SHOW CREATE TABLE"
    INDEXES = "SHOW INDEXES"


@dataclass(frozen=True, slots=True)
class Describe:
    """SHOW or DESCRIBE of a table.  key: of one property."""

    topic: Topic
    target: Name
    key: str | None = None


@dataclass(frozen=True, slots=True)
class ShowTables:
    """SHOW TABLES."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of CREATE TABLE or ADD COLUMNS.

    path: the name, after those of the structs that it is a field of.  comments: by dotted path, of
    the column and its fields.  after: the column or field that it follows; "": it is the first one;
    None: the last one.  is_required: NOT NULL.
    """

    path: tuple[str, ...]
    type: pa.DataType
    comments: Mapping[str, str] = field(default_factory=dict)
    after: str | None = None
    is_required: bool = False


PartitionSpec: TypeAlias = Mapping[str, Tree | None]
"""Columns of PARTITION (...) with their values; None: the value is not stated."""


@dataclass(frozen=True, slots=True)
class CreateTable:
    """CREATE TABLE.  properties: of TBLPROPERTIES and OPTIONS.  query: of CREATE TABLE AS SELECT,
    or None; then columns is empty.  has_format: whether the statement has USING hudi."""

    target: Name
    columns: tuple[Column, ...]
    partition_by: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    location: str | None = None
    comment: str | None = None
    if_not_exists: bool = False
    query: Tree | None = None
    has_format: bool = False


@dataclass(frozen=True, slots=True)
class DropTable:
    """DROP TABLE."""

    target: Name
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class Truncate:
    """TRUNCATE TABLE.  partition: the only one to empty."""

    target: Name
    partition: PartitionSpec | None = None


@dataclass(frozen=True, slots=True)
class CreateIndex:
    """CREATE INDEX.  using: the kind, in lower case, or None.  options: of the index."""

    name: str
    target: Name
    using: str | None
    columns: tuple[str, ...]
    options: Mapping[str, str] = field(default_factory=dict)
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class DropIndex:
    """DROP INDEX."""

    name: str
    target: Name
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class RefreshIndex:
    """REFRESH INDEX."""

    name: str
    target: Name


@dataclass(frozen=True, slots=True)
class SetProperties:
    """ALTER TABLE SET or UNSET TBLPROPERTIES.  changes: None removes a property.  if_exists:
    properties to remove may be absent."""

    target: Name
    changes: Mapping[str, str | None]
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class AddPartitions:
    """ALTER TABLE ADD PARTITION."""

    target: Name
    partitions: tuple[PartitionSpec, ...]
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class DropPartitions:
    """ALTER TABLE DROP PARTITION."""

    target: Name
    partitions: tuple[PartitionSpec, ...]
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class AddColumns:
    """ALTER TABLE ADD COLUMNS."""

    target: Name
    columns: tuple[Column, ...]


@dataclass(frozen=True, slots=True)
class ChangeColumn:
    """ALTER TABLE ALTER COLUMN.  type, comment: None if the statement does not state it."""

    target: Name
    path: tuple[str, ...]
    type: pa.DataType | None = None
    comment: str | None = None


@dataclass(frozen=True, slots=True)
class MoveColumns:
    """ALTER TABLE RENAME COLUMN, and DROP COLUMN, which states no name."""

    target: Name
    paths: tuple[tuple[str, ...], ...]
    name: str | None = None
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class RenameTable:
    """ALTER TABLE RENAME TO."""

    target: Name
    new: Name


Definition: TypeAlias = (
    CreateTable
    | DropTable
    | Truncate
    | CreateIndex
    | DropIndex
    | RefreshIndex
    | SetProperties
    | AddPartitions
    | DropPartitions
    | AddColumns
    | ChangeColumn
    | MoveColumns
    | RenameTable
)

Statement: TypeAlias = Query | Write | Explain | Call | Describe | ShowTables | Definition
