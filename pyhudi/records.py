"""Meta columns, file group ids and record locations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NewType

import pyarrow as pa

InstantTime = NewType("InstantTime", str)
"""`yyyyMMddHHmmssSSS` in the table's time zone; compared as a string."""

Position = NewType("Position", str)
"""Where readers of changes go on, compared as a string: the completion time of a commit, or its
instant in tables of version 6, which record no completion times.  An instant is not a position."""

COMMIT_TIME: Final = "_hoodie_commit_time"
COMMIT_SEQNO: Final = "_hoodie_commit_seqno"
RECORD_KEY: Final = "_hoodie_record_key"
PARTITION_PATH: Final = "_hoodie_partition_path"
FILE_NAME: Final = "_hoodie_file_name"
META_COLUMNS: Final = (COMMIT_TIME, COMMIT_SEQNO, RECORD_KEY, PARTITION_PATH, FILE_NAME)
META_FIELDS: Final = tuple(pa.field(name, pa.string()) for name in META_COLUMNS)

OPERATION: Final = "_hoodie_operation"
IS_DELETED: Final = "_hoodie_is_deleted"
"""Name of a boolean user column; true marks a row of a batch as a delete."""

DEFAULT_PARTITION: Final = "__HIVE_DEFAULT_PARTITION__"

BEFORE_ALL_INSTANTS: Final = InstantTime("00000000000000")
BEFORE_ALL_COMMITS: Final = Position(BEFORE_ALL_INSTANTS)


def is_before_all(time: InstantTime) -> bool:
    """Whether an instant is not a moment but a number: it created a part of a metadata table."""
    return time.startswith(BEFORE_ALL_INSTANTS)


@dataclass(frozen=True, slots=True, order=True)
class FileGroupId:
    """A file group: its partition path (empty for non-partitioned tables) and file id."""

    partition: str
    file_id: str


@dataclass(frozen=True, slots=True)
class RecordLocation:
    """The location of a key according to the record index."""

    partition: str
    file_id: str
    instant: InstantTime


def with_meta(schema: pa.Schema) -> pa.Schema:
    """`schema` with the five meta columns in front (existing ones are not repeated)."""
    return pa.schema([*META_FIELDS, *without_meta(schema)])


def without_meta(schema: pa.Schema) -> pa.Schema:
    """`schema` without the meta columns."""
    return pa.schema([field for field in schema if field.name not in META_COLUMNS])
