"""Creation, removal and listing of indexes of the metadata table, from the lock to the report."""

from __future__ import annotations

import pyarrow as pa

from pyhudi.engine import Engine
from pyhudi.index.index_creation import IndexCreation, IndexRequest
from pyhudi.index.index_removal import index_to_remove, remove_index
from pyhudi.metadata.definitions import read_definitions, stated_fields
from pyhudi.metadata.writer import check_version, check_writable
from pyhudi.operations.table_services import alone
from pyhudi.options import Options
from pyhudi.read.table_snapshot import TableState, load_state
from pyhudi.storage.filesystem import FileSystem
from pyhudi.transaction.begin import open_locked

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
    """Remove an index; returns its metadata partition."""
    if dry_run:
        state = load_state(fs, options.read)
        check_version(state.config)
        return index_to_remove(state, name)
    with open_locked(fs, options, engine, "drop index") as state:
        check_version(state.config)
        partition = index_to_remove(state, name)
        remove_index(state, partition)
        return partition


def listed_indexes(state: TableState) -> pa.Table:
    """The metadata partitions of the table, except the file listing, with their definitions."""
    definitions = read_definitions(state.fs, state.config)
    rows = []
    for name in sorted(state.config.metadata_partitions - {"files"}):
        fields, version = stated_fields(state.config, definitions.get(name, {}))
        rows.append({"name": name, "columns": fields, "version": version})
    return pa.Table.from_pylist(rows, _LISTED)
