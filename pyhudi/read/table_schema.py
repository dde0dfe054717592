"""The columns of a table at an instant.

The schema is that of the newest commit that records one (commits of table services do not count:
they repeat what they read); else `hoodie.table.create.schema`; else that of the footer of a base
file.  Meta columns come first, unless the table has none.  Source: table_format 3.4.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

import pyarrow as pa

from pyhudi.errors import CorruptFileError
from pyhudi.filenames import SCHEMA_FOLDER, SCHEMA_SUFFIX, schema_file_time
from pyhudi.formats.avro_schema import avro_to_arrow, without_meta_fields
from pyhudi.formats.base_file import footer
from pyhudi.formats.column_history import LATEST_SCHEMA
from pyhudi.formats.logical_types import with_logical_types
from pyhudi.formats.schema_conform import normal_schema
from pyhudi.records import META_COLUMNS, InstantTime, with_meta
from pyhudi.storage.filesystem import FileSystem
from pyhudi.table.file_group_view import FileSlice
from pyhudi.table.properties import TableConfig
from pyhudi.timeline.archive import Archive, commits_newest_first
from pyhudi.timeline.commit_metadata import CommitMetadata
from pyhudi.timeline.instant_files import TimelineLog
from pyhudi.timeline.timeline import Timeline

SERVICE_OPERATIONS: Final = frozenset({"CLUSTER", "COMPACT", "INDEX", "LOG_COMPACT"})
_UNSTATED_MAX: Final = 20
"""So many commits without a schema are read before the files of internal schemas are listed."""


def stated_schema(
    log: TimelineLog,
    timeline: Timeline,
    archive: Archive,
    config: TableConfig,
    *,
    limit: InstantTime | None = None,
    later: frozenset[InstantTime] = frozenset(),
) -> pa.Schema | None:
    """User columns as the newest commit at or before `limit` records them; None if none does.

    later: archived commits that do not count.  Vectors are lists.  Raises what
    `with_logical_types` raises, for example for a BLOB column.
    """
    text = schema_text(log, timeline, archive, config, limit=limit, later=later)
    if text is None:
        return None
    return with_logical_types(user_columns(avro_to_arrow(text)), text)


def schema_text(
    log: TimelineLog,
    timeline: Timeline,
    archive: Archive,
    config: TableConfig,
    *,
    limit: InstantTime | None = None,
    later: frozenset[InstantTime] = frozenset(),
) -> str | None:
    """The Avro JSON that `stated_schema` reads, without meta fields; None if there is none."""
    commits = _shown(log, timeline, archive, limit, later)
    text = next((commit.schema for commit in commits if commit.schema), config.create_schema)
    return None if text is None else without_meta_fields(text)


def latest_schema(
    fs: FileSystem,
    log: TimelineLog,
    timeline: Timeline,
    archive: Archive,
    *,
    limit: InstantTime | None = None,
    later: frozenset[InstantTime] = frozenset(),
) -> str | None:
    """The internal schema of the commit that `schema_text` takes; None unless it has one.

    Cost: that of `schema_text`, but after some commits without a schema a listing tells whether any
    commit has an internal one.
    """
    for number, commit in enumerate(_shown(log, timeline, archive, limit, later)):
        if commit.schema:
            return commit.extra.get(LATEST_SCHEMA)
        if number == _UNSTATED_MAX and not _history_files(fs):
            break
    return None


def _history_files(fs: FileSystem) -> dict[str, InstantTime]:
    """The instant of each stored history."""
    names = [name for name in fs.names(SCHEMA_FOLDER) if name.endswith(SCHEMA_SUFFIX)]
    return {name: time for name in names if (time := schema_file_time(name)) is not None}


def stored_history(fs: FileSystem, is_complete: Callable[[InstantTime], bool]) -> str:
    """All internal schemas of a table, as the newest of the complete instants has stored them.

    Raises CorruptFileError if there are none.  Cost: a listing and a small read.
    """
    complete = {time: name for name, time in _history_files(fs).items() if is_complete(time)}
    if not complete:
        raise CorruptFileError(
            "the history of the table's columns is missing",
            path=SCHEMA_FOLDER,
            hint="files may have other names of columns, which only this history states",
        )
    newest = complete[max(complete)]
    return fs.read(f"{SCHEMA_FOLDER}/{newest}").decode("utf-8", "replace")


def footer_schema(fs: FileSystem, slices: Iterable[FileSlice]) -> pa.Schema:
    """User columns of the first base file; no columns if there is none."""
    base = next((s.base for s in slices if s.base is not None), None)
    if base is None:
        return pa.schema([])
    source = base.source
    found = footer(fs, base.path) if source is None else footer(source.fs, source.path)
    return with_logical_types(user_columns(found.schema), found.avro_schema or "")


def user_columns(schema: pa.Schema) -> pa.Schema:
    """The columns without meta columns, with normalized list fields, each nullable.

    Nullable, because files older than a column lack it.
    """
    found = normal_schema(schema.remove_metadata())
    return pa.schema(
        [field.with_nullable(True) for field in found if field.name not in META_COLUMNS]
    )


def full_schema(columns: pa.Schema, config: TableConfig) -> pa.Schema:
    """`columns`, after the meta columns if the table has them.

    Partition columns that the table's configuration drops from files are included as text.
    """
    if config.drops_partition_columns:
        absent = [name for name in config.partition_fields if name not in columns.names]
        columns = pa.schema([*columns, *(pa.field(name, pa.string()) for name in absent)])
    return with_meta(columns) if config.has_meta_columns else columns


def _shown(
    log: TimelineLog,
    timeline: Timeline,
    archive: Archive,
    limit: InstantTime | None,
    later: frozenset[InstantTime],
) -> Iterator[CommitMetadata]:
    """The commits of writes at or before `limit`, newest first."""
    shown = timeline if limit is None else timeline.up_to(limit)
    for time, metadata in commits_newest_first(log, shown, archive):
        is_shown = (limit is None or time <= limit) and (time in shown.times or time not in later)
        if is_shown and metadata.operation not in SERVICE_OPERATIONS:
            yield metadata
