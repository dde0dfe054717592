"""Creation, removal and listing of indexes, from the lock to the report."""

from __future__ import annotations

import pyarrow as pa

from pyhudi.engine import Engine
from pyhudi.index import secondary_build
from pyhudi.index.index_creation import IndexCreation
from pyhudi.index.secondary_changes import IndexShape
from pyhudi.metadata.definitions import read_definitions
from pyhudi.metadata.writer import check_version, check_writable
from pyhudi.operations.record_index import key_spill
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
    column: str,
    name: str | None,
    *,
    dry_run: bool = False,
) -> IndexCreation:
    """Create a secondary index on a column of the newest snapshot."""
    if dry_run:
        state = load_state(fs, options.read)
        check_writable(state.config)
        index = secondary_build.new_index(state, column, name)
        count = state.record_index.shard_count
        return IndexCreation(index.name, index.column, index.part.value, count, 0, dry_run=True)
    with alone(fs, options, "create index") as state, key_spill(fs, engine) as staging:
        index = secondary_build.new_index(state, column, name)
        shape = IndexShape(index, state.record_index.shard_count)
        return secondary_build.create_secondary(state, shape, engine, staging)


def drop_index(fs: FileSystem, options: Options, name: str, *, dry_run: bool = False) -> str:
    """Remove a secondary or expression index; returns its metadata partition."""
    if dry_run:
        state = load_state(fs, options.read)
        check_version(state.config)
        return secondary_build.index_to_remove(state, name)
    with open_locked(fs, options, "drop index") as state:
        check_version(state.config)
        full = secondary_build.index_to_remove(state, name)
        secondary_build.remove_index(state, full)
        return full


def listed_indexes(state: TableState) -> pa.Table:
    """The metadata partitions of the table, except the file listing, with their definitions."""
    definitions = read_definitions(state.fs, state.config)
    rows = []
    for name in sorted(state.config.metadata_partitions - {"files"}):
        definition = definitions.get(name, {})
        version = definition.get("version") or "V1"
        rows.append(
            {"name": name, "columns": definition.get("sourceFields") or [], "version": version}
        )
    return pa.Table.from_pylist(rows, _LISTED)
