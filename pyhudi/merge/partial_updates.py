"""Log blocks of partial updates: rows that contain only the columns set by a statement.

Apache Hudi 1.x writes them for MERGE INTO on merge-on-read tables of version 8 and newer, and marks
them in the block's header (IS_PARTIAL); the block's schema lists the columns.  A null that was set
is a value like any other, so each column of a slice has a flag column:

    b        changed:b      False in a block without b; True in base files and other blocks
    "x"      True
    null     False          a merge takes the other record's value

A record that precedes the stored one in event time supplies the values the stored one lacks.
Source: KeyBasedFileGroupRecordBuffer, PartialUpdateHandler of Apache Hudi 1.x.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Final

import pyarrow as pa

from pyhudi.errors import UnsupportedTableError
from pyhudi.merge.merge_rules import MergeRules
from pyhudi.merge.payload_classes import Keeps
from pyhudi.records import META_COLUMNS

_FLAG: Final = "\0changed:"


def flag_of(column: str) -> str:
    return _FLAG + column


def is_flag(column: str) -> bool:
    return column.startswith(_FLAG)


def partial_rules(rules: MergeRules, *, path: str) -> MergeRules:
    """The rules of a slice with such blocks.  Raises UnsupportedTableError where the table's own
    rules merge values, too."""
    if not rules.picks:
        raise UnsupportedTableError(
            "partial updates are not supported in a table with a payload class",
            path=path,
            hint="mode='read_optimized' reads its base files",
        )
    return replace(rules, keeps=Keeps.ABSENT, beneath=True)


def flagged(rows: pa.Table, columns: Sequence[str], stated: Collection[str] | None) -> pa.Table:
    """The rows with a flag column for each user column.  stated: columns set (None: all)."""
    for name in columns:
        if name not in META_COLUMNS:
            is_set = stated is None or name in stated
            rows = rows.append_column(flag_of(name), pa.repeat(is_set, rows.num_rows))
    return rows
