"""Tables of every index kind, for the suites that all kinds pass."""

from __future__ import annotations

import atexit
import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import pyarrow as pa

from pyhudi.api.table import Table
from pyhudi.engine import Engine, LocalEngine
from pyhudi.filenames import PROPERTIES
from pyhudi.index.selection import PARTITIONED_INDEX_VERSION
from pyhudi.operations.create import create
from pyhudi.options import IndexKind, parse_options
from pyhudi.storage.filesystem import FileSystem
from pyhudi.storage.memory import MemoryFileSystem
from pyhudi.table.properties import TableType
from pyhudi.write.table_creation import NewTable

SCHEMA = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("part", pa.string())])
_NAMES = itertools.count()


def batch(ids: range | list[int], ts: int, part: str | None = None) -> pa.Table:
    """Rows with keys k000, k001, ..., in three partitions or in one."""
    rows = [{"id": f"k{i:03d}", "ts": ts, "part": part or f"p{i % 3}"} for i in ids]
    return pa.Table.from_pylist(rows, SCHEMA)


@dataclass
class Indexed:
    """Makes tables of an index kind.  options: those it takes to reach it."""

    kind: IndexKind
    options: dict[str, Any] = field(default_factory=dict)

    def table(
        self,
        table_type: TableType = TableType.COPY_ON_WRITE,
        *,
        fs: FileSystem | None = None,
        engine: Engine | None = None,
        **given: Any,
    ) -> Table:
        """A new table in memory, or the one at `fs`, opened again if there is one."""
        names = {f"hoodie.{name.replace('__', '.')}": value for name, value in given.items()}
        options = parse_options({**SMALL, **self.options, **names})
        fs = MemoryFileSystem() if fs is None else fs
        if not fs.exists(PROPERTIES):
            defined = options
            if self.kind.traits.by_partition:  # whatever version the run requests
                table = replace(options.table, version=PARTITIONED_INDEX_VERSION)
                defined = replace(options, table=table)
            definition = NewTable(
                SCHEMA, "t", table_type, ("id",), ("part",), ("ts",), defined, self.kind
            )
            create(fs, definition)
        return Table(fs, options=options, engine=engine or LocalEngine(2))


SMALL: dict[str, Any] = {
    "hoodie.metadata.record.index.min.filegroup.count": 2,
    "hoodie.bucket.index.num.buckets": 4,
    "hoodie.index.bloom.num_entries": 100,
    "pyhudi.index.rocksdb.buckets": 2,
    "pyhudi.index.elastic.bucket.entries": 4,
}


@contextmanager
def indexed(kind: IndexKind) -> Iterator[Indexed]:
    """A kind, ready for use; HBase is a stand-in."""
    if kind is not IndexKind.HBASE:
        yield Indexed(kind)
        return
    hbase, gateway = _hbase()
    name = f"index{next(_NAMES)}"
    hbase.create(name)
    yield Indexed(kind, hbase_options(gateway, name))


def hbase_options(gateway: str, name: str) -> dict[str, Any]:
    return {"pyhudi.index.hbase.gateway": gateway, "hoodie.index.hbase.table": name}


@cache
def _hbase() -> Any:
    """One stand-in for a process; its threads end with it."""
    from tests.support.fake_hbase import fake_hbase

    running = fake_hbase()
    atexit.register(lambda: running.__exit__(None, None, None))  # which also keeps it
    return running.__enter__()


def stand_in(index: Indexed) -> dict[Any, Any]:
    """The rows of the stand-in's table; a dictionary of nobody's for other kinds."""
    if index.kind is not IndexKind.HBASE:
        return {}
    hbase, _ = _hbase()
    found: dict[Any, Any] = hbase.tables[index.options["hoodie.index.hbase.table"].encode()]
    return found
