"""Look-ups through the table's index, whatever its kind, beside another one where that is asked.

The record index answers unless the table's index is outside the table.  With a tee both are
asked: the answer is the first one's, and how many keys the other has elsewhere is told in the
answer's schema (MISMATCHES) and on the log.
"""

from __future__ import annotations

import logging
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.engine import Engine
from pyhudi.index.external_index import live_groups
from pyhudi.index.selection import choose_index
from pyhudi.metadata.elastic.store import is_elastic
from pyhudi.options import IndexKind, Options
from pyhudi.read.table_snapshot import TableState
from pyhudi.services.indexing.external_indexes import open_for_reading, told_mismatches
from pyhudi.storage.spill import MemoryStaged

MISMATCHES: Final = b"pyhudi.index.mismatches"
"""In the metadata of an answer's schema: keys that the index beside has elsewhere, as text."""

_LOG: Final = logging.getLogger("pyhudi")


def lookup(state: TableState, options: Options, keys: Any, engine: Engine) -> pa.Table:
    """Where each key lives: [record_key, partition_path, file_id, instant_time, found], one row a
    key in the order asked.

    Raises IndexNotReadyError where the table's index keeps no entries and it has no record index
    either, or where its index is not up with the table.
    """
    kind = index_that_answers(state, options)
    answer = _ask(state, options, kind, keys, engine)
    tee = options.write.tee
    if tee is None or tee is kind or not tee.keeps_entries:
        return answer
    count = differences(answer, _ask(state, options, tee, keys, engine))
    if count:
        _LOG.warning(told_mismatches(tee.value, count))
    facts = {**(answer.schema.metadata or {}), MISMATCHES: str(count).encode()}
    return answer.replace_schema_metadata(facts)


def index_that_answers(state: TableState, options: Options) -> IndexKind:
    """The kind whose entries are looked up."""
    choice = choose_index(state.config, options.write)
    if choice is not None and choice.kind.is_store:
        return choice.kind
    return IndexKind.ELASTIC if is_elastic(state.config) else IndexKind.RECORD


def differences(one: pa.Table, other: pa.Table) -> int:
    """Keys that two answers to the same question place differently."""
    same = np.ones(one.num_rows, np.bool_)
    for name in ("found", "partition_path", "file_id"):
        pair = (_column(one, name), _column(other, name))
        equal = pc.equal(*(column.fill_null("") for column in pair))
        same &= np.asarray(equal.to_numpy(), np.bool_)
    return int((~same).sum())


def _column(table: pa.Table, name: str) -> Any:
    return table.column(name).cast(pa.string())


def _ask(
    state: TableState, options: Options, kind: IndexKind, keys: Any, engine: Engine
) -> pa.Table:
    if kind.is_record_index:
        return state.record_index.lookup(keys, engine=engine)
    store = open_for_reading(state, kind, options.write.index_rules, engine)
    column = keys if isinstance(keys, pa.Array | pa.ChunkedArray) else pa.array(keys, pa.string())
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    groups = [slice_.group for slice_ in state.view().latest_slices()]
    return store.lookup(column.cast(pa.string()), MemoryStaged(live_groups(groups)), engine)
