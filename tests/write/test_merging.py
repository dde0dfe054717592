"""Merge rules from the API: what a table records, what is refused, functions, unchanged rows."""

from __future__ import annotations

import json
from itertools import permutations
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import pyhudi
from pyhudi import OptionError, SchemaError, UnsupportedTableError, UserError
from pyhudi.merge.merge_rules import merge_rules
from pyhudi.merge.payload_classes import PAYLOADS

SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("ts", pa.int64()),
        ("part", pa.string()),
        ("price", pa.float64()),
        ("tags", pa.list_(pa.string())),
    ]
)
KINDS = pytest.mark.parametrize("kind", ["cow", "mor"])
PAYLOAD = "hoodie.datasource.write.payload.class"
MARK = "_change_operation_type"


def rows(*given: tuple[str, int, str, float | None]) -> pa.Table:
    made = [
        {"id": i, "ts": ts, "part": part, "price": price, "tags": [i, None]}
        for i, ts, part, price in given
    ]
    return pa.Table.from_pylist(made, SCHEMA)


def create(path: Path, kind: str = "cow", **more: Any) -> pyhudi.Table:
    arguments: dict[str, Any] = {"record_key": "id", "partition_by": "part", **more}
    return pyhudi.create_table(path / "t", SCHEMA, table_type=kind, **arguments)


def prices(table: pyhudi.Table) -> dict[str, float | None]:
    found = table.scan(["id", "price"]).to_arrow().to_pylist()
    return {row["id"]: row["price"] for row in found}


def added(old: pa.RecordBatch, new: pa.RecordBatch) -> pa.RecordBatch:
    at = new.schema.get_field_index("price")
    return new.set_column(at, new.schema.field(at), pc.add(old["price"], new["price"]))


def shorter(old: pa.RecordBatch, new: pa.RecordBatch) -> pa.RecordBatch:
    return new.slice(1)


def broken(old: pa.RecordBatch, new: pa.RecordBatch) -> pa.RecordBatch:
    raise KeyError("count")


def narrower(old: pa.RecordBatch, new: pa.RecordBatch) -> pa.RecordBatch:
    return new.select(["id"])


@pytest.mark.parametrize("name", sorted(PAYLOADS))
def test_a_table_records_the_payload_class_as_apache_hudi_does(name: str, tmp_path: Path) -> None:
    schema = SCHEMA
    for column in PAYLOADS[name].ordering:
        kind = pa.string() if column == "_event_seq" else pa.int64()
        schema = schema.append(pa.field(column, kind))
    table = pyhudi.create_table(
        tmp_path / "t", schema, record_key="id", version=6,
        ordering=None if PAYLOADS[name].ordering else "ts", options={PAYLOAD: name},
    )  # fmt: skip
    properties = table.config.properties
    package = "org.apache.hudi.common.model."
    package += "debezium." if "Debezium" in name else ""
    assert properties["hoodie.compaction.payload.class"] == package + name
    ordered = PAYLOADS[name].ordering or ("ts",)
    assert table.config.ordering_fields == ordered


def test_what_cannot_be_followed_is_refused_by_name_and_nothing_is_made(tmp_path: Path) -> None:
    cases: list[tuple[type[Exception], str, dict[str, Any]]] = [
        (OptionError, "SumPayload", {"options": {PAYLOAD: "com.example.SumPayload"}}),
        (OptionError, "event-time merging requires", {"options": {MODE: "EVENT_TIME_ORDERING"}}),
        (
            OptionError,
            "requires a payload class or a merge function",
            {"options": {MODE: "CUSTOM"}},
        ),
        (OptionError, "1234", {"options": {"hoodie.record.merge.strategy.id": "1234"}}),
        (OptionError, "contradict", {"options": {MODE: "COMMIT_TIME_ORDERING", PAYLOAD: DEFAULT}}),
        (OptionError, "together", {"options": {"hoodie.payload.delete.field": "price"}}),
        (OptionError, "compares the rows itself", {"merge": added, "ordering": "ts"}),
        (OptionError, "contradict", {"merge": added, "options": {PAYLOAD: DEFAULT}}),
        (SchemaError, "_event_lsn", {"options": {PAYLOAD: "PostgresDebeziumAvroPayload"}}),
    ]
    for error, text, more in cases:
        with pytest.raises(error, match=text):
            create(tmp_path, **more)
        assert not (tmp_path / "t" / ".hoodie" / "hoodie.properties").exists()


MODE = "hoodie.record.merge.mode"
DEFAULT = "DefaultHoodieRecordPayload"


def test_merge_modes_choose_the_payload_class(tmp_path: Path) -> None:
    table = create(tmp_path, ordering="ts", options={MODE: "COMMIT_TIME_ORDERING"})
    table.upsert(rows(("a", 5, "x", 1.0)))
    table.upsert(rows(("a", 1, "x", 2.0)))
    assert prices(table) == {"a": 2.0}
    with pytest.raises(OptionError, match="conflicts with the table"):
        pyhudi.open_table(tmp_path / "t", options={MODE: "EVENT_TIME_ORDERING"})


@KINDS
def test_null_ordering_values_are_refused_with_column_and_row(kind: str, tmp_path: Path) -> None:
    table = create(tmp_path, kind, ordering=["part", "ts"], partition_by=())
    with pytest.raises(UserError, match=r"null.*column=ts, row=1"):
        table.upsert(rows(("a", 1, "x", 1.0), ("b", None, "x", 1.0)))  # type: ignore[arg-type]
    assert not table.timeline.commits


def test_an_event_sequence_of_another_form_is_refused_with_its_value(tmp_path: Path) -> None:
    schema = SCHEMA.append(pa.field("_event_seq", pa.string()))
    table = pyhudi.create_table(
        tmp_path / "t", schema, record_key="id", version=6,
        options={PAYLOAD: "MySqlDebeziumAvroPayload"},
    )  # fmt: skip
    batch = rows(("a", 1, "x", 1.0), ("b", 1, "x", 1.0))
    with pytest.raises(UserError, match=r"column=_event_seq, row=1, value=mysql-bin\.7"):
        table.upsert(batch.append_column("_event_seq", pa.array(["3.1", "mysql-bin.7"])))


@KINDS
def test_a_function_merges_and_has_to_be_given_again(kind: str, tmp_path: Path) -> None:
    table = create(tmp_path, kind, merge=added)
    table.upsert(rows(("a", 1, "x", 1.0), ("a", 2, "x", 10.0), ("b", 1, "x", 5.0)))
    table.upsert(rows(("a", 3, "x", 100.0)))
    table.upsert(rows(("a", 4, "x", 1000.0), ("c", 1, "y", 7.0)))
    assert prices(table) == {"a": 1111.0, "b": 5.0, "c": 7.0}
    assert prices(pyhudi.open_table(tmp_path / "t", merge=added)) == prices(table)
    without = pyhudi.open_table(tmp_path / "t")
    with pytest.raises(UnsupportedTableError, match="function added"):
        without.upsert(rows(("a", 5, "x", 1.0)))
    if kind == "mor":
        with pytest.raises(UnsupportedTableError, match="function added"):
            without.scan().to_arrow()
    with pytest.raises(OptionError, match="merge=shorter, table=added"):
        pyhudi.open_table(tmp_path / "t", merge=shorter)


def test_a_function_is_refused_by_a_table_without_one(tmp_path: Path) -> None:
    create(tmp_path)
    with pytest.raises(OptionError, match="omit merge="):
        pyhudi.open_table(tmp_path / "t", merge=added)


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (shorter, "one row for each"),
        (narrower, "the schema of its input"),
        (broken, "KeyError: 'count'"),
    ],
)
def test_a_function_that_gives_other_rows_fails_and_leaves_the_table(
    function: Any, text: str, tmp_path: Path
) -> None:
    table = create(tmp_path, merge=function)
    table.upsert(rows(("a", 1, "x", 1.0)))
    with pytest.raises(UserError, match=text):
        table.upsert(rows(("a", 2, "x", 2.0)))
    assert prices(table) == {"a": 1.0}
    assert len(table.timeline.commits) == 1


@KINDS
def test_unchanged_rows_are_left_out_and_their_files_stay(kind: str, tmp_path: Path) -> None:
    table = create(tmp_path, kind)
    table.upsert(rows(("a", 1, "x", 1.0), ("b", 1, "x", None), ("c", 1, "y", 3.0)))
    before = {s.partition: [f.path for f in s.files] for s in table.file_slices()}
    report = table.upsert(
        rows(("a", 1, "x", 1.0), ("b", 1, "x", None), ("c", 2, "y", 3.0), ("d", 1, "y", 4.0)),
        skip_unchanged=True,
    )
    assert (report.unchanged, report.updated, report.inserted) == (2, 1, 1)
    after = {s.partition: [f.path for f in s.files] for s in table.file_slices()}
    assert after["x"] == before["x"]
    assert prices(table) == {"a": 1.0, "b": None, "c": 3.0, "d": 4.0}
    table.delete(keys=["d"])
    report = table.upsert(rows(("a", 1, "x", 1.0)), skip_unchanged=True)
    assert (report.unchanged, report.instant, report.files) == (1, None, 0)


@KINDS
@pytest.mark.parametrize("version", [6, 8, 9])
def test_a_row_that_does_not_move_is_compared_as_readers_see_it(
    version: int, kind: str, tmp_path: Path
) -> None:
    """Readers take the partition column from the path, whatever the file stores."""
    options = {"hoodie.record.index.update.partition.path": "false"}
    table = create(tmp_path, kind, version=version, options=options)
    table.upsert(rows(("a", 1, "x", 1.0)))
    table.upsert(rows(("a", 2, "y", 2.0)))
    for partition in ("x", "y"):
        report = table.upsert(rows(("a", 2, partition, 2.0)), skip_unchanged=True)
        assert (report.unchanged, report.instant) == (1, None)
    assert table.upsert(rows(("a", 2, "y", 3.0)), skip_unchanged=True).updated == 1
    assert table.scan(["id", "part", "price"]).to_arrow().to_pylist() == [
        {"id": "a", "part": "x", "price": 3.0}
    ]


@KINDS
def test_rows_that_change_nothing_of_a_partial_update_are_left_out(
    kind: str, tmp_path: Path
) -> None:
    options = {PAYLOAD: "PartialUpdateAvroPayload"}
    table = create(tmp_path, kind, ordering="ts", options=options)
    table.upsert(rows(("a", 1, "x", 1.0), ("b", 1, "x", 2.0)))
    report = table.upsert(rows(("a", 1, "x", None), ("b", 2, "x", None)), skip_unchanged=True)
    assert (report.unchanged, report.updated) == (1, 1)
    assert prices(table) == {"a": 1.0, "b": 2.0}


def test_a_dry_run_reports_what_would_stay(tmp_path: Path) -> None:
    table = create(tmp_path)
    table.upsert(rows(("a", 1, "x", 1.0)))
    report = table.upsert(rows(("a", 1, "x", 1.0)), skip_unchanged=True, dry_run=True)
    assert (report.unchanged, report.dry_run) == (1, True)


def test_records_that_merge_do_not_move(tmp_path: Path) -> None:
    options = {
        PAYLOAD: "PartialUpdateAvroPayload",
        "hoodie.record.index.update.partition.path": "true",
    }
    table = create(tmp_path / "several", ordering="ts", options=options)
    with pytest.raises(UnsupportedTableError, match="another partition"):
        table.upsert(rows(("a", 1, "x", 1.0)))
    table = create(tmp_path / "one", ordering="ts", partition_by=(), options=options)
    for price in (1.0, None):
        table.upsert(rows(("a", 1, "x", price)))
    assert prices(table) == {"a": 1.0}


@pytest.mark.parametrize("version", [6, 8, 9])
@pytest.mark.parametrize(
    ("changes", "left"),
    [
        ([(3, "d"), (1, "c")], None),
        ([(1, "c"), (3, "d"), (2, "c"), (1, "u")], None),
        ([(3, "c"), (2, "d")], 3),
        ([(3, "c"), (3, "d")], None),
        ([(3, "d"), (3, "c")], 3),
    ],
)
def test_deletes_of_debezium_are_compared_within_a_batch(
    changes: list[tuple[int, str]], left: int | None, version: int, tmp_path: Path
) -> None:
    schema = pa.schema({"id": pa.string(), "_event_lsn": pa.int64(), MARK: pa.string()})
    payload = {PAYLOAD: "PostgresDebeziumAvroPayload"}
    table = pyhudi.create_table(tmp_path, schema, record_key="id", options=payload, version=version)
    table.upsert(
        pa.Table.from_pylist([{"id": "a", "_event_lsn": n, MARK: op} for n, op in changes], schema)
    )
    assert table.to_arrow()["_event_lsn"].to_pylist() == ([] if left is None else [left])


@pytest.mark.parametrize("version", [6, 8, 9])
@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_unavailable_values_are_those_of_earlier_changes_in_any_order_of_a_batch(
    order: tuple[int, ...], version: int, tmp_path: Path
) -> None:
    kinds = {"id": pa.string(), "_event_lsn": pa.int64(), "v": pa.string(), MARK: pa.string()}
    schema = pa.schema(kinds)
    payload = {PAYLOAD: "PostgresDebeziumAvroPayload"}
    table = pyhudi.create_table(tmp_path, schema, record_key="id", options=payload, version=version)
    unavailable = "__debezium_unavailable_value"
    table.upsert(pa.Table.from_pylist([{"id": "a", "_event_lsn": 1, "v": "stored"}], schema))
    changes = [(2, unavailable), (3, "new"), (4, unavailable)]
    rows = [{"id": "a", "_event_lsn": n, "v": v} for n, v in changes]
    table.upsert(pa.Table.from_pylist([rows[at] for at in order], schema))
    assert table.scan(["_event_lsn", "v"]).to_arrow().to_pylist() == [{"_event_lsn": 4, "v": "new"}]


@pytest.mark.parametrize("version", [6, 8, 9])
def test_a_late_delete_in_a_batch_loses_to_a_partial_update(version: int, tmp_path: Path) -> None:
    schema = pa.schema({"id": pa.string(), "ts": pa.int64(), "_hoodie_is_deleted": pa.bool_()})
    payload = {PAYLOAD: "PartialUpdateAvroPayload"}
    table = pyhudi.create_table(
        tmp_path, schema, record_key="id", ordering="ts", options=payload, version=version
    )
    table.upsert(pa.Table.from_arrays([["a", "a"], [3, 2], [False, True]], schema=schema))
    assert table.to_arrow()["ts"].to_pylist() == [3]


def test_default_values_that_would_give_way_are_refused(tmp_path: Path) -> None:
    payload = {PAYLOAD: "OverwriteNonDefaultsWithLatestAvroPayload"}
    config = create(tmp_path, ordering="ts", options=payload).config
    assert merge_rules(config).refused is None
    schema = json.loads(str(config.create_schema))
    schema["fields"][1]["default"] = 7
    changed = config.with_properties({"hoodie.table.create.schema": json.dumps(schema)})
    assert "ts" in str(merge_rules(changed).refused)
