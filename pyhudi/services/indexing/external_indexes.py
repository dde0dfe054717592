"""Opening of external indexes (RocksDB, HBase) for writes and lookups."""

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
    """How indexes are opened for a write.

    bucket_count: of the record index, if the table has one.  publishes: whether the result of
    catching up is stored for later writes.  concurrent: whether other writers may write meanwhile.
    """

    rules: IndexRules
    staging: Staging
    engine: Engine
    bucket_count: int | None
    publishes: bool
    concurrent: bool = False


class StoreService(Protocol):
    """How one kind of external index is opened."""

    def open(self, state: TableState, opening: Opening) -> EntryStore:
        """The index, up to date with the table's newest commit.  Raises IndexNotReadyError or
        StorageError if that is not possible."""
        ...

    def open_for_reading(self, state: TableState, rules: IndexRules, engine: Engine) -> EntryStore:
        """The index for lookups.  Raises IndexNotReadyError if it is not up to date."""
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
    """Entries in RocksDB stores on each machine."""

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
    """`StoreService.open` of an external index."""
    return _SERVICES[kind].open(state, opening)


def open_for_reading(
    state: TableState, kind: IndexKind, rules: IndexRules, engine: Engine
) -> EntryStore:
    """`StoreService.open_for_reading` of an external index."""
    return _SERVICES[kind].open_for_reading(state, rules, engine)


def mismatch_note(name: str, count: int) -> str:
    """The report note about keys whose location differs between the shadow index and the index."""
    kind = IndexKind(name)
    if kind.traits.is_default:
        advice = "run table.index.verify() for details, table.index.repair() to repair it"
    elif kind.is_store:
        advice = f"run table.index.rebuild(kind={name!r}) to rebuild it"
    else:
        advice = "it has no stored entries: verify the index used for lookups"
    title = kind.value.replace("_", " ")
    return (
        f"the {title} index has {count} keys of this batch elsewhere than the index used for "
        f"lookups, or not at all: {advice}"
    )
