"""Batches whose columns differ from the table's: what changes the table, what is refused.

What is refused is refused before anything is written, with every difference in one message.
"""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

import pyhudi
from pyhudi.errors import OptionError, SchemaError, UserError
from pyhudi.options import SchemaMode
from pyhudi.records import META_COLUMNS
from pyhudi.storage.local import LocalFileSystem
from pyhudi.table.log import timeline_log
from pyhudi.table.properties import store_config
from pyhudi.write.input.schema_check import FittedSchema, SchemaRules, fit_schema

INNER = pa.struct([("x", pa.int32()), ("y", pa.string())])
TABLE = pa.schema(
    [
        ("id", pa.int32()),
        ("n", pa.int32()),
        ("s", INNER),
        ("l", pa.list_(pa.field("element", INNER))),
        ("m", pa.map_(pa.string(), INNER)),
    ]
)
WIDE = pa.struct([("x", pa.int64()), ("y", pa.string())])
MORE = pa.struct([("x", pa.int32()), ("y", pa.string()), ("z", pa.float64())])


def changed(**columns: pa.DataType | None) -> pa.Schema:
    """The table's schema with some columns of another type, some new, some gone (None)."""
    fields = [pa.field(f.name, columns.pop(f.name, f.type)) for f in TABLE if
              columns.get(f.name, f) is not None]  # fmt: skip
    return pa.schema([*fields, *(pa.field(n, t) for n, t in columns.items() if t is not None)])


def fitted(batch: pa.Schema, mode: str = "widen", **rules: object) -> FittedSchema:
    return fit_schema(batch, TABLE, SchemaRules(SchemaMode(mode), **rules))


def refused(batch: pa.Schema, mode: str = "widen", **rules: object) -> list[str]:
    with pytest.raises(SchemaError, match="does not fit") as caught:
        fitted(batch, mode, **rules)
    return [line.strip() for line in str(caught.value).split("\n")[1:-1]]


def nested(inner: pa.StructType) -> pa.Schema:
    return changed(s=inner, l=pa.list_(pa.field("element", inner)), m=pa.map_(pa.string(), inner))


@pytest.mark.parametrize("mode", ["strict", "add", "widen"])
def test_the_tables_own_columns_fit_in_any_order(mode: str) -> None:
    found = fitted(pa.schema(list(reversed(TABLE))), mode)
    assert found == FittedSchema(TABLE) and not found.has_changed


def test_new_columns_come_last_at_every_level() -> None:
    found = fitted(changed(new=pa.date32()), "add")
    assert found.table == pa.schema([*TABLE, ("new", pa.date32())]) and found.added == ("new",)
    deep = fitted(nested(MORE), "add")
    assert deep.added == ("s.z", "l.element.z", "m.value.z")
    assert deep.table == nested(MORE)


def test_types_of_columns_widen() -> None:
    found = fitted(changed(n=pa.int64()))
    assert found.table.field("n").type == pa.int64() and found.widened == ("n",)


def test_nested_types_stay() -> None:
    lines = refused(nested(WIDE))
    assert [line.split(":")[0] for line in lines] == ["~ s.x", "~ l.element.x", "~ m.value.x"]


def test_narrower_values_take_the_tables_type() -> None:
    table = pa.schema([("n", pa.int64()), ("d", pa.decimal128(10, 2))])
    batch = pa.schema([("n", pa.int8()), ("d", pa.decimal128(5, 1))])
    assert fit_schema(batch, table, SchemaRules(SchemaMode.STRICT)).table == table


def test_modes_refuse_what_they_do_not_allow() -> None:
    assert refused(changed(new=pa.date32()), "strict") == ["+ new: date32[day] (not in the table)"]
    for mode in ("strict", "add"):
        (line,) = refused(changed(n=pa.int64()), mode)
        assert line == "~ n: the table has int32, the batch int64 (a wider type)"


def test_the_message_names_near_columns_and_the_cures() -> None:
    with pytest.raises(SchemaError) as caught:
        fitted(changed(mm=pa.date32(), m=None), "strict")
    text = str(caught.value)
    assert "+ mm: date32[day] (not in the table)" in text
    assert 'schema_mode="widen" adds the new columns' in text
    assert "table.merge(rows).when_matched_update() leaves these as stored" in text
    assert "hoodie.write.set.null.for.missing.columns=true writes nulls" in text
    with pytest.raises(SchemaError, match="; add the columns of keys, partitions and record order"):
        fitted(changed(id=None), "strict", fixed=frozenset({"id"}))
    with pytest.raises(SchemaError, match="; cast the columns; nothing was written"):
        fitted(changed(n=pa.bool_()))


def test_calls_change_no_columns_unless_requested(tmp_path: Path) -> None:
    rows = pa.table({"id": ["a"], "amount": pa.array([1], pa.int32())})
    table = pyhudi.create_table(tmp_path / "t", rows, record_key="id")
    table.insert(rows)
    stray = rows.append_column("ammount", rows["amount"])
    wide = rows.set_column(1, "amount", pa.array([1 << 40], pa.int64()))
    for write in (table.upsert, table.insert, table.bulk_insert, table.insert_overwrite):
        with pytest.raises(SchemaError, match=r"ammount: int32 \(not in .* did you mean amount\?"):
            write(stray)
        with pytest.raises(SchemaError, match='the wider type by schema_mode="widen"'):
            write(wide)
    with pytest.raises(SchemaError, match="did you mean amount"):
        pyhudi.upsert(tmp_path / "t", stray)
    assert table.schema.names[5:] == ["id", "amount"]
    table.upsert(wide, schema_mode="widen")
    assert table.upsert(stray, schema_mode="widen").added_columns == ("ammount",)


def test_the_cures_for_missing_columns_work(tmp_path: Path) -> None:
    rows = pa.table({"id": ["a"], "n": [1], "m": [1]})
    table = pyhudi.create_table(tmp_path / "t", rows, record_key="id")
    table.insert(rows)
    some = pa.table({"id": ["a"], "n": [2]})
    table.merge(some).when_matched_update().execute()
    assert table.fetch("a", ["n", "m"]).to_pylist() == [{"n": 2, "m": 1}]
    fills = {"hoodie.write.set.null.for.missing.columns": "true"}
    pyhudi.open_table(tmp_path / "t", options=fills).upsert(some)
    assert table.fetch("a", ["n", "m"]).to_pylist() == [{"n": 2, "m": None}]


def test_every_difference_stands_in_the_message() -> None:
    batch = changed(n=pa.bool_(), m=None, S=pa.int32(), s=pa.struct([("x", pa.bool_())]))
    assert refused(batch) == [
        "~ n: the table has int32, the batch bool",
        "~ s.x: the table has int32, the batch bool",
        "- s.y: string (missing in the batch)",
        f"- m: {TABLE.field('m').type} (missing in the batch)",
        "+ S: differs from s only in case",
    ]


def test_a_new_column_needs_a_type() -> None:
    assert refused(changed(new=pa.null())) == ["+ new: null (new, without a type)"]


def test_missing_columns_are_filled_where_requested() -> None:
    batch = changed(m=None, n=None, s=pa.struct([("y", pa.string())]))
    assert fitted(batch, fills_missing=True).table == TABLE


def test_columns_that_find_and_order_records_keep_their_type() -> None:
    (line,) = refused(changed(id=pa.int64()), fixed=frozenset({"id"}))
    assert "its type is fixed" in line


def test_the_mark_of_deletes_may_be_missing() -> None:
    table = pa.schema([("id", pa.int32()), ("_hoodie_is_deleted", pa.bool_())])
    assert fit_schema(pa.schema([("id", pa.int32())]), table).table == table


@pytest.fixture
def table(tmp_path: Path) -> pyhudi.Table:
    made = pyhudi.create_table(tmp_path / "t", TABLE, record_key="id")
    made.upsert(pa.table([[1], [1], [{"x": 1, "y": "a"}], [[]], [[]]], schema=TABLE))
    return made


def user_rows(table: pyhudi.Table) -> list[dict[str, object]]:
    rows = table.scan().to_arrow().sort_by("id")
    return rows.drop_columns(list(META_COLUMNS)).to_pylist()


def test_a_refused_batch_leaves_the_table_as_it_was(table) -> None:
    before = len(table.timeline.instants)
    batch = pa.table({"id": [2], "n": ["x"], "new": [1]})
    for verb in (table.upsert, table.insert, table.bulk_insert, table.insert_overwrite):
        with pytest.raises(SchemaError, match="does not fit"):
            verb(batch)
    assert len(table.timeline.instants) == before


def test_old_files_are_read_with_nulls_and_casts(table) -> None:
    schema = nested(MORE)
    schema = schema.set(1, pa.field("n", pa.int64())).append(pa.field("new", pa.string()))
    inner = {"x": 2, "y": "b", "z": 0.5}
    row = {"id": 2, "n": 2**40, "s": inner, "l": [inner], "m": [("k", inner)], "new": "n"}
    report = table.insert(pa.Table.from_pylist([row], schema), schema_mode="widen")
    assert "new" in report.added_columns
    old, new = user_rows(table)
    assert old["s"] == {"x": 1, "y": "a", "z": None} and old["new"] is None
    assert new == row
    assert old["n"] == 1 and table.schema.field("n").type == pa.int64()


def test_the_verbs_take_a_schema_mode(table) -> None:
    batch = table.scan(TABLE.names).to_arrow().append_column("new", pa.array(["x"]))
    for strict in ({}, {"schema_mode": "strict"}):
        with pytest.raises(SchemaError, match="strict"):
            table.upsert(batch, **strict)
    with pytest.raises(UserError, match="widen"):
        table.upsert(batch, schema_mode="loose")
    assert table.upsert(batch, schema_mode="add").added_columns == ("new",)


@pytest.mark.parametrize(
    "option",
    ["hoodie.write.set.null.for.missing.columns", "hoodie.datasource.write.reconcile.schema"],
)
def test_options_fill_missing_columns(table, tmp_path, option: str) -> None:
    opened = pyhudi.open_table(tmp_path / "t", options={option: "true"})
    opened.upsert(pa.table({"id": pa.array([3], pa.int32()), "n": pa.array([3], pa.int32())}))
    assert user_rows(opened)[-1] == {"id": 3, "n": 3, "s": None, "l": None, "m": None}


def test_dropping_columns_is_refused_by_name(tmp_path) -> None:
    name = "hoodie.datasource.write.schema.allow.auto.evolution.column.drop"
    with pytest.raises(OptionError, match="not dropped"):
        pyhudi.create_table(tmp_path, TABLE, record_key="id", options={name: "true"})


def test_types_stay_while_logs_hold_the_older_one(tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.int32()), ("n", pa.int32())])
    made = pyhudi.create_table(tmp_path / "mor", schema, record_key="id", table_type="mor")
    made.upsert(pa.table([[1, 2], [1, 2]], schema=schema))
    made.upsert(pa.table([[1], [5]], schema=schema))  # a log
    before = len(made.timeline.instants)
    wide = pa.table([pa.array([2], pa.int32()), pa.array([2**40])], names=["id", "n"])
    with pytest.raises(SchemaError, match="compact the table first"):
        made.upsert(wide, schema_mode="widen")
    assert len(made.timeline.instants) == before
    more = wide.set_column(1, "n", pa.array([3], pa.int32())).append_column("x", pa.array(["x"]))
    assert "x" in made.upsert(more, schema_mode="widen").added_columns


def test_the_schema_of_another_program_stays_as_it_wrote_it(tmp_path: Path) -> None:
    """Docs and names that Arrow does not have; a changed schema is stated in our words."""
    schema = pa.schema([("id", pa.string()), ("n", pa.int64())])
    table = pyhudi.create_table(tmp_path, schema, record_key="id")
    config = table.config
    stated = json.loads(config.create_schema or "")
    stated |= {"name": "Trip", "doc": "a trip"}
    stated["fields"][1]["doc"] = "how many"
    fs = LocalFileSystem(str(tmp_path))
    store_config(fs, config.with_properties({"hoodie.table.create.schema": json.dumps(stated)}))
    for n in (1, 2):
        pyhudi.open_table(tmp_path).upsert(pa.table({"id": ["a"], "n": [n]}, schema))
        log = timeline_log(fs, config)
        newest = log.commit(log.load().commits.instants[-1])
        assert json.loads(newest.extra["schema"]) == stated
