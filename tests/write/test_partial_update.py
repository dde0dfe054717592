"""Upserts of some columns (`hoodie.write.partial.update.schema`): logged as partial updates."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import hypothesis.strategies as st
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from pyhudi.api.table import Table
from pyhudi.engine import LocalEngine
from pyhudi.errors import OptionError, SchemaError, UnsupportedTableError, UserError
from pyhudi.formats.log_block import data_batches
from pyhudi.formats.log_file import read_blocks
from pyhudi.merge.merge_cache import OUTCOMES
from pyhudi.operations.create import create
from pyhudi.options import IndexKind, parse_options
from pyhudi.records import META_COLUMNS
from pyhudi.storage.memory import MemoryFileSystem
from pyhudi.table.properties import TableType
from pyhudi.write.partial_update import PartialUpdate
from pyhudi.write.table_creation import NewTable
from tests.support.examples import examples
from tests.support.inside import state_of
from tests.write.test_secondary_index import check_exact

SCHEMA = pa.schema(
    [("id", pa.string()), ("part", pa.string()), ("ts", pa.int64()), ("a", pa.string()),
     ("b", pa.int64()), ("tags", pa.list_(pa.field("element", pa.string())))]
)  # fmt: skip
OPTION = "hoodie.write.partial.update.schema"
AVRO = {"ts": "long", "a": "string", "b": "long", "id": "string",
        "tags": {"type": "array", "items": ["null", "string"]}}  # fmt: skip


def avro(*columns: str) -> str:
    fields = [{"name": c, "type": ["null", AVRO.get(c, "string")]} for c in columns]
    return json.dumps({"type": "record", "name": "some", "fields": fields})


def made(
    *,
    version: int = 9,
    index: IndexKind = IndexKind.BLOOM,
    ordering: tuple[str, ...] = ("ts",),
    kind: TableType = TableType.MERGE_ON_READ,
    **more: str,
) -> Table:
    fs = MemoryFileSystem()
    options = parse_options({"hoodie.write.table.version": str(version), **more})
    create(fs, NewTable(SCHEMA, "t", kind, ("id",), ("part",), ordering, options, index))
    return Table(fs, options=options, engine=LocalEngine(1))


def setting(table: Table, *columns: str, text: str | None = None) -> Table:
    """The table, opened to set some columns."""
    given = parse_options({OPTION: avro(*columns) if text is None else text})
    options = replace(
        table._options,
        write=replace(table._options.write, partial_schema=given.write.partial_schema),
    )
    return Table(state_of(table).fs, options=options, engine=LocalEngine(1))


def whole(ids: Any, ts: int = 1) -> pa.Table:
    found = [
        {"id": f"k{i}", "part": f"p{i % 2}", "ts": ts, "a": f"a{i}", "b": i, "tags": ["t"]}
        for i in ids
    ]
    return pa.Table.from_pylist(found, SCHEMA)


def some(ids: Any, **values: Any) -> pa.Table:
    found = [{"id": f"k{i}", "part": f"p{i % 2}", **values} for i in ids]
    fields = [SCHEMA.field("id"), SCHEMA.field("part"), *(SCHEMA.field(name) for name in values)]
    return pa.Table.from_pylist(found, pa.schema(fields))


def seen(table: Table) -> dict[str, dict[str, Any]]:
    OUTCOMES.clear()
    rows = table.scan(["id", "ts", "a", "b", "tags"]).to_arrow().to_pylist()
    assert len({row["id"] for row in rows}) == len(rows)
    return {row.pop("id"): row for row in rows}


def partial_columns(table: Table) -> list[list[str]]:
    """The columns of each log block of a partial update, oldest first."""
    state = state_of(table)
    found = []
    for slice_ in state.view().latest_slices():
        for log in slice_.logs:
            file = state.fs.open(log.path)
            for block in read_blocks(file, path=log.path):
                if block.is_partial:
                    names = data_batches(block, file, path=log.path).column_names
                    assert [f["name"] for f in json.loads(block.schema or "")["fields"]] == names
                    found.append(names)
    return found


@pytest.mark.parametrize("version", [8, 9])
@pytest.mark.parametrize("index", [*(k for k in IndexKind if k in (
    IndexKind.RECORD, IndexKind.BLOOM, IndexKind.SIMPLE, IndexKind.BUCKET))])  # fmt: skip
@pytest.mark.parametrize("log_format", ["parquet", "avro"])
def test_other_columns_keep_their_values(version: int, index: IndexKind, log_format: str) -> None:
    table = made(version=version, index=index, **{"hoodie.logfile.data.block.format": log_format})
    table.bulk_insert(whole(range(6)))
    report = setting(table, "b", "ts").upsert(some([1, 4], ts=2, b=None))
    assert (report.updated, report.inserted) == (2, 0)
    setting(table, "ts", "a", "tags").upsert(some([4, 5], ts=3, a="new", tags=["x", None]))
    want = seen(made_with(range(6)))
    want["k1"] |= {"ts": 2, "b": None}
    want["k4"] |= {"ts": 3, "b": None, "a": "new", "tags": ["x", None]}
    want["k5"] |= {"ts": 3, "a": "new", "tags": ["x", None]}
    assert seen(table) == want
    assert sorted(partial_columns(table)) == sorted(
        2 * [[*META_COLUMNS, "ts", "b"]] + 2 * [[*META_COLUMNS, "ts", "a", "tags"]]
    )
    table.upsert(whole([1], ts=5))
    want["k1"] = {"ts": 5, "a": "a1", "b": 1, "tags": ["t"]}
    assert seen(table) == want
    assert len(table.schema) == len(SCHEMA) + len(META_COLUMNS)
    table.compact()
    assert seen(table) == want


def made_with(ids: Any) -> Table:
    table = made()
    table.bulk_insert(whole(ids))
    return table


UPDATES = st.lists(
    st.tuples(
        st.lists(st.integers(0, 5), min_size=1, max_size=4, unique=True),
        st.sampled_from([("a",), ("b",), ("a", "b"), ("tags", "b"), (), None]),
    ),
    min_size=1,
    max_size=5,
)


@examples(
    8, 25, updates=UPDATES, by_time=st.booleans(),
    index=st.sampled_from([IndexKind.BLOOM, IndexKind.RECORD]),
)  # fmt: skip
def test_a_history_of_partial_and_whole_updates_equals_a_model(
    updates: list[tuple[list[int], tuple[str, ...] | None]], by_time: bool, index: IndexKind
) -> None:
    table = made(ordering=("ts",) if by_time else (), index=index)
    table.bulk_insert(whole(range(5)))
    want = seen(table)
    for number, (ids, columns) in enumerate(updates, start=2):
        new: dict[str, Any] = {"ts": number, "a": f"new{number}", "b": None, "tags": ["n"]}
        if columns is None:
            table.delete(keys=[f"k{i}" for i in ids])
            want = {key: row for key, row in want.items() if key not in {f"k{i}" for i in ids}}
            continue
        if not columns:
            table.upsert(whole(ids, number))
            for i in ids:
                want[f"k{i}"] = {"ts": number, "a": f"a{i}", "b": i, "tags": ["t"]}
            continue
        ids = [i for i in ids if f"k{i}" in want]
        if not ids:
            continue
        values = {name: new[name] for name in ("ts", *columns)}
        setting(table, *values).upsert(some(ids, **values))
        for i in ids:
            want[f"k{i}"] |= values
    assert seen(table) == want
    if any(columns for _, columns in updates):
        table.compact()
    assert seen(table) == want


@pytest.mark.parametrize("index", [IndexKind.RECORD, IndexKind.SIMPLE, IndexKind.BUCKET])
def test_rows_without_a_stored_record_are_refused(index: IndexKind) -> None:
    table = made(index=index)
    table.bulk_insert(whole(range(4)))
    table.delete(keys=["k2"])
    before = seen(table), len(table.timeline.commits)
    for ids in ([7], [1, 7], [2]):
        with pytest.raises(UserError, match="a record that is not stored"):
            setting(table, "ts", "b").upsert(some(ids, ts=2, b=1))
    assert (seen(table), len(table.timeline.commits)) == before


def test_a_record_cannot_move_by_a_partial_update() -> None:
    more = {"hoodie.record.index.update.partition.path": "true"}
    table = made(index=IndexKind.RECORD, **more)
    table.bulk_insert(whole(range(4)))
    moved = some([1], ts=2, b=1).set_column(1, "part", pa.array(["p0"]))
    with pytest.raises(UserError, match="not stored in the partition"):
        setting(table, "ts", "b").upsert(moved)


def test_requests_that_cannot_be_partial_updates_are_refused() -> None:
    table = made_with(range(3))
    rows = some([1], ts=2, b=1)
    with pytest.raises(SchemaError, match="a: string"):
        setting(table, "ts", "a").upsert(rows)
    with pytest.raises(OptionError, match="ordering columns"):
        setting(table, "b").upsert(rows)
    for text in ("no json", '"string"', '{"type":"record","name":"r","fields":[]}', avro("zz"),
                 avro("ts", "b").replace('"long"', '"string"')):  # fmt: skip
        with pytest.raises(OptionError, match="partial update"):
            setting(table, text=text).upsert(rows)
    with pytest.raises(UserError, match="only an upsert"):
        setting(table, "ts", "b").insert(rows)
    deleted = rows.append_column("_hoodie_is_deleted", pa.array([True]))
    with pytest.raises(OptionError, match="mark"):
        setting(table, "ts", "b").upsert(deleted)
    assert setting(table, "ts", "b").delete(keys=["k0"]).deleted == 1
    setting(table, text="").upsert(whole([9], 4))
    assert sorted(seen(table)) == ["k1", "k2", "k9"]


def test_partial_updates_need_logs_of_version_8() -> None:
    for table in (made(version=6), made(kind=TableType.COPY_ON_WRITE)):
        table.bulk_insert(whole(range(3)))
        with pytest.raises(UnsupportedTableError, match="version 8 or newer"):
            setting(table, "ts", "b").upsert(some([1], ts=2, b=1))


def test_tables_that_fill_values_by_payload_class_refuse_partial_updates() -> None:
    payload = {"hoodie.datasource.write.payload.class": "PartialUpdateAvroPayload"}
    table = made(version=8, **payload)
    table.bulk_insert(whole(range(3)))
    with pytest.raises(UnsupportedTableError, match="payload class"):
        setting(table, "ts", "b").upsert(some([1], ts=2, b=1))


def test_columns_added_after_a_partial_update_are_null_in_its_rows() -> None:
    table = made_with(range(4))
    setting(table, "ts", "b").upsert(some([1, 2], ts=2, b=20))
    added = whole([3], 5).append_column("more", pa.array([7]))
    table.upsert(added, schema_mode="add")
    rows = {row["id"]: row for row in table.scan(["id", "b", "more"]).to_arrow().to_pylist()}
    assert rows["k1"] == {"id": "k1", "b": 20, "more": None}
    assert rows["k3"] == {"id": "k3", "b": 3, "more": 7}
    more = pa.table({"id": ["k1"], "part": ["p1"], "ts": [9], "more": [8]})
    schema = json.loads(avro("ts"))
    schema["fields"].append({"name": "more", "type": ["null", "long"]})
    setting(table, text=json.dumps(schema)).upsert(more)
    rows = {row["id"]: row for row in table.scan(["id", "b", "more"]).to_arrow().to_pylist()}
    assert rows["k1"] == {"id": "k1", "b": 20, "more": 8}


def test_a_column_whose_type_another_column_defines_needs_that_column() -> None:
    place = {"type": "record", "name": "place", "fields": [{"name": "x", "type": "long"}]}
    fields = [{"name": "a", "type": ["null", place]}, {"name": "b", "type": ["null", "place"]}]
    text = json.dumps({"type": "record", "name": "t", "fields": fields})
    both = PartialUpdate(("a", "b"), frozenset()).log_schema(text)
    assert [f["name"] for f in json.loads(both)["fields"]] == [*META_COLUMNS, "a", "b"]
    with pytest.raises(UnsupportedTableError, match="define their types"):
        PartialUpdate(("b",), frozenset()).log_schema(text)


def test_a_secondary_index_follows_partial_updates() -> None:
    table = made(index=IndexKind.RECORD)
    table.bulk_insert(whole(range(8)))
    table.index.create("secondary", "a")
    setting(table, "ts", "b").upsert(some([1, 2], ts=2, b=7))
    check_exact(table)
    setting(table, "ts", "a").upsert(some([2, 5], ts=3, a="same"))
    check_exact(table)
    assert table.scan(["id"], where=pc.field("a") == "same").count() == 2
    table.compact()
    check_exact(table)
