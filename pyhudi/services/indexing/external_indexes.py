"""Indexes outside the table, opened for a write or for look-ups."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from pyhudi.engine import Engine
from pyhudi.index.external_index import EntryStore
from pyhudi.options import IndexKind, IndexRules
from pyhudi.read.table_snapshot import TableState
from pyhudi.services.indexing import hbase, rocksdb
from pyhudi.storage.spill import Staging


@dataclass(frozen=True)
class Opening:
    """How indexes are opened for a write.  bucket_count: of the record index, if the table has
    one; publishes: what had to be read to catch up is kept for the next one.  concurrent: whether
    other writers write at the same time."""

    rules: IndexRules
    staging: Staging
    engine: Engine
    bucket_count: int | None
    publishes: bool
    concurrent: bool = False


class StoreService(Protocol):
    """How one kind of index outside the table is opened."""

    def open(self, state: TableState, opening: Opening) -> EntryStore:
        """Up with the table's newest commit.  Raises IndexNotReadyError, StorageError where it
        cannot be."""
        ...

    def open_for_reading(self, state: TableState, rules: IndexRules, engine: Engine) -> EntryStore:
        """For look-ups.  Raises IndexNotReadyError where it is not up with the table."""
        ...


class HBaseService:
    """Entries in an HBase table."""

    def open(self, state: TableState, opening: Opening) -> EntryStore:
        given = (state, opening.rules.hbase, opening.engine)
        if not opening.publishes:
            return hbase.opened_hbase(*given)
        return hbase.open_hbase(*given, concurrent=opening.concurrent)

    def open_for_reading(self, state: TableState, rules: IndexRules, engine: Engine) -> EntryStore:
        return hbase.opened_hbase(state, rules.hbase, engine)


class RocksDBService:
    """Entries in RocksDB stores of each machine."""

    def open(self, state: TableState, opening: Opening) -> EntryStore:
        rules = opening.rules.rocksdb
        buckets = opening.bucket_count or rules.bucket_count
        how = rocksdb.StoreOpening(rules, opening.staging, buckets, opening.publishes)
        return rocksdb.open_rocks(state, opening.engine, how)

    def open_for_reading(self, state: TableState, rules: IndexRules, engine: Engine) -> EntryStore:
        return rocksdb.opened_for_reading(state, rules.rocksdb)


_SERVICES: Final[Mapping[IndexKind, StoreService]] = {
    IndexKind.HBASE: HBaseService(),
    IndexKind.ROCKSDB: RocksDBService(),
}


def open_store(state: TableState, kind: IndexKind, opening: Opening) -> EntryStore:
    """`StoreService.open` of a kind whose entries are outside the table."""
    return _SERVICES[kind].open(state, opening)


def open_for_reading(
    state: TableState, kind: IndexKind, rules: IndexRules, engine: Engine
) -> EntryStore:
    """`StoreService.open_for_reading` of a kind whose entries are outside the table."""
    return _SERVICES[kind].open_for_reading(state, rules, engine)


def told_mismatches(name: str, count: int) -> str:
    """What a report says of an index beside that has keys elsewhere than the one that answered."""
    kind = IndexKind(name)
    if kind.traits.is_default:
        mend = "table.index.verify() tells more, table.index.repair() mends it"
    elif kind.is_store:
        mend = f"table.index.rebuild(kind={name!r}) builds it anew"
    else:
        mend = "it keeps no entries: the one asked is to be checked"
    title = kind.value.replace("_", " ")
    return (
        f"the {title} index has {count} keys of this batch elsewhere than the index that was "
        f"asked, or not at all: {mend}"
    )
