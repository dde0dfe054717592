"""Bootstrapped tables: skeleton files of meta columns, and source files of the rest."""

from __future__ import annotations

import json
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import pyhudi
from tests.support.foreign import expected_rows, foreign_table, row_counts

OPTION = "pyhudi.bootstrap.base.path"
NEWEST = "20250425132451735"
BEFORE = "20250425132451600"  # only the bootstrap had completed
BOOTSTRAPPED = "20250425132451485"  # the bootstrap, by its completion time
ORIGIN = (
    "/var/folders/s1/qnf5_r9d38d49czkd43_gb_h0000gn/T/junit14988333237673040485/bootstrap_table"
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A merge-on-read table of version 8 that Apache Hudi bootstrapped and upserted once."""
    return foreign_table("bootstrapped_v8", tmp_path)


def opened(root: Path) -> pyhudi.Table:
    return pyhudi.open_table(root, options={OPTION: str(root.parent / "source")})


def sources(root: Path) -> pa.Table:
    """The rows that the table was bootstrapped from."""
    files = sorted((root.parent / "source").rglob("*.parquet"))
    return pa.concat_tables([pq.read_table(file, partitioning=None) for file in files])


def some_source(root: Path) -> Path:
    return sorted((root.parent / "source").rglob("*.parquet"))[0]


def content(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path): path.read_bytes() for path in files if "lock" not in path.name}


def by_key(rows: pa.Table, *names: str) -> pa.Table:
    return rows.sort_by("_row_key").select(list(names) or rows.column_names)


def test_rows_are_those_that_apache_hudi_reads(root: Path) -> None:
    expected = {
        (row["recordKey"], row["orderingVal"], row["partitionPath"], row["riderValue"])
        for row in json.loads((root.parent / "expected.json").read_text())
    }
    rows = opened(root).scan().to_arrow()
    names = ["_row_key", "timestamp", "partition_path", "rider"]
    found = {
        (key, str(order), *rest)
        for key, order, *rest in zip(*(rows[n].to_pylist() for n in names), strict=True)
    }
    assert rows.num_rows == len(expected) == 100
    assert found == expected
    assert rows["_hoodie_record_key"].equals(rows["_row_key"])


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_tables_of_version_6_are_read_as_apache_hudi_reads_them(kind: str, tmp_path: Path) -> None:
    """Three of twenty rows were updated after the bootstrap: in base files, or in logs.  The source
    files lack the partition column and have two row groups, the skeleton files one."""
    table = opened(foreign_table(f"bootstrapped_{kind}_v6", tmp_path))
    rows, expected = table.scan().to_arrow(), expected_rows(tmp_path)
    assert row_counts(rows) == row_counts(expected, rows.column_names)
    assert table.config.version == 6
    first = table.timeline.commits.instants[0].time
    before = table.scan(["id", "v", "part"], as_of=first).to_arrow().sort_by("v")
    assert before["v"].to_pylist() == [float(n) for n in range(20)]
    assert before["id"].to_pylist() == [f"k{n}" for n in range(20)]
    assert before["part"].to_pylist() == ["a"] * 10 + ["b"] * 10
    changed = table.changes(first, columns=["id", "v"]).to_arrow()
    assert row_counts(changed) == row_counts(pa.table({"id": ["k1", "k7", "k12"], "v": [99.5] * 3}))
    assert table.changes("000").count() == 20
    optimized = table.scan(mode="read_optimized").to_arrow()["v"].to_pylist()
    assert optimized.count(99.5) == (3 if kind == "cow" else 0)
    assert len(optimized) == 20
    where = (pc.field("part") == "b") & (pc.field("v") > 15)
    assert table.scan(where=where).to_arrow().equals(rows.filter(where))


def test_the_bootstrap_alone_gives_the_source_rows(root: Path) -> None:
    """Read-optimized, and as of the bootstrap, every column is that of the source."""
    stored = sources(root)
    for scan in (opened(root).scan(mode="read_optimized"), opened(root).scan(as_of=BEFORE)):
        rows = scan.to_arrow()
        assert by_key(rows, *stored.column_names).equals(by_key(stored))
        assert rows["_hoodie_record_key"].equals(rows["_row_key"])
        paths = pc.binary_join_element_wise("partition_path", rows["partition_path"], "=")
        assert rows["_hoodie_partition_path"].equals(paths)
        assert scan.count() == 100


def test_projections_filters_and_batches_agree_with_the_whole(root: Path) -> None:
    table = opened(root)
    for mode in ("snapshot", "read_optimized"):
        whole = table.scan(mode=mode).to_arrow()
        for columns in (["rider"], ["_hoodie_record_key"], ["partition_path"],
                        ["fare", "_hoodie_commit_time", "_row_key"]):  # fmt: skip
            assert table.scan(columns, mode=mode).to_arrow().equals(whole.select(columns))
        assert table.scan(mode=mode).to_batches().read_all().equals(whole)
        key = whole["_row_key"][7].as_py()
        filters = [
            pc.field("_row_key") == key,
            pc.field("_hoodie_record_key") == key,
            pc.field("rider") == "rider-002",
            pc.field("begin_lat") > 0.5,
            pc.field("partition_path") == "2025-01-02",
        ]
        for where in filters:
            assert table.scan(where=where, mode=mode).to_arrow().equals(whole.filter(where))
            assert table.scan(where=where, mode=mode).count() == whole.filter(where).num_rows


def test_other_reads_see_the_source_rows(root: Path) -> None:
    table = opened(root)
    assert table.changes("000").to_arrow().num_rows == 100
    changed = table.changes(BOOTSTRAPPED).to_arrow()
    assert set(changed["_hoodie_commit_time"].to_pylist()) == {NEWEST}
    assert None not in changed["rider"].to_pylist()
    update = changed.filter(pc.field("rider") == "rider-002").slice(0, 1)
    key = update["_hoodie_record_key"][0].as_py()
    history = table.history(key)
    assert [row["rider"] for row in history["row"].to_pylist()] == ["rider-001", "rider-002"]
    tasks = pickle.loads(pickle.dumps(table.scan().tasks))
    assert sum(pyhudi.read.scan_plan.read_task(task).num_rows for task in tasks) == 100


def test_the_folder_that_the_table_names_is_read_without_the_option(root: Path) -> None:
    properties = root / ".hoodie" / "hoodie.properties"
    text = properties.read_text()
    properties.write_text(text.replace(ORIGIN, str(root.parent / "source")))
    with pytest.raises(pyhudi.CorruptFileError, match="outside the bootstrap base path"):
        pyhudi.open_table(root).scan().to_arrow()  # its index names files of another folder
    properties.write_text(text)
    with pytest.raises(pyhudi.StorageError, match=f"{ORIGIN}.*{OPTION}"):
        pyhudi.open_table(root).scan().to_arrow()


def test_the_table_cannot_send_its_reader_to_another_store(root: Path) -> None:
    properties = root / ".hoodie" / "hoodie.properties"
    text = properties.read_text()
    properties.write_text(text.replace(ORIGIN, f"hdfs://elsewhere:8020{ORIGIN}"))
    with pytest.raises(pyhudi.UnsupportedTableError, match=OPTION):
        pyhudi.open_table(root).scan().to_arrow()
    assert opened(root).scan().count() == 100


def test_a_missing_source_file_is_named(root: Path) -> None:
    some_source(root).unlink()
    with pytest.raises(pyhudi.StorageError, match=OPTION) as raised:
        opened(root).scan().to_arrow()
    assert str(raised.value.facts["path"]).endswith(".parquet")
    assert not isinstance(raised.value, pyhudi.SnapshotExpiredError)


def test_a_source_file_of_another_length_is_refused(root: Path) -> None:
    file = some_source(root)
    pq.write_table(pq.read_table(file, partitioning=None).slice(1), file)
    with pytest.raises(pyhudi.CorruptFileError, match="has changed"):
        opened(root).scan().to_arrow()


def test_a_skeleton_with_other_rows_than_its_source_is_refused(root: Path) -> None:
    file = sorted(root.glob("partition_path=2025-01-02/*.parquet"))[0]
    pq.write_table(pq.read_table(file, partitioning=None).slice(1), file)
    with pytest.raises(pyhudi.CorruptFileError, match="numbers of rows"):
        opened(root).scan(mode="read_optimized").to_arrow()


def test_a_skeleton_without_its_index_is_refused(root: Path) -> None:
    index = next((root / ".hoodie" / ".aux" / ".bootstrap" / ".fileids").iterdir())
    other = next((root / ".hoodie" / ".aux" / ".bootstrap" / ".partitions").iterdir())
    shutil.copy(other, index)
    with pytest.raises(pyhudi.CorruptFileError, match="not in the bootstrap index"):
        opened(root).scan().to_arrow()
    index.unlink()
    with pytest.raises(pyhudi.CorruptFileError, match="index is missing"):
        opened(root).scan().to_arrow()


def test_the_index_cannot_name_a_file_outside_the_source_folder(root: Path) -> None:
    """The bytes of a path in the index are replaced by as many of a path that steps out."""
    index = next((root / ".hoodie" / ".aux" / ".bootstrap" / ".fileids").iterdir())
    good = f"{ORIGIN}/partition_path=2025-01-01/part-00002".encode()
    evil = f"{ORIGIN}/../../../../../../../../../../".encode()
    data = index.read_bytes()
    assert data.count(good) == 1
    index.write_bytes(data.replace(good, evil + good[len(evil) :]))
    with pytest.raises(pyhudi.CorruptFileError):
        opened(root).scan().to_arrow()


def test_the_option_is_refused_for_other_tables(tmp_path: Path) -> None:
    root = foreign_table("mor_v5", tmp_path)
    with pytest.raises(pyhudi.OptionError, match="not bootstrapped"):
        pyhudi.open_table(root, options={OPTION: str(tmp_path)})


@pytest.mark.parametrize("version", ["8", "6"])
def test_a_bootstrapped_table_is_not_written(version: str, root: Path) -> None:
    """Neither the table nor its sources change; version 6 would be writable otherwise."""
    table = opened(root)
    rows = table.scan(with_meta=False).to_arrow()
    key, last = rows["_row_key"][0].as_py(), table.timeline.commits.instants[-1].time
    if version == "6":
        root = plain_table_marked_as_bootstrapped(root.parent / "six")
        table = pyhudi.open_table(root)
        rows, key = table.scan(with_meta=False).to_arrow(), "k1"
        last = table.timeline.commits.instants[-1].time
    before = content(root.parent)
    attempts: list[Callable[[], object]] = [
        lambda: table.upsert(rows),
        lambda: table.insert_overwrite_table(rows),
        lambda: table.delete(keys=[key]),
        table.compact,
        table.clean,
        table.archive,
        table.cluster,
        table.savepoint,
        lambda: table.rollback(last),
        table.metadata.rebuild,
        table.index.rebuild,
        table.repair,
        lambda: pyhudi.repair(root),
        lambda: pyhudi.doctor(root),
    ]
    for attempt in attempts:
        with pytest.raises(pyhudi.UnsupportedTableError, match="read-only"):
            attempt()
        assert content(root.parent) == before


def plain_table_marked_as_bootstrapped(root: Path) -> Path:
    """A table of version 6 of ordinary files, as a full bootstrap leaves it."""
    rows = pa.table({"id": ["k1", "k2"], "part": ["a", "b"]})
    pyhudi.create_table(root, rows.schema, record_key="id", partition_by="part").upsert(rows)
    properties = root / ".hoodie" / "hoodie.properties"
    properties.write_text(f"{properties.read_text()}hoodie.bootstrap.base.path=/nowhere\n")
    assert pyhudi.open_table(root).scan().count() == 2
    return root
