"""Every merge rule: random batches into tables of both types, against a plain model.

A copy-on-write table merges when it is written, a merge-on-read one when it is read, and a merged
slice is what a compaction would write: all three give what the model says, and so do the two parts
of a slice that an engine with its own reader of base files reads.
"""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import given, settings

from pyhudi.api.option_consistency import with_merge
from pyhudi.api.table import Table
from pyhudi.engine import LocalEngine
from pyhudi.operations.create import create
from pyhudi.options import IndexKind, parse_options
from pyhudi.read.file_slice import SliceSpec, read_slice
from pyhudi.storage.memory import MemoryFileSystem
from pyhudi.table.properties import TableType
from pyhudi.write.table_creation import NewTable
from tests.support.examples import examples
from tests.support.inside import state_of
from tests.support.merge_model import RULES, SCHEMA, TOAST, VERSION_9, Model, Row, Rule
from tests.support.slice_parts import read_in_parts


def small_rows() -> st.SearchStrategy[Row]:
    time = st.integers(0, 5)
    text = st.sampled_from([None, "x", "y", "z", "gone", TOAST])
    return st.fixed_dictionaries(
        {
            "id": st.sampled_from("abcdef"),
            "ts": time,
            "lsn": st.integers(0, 2),
            "_event_lsn": time,
            "_event_seq": st.builds("{}.{}".format, st.integers(8, 11), st.integers(8, 11)),
            "_change_operation_type": st.sampled_from([None, "c", "u", "r", "u", "d", "D"]),
            "Op": st.sampled_from([None, "I", "U", "U", "D", "d"]),
            "name": text,
            "price": st.none() | st.sampled_from([1.0, 2.5]),
            "tags": st.none() | st.lists(st.none() | st.sampled_from("pq"), max_size=2),
            "addr": st.sampled_from([None, {"city": "k", "zip": None}, {"city": None, "zip": 7}]),
            "_hoodie_is_deleted": st.sampled_from([None, False, False, False, True]),
        }
    )


def made(rule: Rule, kind: TableType, log_format: str, index: IndexKind, version: int = 6) -> Table:
    fs = MemoryFileSystem()
    options = {"hoodie.metadata.record.index.min.filegroup.count": "2", **rule.table_options}
    options["hoodie.bucket.index.num.buckets"] = "2"
    options["hoodie.write.table.version"] = str(version)
    options["hoodie.logfile.data.block.format"] = log_format
    parsed = with_merge(parse_options(options), rule.function)
    create(fs, NewTable(SCHEMA, "t", kind, ("id",), (), rule.ordering, parsed, index))
    return Table(fs, options=parsed, engine=LocalEngine(1))


def rows_of(table: pa.Table) -> list[Row]:
    return sorted(table.select(SCHEMA.names).to_pylist(), key=lambda row: row["id"])


def slices_merged(table: Table) -> list[Row]:
    """Every slice merged to the rows a base file of it would hold."""
    state = state_of(table)
    view = state.view()
    schema = state.schema()
    spec = SliceSpec(schema, tuple(schema.names), state.rules, view.visibility)
    found = [read_slice(state.fs, file_slice, spec=spec) for file_slice in view.latest_slices()]
    return rows_of(pa.concat_tables(found)) if found else []


def slices_in_parts(table: Table, *, logged_first: bool) -> list[Row]:
    """Base rows that no log replaces, and the rows that the logs add."""
    found = [
        read_in_parts(task.fs, task.slice, task.spec, {}, logged_first=logged_first)
        for task in table.scan().tasks
    ]
    return rows_of(pa.concat_tables(found)) if found else []


steps = st.lists(
    st.lists(small_rows(), min_size=1, max_size=6)
    | st.lists(st.sampled_from("abcdef"), min_size=1, max_size=2),
    min_size=1,
    max_size=4,
)
"""Batches to upsert, and keys to delete."""
INDEXES = st.sampled_from([IndexKind.RECORD, IndexKind.BLOOM, IndexKind.BUCKET])
"""Those that send a deleted key elsewhere, back where its base file is, and to one place always."""


def three_ways(
    name: str, batches: list[list[Any]], log_format: str, index: IndexKind, version: int = 6
) -> None:
    """The steps into tables of both types, compared with the model."""
    rule = VERSION_9.get(name, RULES[name]) if version == 9 else RULES[name]
    model = Model(rule)
    cow = made(rule, TableType.COPY_ON_WRITE, log_format, index, version)
    mor = made(rule, TableType.MERGE_ON_READ, log_format, index, version)
    for batch in batches:
        if isinstance(batch[0], str):
            for key in batch:
                model.rows.pop(key, None)
            cow.delete(keys=batch)
            mor.delete(keys=batch)
            continue
        model.upsert(batch)
        rows = pa.Table.from_pylist(batch, SCHEMA)
        cow.upsert(rows)
        mor.upsert(rows)
    want = sorted(model.rows.values(), key=lambda row: row["id"])
    assert rows_of(cow.scan().to_arrow()) == want
    assert rows_of(mor.scan().to_arrow()) == want
    assert slices_merged(mor) == want
    assert slices_in_parts(mor, logged_first=True) == want
    assert slices_in_parts(mor, logged_first=False) == want


@pytest.mark.parametrize("name", RULES)
@examples(3, 6, batches=steps, log_format=st.sampled_from(["parquet", "avro"]), index=INDEXES)
def test_rewrite_read_and_merged_slice_equal_the_model(
    name: str, batches: list[list[Any]], log_format: str, index: IndexKind
) -> None:
    three_ways(name, batches, log_format, index)


NEWER = [
    (version, name)
    for version in (8, 9)
    for name in RULES
    if (version, name) != (9, "debezium mysql")  # it has other ordering columns
]


@pytest.mark.parametrize(("version", "name"), NEWER)
@given(batches=steps, log_format=st.sampled_from(["parquet", "avro"]), index=INDEXES)
@settings(max_examples=2, deadline=None)
def test_newer_table_versions_merge_as_the_model(
    version: int, name: str, batches: list[list[Any]], log_format: str, index: IndexKind
) -> None:
    three_ways(name, batches, log_format, index, version)


@pytest.mark.slow
@pytest.mark.parametrize(("version", "name"), [*((6, name) for name in RULES), *NEWER])
@given(batches=steps, log_format=st.sampled_from(["parquet", "avro"]), index=INDEXES)
@settings(max_examples=100, deadline=None)
def test_rewrite_read_and_merged_slice_equal_the_model_long(
    version: int, name: str, batches: list[list[Any]], log_format: str, index: IndexKind
) -> None:
    three_ways(name, batches, log_format, index, version)
