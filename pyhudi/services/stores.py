"""Indexes outside the table, opened for a write or for look-ups."""

from __future__ import annotations

from dataclasses import dataclass

from pyhudi.engine import Engine
from pyhudi.errors import OptionError
from pyhudi.index.choice import INDEX_TYPE
from pyhudi.index.stores import EntryStore
from pyhudi.options import IndexKind, IndexRules
from pyhudi.read.state import TableState
from pyhudi.services import rocks
from pyhudi.write.staging import Staging


@dataclass(frozen=True)
class Opening:
    """How indexes are opened for a write.  bucket_count: of the record index, if the table has
    one; publishes: what had to be read to catch up is kept for the next one."""

    rules: IndexRules
    staging: Staging
    engine: Engine
    bucket_count: int | None
    publishes: bool


def open_store(state: TableState, kind: IndexKind, opening: Opening) -> EntryStore:
    """The index of the table, up with its newest commit.  Raises IndexNotReadyError, StorageError
    where it cannot be."""
    if kind is not IndexKind.ROCKSDB:
        raise OptionError("the index is not supported yet", option=INDEX_TYPE, value=kind.option)
    rules = opening.rules.rocksdb
    buckets = opening.bucket_count or rules.bucket_count
    how = rocks.Opening(rules, opening.staging, buckets, opening.publishes)
    return rocks.open_rocks(state, opening.engine, how)


def told_mismatches(name: str, count: int) -> str:
    """What a report says of an index beside that has keys elsewhere than the one that answered."""
    kind = IndexKind(name)
    if kind is IndexKind.RECORD:
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
