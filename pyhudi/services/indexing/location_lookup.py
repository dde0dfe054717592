"""Lookups through the table's index of any kind, optionally compared with a shadow index.

Lookups use the record index unless the table's index is external.  With a shadow index both are
queried: the result is that of the table's index, and the number of keys that the shadow index has
elsewhere is reported in the result's schema (MISMATCHES) and in the log.
"""

from __future__ import annotations

import logging
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.engine import Engine
from pyhudi.index.external_index import live_groups
from pyhudi.index.selection import choose_index, listed_record_index
from pyhudi.metadata.elastic.store import is_elastic
from pyhudi.metadata.record_index.by_partition import check_global
from pyhudi.observe.events import observed
from pyhudi.options import IndexKind, Options
from pyhudi.read.table_snapshot import TableState
from pyhudi.services.indexing.external_indexes import mismatch_note, open_for_reading
from pyhudi.storage.spill import MemoryStaged

MISMATCHES: Final = b"pyhudi.index.mismatches"
"""Schema metadata key of a result: the number of keys the shadow index has elsewhere, as text."""

_LOG: Final = logging.getLogger("pyhudi")


def lookup(state: TableState, options: Options, keys: Any, engine: Engine) -> pa.Table:
    """The location of each key: [record_key, partition_path, file_id, instant_time, found], one row
    per key in the order of `keys`; with a record index by partition, a row for each partition that
    has the key.

    Raises IndexNotReadyError if the table's index stores no entries and there is no record index
    either, or if its index is not up to date with the table.
    """
    kind = index_that_answers(state, options)
    with observed("lookup", operation=kind.value, table=state.fs.url) as event:
        answer = _query(state, options, kind, keys, engine)
        event["rows"] = answer.num_rows
    shadow = options.write.shadow
    if shadow is None or shadow is kind or not shadow.stores_entries:
        return answer
    check_global(state.fs, state.config)  # a key has one location in other indexes
    count = differences(answer, _query(state, options, shadow, keys, engine))
    if count:
        _LOG.warning(mismatch_note(shadow.value, count))
    facts = {**(answer.schema.metadata or {}), MISMATCHES: str(count).encode()}
    return answer.replace_schema_metadata(facts)


def index_that_answers(state: TableState, options: Options) -> IndexKind:
    """The kind of index that lookups use."""
    choice = choose_index(state.fs, state.config, options.write)
    if choice is not None and choice.kind.is_store:
        return choice.kind
    if is_elastic(state.config):
        return IndexKind.ELASTIC
    return listed_record_index(state.fs, state.config) or IndexKind.RECORD


def differences(one: pa.Table, other: pa.Table) -> int:
    """The number of keys whose location differs in two results of the same lookup."""
    same = np.ones(one.num_rows, np.bool_)
    for name in ("found", "partition_path", "file_id"):
        pair = (_column(one, name), _column(other, name))
        equal = pc.equal(*(column.fill_null("") for column in pair))
        same &= np.asarray(equal.to_numpy(), np.bool_)
    return int((~same).sum())


def _column(table: pa.Table, name: str) -> Any:
    return table.column(name).cast(pa.string())


def _query(
    state: TableState, options: Options, kind: IndexKind, keys: Any, engine: Engine
) -> pa.Table:
    if kind.is_record_index:
        return state.locations.lookup(keys, engine=engine)
    store = open_for_reading(state, kind, options.write.index_rules, engine)
    column = keys if isinstance(keys, pa.Array | pa.ChunkedArray) else pa.array(keys, pa.string())
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    groups = [slice_.group for slice_ in state.view().latest_slices()]
    return store.lookup(column.cast(pa.string()), MemoryStaged(live_groups(groups)), engine)
