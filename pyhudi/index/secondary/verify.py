"""Verification of secondary indexes against the rows of the newest snapshot.

A point query by the column misses a row whose entry is missing; a superfluous entry costs a look-up
only, since the rows that it leads to are filtered again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.types as pt

from pyhudi.engine import Engine
from pyhudi.index.secondary.build import staged_entries
from pyhudi.index.secondary.changes import IndexShape, StagedChanges
from pyhudi.metadata.secondary_index.changes import changes_between, combined
from pyhudi.metadata.secondary_index.definition import SecondaryIndex
from pyhudi.metadata.secondary_index.key_format import HashedPart
from pyhudi.metadata.secondary_index.lookup import live_keys, slices_of
from pyhudi.read.table_snapshot import TableState
from pyhudi.storage.spill import Staging

_EXAMPLES = 5


@dataclass(slots=True)
class WrongEntries:
    """How many entries are wrong in one way, and the keys of some."""

    count: int = 0
    examples: list[str] = field(default_factory=list)

    def add(self, keys: pa.Array) -> None:
        self.count += len(keys)
        self.examples += keys.slice(0, _EXAMPLES - len(self.examples)).to_pylist()


@dataclass(frozen=True, slots=True)
class SecondaryFaults:
    """The entries of an index that contradict the rows.

    entries: that the rows have.
    """

    index: SecondaryIndex
    entries: int
    missing: WrongEntries
    superfluous: WrongEntries


def has_one_text(index: SecondaryIndex, schema: pa.Schema) -> bool:
    """Whether all writers store the values of the index's column as the same text.

    Indexes of version V1 may come from Apache Hudi 1.0, which writes dates and timestamps
    differently; such an index cannot be verified by its keys.
    """
    if index.part is HashedPart.VALUE:
        return True
    kind = schema.field(index.column).type
    return not (pt.is_date(kind) or pt.is_timestamp(kind))


def secondary_faults(
    state: TableState, index: SecondaryIndex, engine: Engine, staging: Staging
) -> SecondaryFaults:
    """Compare an index with the rows of the newest snapshot, in both directions.

    state: with its metadata table, which lists the index.  Memory: one file slice, and one file
    group of the index.  Cost: reads the key column and the column of the index.
    Raises CorruptFileError for files of the index that cannot be read.
    """
    assert state.metadata is not None
    shape = IndexShape(index, len(state.metadata.slices(index.partition)))
    expected = staged_entries(state, shape, engine, staging)
    missing, superfluous, entries = WrongEntries(), WrongEntries(), 0
    for number, stored in enumerate(_stored(state, index)):
        rows = _expected(expected, number)
        entries += len(rows)
        differences = changes_between(stored, rows)
        missing.add(differences.added)
        superfluous.add(differences.ended)
    return SecondaryFaults(index, entries, missing, superfluous)


def _stored(state: TableState, index: SecondaryIndex) -> Iterator[pa.Array]:
    """The keys of the live entries of each file group of the index."""
    metadata = state.metadata
    assert metadata is not None
    for group in slices_of(metadata, index):
        yield live_keys(metadata.log.fs, group, [""]).cast(pa.string())


def _expected(entries: StagedChanges, number: int) -> pa.Array:
    return combined(entries.of(0, number)).added
