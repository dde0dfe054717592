"""Use of secondary indexes by a filter: which apply, and why others cannot be used.

A secondary index leads to record keys, and the record index to their file groups.  Both describe
the newest snapshot, and the record index one location per key, so both are used only where no key
can have several rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.errors import CorruptFileError
from pyhudi.metadata.partition_creation import PartitionCreations
from pyhudi.metadata.reader import MetadataTable
from pyhudi.metadata.record_index.by_partition import is_partitioned_record_index
from pyhudi.metadata.secondary_index.definition import (
    SecondaryIndex,
    secondary_indexes,
)
from pyhudi.metadata.secondary_index.key_format import is_indexable
from pyhudi.metadata.secondary_index.lookup import record_keys_of
from pyhudi.read.predicate import Node
from pyhudi.read.skipping.filter_values import required_values
from pyhudi.read.skipping.key_uniqueness import is_foreign_upsert, keys_are_unique
from pyhudi.read.table_snapshot import TableState

VALUES_MAX: Final = 1 << 12
"""More values than this are in so many file groups that a look-up saves nothing."""


@dataclass(frozen=True, slots=True)
class SecondaryLookup:
    """An index and the values to which the filter limits its column."""

    index: SecondaryIndex
    values: pa.Array

    def record_keys(self, metadata: MetadataTable) -> pa.Array:
        """The record keys that the index has for the values."""
        return record_keys_of(metadata, self.index, self.values)


@dataclass(frozen=True, slots=True)
class SecondaryUse:
    """The look-ups that a filter can use, or the reason why it can use none of its indexes."""

    lookups: tuple[SecondaryLookup, ...] = ()
    refused: str | None = None

    @property
    def notes(self) -> tuple[str, ...]:
        """The reason as a note of a plan."""
        return () if self.refused is None else (f"not used: {self.refused}",)


def secondary_use(
    state: TableState, node: Node, schema: pa.Schema, *, is_newest: bool
) -> SecondaryUse:
    """The secondary indexes for a filter on a table of this schema.

    is_newest: whether the newest snapshot is read.  Reads the definitions, if there are any
    secondary indexes, and the commits that prove that keys are unique.
    """
    try:
        found = tuple(_lookups(state, node, schema))
    except CorruptFileError as broken:
        return SecondaryUse(refused=f"the index definitions cannot be read: {broken}")
    if not found:
        return SecondaryUse()
    names = ", ".join(lookup.index.name for lookup in found)
    reason = _refused(state, found, is_newest)
    return SecondaryUse(found) if reason is None else SecondaryUse((), f"{names}: {reason}")


def _lookups(state: TableState, node: Node, schema: pa.Schema) -> Iterator[SecondaryLookup]:
    for index in secondary_indexes(state.fs, state.config):
        if index.column not in schema.names:
            continue
        kind = schema.field(index.column).type
        if not is_indexable(kind):
            continue
        values = required_values(node, [index.column], kind, may_be_null=True)
        if values is not None:
            yield SecondaryLookup(index, pc.unique(values))


def _refused(
    state: TableState, lookups: tuple[SecondaryLookup, ...], is_newest: bool
) -> str | None:
    """Why the indexes cannot be used; None if they can."""
    if not is_newest:
        return "it describes the newest snapshot only"
    if state.metadata is None:
        return "the metadata table is not read"
    if not state.metadata.has_record_index:
        return "the table has no record index"
    if is_partitioned_record_index(state.fs, state.config):
        return "the record index is partitioned"
    if min(len(lookup.values) for lookup in lookups) > VALUES_MAX:
        return f"the filter has more than {VALUES_MAX} values"
    if not keys_are_unique(state):
        return "the commits do not prove that each record key has one row"
    if _may_lack_entries(state, state.metadata, lookups):
        return (
            "Apache Hudi has upserted since it was created, and may have written the entries of "
            "another secondary index only"
        )
    return None


def _may_lack_entries(
    state: TableState, metadata: MetadataTable, lookups: tuple[SecondaryLookup, ...]
) -> bool:
    """Whether an upsert by another program may have left out entries of these indexes.

    Apache Hudi 1.2.0 writes the entries of one secondary index only when it upserts into a
    merge-on-read table that has several.  Reads the commits of the active timeline.
    """
    if not state.config.is_merge_on_read or len(secondary_indexes(state.fs, state.config)) < 2:
        return False
    partitions = [lookup.index.partition for lookup in lookups]
    created = PartitionCreations.of(
        metadata.timeline,
        {each.path: [part.instant for part in metadata.slices(each)] for each in partitions},
    )
    return any(
        is_foreign_upsert(state.log.commit(instant))
        and not all(created.follows(each.path, instant.time) for each in partitions)
        for instant in state.timeline.commits
    )
