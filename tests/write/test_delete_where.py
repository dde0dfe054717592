"""Deletes by predicate and by rows: what they hit, in which partitions, on every index."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import pyhudi
from pyhudi.engine import LocalEngine
from pyhudi.errors import UserError
from pyhudi.options import parse_options
from pyhudi.write.write_report import WriteReport
from tests.support.engines import Pausing
from tests.support.inside import fs_of

SCHEMA = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("part", pa.string())])
GLOBAL = ("record", "global_bloom", "global_simple")
LOCAL = ("bloom", "simple", "bucket")


def rows(ids: range, part: str, ts: int = 1) -> pa.Table:
    return pa.Table.from_pylist([{"id": f"k{i}", "ts": ts, "part": part} for i in ids], SCHEMA)


def table_of(folder: Path, kind: str, index: str) -> pyhudi.Table:
    return pyhudi.create_table(
        folder / "t", SCHEMA, record_key="id", partition_by="part", ordering="ts",
        table_type=kind, index=index, options={"hoodie.bucket.index.num.buckets": "2"}
        if index == "bucket" else None,
    )  # fmt: skip


def stored(table: pyhudi.Table) -> set[tuple[str, str]]:
    found = table.scan(["id", "part"]).to_arrow().to_pylist()
    return {(row["id"], row["part"]) for row in found}


@pytest.mark.parametrize("kind", ["cow", "mor"])
@pytest.mark.parametrize("index", [*GLOBAL, *LOCAL])
def test_a_partition_predicate_deletes_in_that_partition_only(
    tmp_path: Path, kind: str, index: str
) -> None:
    """Indexes that are not global may know a key in several partitions."""
    table = table_of(tmp_path, kind, index)
    table.insert(rows(range(6), "a"))
    table.insert(rows(range(6, 10) if index in GLOBAL else range(3, 10), "b"))
    table.upsert(rows(range(2), "a", ts=2))
    before = stored(table)
    hit = {(k, p) for k, p in before if p == "a" and k >= "k1"}
    report = table.delete(where=(pc.field("part") == "a") & (pc.field("id") >= "k1"))
    assert (report.deleted, report.missing_keys) == (len(hit), 0)
    assert stored(table) == before - hit
    assert table.delete(where=pc.field("part") == "nowhere").instant is None
    report = table.delete(where=pc.field("ts") == 2)
    assert report.deleted == 1
    assert stored(table) == before - hit - {("k0", "a")}


@pytest.mark.parametrize("kind", ["cow", "mor"])
@pytest.mark.parametrize("index", ["record", "bloom", "bucket"])
def test_rows_name_the_records_to_delete(tmp_path: Path, kind: str, index: str) -> None:
    table = table_of(tmp_path, kind, index)
    table.insert(rows(range(6), "a"))
    table.insert(rows(range(6, 10) if index in GLOBAL else range(3, 10), "b"))
    before = stored(table)
    report = table.delete(rows(range(4, 6), "a").select(["id", "part"]))
    assert report.deleted == 2
    assert stored(table) == before - {("k4", "a"), ("k5", "a")}
    absent = table.delete(rows(range(90, 92), "a"))
    assert (absent.deleted, absent.missing_keys) == (0, 2)


def test_a_column_that_is_not_there_is_named(tmp_path: Path) -> None:
    table = table_of(tmp_path, "cow", "record")
    table.insert(rows(range(2), "a"))
    with pytest.raises(UserError, match="nope"):
        table.delete(where=pc.field("nope") == 1)
    with pytest.raises(UserError, match="exactly one of"):
        table.delete(keys=["k0"], where=pc.field("id") == "k0")


MODE = "hoodie.write.concurrency.mode"


def opened(
    kind: type[pyhudi.Table],
    table: pyhudi.Table,
    options: dict[str, str],
    engine: LocalEngine | None = None,
) -> pyhudi.Table:
    if table.config.properties.get("hoodie.index.type") == "BUCKET":
        options = {**options, "hoodie.bucket.index.num.buckets": "2"}
    return kind(fs_of(table), options=parse_options(options), engine=engine or LocalEngine(1))


class Overtaken(pyhudi.Table):
    """A table whose next write begins after another writer's."""

    def _write(self, *given: Any, **more: Any) -> WriteReport:
        pyhudi.open_table(self._fs.url).upsert(rows(range(2), "a", ts=9))
        return super()._write(*given, **more)


@pytest.mark.parametrize("kind", ["cow", "mor"])
@pytest.mark.parametrize("index", ["record", "bloom", "bucket"])
@pytest.mark.parametrize("mode", ["single_writer", "optimistic_concurrency_control"])
def test_rows_that_match_no_more_when_the_delete_begins_stay(
    tmp_path: Path, kind: str, index: str, mode: str
) -> None:
    table = table_of(tmp_path, kind, index)
    table.insert(rows(range(4), "a"))
    report = opened(Overtaken, table, {MODE: mode}).delete(where=pc.field("ts") == 1)
    assert (report.deleted, report.conflicts) == (2, 0)
    assert stored(table) == {("k0", "a"), ("k1", "a")}


@pytest.mark.parametrize("kind", ["cow", "mor"])
@pytest.mark.parametrize("index", ["record", "bloom", "bucket"])
def test_rows_that_another_writer_changes_while_they_are_deleted_stay(
    tmp_path: Path, kind: str, index: str
) -> None:
    """First committer wins: the delete looks at the rows as the other writer left them."""
    table = table_of(tmp_path, kind, index)
    table.insert(rows(range(4), "a"))
    optimistic = {MODE: "optimistic_concurrency_control"}
    newer = rows(range(2), "a", ts=9)
    engine = Pausing("write", lambda: opened(pyhudi.Table, table, optimistic).upsert(newer))
    report = opened(pyhudi.Table, table, optimistic, engine).delete(where=pc.field("ts") == 1)
    assert (report.deleted, report.conflicts) == (2, 1)
    assert stored(table) == {("k0", "a"), ("k1", "a")}


def test_a_predicate_that_matches_nothing_any_more_writes_nothing(tmp_path: Path) -> None:
    table = table_of(tmp_path, "cow", "record")
    table.insert(rows(range(2), "a"))
    report = opened(Overtaken, table, {}).delete(where=pc.field("ts") == 1)
    assert (report.deleted, report.instant) == (0, None)
    assert stored(table) == {("k0", "a"), ("k1", "a")}
