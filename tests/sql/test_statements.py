"""The table of statements, on tables of each type with and without an ordering field."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Decimal
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import pyhudi
from tests.sql.cases import BEFORE, CASES, SCHEMA, SOURCES, Case
from tests.sql.reading_cases import READ, WRONG

KINDS = {
    "cow": {"table_type": "cow"},
    "mor": {"table_type": "mor"},
    "cow_ordered": {"table_type": "cow", "ordering": "ts"},
    "mor_ordered": {"table_type": "mor", "ordering": "ts"},
    "v6_mor_ordered": {"table_type": "mor", "ordering": "ts", "version": 6},
}


def trips(folder: Path, kind: str, **more: Any) -> pyhudi.Table:
    """The target of the cases, with its rows."""
    arguments: dict[str, Any] = {"record_key": "id", "partition_by": "city", **KINDS[kind], **more}
    table = pyhudi.create_table(folder / "trips", SCHEMA, **arguments)
    columns = list(zip(*BEFORE, strict=True))
    table.upsert(
        pa.table([pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA)
    )
    return table


Rows = dict[str, list[tuple[Any, ...]]]
Original = Callable[[str], tuple[pyhudi.Table, Rows]]


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Original:
    """The target of each kind, written once, and its rows."""

    @cache
    def made(kind: str) -> tuple[pyhudi.Table, Rows]:
        table = trips(tmp_path_factory.mktemp(kind), kind)
        return table, stored(table)

    return made


def stored(table: pyhudi.Table) -> Rows:
    found: Rows = {}
    for row in table.to_arrow().to_pylist():
        found.setdefault(row["id"], []).append(tuple(row.values()))
    return found


def runs(case: Case, table: pyhudi.Table) -> Any:
    return pyhudi.sql(
        case.sql, tables={"trips": table.path, **SOURCES}, parameters=case.parameters,
        options=dict(case.options) or None,
    )  # fmt: skip


@pytest.mark.covering(1)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.sql[:90])
def test_a_statement_gives_its_rows(
    case: Case, kind: str, original: Original, tmp_path: Path
) -> None:
    if case.ordered is not None and case.ordered != ("ordering" in KINDS[kind]):
        kind = "mor_ordered" if case.ordered else "mor"
    table, before = original(kind)
    if case.error is not None:
        instants = len(table.timeline)
        with pytest.raises(pyhudi.PyhudiError) as caught:
            runs(case, table)
        assert case.error in str(caught.value)
        assert stored(table) == before
        assert len(table.timeline) == instants
        return
    table = pyhudi.open_table(shutil.copytree(table.path, tmp_path / "trips"))
    found = runs(case, table)
    if case.rows is not None:
        assert sorted(tuple(row.values()) for row in found.to_pylist()) == sorted(case.rows)
        return
    assert case.change is not None
    after = {**before, **{key: [row] for key, row in case.change.items() if row is not None}}
    for key in (key for key, row in case.change.items() if row is None):
        del after[key]
    assert stored(table) == after


def test_statements_that_read_and_statements_that_are_wrong_change_nothing(tmp_path: Path) -> None:
    table = trips(tmp_path, "mor")
    before, instants = stored(table), len(table.timeline)
    found = {text: outcome(text, table) for text, _ in [*READ, *WRONG]}
    for text, rows in READ:
        assert found[text] == sorted(rows, key=repr), text
    for text, what in WRONG:
        assert found[text] == what, text
    assert stored(table) == before and len(table.timeline) == instants


def outcome(text: str, table: pyhudi.Table) -> Any:
    """The rows of a statement, or what its error says."""
    try:
        found = runs(Case(text), table)
    except pyhudi.PyhudiError as error:
        return error.what
    return sorted((tuple(row.values()) for row in found.to_pylist()), key=repr)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("select id from trips where fare > (select min(fare) from trips)", 1),
        ("insert into trips values ('e', 1, 2, 6, 'sf')", 1),
        ("insert overwrite trips partition (city = 'la') select 'e', 1, 2, 6", 2),  # rows, path
        ("update trips set fare = 0 where id in (select id from news)", 1),
        ("delete from trips where id in (select id from news)", 1),
        ("merge into trips t using news s on t.id = s.id when matched then update set fare = 1 "
         "when not matched then insert *", 1),
        ("merge into trips t using news s on t.id = s.id and t.city = s.city "
         "when matched then update set fare = 1 when not matched then insert *", 1),
        ("merge into trips t using news s on t.n = s.n when matched then delete", 2),  # + target
    ],
)  # fmt: skip
def test_a_statement_connects_to_duckdb_once(
    text: str, count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import duckdb

    table = trips(tmp_path, "cow")
    made, connect = [], duckdb.connect

    def counted(*arguments: Any, **named: Any) -> Any:
        made.append(connect(*arguments, **named))
        return made[-1]

    monkeypatch.setattr(duckdb, "connect", counted)
    pyhudi.sql(text, tables={"trips": table.path, **SOURCES})
    assert len(made) == count
    for connection in made:
        with pytest.raises(duckdb.ConnectionException):
            connection.execute("select 1")


def test_a_number_is_no_date_and_no_time(tmp_path: Path) -> None:
    names = [
        ("id", pa.string()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us")),
        ("n", pa.int64()),
    ]
    table = pyhudi.create_table(tmp_path / "t", pa.schema(names), record_key="id")
    for values in ("1, null, 1", "null, 1, 1", "null, null, date '2026-01-01'"):
        with pytest.raises(pyhudi.UserError, match="a value does not fit the column"):
            pyhudi.sql(f"insert into t values ('a', {values})", tables={"t": table})
    pyhudi.sql(
        "insert into t values ('a', '2026-01-01', date '2026-01-01', 1)", tables={"t": table}
    )
    assert table.count() == 1


def test_numbers_are_written_as_they_are_or_not_at_all(tmp_path: Path) -> None:
    lake = pyhudi.connect(tmp_path)
    lake.sql(
        "create table sums (id bigint, d decimal(10, 2), f float) tblproperties (primaryKey = 'id')"
    )
    lake.sql("insert into sums values (1, 2, 3)")
    lake.sql("insert into sums select 2, cast(0.1 as double), cast(0.1 as double)")
    lake.sql("update sums set d = id * 1000000 where id = 2")
    lake.sql(
        "merge into sums using (select 1 as id, 5 as n) s on sums.id = s.id "
        "when matched then update set d = s.n"
    )
    for wrong in ("123456789, 0", "0, cast(1e300 as double)"):
        with pytest.raises(pyhudi.UserError, match="a value does not fit the column"):
            lake.sql(f"insert into sums select 3, {wrong}")
    rows = lake.sql("select * from sums order by id").to_pylist()
    assert [row["d"] for row in rows] == [Decimal("5.00"), Decimal("2000000.00")]
    assert [row["f"] for row in rows] == [3.0, float(np.float32(0.1))]


def test_decimals_become_the_nearest_doubles(tmp_path: Path) -> None:
    """Arrow makes 2.6750000000000003 of 2.675, and 0.29999998 of 0.3 for a float."""
    lake = pyhudi.connect(tmp_path)
    lake.sql("create table sums (id bigint, x double, f float, d decimal(10, 3)) "
             "tblproperties (primaryKey = 'id')")  # fmt: skip
    lake.sql("insert into sums values (1, 2.675, 0.3, 2.675)")
    lake.sql("insert into sums select 2, d, 0.3, d from sums")
    lake.sql("insert into sums values (3, 0, 0, 2.675), (4, 0, 0, 2.675), (5, 0, 0, 2.675)")
    lake.sql("update sums set x = d, f = d - 2.375 where id = 3")
    lake.sql("merge into sums using (select 4 as id, 2.675 as v, cast(0.3 as decimal(5, 2)) as w) s"
             " on sums.id = s.id when matched then update set x = s.v, f = s.w")  # fmt: skip
    table = pyhudi.open_table(tmp_path / "sums")
    table.update({"x": pc.field("d"), "f": "d - 2.375"}, where="id = 5")
    expected = [(2.675, float(np.float32(0.3)))] * 5
    rows = table.scan(["x", "f"]).to_arrow().to_pylist()
    assert [(row["x"], row["f"]) for row in rows] == expected


def test_doubles_become_the_decimals_nearest_to_their_texts(tmp_path: Path) -> None:
    """Arrow makes 0.299999999999999989 of 0.3, and rounds halves to even numbers."""
    lake = pyhudi.connect(tmp_path)
    lake.sql("create table sums (id bigint, x double, d decimal(10, 2), e decimal(38, 18)) "
             "tblproperties (primaryKey = 'id')")  # fmt: skip
    chance = random.Random(11)
    doubles = [0.3, 2.125, -0.005, 601454.67013, 5e-324, -0.0, 1e-19, 0.015]
    doubles += [round(chance.uniform(-1, 1) * 10.0 ** chance.randint(-6, 7), 3) for _ in range(90)]
    rows = pa.table({"id": range(len(doubles)), "x": doubles})
    table = pyhudi.open_table(tmp_path / "sums")
    pyhudi.sql("insert into sums select id, x, x, x from given",
               tables={"given": rows, "sums": table})  # fmt: skip

    def rounded(number: float, places: str) -> Decimal:
        return Decimal(repr(number)).quantize(Decimal(places), ROUND_HALF_UP)

    for _ in range(2):
        found = table.scan(["x", "d", "e"]).to_arrow().to_pylist()
        assert len(found) == len(doubles)
        for row in found:
            assert (row["d"], row["e"]) == (rounded(row["x"], "0.01"), rounded(row["x"], "1e-18"))
        table.update({"d": "x", "e": pc.field("x")})
    with pytest.raises(pyhudi.UserError, match="does not fit"):
        lake.sql("insert into sums values (-1, 0, cast('nan' as double), 0)")


@pytest.mark.parametrize(
    "value", ["321570089990602999999994.29", "'321570089990602999999994.29'", "wide", "wide + n"]
)
def test_a_decimal_beyond_the_digits_of_its_column_is_refused(tmp_path: Path, value: str) -> None:
    """Arrow wraps around beyond 128 bits: 150888387855394.57 would be stored."""
    lake = pyhudi.connect(tmp_path)
    lake.sql(
        "create table sums (id bigint, d decimal(38, 23), wide decimal(30, 2), n bigint)"
        " tblproperties (primaryKey = 'id')"
    )
    lake.sql("insert into sums values (1, 7, 321570089990602999999994.29, 7)")
    refused = pytest.raises(pyhudi.UserError, match=r"does not fit|not of the column's type")
    for text in (
        f"insert into sums select 2, {value}, 1, 1 from sums",
        f"update sums set d = {value}",
        f"merge into sums using (select 1 as id) s on sums.id = s.id"
        f" when matched then update set d = {value}",
    ):
        with refused:
            lake.sql(text)
    table = pyhudi.open_table(tmp_path / "sums")
    with refused:
        table.update({"d": value})
    with refused:
        table.update({"d": pc.field("wide")})
    assert lake.sql("select d from sums").to_pylist() == [{"d": Decimal(7)}]
    table.update({"d": "n"})
    assert lake.sql("select d from sums").to_pylist() == [{"d": Decimal(7)}]


def test_a_partition_of_another_decimal_is_not_dropped(tmp_path: Path) -> None:
    """Arrow wraps the stated number around to the one that the table has."""
    lake = pyhudi.connect(tmp_path)
    lake.sql(
        "create table sums (id bigint, d decimal(38, 23)) tblproperties (primaryKey = 'id')"
        " partitioned by (d)"
    )
    lake.sql("insert into sums values (1, 150888387855394.57611573199246997848064)")
    with pytest.raises(pyhudi.UserError, match="does not fit"):
        lake.sql("alter table sums drop partition (d = 321570089990602999999994.29)")
    assert pyhudi.open_table(tmp_path / "sums").count() == 1


@pytest.mark.parametrize("ts", [1, 9])
def test_an_ordering_field_never_decides_between_a_stored_record_and_a_row_that_on_does_not_match(
    ts: int, tmp_path: Path
) -> None:
    rows = pa.table({"id": ["a"], "n": [1], "ts": [5]})
    table = pyhudi.create_table(tmp_path / "t", rows.schema, record_key="id", ordering="ts")
    table.upsert(rows)
    tables = {"t": table, "s": pa.table({"id": ["a"], "n": [2], "ts": [ts]})}
    merge = "merge into t using s on t.id = s.id and t.n > 100 when not matched by source then "
    with pytest.raises(pyhudi.UserError):
        pyhudi.sql(f"{merge} update set n = 0 when not matched then insert *", tables=tables)
    assert table.scan(["n"]).to_arrow()["n"].to_pylist() == [1]
    pyhudi.sql(f"{merge} delete when not matched and s.n > 5 then insert *", tables=tables)
    assert table.scan().to_arrow().num_rows == 0


def test_an_update_of_no_column_changes_nothing(tmp_path: Path) -> None:
    table = trips(tmp_path, "cow")
    before, instants = stored(table), len(table.timeline)
    source = pa.table({"id": ["a"], "x": [1]})
    text = "merge into trips t using s on t.n = s.x when matched then update set *"
    pyhudi.sql(text, tables={"trips": table.path, "s": source})
    assert stored(table) == before and len(table.timeline) == instants
