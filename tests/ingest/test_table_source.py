"""Another table as a source."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pyhudi
from pyhudi.api.table import Table
from pyhudi.engine import LocalEngine
from pyhudi.errors import OptionError, SnapshotExpiredError
from pyhudi.ingest import Stream, TableSource
from pyhudi.ingest.source_registry import source_from
from pyhudi.options import parse_options
from pyhudi.records import IS_DELETED
from tests.ingest.contract import SCHEMA, UNLIMITED, SourceContract, SourceHarness, some_rows
from tests.support.golden import version_table, version_table_names


def made(path: Path, version: int = 9, **how: Any) -> Any:
    how = {"record_key": "id", "partition_by": "city", "ordering": "ts", **how}
    return pyhudi.create_table(path, SCHEMA, version=version, **how)


class TableHarness(SourceHarness):
    loses = SnapshotExpiredError

    def __init__(self, folder: Path, version: int, kind: str) -> None:
        self.table = made(folder / "origin", version, table_type=kind)

    def source(self) -> TableSource:
        return TableSource(self.table.path, start="earliest")

    def add(self, rows: pa.Table) -> None:
        self.table.insert(rows, schema_mode="widen")

    def lose(self) -> None:
        options = {
            "hoodie.cleaner.commits.retained": "1",
            "hoodie.keep.min.commits": "2",
            "hoodie.keep.max.commits": "3",
        }
        table = pyhudi.open_table(self.table.path, options=options)
        for number in range(6):
            table.upsert(some_rows(0, 20, ts=10 + number))
        table.clean()
        table.archive()


class TestTableSource(SourceContract):
    @pytest.fixture(params=[(6, "cow"), (6, "mor"), (8, "mor"), (9, "cow")])
    def harness(self, tmp_path: Path, request: pytest.FixtureRequest) -> TableHarness:
        return TableHarness(tmp_path, *request.param)


def rows_of(table: Any, *names: str) -> list[dict[str, Any]]:
    found = pyhudi.open_table(table.path).scan(list(names)).to_arrow()
    return sorted(found.to_pylist(), key=str)


@pytest.mark.parametrize(("version", "kind"), [(6, "cow"), (6, "mor"), (9, "cow"), (9, "mor")])
def test_a_derived_table_follows_inserts_updates_and_deletes(
    tmp_path: Path, version: int, kind: str
) -> None:
    origin = made(tmp_path / "origin", version, table_type=kind)
    derived = made(tmp_path / "derived", 6)
    stream = Stream(TableSource(origin, deletes=True), derived)
    origin.insert(some_rows(0, 20))
    list(stream.available())
    origin.upsert(some_rows(5, 10, ts=3))
    origin.delete(keys=["k0000", "k0007"])
    origin.upsert(some_rows(30, 2, ts=1))
    list(stream.available())
    assert rows_of(derived, "id", "ts", "city") == rows_of(origin, "id", "ts", "city")
    assert stream.run_once() is None


def test_a_deleted_row_is_reported_if_its_key_is_updated_in_another_partition(
    tmp_path: Path,
) -> None:
    origin = made(tmp_path / "origin", index="simple")
    derived = made(tmp_path / "derived", index="simple")
    stream = Stream(TableSource(origin, deletes=True), derived)
    row = {"id": "k", "ts": 1}
    rows = pa.Table.from_pylist([row | {"city": city} for city in ("a", "b")], SCHEMA)
    origin.insert(rows)
    stream.run_once()
    origin.upsert(pa.Table.from_pylist([row | {"ts": 2, "city": "b"}], SCHEMA))
    origin.delete(where="city = 'a'")
    stream.run_once()
    assert rows_of(derived, "id", "ts", "city") == [row | {"ts": 2, "city": "b"}]


def test_a_row_that_leaves_the_filter_is_reported_as_deleted(tmp_path: Path) -> None:
    origin = made(tmp_path / "origin")
    derived = made(tmp_path / "derived")
    source = TableSource(origin, columns=["id", "city", "ts"], where="v > 5", deletes=True)
    stream = Stream(source, derived)
    rows = [{"id": f"k{n}", "ts": 1, "city": "a", "v": 10} for n in range(4)]
    schema = pa.schema([*SCHEMA, pa.field("v", pa.int64())])
    origin.insert(pa.Table.from_pylist(rows, schema), schema_mode="add")
    stream.run_once()
    changed = [rows[0] | {"v": 1, "ts": 2}, rows[1] | {"v": 6, "ts": 2}, rows[2] | {"v": None}]
    origin.upsert(pa.Table.from_pylist(changed, schema))
    stream.run_once()
    assert [row["id"] for row in rows_of(derived, "id")] == ["k1", "k3"]


def test_deletes_are_included_where_the_table_logs_changes(tmp_path: Path) -> None:
    origin = made(tmp_path / "origin", options={"hoodie.table.cdc.enabled": "true"})
    origin.insert(some_rows(0, 3))
    source = TableSource(origin)
    first = source.read(None, UNLIMITED, SCHEMA)
    assert first is not None
    assert first.rows.read_all()["_hoodie_is_deleted"].to_pylist() == [False] * 3
    origin.delete(keys=["k0001"])
    second = source.read(first.checkpoint, UNLIMITED, SCHEMA)
    assert second is not None
    assert second.rows.read_all().to_pylist() == [
        {"id": "k0001", "ts": 0, "city": "c1", "_hoodie_is_deleted": True}
    ]


@pytest.mark.parametrize("version", [6, 9])
def test_the_checkpoint_is_the_time_of_the_last_commit(tmp_path: Path, version: int) -> None:
    origin = made(tmp_path / "origin", version)
    report = origin.insert(some_rows(0))
    batch = TableSource(origin).read(None, UNLIMITED, SCHEMA)
    assert batch is not None
    assert batch.checkpoint == (report.instant if version == 6 else report.completed_at)


def test_a_batch_has_at_most_the_commits_of_the_limit(tmp_path: Path) -> None:
    origin = made(tmp_path / "origin")
    for number in range(5):
        origin.insert(some_rows(number * 10))
    source, checkpoint, counts = TableSource(origin, max_commits=2, start="earliest"), None, []
    while (batch := source.read(checkpoint, UNLIMITED, SCHEMA)) is not None:
        counts.append(batch.rows.read_all().num_rows)
        checkpoint = batch.checkpoint
    assert counts == [20, 20, 10]


def test_a_stream_may_start_after_the_latest_commit(tmp_path: Path) -> None:
    origin = made(tmp_path / "origin")
    origin.insert(some_rows(0))
    source = TableSource(origin, start="latest")
    first = source.read(None, UNLIMITED, SCHEMA)
    assert first is not None and first.rows.read_all().num_rows == 0
    origin.insert(some_rows(10))
    second = source.read(first.checkpoint, UNLIMITED, SCHEMA)
    assert second is not None and second.rows.read_all().num_rows == 10


def test_columns_and_rows_of_the_table_can_be_selected(tmp_path: Path) -> None:
    origin = made(tmp_path / "origin")
    origin.insert(some_rows(0))
    source = TableSource(origin, columns=["id", "city"], where="city = 'c1'")
    batch = source.read(None, UNLIMITED, SCHEMA)
    assert batch is not None
    rows = batch.rows.read_all()
    assert rows.column_names == ["id", "city"] and set(rows["city"].to_pylist()) == {"c1"}


@pytest.mark.parametrize("wrong", [{"start": "middle"}, {"max_commits": 0}])
def test_wrong_arguments_of_a_table_source_are_refused(
    tmp_path: Path, wrong: dict[str, Any]
) -> None:
    with pytest.raises(OptionError):
        TableSource(made(tmp_path / "origin"), **wrong)


def test_a_table_source_is_made_from_the_properties_of_the_streamer(tmp_path: Path) -> None:
    origin = made(tmp_path / "origin")
    for number in range(3):
        origin.insert(some_rows(number * 10))
    strategy = "source.hoodieincr.missing.checkpoint.strategy"
    properties = {
        "source.hoodieincr.path": str(tmp_path / "origin"),
        "source.hoodieincr.num_instants": "2", strategy: "READ_UPTO_LATEST_COMMIT",
    }  # fmt: skip
    batch = source_from("table", properties).read(None, UNLIMITED, SCHEMA)
    assert batch is not None and batch.rows.read_all().num_rows == 20


TWICE = "cow_clustering_pending_v9"
"""Has four keys twice."""
WRITTEN = [name for name in version_table_names() if name.endswith("_v9") and name != TWICE]


@pytest.mark.covering(1, most=7)
@pytest.mark.parametrize("name", WRITTEN)
def test_a_derived_table_follows_a_table_of_apache_hudi(name: str, tmp_path: Path) -> None:
    """Commit by commit from the first one, or from a snapshot if commits have been archived."""
    origin = Table(version_table(name), options=parse_options({}), engine=LocalEngine(1))
    rows = origin.scan(with_meta=False).to_arrow()
    table = pyhudi.create_table(
        tmp_path / "t", rows.schema, record_key=list(origin.config.record_key_fields),
        partition_by=list(origin.config.partition_fields), version=9,
    )  # fmt: skip
    start = "snapshot" if "archived" in name else "earliest"
    batches = list(
        Stream(TableSource(origin, start=start, max_commits=1, deletes=True), table).available()
    )
    names = [each for each in rows.column_names if each != IS_DELETED]
    found, expected = (
        sorted(map(str, each.select(names).to_pylist()))
        for each in (pyhudi.open_table(table.path).scan(with_meta=False).to_arrow(), rows)
    )
    assert found == expected
    commits = [i for i in origin.timeline.commits if i.completed_at is not None]
    assert table.checkpoint() == max(i.completed_at for i in commits)
    assert len(batches) > 1 or start == "snapshot"
