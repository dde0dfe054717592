"""Writes, services and index changes rewrite only the properties that they own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import given, settings

from pyhudi.api.table import Table
from pyhudi.engine import LocalEngine
from pyhudi.operations.create import create
from pyhudi.options import IndexKind, Options, parse_options
from pyhudi.storage.memory import MemoryFileSystem
from pyhudi.table.new_table import CREATABLE_VERSIONS
from pyhudi.table.properties import TableType, checksum, load_config, store_config
from pyhudi.write.table_creation import NewTable

SCHEMA = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("v", pa.int64())])
MORE = pa.schema([*SCHEMA, ("w", pa.string())])
OWNED = {
    "hoodie.table.metadata.partitions",
    "hoodie.table.metadata.partitions.inflight",
    "hoodie.table.index.defs.path",
    "pyhudi.index.build",  # the state of a rebuild
}
QUIET = {
    "hoodie.metadata.record.index.min.filegroup.count": "1",
    "hoodie.table.services.enabled": "false",
}
STATISTICS = {
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.metadata.index.bloom.filter.enable": "true",
}

_TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
UNKNOWN = st.dictionaries(
    st.builds("some.{}".format, _TEXT) | st.builds("hoodie.record.merge.property.{}".format, _TEXT),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=12),
    min_size=1,
    max_size=4,
)


def options_of(version: int, **more: str) -> Options:
    options = parse_options({**QUIET, **{k.replace("__", "."): v for k, v in more.items()}})
    return replace(options, table=replace(options.table, version=version))


def made(version: int, kind: TableType, unknown: dict[str, str]) -> MemoryFileSystem:
    fs = MemoryFileSystem()
    options = options_of(version)
    create(fs, NewTable(SCHEMA, "t", kind, ("id",), (), ("ts",), options, IndexKind.RECORD))
    config = load_config(fs)
    store_config(fs, config.with_properties(unknown))
    return fs


def opened(fs: MemoryFileSystem, **more: str) -> Table:
    options = parse_options({**QUIET, **{k.replace("__", "."): v for k, v in more.items()}})
    return Table(fs, options=options, engine=LocalEngine(1))


def rows(schema: pa.Schema, start: int) -> pa.Table:
    data = [{"id": f"k{n}", "ts": n, "v": n, "w": "x"} for n in range(start, start + 3)]
    return pa.Table.from_pylist(data, schema)


def write_all(fs: MemoryFileSystem) -> None:
    table = opened(fs)
    table.upsert(rows(SCHEMA, 0))
    table.upsert(rows(MORE, 1), schema_mode="widen")  # another column
    table.delete(keys=["k0"])
    opened(fs, **STATISTICS).upsert(rows(MORE, 2))
    table.compact() if table.config.is_merge_on_read else table.clean()


def unchanged(fs: MemoryFileSystem, act: Callable[[MemoryFileSystem], None]) -> None:
    before = dict(load_config(fs).properties)
    act(fs)
    after = dict(load_config(fs).properties)
    changed = {key for key in {*before, *after} if before.get(key) != after.get(key)}
    assert changed <= OWNED
    name, database = after["hoodie.table.name"], after.get("hoodie.database.name", "")
    assert after["hoodie.table.checksum"] == str(checksum(database, name))


@pytest.mark.parametrize("version", CREATABLE_VERSIONS)
@pytest.mark.parametrize("kind", TableType, ids=["cow", "mor"])
@settings(max_examples=5, deadline=None)
@given(unknown=UNKNOWN)
def test_writes_leave_every_other_property_as_it_is(
    version: int, kind: TableType, unknown: dict[str, str]
) -> None:
    unchanged(made(version, kind, unknown), write_all)


@pytest.mark.parametrize("version", CREATABLE_VERSIONS)
def test_a_rebuild_of_the_metadata_table_leaves_every_other_property_as_it_is(
    version: int,
) -> None:
    fs = made(version, TableType.COPY_ON_WRITE, {"hoodie.table.secondary.indexes.metadata": "x"})
    opened(fs).upsert(rows(SCHEMA, 0))
    unchanged(fs, lambda fs: opened(fs).index.rebuild())
