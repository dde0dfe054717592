"""Files of one task: announced together, durable together, and before the commit in any case."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import pyhudi
from pyhudi.api.table import Table
from pyhudi.engine import LocalEngine
from pyhudi.formats.base_file import footer, read_base
from pyhudi.operations.create import create
from pyhudi.options import IndexKind, Options, parse_options
from pyhudi.storage.filesystem import FileSystem
from pyhudi.storage.local import LocalFileSystem
from pyhudi.storage.memory import MemoryFileSystem
from pyhudi.table.properties import TableType
from pyhudi.write.table_creation import NewTable
from tests.support.filesystems import TracingFileSystem

SCHEMA = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("part", pa.string())])
FORM = "hoodie.write.markers.type"
KINDS = pytest.mark.parametrize("kind", TableType, ids=["cow", "mor"])


def rows(ids: range, ts: int, parts: int) -> pa.Table:
    return pa.Table.from_pylist(
        [{"id": f"k{i}", "ts": ts, "part": f"p{i % parts:03}"} for i in ids], SCHEMA
    )


def options(**more: str) -> Options:
    return parse_options({"hoodie.metadata.record.index.min.filegroup.count": "1", **more})


def made(fs: FileSystem, kind: TableType, given: Options, *, threads: int = 1) -> Table:
    create(fs, NewTable(SCHEMA, "t", kind, ("id",), ("part",), ("ts",), given))
    return Table(fs, options=given, engine=LocalEngine(threads))


def written(kind: TableType, parts: int, **more: str) -> list[str]:
    """The changes that an upsert of all partitions makes."""
    fs = TracingFileSystem(MemoryFileSystem())
    table = made(fs, kind, options(**more))
    table.bulk_insert(rows(range(parts), 1, parts))
    before = len(fs.trace)
    table.upsert(rows(range(parts), 2, parts))
    return fs.trace[before:]


def is_data(path: str) -> bool:
    return path.startswith("p") and "_partition_metadata" not in path


@KINDS
@pytest.mark.parametrize("form", ["DIRECT", "TIMELINE_SERVER_BASED"])
def test_files_are_announced_before_they_are_opened_and_durable_before_the_commit(
    kind: TableType, form: str
) -> None:
    trace = written(kind, 20, **{FORM: form})
    opened = [n for n, step in enumerate(trace) if step.startswith("open p")]
    closed = {step[6:]: n for n, step in enumerate(trace) if step.startswith("close p")}
    synced = {
        path: n
        for n, step in enumerate(trace)
        if step.startswith("sync ")
        for path in step.split()[1:]
    }
    commit = next(n for n, s in enumerate(trace) if s.endswith("commit") and "/2" in s)
    assert len(closed) == len(opened) == 20
    for path, at in closed.items():
        assert at < synced[path] < commit
    markers = [s[7:] for s in trace if s.startswith("create .hoodie/.temp/")]
    if form == "DIRECT":
        assert len(markers) == 20 and all(".marker." in path for path in markers)
    else:
        tasks = 4
        assert markers[0].endswith("/MARKERS.type") and len(markers) == 1 + tasks
        markers = markers[1:]
    first_of_task = [n for n in opened if trace[n - 1].startswith("sync .hoodie/.temp/")]
    assert len(first_of_task) == 4
    assert all(synced[path] in {n - 1 for n in first_of_task} for path in markers)


@KINDS
def test_a_task_with_many_files_has_one_file_of_markers_by_default(kind: TableType) -> None:
    few, many = (written(kind, parts) for parts in (4, 40))
    assert sum("create .hoodie/.temp" in s and ".marker." in s for s in few) == 4
    assert sum("create .hoodie/.temp" in s and ".marker." in s for s in many) == 0
    assert sum("create .hoodie/.temp" in s and "/MARKERS" in s for s in many) == 5


@KINDS
def test_no_marker_is_left_after_the_commit(tmp_path: Path, kind: TableType) -> None:
    table = made(LocalFileSystem(tmp_path / "t"), kind, options())
    table.bulk_insert(rows(range(40), 1, 40))
    table.upsert(rows(range(80), 2, 40))
    assert not list((tmp_path / "t" / ".hoodie" / ".temp").glob("*"))
    assert table.scan(["id"]).to_arrow().num_rows == 80


@KINDS
def test_a_file_of_an_upsert_costs_two_syncs_and_a_new_partition_three_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: TableType
) -> None:
    """Its bytes and its folder; for a new partition also the metafile, its folder once more."""
    table = made(LocalFileSystem(tmp_path / "t"), kind, options(), threads=2)
    real, count = os.fsync, [0]

    def counted(fd: int) -> None:
        count[0] += 1
        real(fd)

    monkeypatch.setattr(os, "fsync", counted)
    table.bulk_insert(rows(range(60), 1, 60))
    others = 100  # the timeline, the metadata table, markers
    assert count[0] <= 60 * 4 + others
    count[0] = 0
    table.upsert(rows(range(60), 2, 60))
    assert count[0] <= 60 * 2 + others


def test_a_file_that_cannot_be_synced_fails_the_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyhudi.errors import StorageError

    fs = LocalFileSystem(tmp_path / "t")
    table = made(fs, TableType.COPY_ON_WRITE, options())
    table.bulk_insert(rows(range(40), 1, 40))
    real = os.fsync

    def failing(fd: int) -> None:
        path = os.readlink(f"/proc/self/fd/{fd}")
        if path.endswith(".parquet") and "/p007/" in path:
            raise OSError(5, "input/output error")
        real(fd)

    monkeypatch.setattr(os, "fsync", failing)
    with pytest.raises(StorageError, match="input/output error"):
        table.upsert(rows(range(40), 2, 40))
    monkeypatch.setattr(os, "fsync", real)
    assert set(table.scan(["ts"]).to_arrow()["ts"].to_pylist()) == {1}
    table.upsert(rows(range(40), 3, 40))
    assert set(table.scan(["ts"]).to_arrow()["ts"].to_pylist()) == {3}


@pytest.mark.parametrize("parts", [1, 3, 70], ids="{} partitions".format)
def test_small_files_that_share_a_merge_come_out_as_if_each_were_merged_alone(parts: int) -> None:
    """The same keys in every partition, under an index that is not global: a row meets only the
    record of its own file group.  Some rows lose, some delete, some are new, some groups are left
    out."""
    schema = SCHEMA.append(pa.field("_hoodie_is_deleted", pa.bool_()))
    given, kind = options(), TableType.COPY_ON_WRITE
    fs = MemoryFileSystem()
    create(fs, NewTable(schema, "t", kind, ("id",), ("part",), ("ts",), given, IndexKind.SIMPLE))
    table = Table(fs, options=given, engine=LocalEngine(1))

    def row(key: int, ts: int, part: int, gone: bool = False) -> dict[str, object]:
        return {"id": f"k{key}", "ts": ts, "part": f"p{part:03}", "_hoodie_is_deleted": gone}

    base = [row(key, 10 + part % 3, part) for part in range(parts) for key in range(part % 5 + 1)]
    changes = [
        row(key, 10 + key % 4, part, gone=(key + part) % 6 == 5)
        for part in range(parts)
        if part % 7 != 6
        for key in range(part % 4 + 2)
    ]
    table.bulk_insert(pa.Table.from_pylist(base, schema))
    table.upsert(pa.Table.from_pylist(changes, schema))
    expected = {(r["part"], r["id"]): r["ts"] for r in base}
    for r in changes:
        place = (r["part"], r["id"])
        if place in expected and expected[place] > r["ts"]:  # type: ignore[operator]
            continue
        if r["_hoodie_is_deleted"]:
            expected.pop(place, None)
        else:
            expected[place] = r["ts"]
    found = table.scan(["part", "id", "ts"]).to_arrow().to_pylist()
    assert {(r["part"], r["id"]): r["ts"] for r in found} == expected
    assert len(found) == len(expected)


@pytest.mark.parametrize("threads", [1, 3])
def test_meta_columns_of_files_written_together_are_those_of_each_file(threads: int) -> None:
    fs = MemoryFileSystem()
    table = made(fs, TableType.COPY_ON_WRITE, options(), threads=threads)
    table.bulk_insert(rows(range(200), 1, 70))
    table.upsert(rows(range(100, 300), 2, 70))
    names = ["_hoodie_partition_path", "_hoodie_file_name", "_hoodie_commit_seqno", "part"]
    found = table.scan(names).to_arrow().to_pylist()
    assert len(found) == 300
    assert len({r["_hoodie_commit_seqno"] for r in found}) == 300
    assert all(r["_hoodie_partition_path"] == r["part"] for r in found)
    stored = {(part, name) for part in fs_folders(fs) for name in fs.names(part)}
    assert {(r["part"], r["_hoodie_file_name"]) for r in found} <= stored


def fs_folders(fs: FileSystem) -> list[str]:
    return [each.path for each in fs.children() if each.is_folder and each.path.startswith("p")]


def test_sorted_rows_of_small_files_are_sorted_in_each_file() -> None:
    fs = MemoryFileSystem()
    given = options(**{"hoodie.bulkinsert.sort.mode": "PARTITION_SORT"})
    table = made(fs, TableType.COPY_ON_WRITE, given)
    table.bulk_insert(rows(range(299, -1, -1), 1, 30))
    for folder in fs_folders(fs):
        (name,) = (name for name in fs.names(folder) if name.endswith(".parquet"))
        keys = read_base(fs, f"{folder}/{name}", columns=["_hoodie_record_key"]).column(0)
        assert keys.to_pylist() == sorted(keys.to_pylist()) and len(keys) == 10


@pytest.mark.parametrize(("updated", "is_planned_again"), [(1300, False), (1600, True)])
def test_a_rewrite_uses_the_encodings_of_the_file_unless_half_of_its_rows_are_new(
    tmp_path: Path, updated: int, is_planned_again: bool
) -> None:
    count = 3000
    rows = pa.table(
        {
            "id": [f"k{n:05d}" for n in range(count)],
            "at": np.zeros(count, np.int64),
            "f": np.random.default_rng(1).random(count),
        }
    )
    table = pyhudi.create_table(tmp_path, rows.schema, record_key="id", ordering="at")
    table.insert(rows)
    batch = pa.table(
        {"id": rows["id"][-updated:], "at": np.ones(updated, np.int64), "f": np.ones(updated)}
    )
    table.upsert(batch)
    (base,) = [s.base for s in table.file_slices()]
    assert base is not None
    group = pq.read_metadata(tmp_path / base.path).row_group(0)
    columns = {c.path_in_schema: c for c in map(group.column, range(group.num_columns))}
    assert columns["f"].has_dictionary_page is is_planned_again
    assert pc.sum(table.scan(columns=["at"]).to_arrow()["at"]).as_py() == updated


@pytest.mark.parametrize(("count", "is_shared"), [(2000, True), (20_000, False)])
def test_small_files_of_a_write_have_the_same_encodings(
    tmp_path: Path, count: int, is_shared: bool
) -> None:
    random = np.random.default_rng(1)
    wide, few = random.random(count), random.integers(0, 9, count).astype(float)
    rows = pa.table(
        {
            "id": [f"k{n:05d}" for n in range(2 * count)],
            "part": ["a"] * count + ["b"] * count,
            "f": np.concatenate([wide, few]),
        }
    )
    pyhudi.create_table(tmp_path, rows.schema, record_key="id", partition_by="part")
    table = pyhudi.open_table(tmp_path, engine=LocalEngine(1))  # threads may choose together
    table.insert(rows)
    found = set()
    for slice_ in table.file_slices():
        assert slice_.base is not None
        group = pq.read_metadata(tmp_path / slice_.base.path).row_group(0)
        columns = {c.path_in_schema: c for c in map(group.column, range(group.num_columns))}
        found.add(columns["f"].has_dictionary_page)
    assert len(found) == (1 if is_shared else 2)


MERGES = pa.schema([*SCHEMA, ("text", pa.string()), ("_hoodie_is_deleted", pa.bool_())])


def drawn(random: Random, fresh: range, ts: int) -> pa.Table:
    keys = random.sample(range(300), 60) + list(fresh)
    found = [
        {
            "id": f"k{key}",
            "ts": ts + random.randrange(-3, 3),
            "part": f"p{key % 2}",
            "text": random.choice([None, "a", "b", f"text {key}"]),
            "_hoodie_is_deleted": random.random() < 0.2,
        }
        for key in keys
    ]
    return pa.Table.from_pylist(found, MERGES)


@pytest.mark.parametrize("how", ["event time", "commit time", "no bloom filter", "doubled keys"])
def test_a_file_that_is_rewritten_by_row_groups_has_the_rows_of_one_rewritten_whole(
    how: str,
) -> None:
    ordering = () if how == "commit time" else ("ts",)
    tables = []
    for row_group_rows in (25, 1000):
        given = options()
        base_file = replace(
            given.write.base_file,
            row_group_rows=row_group_rows,
            bloom_enabled=how != "no bloom filter",
        )
        given = replace(given, write=replace(given.write, base_file=base_file))
        fs = MemoryFileSystem()
        create(
            fs,
            NewTable(MERGES, "t", TableType.COPY_ON_WRITE, ("id",), ("part",), ordering, given),
        )
        tables.append(Table(fs, options=given, engine=LocalEngine(1)))
    random = Random(4)
    first = drawn(random, range(300), 5)
    if how == "doubled keys":
        first = pa.concat_tables([first, first])
    for turn, batch in enumerate(
        [first, *(drawn(random, range(300 + t, 302 + t), t + 5) for t in range(5))]
    ):
        found = []
        for table in tables:
            write = table.upsert if turn else table.bulk_insert
            report = write(batch)
            counts = report.inserted, report.updated, report.deleted, report.unchanged
            rows = table.scan().to_arrow()
            seqno = pc.split_pattern(rows.column("_hoodie_commit_seqno"), "_")
            rows = rows.drop(["_hoodie_commit_time", "_hoodie_commit_seqno", "_hoodie_file_name"])
            found.append((counts, rows, pc.list_element(seqno, 2)))
        assert found[0] == found[1]
    (slice,) = tables[0].file_slices("p0")
    assert slice.base is not None
    groups = footer(tables[0]._fs, slice.base.path).metadata
    sizes = [groups.row_group(n).num_rows for n in range(groups.num_row_groups)]
    assert set(sizes[:-1]) == {25}
