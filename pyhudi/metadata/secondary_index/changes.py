"""Changes of secondary index entries, from the entries before and after a commit.

An entry is its key, so the changes of a file group are set differences: an update that leaves the
column as it was changes nothing, another value ends one entry and adds one.  Over the file groups
of a commit an added entry wins over an ended one: the record has moved.
Source: SecondaryIndexRecordGenerationUtils of Apache Hudi 1.2.0.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

import pyarrow as pa
import pyarrow.compute as pc

from pyhudi._native.keys import KeyTable


@dataclass(frozen=True, slots=True)
class EntryChanges:
    """Keys of the entries to add and to end: distinct strings in no particular order."""

    added: pa.Array
    ended: pa.Array

    @property
    def is_empty(self) -> bool:
        return not len(self.added) and not len(self.ended)


@cache  # not a constant: the first array of a process loads pandas where it is installed
def no_changes() -> EntryChanges:
    return EntryChanges(pa.array([], pa.string()), pa.array([], pa.string()))


def changes_between(before: pa.Array, after: pa.Array) -> EntryChanges:
    """The changes of a file group.  before, after: keys of its rows' entries."""
    before, after = pc.unique(before), pc.unique(after)
    return EntryChanges(_without(after, before), _without(before, after))


def combined(changes: Iterable[EntryChanges]) -> EntryChanges:
    """The changes of a commit, from those of its file groups."""
    parts = list(changes)
    added = pc.unique(pa.concat_arrays([no_changes().added, *(part.added for part in parts)]))
    ended = pc.unique(pa.concat_arrays([no_changes().ended, *(part.ended for part in parts)]))
    return EntryChanges(added, _without(ended, added))


def _without(keys: pa.Array, others: pa.Array) -> pa.Array:
    if not len(keys) or not len(others):
        return keys
    return keys.filter(pa.array(~KeyTable(others).contains(keys)))
