"""ALTER TABLE RENAME COLUMN and DROP COLUMN: older files are read by the ids of columns."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pyhudi
import pyhudi.polars
from tests.sql.test_alter import KINDS, VERSIONS, names, rows, table_in

INDEXED = {
    "hoodie.metadata.index.column.stats.enable": "true",
}


def lake_of(folder: Path, *, version: int = 9, kind: str = "cow", more: str = "") -> Any:
    lake = pyhudi.connect(folder, options=INDEXED)
    lake.sql(
        "create table t (id bigint, a int comment 'in cash', b int, s struct<x: int>, ts bigint, "
        "city string) partitioned by (city) tblproperties (primaryKey = 'id', "
        f"preCombineField = 'ts', type = '{kind}', hoodie.table.version = {version}{more})"
    )
    lake.sql(
        "insert into t values (1, 10, 100, struct(1 as x), 1, 'sf'), (2, 20, 200, null, 1, 'sf'), "
        "(3, 30, 300, null, 1, 'la')"
    )
    return lake


def found(table: pyhudi.Table, where: str) -> list[int]:
    ids: list[int] = sorted(table.scan(["id"], where=where).to_arrow().column("id").to_pylist())
    return ids


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("version", VERSIONS)
def test_rows_of_older_files_keep_their_values_through_writes_and_services(
    version: int, kind: str, tmp_path: Path
) -> None:
    lake = lake_of(tmp_path, version=version, kind=kind)
    report = lake.sql("alter table t rename column A to aa")
    assert report.operation == "alter_schema" and report.files == 0
    notes = " ".join(report.notes)
    assert "former columns until table.sync()" in notes and "find nulls" in notes
    lake.sql("alter table t drop column b")
    assert names(tmp_path) == ["id", "aa", "s", "ts", "city"]
    lake.sql("update t set aa = 21 where id = 2")
    lake.sql("alter table t add columns (b string)")
    lake.sql("update t set b = 'new' where id = 1")
    lake.sql("insert into t (id, aa, ts, city) values (4, 40, 1, 'ny')")
    want = [(1, 10, "new"), (2, 21, None), (3, 30, None), (4, 40, None)]
    assert rows(lake, "select id, aa, b from t order by id") == want
    if kind == "mor":
        table_in(tmp_path).compact()
        assert rows(lake, "select id, aa, b from t order by id") == want
    table_in(tmp_path).cluster()
    assert rows(lake, "select id, aa, b from t order by id") == want
    assert table_in(tmp_path).doctor().findings == ()
    assert rows(lake, "describe t")[1] == ("aa", "int", "in cash")


@pytest.mark.parametrize("kind", KINDS)
def test_a_name_that_passed_to_another_column_finds_the_rows_of_that_column(
    kind: str, tmp_path: Path
) -> None:
    lake = lake_of(tmp_path, kind=kind)
    lake.sql("alter table t drop column a")
    lake.sql("alter table t rename column b to a")
    lake.sql("update t set a = 10 where id = 2")
    table = table_in(tmp_path)
    assert [found(table, f"a = {value}") for value in (100, 200, 300, 10, 30)] == [
        [1], [], [3], [2], [],
    ]  # fmt: skip
    assert found(table, "a = 300 and city = 'la'") == [3]
    assert found(table, "a is null") == []


def test_every_reader_of_files_returns_the_renamed_values(tmp_path: Path) -> None:
    lake = lake_of(tmp_path)
    lake.sql("alter table t drop column a")
    lake.sql("alter table t rename column b to a")
    table, want = table_in(tmp_path), [100, 200, 300]
    assert sorted(table.scan(["a"]).to_arrow().column(0).to_pylist()) == want
    assert sorted(table.to_pyarrow_dataset().to_table(["a"]).column(0).to_pylist()) == want
    assert sorted(pyhudi.polars.scan(table).collect()["a"].to_list()) == want
    assert sorted(row[0] for row in rows(lake, "select a from t")) == want
    assert table.fetch([3]).column("a").to_pylist() == [300]


def test_earlier_snapshots_have_the_names_of_their_time(tmp_path: Path) -> None:
    lake = lake_of(tmp_path)
    first = table_in(tmp_path).timeline.commits.instants[-1].time
    lake.sql("alter table t rename column a to aa")
    lake.sql("update t set aa = 11 where id = 1")
    assert rows(lake, f"select a, b from t version as of '{first}' where id = 1") == [(10, 100)]
    changed = table_in(tmp_path).changes(first).to_arrow()
    assert changed.select(["id", "aa"]).to_pylist() == [{"id": 1, "aa": 11}]
    earlier = table_in(tmp_path).changes("000").to_arrow().sort_by("id")
    assert earlier.column("aa").to_pylist() == [11, 20, 30]
    before = table_in(tmp_path).changes("000", until=first).to_arrow().sort_by("id")
    assert before.column("aa").to_pylist() == [10, 20, 30]


@pytest.mark.parametrize("mode", ["data_before_after", "op_key_only"])
def test_captured_changes_of_older_commits_have_the_present_names(
    mode: str, tmp_path: Path
) -> None:
    name = "hoodie.table.cdc.supplemental.logging.mode"
    more = f", hoodie.table.cdc.enabled = true, {name} = '{mode}'"
    lake = lake_of(tmp_path, more=more)
    first = table_in(tmp_path).timeline.commits.instants[-1].time
    lake.sql("update t set a = 11 where id = 1")
    lake.sql("alter table t rename column a to aa")
    lake.sql("update t set aa = 12 where id = 1")
    captured = table_in(tmp_path).capture(first).to_pylist()
    assert [(row["before"]["aa"], row["after"]["aa"]) for row in captured] == [(10, 11), (11, 12)]


def test_rolled_back_and_restored_renames_are_undone(tmp_path: Path) -> None:
    lake = lake_of(tmp_path)
    first = table_in(tmp_path).timeline.commits.instants[-1].time
    table_in(tmp_path).savepoint(first)
    lake.sql("alter table t rename column a to aa")
    table_in(tmp_path).restore(first)
    assert rows(lake, "select id, a from t order by id") == [(1, 10), (2, 20), (3, 30)]
    lake.sql("alter table t rename column a to n")
    assert rows(lake, "select id, n from t order by id") == [(1, 10), (2, 20), (3, 30)]


def test_the_history_outlives_the_archival_of_its_commits(tmp_path: Path) -> None:
    lake = lake_of(tmp_path)
    lake.sql("alter table t rename column a to aa")
    foreign = tmp_path / "t" / ".hoodie" / ".schema" / "0.notes"
    foreign.touch()
    for value in range(6):
        lake.sql(f"update t set aa = {value} where id = 1")
    limits = {"hoodie.keep.min.commits": "2", "hoodie.keep.max.commits": "3"}
    table = pyhudi.open_table(
        tmp_path / "t", options={**limits, "hoodie.clean.commits.retained": "1"}
    )
    table.clean()
    assert table.archive().instants
    lake.sql("update t set aa = 11 where id = 1")
    assert rows(lake, "select id, aa from t order by id") == [(1, 11), (2, 20), (3, 30)]
    assert len(list((tmp_path / "t" / ".hoodie" / ".schema").glob("*.schemacommit"))) < 7
    assert foreign.exists()


REFUSED = [
    ("rename column id to i", "cannot be renamed or dropped"),
    ("drop column ts", "cannot be renamed or dropped"),
    ("drop columns (a, city)", "cannot be renamed or dropped"),
    ("rename column s.x to y", "field of a struct"),
    ("drop column nothing", "no such column"),
    ("rename column a to B", "already exists"),
    ("rename column a to _hoodie_file_name", "meta column"),
    ("rename column a to `x y`", "invalid in Avro"),
    ("change column a c int", "changes no name"),
    ("rename column a to s.y", "one name"),
]


@pytest.mark.parametrize(("change", "error"), REFUSED)
def test_refused_changes_leave_the_table_as_it_is(change: str, error: str, tmp_path: Path) -> None:
    lake = lake_of(tmp_path)
    before = (len(table_in(tmp_path).timeline), table_in(tmp_path).to_arrow())
    with pytest.raises(pyhudi.UserError, match=error):
        lake.sql(f"alter table t {change}")
    assert (len(table_in(tmp_path).timeline), table_in(tmp_path).to_arrow()) == before
    assert not list((tmp_path / "t" / ".hoodie" / ".schema").glob("*.schemacommit"))


INDEXES = [
    "using secondary_index (n)",
    "using column_stats (n) options (expr = 'from_unixtime', format = 'yyyy')",
]


@pytest.mark.parametrize("index", INDEXES)
def test_an_indexed_column_keeps_its_name(index: str, tmp_path: Path) -> None:
    lake = lake_of(tmp_path)
    lake.sql("alter table t add columns (n bigint)")
    lake.sql(f"create index i on t {index}")
    with pytest.raises(pyhudi.UnsupportedTableError, match="cannot be maintained"):
        lake.sql("alter table t rename column n to m")
    lake.sql("drop index i on t")
    lake.sql("alter table t rename column n to m")
    assert names(tmp_path)[-2:] == ["m", "city"]


def test_columns_keep_their_names_while_a_compaction_is_planned(tmp_path: Path) -> None:
    lake = lake_of(tmp_path, kind="mor")
    lake.sql("update t set a = 11 where id = 1")
    lake.sql("call run_compaction('schedule', 't')")
    with pytest.raises(pyhudi.UserError, match="while a table service is pending"):
        lake.sql("alter table t rename column a to aa")
    lake.sql("call run_compaction('run', 't')")
    lake.sql("alter table t rename column a to aa")
    assert rows(lake, "select aa from t order by id") == [(11,), (20,), (30,)]


@pytest.mark.parametrize("text", ['{"schemas": [{"version_id": "x"}]}', "[" * 100_000])
def test_a_table_without_the_history_of_its_columns_is_not_read(tmp_path: Path, text: str) -> None:
    lake = lake_of(tmp_path)
    lake.sql("alter table t rename column a to aa")
    (stored,) = (tmp_path / "t" / ".hoodie" / ".schema").glob("*.schemacommit")
    stored.write_text(text)
    with pytest.raises(pyhudi.CorruptFileError, match="history of the table's columns is unread"):
        table_in(tmp_path).to_arrow()
    stored.unlink()
    with pytest.raises(pyhudi.CorruptFileError, match="history of the table's columns is missing"):
        table_in(tmp_path).to_arrow()


class Model:
    """Rows by key, and the columns in order with their types."""

    def __init__(self) -> None:
        self.columns = {"a": "int", "b": "int"}
        self.rows: dict[int, dict[str, int | None]] = {}

    def step(self, rng: random.Random) -> str:
        match rng.randint(0, 5):
            case 0 if self.columns:
                old, new = rng.choice([*self.columns]), rng.choice("abcd")
                if new not in self.columns:
                    self.columns = {new if n == old else n: k for n, k in self.columns.items()}
                    for row in self.rows.values():
                        row[new] = row.pop(old)
                    return f"alter table t rename column {old} to {new}"
            case 1 if len(self.columns) > 1:
                name = rng.choice([*self.columns])
                del self.columns[name]
                for row in self.rows.values():
                    del row[name]
                return f"alter table t drop column {name}"
            case 2:
                free = [name for name in "abcd" if name not in self.columns]
                if free:
                    name = rng.choice(free)
                    self.columns[name] = "int"
                    for row in self.rows.values():
                        row[name] = None
                    return f"alter table t add columns ({name} int)"
            case 3:
                return "services"
        key, value = rng.randint(1, 6), rng.randint(1, 99)
        name = rng.choice([*self.columns])
        if key in self.rows:
            self.rows[key][name] = value
            return f"update t set {name} = {value} where id = {key}"
        self.rows[key] = {n: value if n == name else None for n in self.columns}
        return f"insert into t (id, {name}, city) values ({key}, {value}, 'c{key % 2}')"


SEEDS = [1, *(pytest.param(n, marks=pytest.mark.long) for n in range(2, 20))]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kind", KINDS)
def test_random_changes_of_columns_and_rows_agree_with_a_model(
    kind: str, seed: int, tmp_path: Path
) -> None:
    rng, model = random.Random(f"{kind}{seed}"), Model()
    lake = pyhudi.connect(tmp_path, options=INDEXED)
    lake.sql(
        "create table t (id bigint, a int, b int, city string) partitioned by (city) "
        f"tblproperties (primaryKey = 'id', type = '{kind}')"
    )
    for _ in range(12):
        text = model.step(rng)
        if text == "services":
            table = table_in(tmp_path)
            _ = table.compact() if kind == "mor" and rng.random() < 0.7 else table.cluster()
        else:
            lake.sql(text)
        listed = ", ".join(model.columns)
        want = [(key, *(row[n] for n in model.columns)) for key, row in sorted(model.rows.items())]
        assert rows(lake, f"select id, {listed} from t order by id") == want, text
        table, name, value = table_in(tmp_path), rng.choice([*model.columns]), rng.randint(1, 99)
        known = [row[name] for row in model.rows.values() if row[name] is not None]
        value = rng.choice(known or [value])
        ids = sorted(key for key, row in model.rows.items() if row[name] == value)
        assert found(table, f"{name} = {value}") == ids, (text, name, value)
    assert table_in(tmp_path).doctor().findings == ()


def test_a_renamed_column_gets_a_secondary_index_but_no_expression_index(tmp_path: Path) -> None:
    lake = lake_of(tmp_path)
    lake.sql("alter table t drop column a")
    lake.sql("alter table t rename column b to a")
    lake.sql("alter table t add columns (n bigint)")
    function = "column_stats (a) options (expr = 'from_unixtime', format = 'yyyy')"
    with pytest.raises(pyhudi.UnsupportedTableError, match="renamed column"):
        lake.sql(f"create index e on t using {function}")
    lake.sql("create index i on t using secondary_index (a)")
    lake.sql("update t set a = 10 where id = 2")
    table = table_in(tmp_path)
    assert [found(table, f"a = {value}") for value in (100, 200, 10)] == [[1], [], [2]]


@pytest.mark.parametrize("kind", KINDS)
def test_a_write_that_adds_a_dropped_name_again_adds_an_empty_column(
    kind: str, tmp_path: Path
) -> None:
    lake = lake_of(tmp_path, kind=kind)
    lake.sql("alter table t drop column b")
    added = pa.table({"id": [1], "a": pa.array([11], pa.int32()), "b": ["x"], "city": ["sf"]})
    added = added.append_column("s", pa.array([None], pa.struct([("x", pa.int32())])))
    table = table_in(tmp_path)
    table.upsert(added.append_column("ts", pa.array([2])), schema_mode="add")
    assert rows(lake, "select id, b from t order by id") == [(1, "x"), (2, None), (3, None)]
    table_in(tmp_path).cluster()
    assert rows(lake, "select id, b from t order by id") == [(1, "x"), (2, None), (3, None)]


def test_a_statement_planned_before_a_rename_is_refused_after_it(tmp_path: Path) -> None:
    lake = lake_of(tmp_path)
    planned = table_in(tmp_path).frozen()
    lake.sql("alter table t rename column a to aa")
    count = len(table_in(tmp_path).timeline)
    for text in (
        "update t set a = 5 where id = 1",
        "update t set b = a where id = 1",
        "delete from t where a = 10",
        "insert into t (id, a, ts, city) values (9, 9, 9, 'sf')",
        "merge into t using (select 1 as id, 5 as a, 9 as ts, 'sf' as city) s on t.id = s.id "
        "when matched and t.a = 10 then delete",
        "merge into t using (select 5 as k) s on t.a = s.k * 2 when matched then delete",
        "alter table t rename column a to z",
        "alter table t drop column a",
    ):
        with pytest.raises(pyhudi.UserError):
            pyhudi.sql(text, tables={"t": planned})
    assert len(table_in(tmp_path).timeline) == count
    assert rows(lake, "select id, aa, b from t order by id")[0] == (1, 10, 100)
