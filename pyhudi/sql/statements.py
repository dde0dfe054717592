"""Statements of SQL as values.  Expressions and queries in them are trees of sqlglot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, TypeAlias

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


class When(Enum):
    """The pairs of rows that a clause of MERGE applies to."""

    MATCHED = "WHEN MATCHED"
    NOT_MATCHED = "WHEN NOT MATCHED"
    NOT_MATCHED_BY_SOURCE = "WHEN NOT MATCHED BY SOURCE"


class Act(Enum):
    """What a clause of MERGE does."""

    UPDATE = "UPDATE"
    DELETE = "DELETE"
    INSERT = "INSERT"


@dataclass(frozen=True, slots=True)
class MergeClause:
    """One clause of MERGE.  assignments: column -> value; None: `*`, all columns of the source."""

    when: When
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


Statement: TypeAlias = Query | Write | Explain | Call | Describe | ShowTables
