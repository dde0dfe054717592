"""A table of which one file is damaged: its rows and what its record index finds."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from typing import Any, Final

import pyarrow as pa

from pyhudi.api.table import Table
from pyhudi.engine import LocalEngine
from pyhudi.operations.create import create
from pyhudi.options import parse_options
from pyhudi.storage.memory import MemoryFileSystem, MemoryStore
from pyhudi.table.properties import TableType
from pyhudi.write.table_creation import NewTable
from tests.fuzz.regions import Regions
from tests.fuzz.target import Target

SCHEMA: Final = pa.schema([("id", pa.string()), ("n", pa.int64()), ("text", pa.string())])
OPTIONS: Final = parse_options({
    "hoodie.logfile.data.block.format": "avro",
    "hoodie.metadata.record.index.min.filegroup.count": "1",
    "hoodie.index.bloom.num_entries": "100",
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
})  # fmt: skip
KEYS: Final = [f"k{i}" for i in range(14)]
_ROOTS = itertools.count()


def _rows(numbers: range, value: int) -> pa.Table:
    found = [{"id": f"k{i}", "n": value, "text": f"text {i} {value}"} for i in numbers]
    return pa.Table.from_pylist(found, SCHEMA)


@cache
def files(version: int = 6) -> dict[str, bytes]:
    """A merge-on-read table: a base file, logs of rows and of deletes, its metadata table."""
    fs = MemoryFileSystem(MemoryStore(), "t")
    options = replace(OPTIONS, table=replace(OPTIONS.table, version=version))
    definition = NewTable(SCHEMA, "t", TableType.MERGE_ON_READ, ("id",), (), ("n",), options)
    create(fs, definition)
    table = Table(fs, options=OPTIONS, engine=LocalEngine(1))
    table.bulk_insert(_rows(range(10), 1))
    table.upsert(_rows(range(4, 12), 2))
    table.delete(keys=["k0", "k5"])
    return {name.removeprefix("t/"): bytes(data) for name, data in fs.store.files.items()}


def targets_of(
    version: int, kinds: Mapping[str, tuple[Callable[[str], bool], Regions]]
) -> list[Target]:
    """A file of a table each; the table is read.  kinds: which files, and their regions."""
    prefix = "table" if version == 6 else f"table {version}"
    found = []
    for kind, (test, regions_of) in kinds.items():
        paths = sorted(name for name, data in files(version).items() if data and test(name))
        for number, path in enumerate(paths):
            name = f"{prefix}: {kind} {number + 1}"
            data = files(version)[path]
            found.append(Target(name, (data,), reader(path, version), regions_of))
    return found


def reader(path: str, version: int = 6) -> Callable[[bytes], Any]:
    """What the table gives with other bytes in a file of it."""

    def read(data: bytes) -> Any:
        root, store = f"t{next(_ROOTS)}", MemoryStore()
        for name, good in files(version).items():
            store.files[f"{root}/{name}"] = data if name == path else good
        table = Table(MemoryFileSystem(store, root), options=OPTIONS, engine=LocalEngine(1))
        rows = table.scan(SCHEMA.names).to_arrow().sort_by("id")
        found = table.lookup(KEYS).select(["found", "partition_path", "file_id"])
        return rows.schema, rows.to_pylist(), found.to_pylist()

    return read
