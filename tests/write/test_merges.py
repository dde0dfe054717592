"""`table.merge(rows)` with clauses writes what a model in Python says, in one commit."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import pyhudi
from pyhudi.errors import UserError
from pyhudi.options import IndexKind
from pyhudi.write.merge_clauses import Clause, ClauseKind, compiled, stored_columns

SCHEMA = pa.schema(
    {
        "id": pa.string(),
        "city": pa.string(),
        "fare": pa.float64(),
        "n": pa.int32(),
        "ts": pa.int64(),
    }
)
SOURCE = pa.schema(
    {
        "id": pa.string(),
        "city": pa.string(),
        "fare": pa.float64(),
        "ts": pa.int64(),
        "op": pa.string(),
    }
)


def row(key: int, ts: int = 1, fare: float | None = 1.0) -> dict[str, Any]:
    return {"id": f"k{key}", "city": f"c{key % 3}", "fare": fare, "n": key, "ts": ts}


def change(key: int, op: str, ts: int = 2, fare: float | None = 9.0) -> dict[str, Any]:
    found = row(key, ts, fare) | {"op": op}
    return {name: found[name] for name in SOURCE.names}


def made(path: Path, count: int = 30, **how: Any) -> Any:
    how = {"partition_by": "city", "ordering": "ts"} | how
    table = pyhudi.create_table(path, SCHEMA, record_key="id", **how)
    table.upsert(pa.Table.from_pylist([row(key) for key in range(count)], SCHEMA))
    return table


def stored(table: Any) -> dict[str, dict[str, Any]]:
    rows = table.to_arrow()
    assert rows.schema.names == SCHEMA.names
    found = {r["id"]: r for r in rows.to_pylist()}
    assert len(found) == rows.num_rows
    return found


def source(*rows: dict[str, Any]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), SOURCE)


def cdc(table: Any, rows: Any) -> Any:
    return (
        table.merge(rows)
        .when_matched_delete(where="op = 'D'")
        .when_matched_update({"fare": "target.fare + source.fare", "ts": "source.ts"}, "op = 'A'")
        .when_matched_update(where="op = 'U'")
        .when_not_matched_insert(where="op <> 'D'")
    )


def expected(
    before: dict[str, dict[str, Any]], changes: list[dict[str, Any]]
) -> dict[str, dict[str, Any]]:
    after = dict(before)
    for new in changes:
        key, old = new["id"], before.get(new["id"])
        plain = {name: new[name] for name in ("id", "city", "fare", "ts")}
        if old is None:
            if new["op"] != "D":
                after[key] = {**plain, "n": None}
        elif new["op"] == "D":
            del after[key]
        elif new["op"] == "A":
            after[key] = old | {"fare": old["fare"] + new["fare"], "ts": new["ts"]}
        elif new["op"] == "U":
            after[key] = old | plain
    return after


@pytest.mark.covering(1, most=4)
@pytest.mark.parametrize("table_type", ["cow", "mor"])
@pytest.mark.parametrize("version", [6, 9])
@pytest.mark.parametrize(
    "index", ["record", "bloom", "simple", "bucket", "global_simple", "global_bloom"]
)
def test_merges_equal_a_model(tmp_path: Path, table_type: str, version: int, index: str) -> None:
    options = {"hoodie.bucket.index.num.buckets": 4} if index == "bucket" else {}
    table = made(
        tmp_path / "t", table_type=table_type, version=version, index=index, options=options
    )
    choice = random.Random(f"{table_type}{version}{index}")
    for turn in range(2, 5):
        keys = choice.sample(range(60), 25)
        changes = [change(key, choice.choice("DAUX"), ts=turn, fare=float(key)) for key in keys]
        before = stored(table)
        after = expected(before, changes)
        commits = len(table.timeline.commits)
        report = cdc(table, source(*changes)).execute()
        assert len(table.timeline.commits) == commits + 1, report.notes
        assert stored(table) == after
        same = sum(key in after and before[key] != after[key] for key in before)
        new = len(after.keys() - before.keys())
        assert report.deleted == len(before.keys() - after.keys())
        assert report.inserted + report.updated == new + same
        if table_type == "cow":  # an insert on top of a logged delete counts as an update
            assert report.inserted == new
        assert any("column of the rows that the table lacks: op" in note for note in report.notes)


@pytest.mark.parametrize("kind", ["rocksdb"])
def test_merges_use_external_indexes(tmp_path: Path, kind: str) -> None:
    assert IndexKind(kind)
    table = made(tmp_path / "t", index=kind)
    before = stored(table)
    changes = [change(1, "D"), change(2, "U"), change(70, "U"), change(71, "D")]
    cdc(table, source(*changes)).execute()
    assert stored(table) == expected(before, changes)


def test_rows_without_a_clause_change_nothing(tmp_path: Path) -> None:
    table = made(tmp_path / "t")
    before, commits = stored(table), len(table.timeline.commits)
    report = table.merge(source(change(1, "X"), change(80, "X"))).when_matched_delete(
        "op = 'D'"
    ).execute()  # fmt: skip
    assert (report.updated, report.deleted, report.inserted, report.instant) == (0, 0, 0, None)
    assert stored(table) == before and len(table.timeline.commits) == commits
    report = table.merge(source()).when_matched_update().when_not_matched_insert().execute()
    assert report.instant is None and stored(table) == before


def test_a_null_condition_does_not_apply(tmp_path: Path) -> None:
    table = made(tmp_path / "t")
    rows = source(change(1, "U", fare=None), change(2, "U", fare=3.0))
    table.merge(rows).when_matched_delete("source.fare > 1").when_matched_update(
        {"n": -1}
    ).execute()
    found = stored(table)
    assert "k2" not in found and found["k1"]["n"] == -1 and found["k1"]["fare"] == 1.0


def test_expressions_and_literals_are_values(tmp_path: Path) -> None:
    table = made(tmp_path / "t")
    values = {"fare": pc.field("source", "fare") * 2, "n": 7, "ts": "target.ts + 1"}
    new = {"n": "length(id)", "fare": None}
    rows = source(change(1, "U"), change(90, "U"))
    table.merge(rows).when_matched_update(
        values, pc.field("target", "n") == 1
    ).when_not_matched_insert(set=new).execute()
    found = stored(table)
    assert found["k1"] == {"id": "k1", "city": "c1", "fare": 18.0, "n": 7, "ts": 2}
    assert found["k90"] == {"id": "k90", "city": "c0", "fare": None, "n": 3, "ts": 2}


def test_of_several_source_rows_of_a_key_the_greatest_is_used(tmp_path: Path) -> None:
    table = made(tmp_path / "t")
    rows = source(
        change(1, "D", ts=9), change(1, "U", ts=5), change(2, "D", ts=4), change(2, "U", ts=6)
    )
    report = cdc(table, rows).execute()
    found = stored(table)
    assert report.duplicates == 2 and "k1" not in found and found["k2"]["ts"] == 6
    rows = rows.drop_columns(["ts"])
    report = table.merge(rows).when_matched_delete("op = 'D'").when_matched_update(
        {"fare": "source.fare"}
    ).execute()  # fmt: skip
    assert "k2" in stored(table)


def test_a_delete_has_effect_whatever_the_ordering_value_of_the_source(tmp_path: Path) -> None:
    for kind in ("cow", "mor"):
        table = made(tmp_path / kind, table_type=kind)
        rows = source(change(1, "D", ts=0), change(2, "U", ts=0))
        report = cdc(table, rows).execute()
        found = stored(table)
        assert "k1" not in found and report.deleted == 1
        assert found["k2"]["fare"] == 1.0, "an older update loses by the table's merge rules"


def test_streams_dry_runs_and_deferred_merges(tmp_path: Path) -> None:
    table = made(tmp_path / "t")
    before = stored(table)
    rows = source(change(1, "D"), change(2, "U"), change(95, "U"))
    merge = cdc(table, rows)
    report = merge.execute(dry_run=True)
    assert report.dry_run and (report.matched, report.new) == (2, 1) and stored(table) == before
    report = merge.execute(publish=False)
    assert not report.published and stored(table) == before and report.instant is not None
    table.publish(report.instant)
    assert stored(table) == expected(before, rows.to_pylist())
    with pytest.raises(UserError, match="already executed"):
        merge.execute()
    stream = cdc(table, rows.to_reader(max_chunksize=1))
    stream.execute(dry_run=True)
    with pytest.raises(UserError, match="already executed"):
        stream.execute()
    table = made(tmp_path / "s")
    cdc(table, rows.to_reader(max_chunksize=1)).execute()
    assert stored(table) == expected(before, rows.to_pylist())


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda m: m, "the merge has no clause"),
        (lambda m: m.when_matched_delete().when_matched_update(), "can never apply.*_update"),
        (
            lambda m: m.when_not_matched_insert().when_not_matched_insert("n = 1"),
            "can never apply.*when_not_matched_insert",
        ),
        (lambda m: m.when_matched_update({"nope": 1}), "no such column.*nope"),
        (lambda m: m.when_matched_update({"id": "'x'"}), "cannot change record keys"),
        (lambda m: m.when_matched_update({"n": "source.nope"}), "lacks.*column=source.nope"),
        (lambda m: m.when_matched_update({"n": "nope"}), "unknown column.*source has id"),
        (lambda m: m.when_matched_update({"fare": "fare"}), "column of both sides"),
        (lambda m: m.when_matched_update({"n": b"x"}), "not of the column's type"),
        (lambda m: m.when_matched_delete("op ="), "not valid SQL"),
        (lambda m: m.when_not_matched_insert("target.n = 1"), "unknown column|lacks"),
        (lambda m: m.when_matched_delete(where=3), "must be SQL text or an Arrow expression"),
        (lambda m: m.when_matched_update({"n": "10000000000"}), "does not fit"),
    ],
)
def test_clauses_that_cannot_be_are_refused_and_change_nothing(
    tmp_path: Path, build: Any, message: str
) -> None:
    table = made(tmp_path / "t", count=3)
    before = list(table.timeline)
    with pytest.raises(UserError, match=message):
        build(table.merge(source(change(1, "D")))).execute()
    assert list(table.timeline) == before


def test_rows_need_the_key_and_partition_columns(tmp_path: Path) -> None:
    table = made(tmp_path / "t", count=3)
    rows = source(change(1, "D")).drop_columns(["city"])
    with pytest.raises(UserError, match=r"lack columns of the record key.*columns=city"):
        table.merge(rows).when_matched_delete().execute()
    assert repr(table.merge(rows).when_matched_delete("op = 'D'")) == (
        "TableMerge(when_matched_delete(where=\"op = 'D'\"))"
    )


def test_a_merge_is_evaluated_again_after_a_conflict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {
        "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
        "hoodie.write.num.retries.on.conflict.failures": 3,
    }
    made(tmp_path / "t", count=3)
    other = pyhudi.open_table(tmp_path / "t", options=options)
    from pyhudi.write import plan_steps

    evaluate, calls = plan_steps.rows_to_write, 0

    def racing(*given: Any) -> Any:
        nonlocal calls
        calls += 1
        found = evaluate(*given)
        if calls == 1:
            late = pa.Table.from_pylist([row(1, ts=5, fare=100.0)], SCHEMA)
            pyhudi.open_table(tmp_path / "t", options=options).upsert(late)
        return found

    monkeypatch.setattr(plan_steps, "rows_to_write", racing)
    report = (
        other.merge(source(change(1, "A", ts=6)))
        .when_matched_update({"fare": "target.fare + source.fare", "ts": "source.ts"})
        .execute()
    )
    assert calls == 2 and report.conflicts == 1
    assert stored(other)["k1"]["fare"] == 109.0


@pytest.mark.parametrize("table_type", ["cow", "mor"])
@pytest.mark.parametrize("index", ["record", "bloom", "bucket", "global_simple"])
def test_records_that_no_source_row_matches_are_updated_or_deleted(
    tmp_path: Path, table_type: str, index: str
) -> None:
    options = {"hoodie.bucket.index.num.buckets": 4} if index == "bucket" else {}
    table = made(tmp_path / "t", table_type=table_type, index=index, options=options)
    report = (
        table.merge(source(change(1, "U"), change(2, "U"), change(70, "U")))
        .when_matched_update()
        .when_not_matched_insert()
        .when_not_matched_by_source_delete("target.n >= 20")
        .when_not_matched_by_source_update({"fare": "target.fare + n"}, "n < 10")
        .execute()
    )
    found = stored(table)
    assert found.keys() == {*(f"k{n}" for n in range(20)), "k70"}
    assert report.deleted == 10
    for n in range(20):
        touched = 9.0 if n in (1, 2) else 1.0 + n if n < 10 else 1.0
        assert found[f"k{n}"]["fare"] == touched


def test_a_source_without_rows_matches_no_record(tmp_path: Path) -> None:
    table = made(tmp_path / "t", count=5)
    table.merge(source()).when_not_matched_by_source_delete("n > 2").execute()
    assert stored(table).keys() == {"k0", "k1", "k2"}


def test_clauses_for_records_without_a_source_row_see_only_the_record(tmp_path: Path) -> None:
    table = made(tmp_path / "t", count=5)
    merge = table.merge(source()).when_not_matched_by_source_delete("source.n > 2")
    with pytest.raises(UserError, match="unknown column"):
        merge.execute()


def test_condition_is_another_name_of_where(tmp_path: Path) -> None:
    table = made(tmp_path / "t", 4)
    rows = [change(1, "U"), change(2, "D"), change(9, "I")]
    merge = table.merge(pa.Table.from_pylist(rows))
    merge.when_matched_update(condition="source.op = 'U'")
    merge.when_matched_delete(condition="source.op = 'D'")
    merge.when_not_matched_insert(condition="source.op = 'U'")
    report = merge.execute()
    assert (report.updated, report.deleted, report.inserted) == (1, 1, 0)
    with pytest.raises(UserError, match="one argument"):
        table.merge(pa.Table.from_pylist(rows)).when_matched_delete("true", condition="true")


@pytest.mark.parametrize(
    ("clauses", "used"),
    [
        ([Clause(ClauseKind.UPDATE)], "n"),
        ([Clause(ClauseKind.UPDATE, "source.op = 'U'", {"fare": 0.0, "n": 1, "ts": 2})], "city"),
        ([Clause(ClauseKind.UPDATE, values={"fare": "target.fare + n"})], "city fare n ts"),
        ([Clause(ClauseKind.DELETE, "target.fare > source.fare")], "city fare ts"),
        ([Clause(ClauseKind.DELETE, pc.field("target", 3) == 5)], "id city fare n ts"),
        ([Clause(ClauseKind.INSERT, values={"fare": "fare + 1"})], ""),
        ([Clause(ClauseKind.DELETE_REST, "city = 'c1'")], "id city ts"),
    ],
)  # fmt: skip
def test_a_merge_reads_the_columns_that_its_clauses_use(
    clauses: list[Clause], used: str, tmp_path: Path
) -> None:
    config = made(tmp_path).config
    found = stored_columns(compiled(clauses, SOURCE, SCHEMA, config), SOURCE, SCHEMA)
    assert " ".join(found) == used


def test_an_update_leaves_a_key_column_that_differs_from_the_one_of_the_source(
    tmp_path: Path,
) -> None:
    keys = pyhudi.PythonKeys(
        lambda rows: rows["city"], lambda rows: pc.utf8_lower(rows["id"]), columns=("city",)
    )
    made(tmp_path / "t", count=4, partition_by=keys)
    table = pyhudi.open_table(tmp_path / "t", key_generator=keys)
    merge = table.merge(source({**change(1, "U"), "id": "K1"}))
    merge.when_matched_update({"fare": "source.fare", "ts": "source.ts"}).execute()
    assert stored(table)["k1"]["fare"] == 9.0
