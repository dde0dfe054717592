"""Log blocks of partial updates: rows that hold the columns a statement has set, and no others.

Apache Hudi 1.x writes them for MERGE INTO on merge-on-read tables of version 8 and newer, and says
so in the block's header (IS_PARTIAL); the block's schema names the columns.  A null that was set
is a value like any other, so beside each column of a slice stands a flag for each row:

    b        changed:b      a row of a block without b has False; base files and other blocks True
    "x"      True
    null     False          merging, the other record's value stands

A record that comes before what is stored in event time gives what the stored one does not say.
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
    """The rules of a slice with such blocks.  Raises UnsupportedTableError where values give way
    for another reason, too."""
    if not rules.picks:
        raise UnsupportedTableError("partial updates of a table with a payload class", path=path)
    return replace(rules, keeps=Keeps.ABSENT, beneath=True)


def flagged(rows: pa.Table, columns: Sequence[str], stated: Collection[str] | None) -> pa.Table:
    """The rows with a flag for each user column; stated: the columns they say (None: all)."""
    for name in columns:
        if name not in META_COLUMNS:
            said = stated is None or name in stated
            rows = rows.append_column(flag_of(name), pa.repeat(said, rows.num_rows))
    return rows
