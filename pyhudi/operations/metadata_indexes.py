"""Creation, removal and listing of indexes of the metadata table, from the lock to the report."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pyarrow as pa

from pyhudi.engine import Engine
from pyhudi.errors import UserError
from pyhudi.index.index_creation import IndexCreation, IndexRequest
from pyhudi.metadata.bootstrap import unlist
from pyhudi.metadata.definitions import read_definitions, remove_definition, stated_fields
from pyhudi.metadata.payloads import (
    COLUMN_STATS,
    EXPRESSION_PREFIX,
    FILES,
    PARTITION_STATS,
    RECORD_INDEX,
    SECONDARY_PREFIX,
    MetadataPartition,
)
from pyhudi.metadata.writer import check_version, check_writable
from pyhudi.operations.table_services import alone
from pyhudi.options import Options
from pyhudi.read.table_snapshot import TableState, load_state
from pyhudi.recovery.crashed_writers import open_locked
from pyhudi.storage.filesystem import FileSystem

_SHORT_NAMES: Final = {"record": RECORD_INDEX.path}
_PREFIXES: Final = ("", SECONDARY_PREFIX, EXPRESSION_PREFIX)
_NEEDED_BY: Final[Mapping[str, str]] = {
    COLUMN_STATS.path: PARTITION_STATS.path,
    RECORD_INDEX.path: SECONDARY_PREFIX,
}
"""Prefix of the partitions that a write computes from another one."""
_LISTED = pa.schema({"name": pa.string(), "columns": pa.list_(pa.string()), "version": pa.string()})


def create_index(
    fs: FileSystem,
    options: Options,
    engine: Engine,
    request: IndexRequest,
    *,
    dry_run: bool = False,
) -> IndexCreation:
    """Create an index of the newest snapshot."""
    if dry_run:
        state = load_state(fs, options.read)
        check_writable(state.config)
        return request.plan(state)
    with alone(fs, options, engine, "create index") as state:
        return request.build(state, engine)


def drop_index(
    fs: FileSystem, options: Options, engine: Engine, name: str, *, dry_run: bool = False
) -> str:
    """Remove an index; returns its metadata partition.

    The partition is no longer listed -> its folder is deleted -> the definition is removed.  An
    interrupted removal leaves a partition or a definition that is not in use.
    """
    if dry_run:
        state = load_state(fs, options.read)
        check_version(state.config)
        return _index_to_remove(state, name)
    with open_locked(fs, options, engine, "drop index") as state:
        check_version(state.config)
        partition = _index_to_remove(state, name)
        config = unlist(fs, state.config, MetadataPartition(partition, ""))
        remove_definition(fs, config, partition)
        return partition


def _index_to_remove(state: TableState, name: str) -> str:
    """The metadata partition of an index.

    name: with or without the prefix of its kind.  Raises UserError where the table has no such
    index, or another index needs it.
    """
    listed = sorted(state.config.metadata_partitions - {FILES.path})
    known = (_SHORT_NAMES.get(name, name), *(prefix + name for prefix in _PREFIXES))
    found = next((each for each in known if each in listed), None)
    if found is None:
        raise UserError(
            "the table has no such index", name=name, hint=f"it has {', '.join(listed) or 'none'}"
        )
    needed_by = _NEEDED_BY.get(found)
    others = [each for each in listed if needed_by and each.startswith(needed_by)]
    if others:
        raise UserError(
            "another index needs this one",
            name=found,
            needed_by=",".join(others),
            hint=f"drop {others[0]} first",
        )
    return found


def listed_indexes(state: TableState) -> pa.Table:
    """The metadata partitions of the table, except the file listing, with their definitions."""
    definitions = read_definitions(state.fs, state.config)
    rows = []
    for name in sorted(state.config.metadata_partitions - {"files"}):
        fields, version = stated_fields(state.config, definitions.get(name, {}))
        rows.append({"name": name, "columns": fields, "version": version})
    return pa.Table.from_pylist(rows, _LISTED)
