"""Copies of tables: equal, sound, writable, made during writes, continued after each stop."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pyhudi
from pyhudi.api.table import Table
from pyhudi.engine import LocalEngine
from pyhudi.errors import SnapshotExpiredError, UnsupportedTableError, UserError
from pyhudi.health.table_copy import STATE, copy_table
from pyhudi.options import Options, parse_options
from pyhudi.storage.filesystem import FileInfo, FileSystem
from pyhudi.storage.memory import MemoryFileSystem
from tests.support.examples import stops
from tests.support.filesystems import Crash, CrashingFileSystem, Steps, TracingFileSystem, clone
from tests.support.object_stores import fresh_s3

ENGINE = LocalEngine(1)
KINDS = [(6, "cow"), (6, "mor"), (8, "mor"), (9, "cow"), (9, "mor")]
OPTIONS = {"hoodie.metadata.index.column.stats.enable": "true"}


def rows(ids: range, value: int) -> pa.Table:
    return pa.table(
        {
            "id": [f"k{n}" for n in ids], "part": [f"p{n % 2}" for n in ids],
            "v": [value + n for n in ids], "ts": [value] * len(ids),
        }
    )  # fmt: skip


def test_a_copy_inside_its_table_is_refused(tmp_path: Path) -> None:
    table = pyhudi.create_table(tmp_path / "t", rows(range(2), 0).schema, record_key="id")
    table.insert(rows(range(2), 0))
    with pytest.raises(UserError, match="inside the table"):
        table.copy(tmp_path / "t" / "copy")
    assert table.count() == 2


def opened(fs: FileSystem, options: dict[str, str] | None = None) -> Table:
    return Table(fs, options=parse_options(options or OPTIONS), engine=ENGINE)


def made(path: str | Path, version: int, kind: Any) -> pyhudi.Table:
    """A table with updates, deletes, a compaction, a rollback and more updates."""
    table = pyhudi.create_table(
        path, rows(range(1), 0), record_key="id", partition_by="part", ordering="ts",
        table_type=kind, version=version, options=OPTIONS, engine=ENGINE,
    )  # fmt: skip
    table.insert(rows(range(8), 1))
    table.upsert(rows(range(2, 6), 2))
    table.delete(keys=["k1"])
    if kind == "mor":
        table.compact()
    undone = table.upsert(rows(range(8), 3)).instant
    assert undone is not None
    table.rollback(undone)
    table.upsert(rows(range(4, 10), 4))
    return table


def content(table: pyhudi.Table, **how: Any) -> list[dict[str, Any]]:
    found = table.scan(["id", "part", "v", "ts"], **how).to_arrow().to_pylist()
    return sorted(found, key=lambda row: row["id"])


def check(copy: pyhudi.Table, expected: list[dict[str, Any]]) -> None:
    """The copy reads equal, is sound, and takes the next write."""
    assert content(copy) == expected
    assert not copy.doctor().problems
    assert copy.index.verify().faults == {}
    copy.upsert(rows(range(3, 5), 9))
    by_id = {row["id"]: row for row in expected}
    by_id |= {row["id"]: row for row in rows(range(3, 5), 9).to_pylist()}
    assert content(copy) == [by_id[name] for name in sorted(by_id)]
    assert not copy.doctor().problems


@pytest.mark.parametrize(("version", "kind"), KINDS)
def test_a_copy_reads_equal_is_sound_and_takes_the_next_write(
    version: int, kind: str, tmp_path: Path
) -> None:
    table = made(tmp_path / "t", version, kind)
    report = table.copy(tmp_path / "copy")
    last = table.timeline.commits.last
    assert last is not None and report.snapshot == last.time and report.copied == report.files
    copy = pyhudi.open_table(tmp_path / "copy", engine=ENGINE)
    assert not (tmp_path / "copy" / STATE).exists()
    assert copy.timeline.commits.times == table.timeline.commits.times
    assert copy.config.metadata_partitions == table.config.metadata_partitions
    since = table.timeline.commits.instants[-2].time
    assert content_of(copy.changes(since)) == content_of(table.changes(since))
    assert table.pinned_snapshots() == []
    check(copy, content(table))


def content_of(scan: Any) -> list[str]:
    return sorted(str(row["id"]) for row in scan.to_arrow().to_pylist())


@pytest.mark.parametrize(("version", "kind"), KINDS)
def test_a_copy_of_an_older_snapshot_ends_there(version: int, kind: str, tmp_path: Path) -> None:
    table = made(tmp_path / "t", version, kind)
    for instant in table.timeline.commits.instants[1:-1]:
        expected = content(table, as_of=instant.time)
        table.copy(tmp_path / instant.time, as_of=instant.time)
        copy = pyhudi.open_table(tmp_path / instant.time, engine=ENGINE)
        last = copy.timeline.commits.last
        assert last is not None and last.time == instant.time
        assert all(file.stat().st_size for file in (tmp_path / instant.time).glob("p*/*"))
        check(copy, expected)


@pytest.mark.parametrize("version", [6, 9])
def test_the_timeline_is_listed_once_to_open_it_and_once_to_copy_it(version: int) -> None:
    made_fs = made(f"memory://listed-copies/{version}", version, "mor")._fs
    listed: list[str] = []

    class Watched(TracingFileSystem):
        def children(self, folder: str = "") -> list[FileInfo]:
            listed.append(folder)
            return super().children(folder)

        def names(self, folder: str = "") -> list[str]:
            listed.append(folder)
            return super().names(folder)

    copy_table(Watched(made_fs), MemoryFileSystem(), Options(), ENGINE, dry_run=True)
    assert listed.count(".hoodie/timeline" if version == 9 else ".hoodie") == 2


@pytest.mark.parametrize(("version", "kind"), [(6, "cow"), (9, "mor")])
def test_older_snapshots_of_a_copy_are_expired_not_wrong(
    version: int, kind: str, tmp_path: Path
) -> None:
    table = made(tmp_path / "t", version, kind)
    first = table.timeline.commits.first
    assert first is not None
    table.copy(tmp_path / "copy")
    copy = pyhudi.open_table(tmp_path / "copy")
    with pytest.raises(SnapshotExpiredError):
        content(copy, as_of=first.time)


@pytest.mark.parametrize("version", [6, 9])
def test_pending_compactions_and_writes_of_the_source(version: int, tmp_path: Path) -> None:
    table = made(tmp_path / "t", version, "mor")
    planned = table.schedule_compaction()
    table.upsert(rows(range(6), 5))
    waiting = table.upsert(rows(range(8), 6), publish=False)
    table.copy(tmp_path / "copy")
    copy = pyhudi.open_table(tmp_path / "copy", engine=ENGINE)
    assert content(copy) == content(table)
    assert waiting.instant not in {i.time for i in copy.timeline}
    assert [i.time for i in copy.timeline.pending] == [planned]
    copy.compact()
    check(copy, content(table))


def test_a_copy_made_during_writes_is_the_snapshot_of_its_begin(tmp_path: Path) -> None:
    table = made(tmp_path / "t", 9, "mor")
    expected = content(table)
    retain = {"hoodie.clean.commits.retained": "1", "hoodie.keep.min.commits": "2",
              "hoodie.keep.max.commits": "3", **OPTIONS}  # fmt: skip
    writes = iter(range(100, 200))

    class Writing(Steps):
        def take(self, what: str, act: Callable[[], Any]) -> Any:
            result = super().take(what, act)
            if len(self.trace) % 7 == 2 and len(self.trace) < 40:
                writer = pyhudi.open_table(tmp_path / "t", options=retain, engine=ENGINE)
                writer.upsert(rows(range(8), next(writes)))
                writer.compact()
                writer.clean()
                writer.archive()
            return result

    target = TracingFileSystem(MemoryFileSystem(), steps=Writing())
    copy_table(table._fs, target, Options(), ENGINE)
    assert next(writes) > 102
    check(opened(target.inner), expected)


@pytest.mark.parametrize(("version", "kind"), [(6, "mor"), (9, "cow"), (9, "mor")])
@stops(16, 2)
def test_a_copy_that_was_stopped_anywhere_is_continued(
    version: int, kind: str, one_in: int
) -> None:
    source = made(f"memory://stopped-copies/{version}-{kind}", version, kind)._fs
    expected = content(opened(source))
    watched = TracingFileSystem(MemoryFileSystem())
    copy_table(source, watched, Options(), ENGINE)
    steps = len(watched.trace)
    assert steps > 20
    for stop in range(0, steps, one_in):
        bare = MemoryFileSystem()
        with suppress(Crash):
            copy_table(source, CrashingFileSystem(bare, stop=stop), Options(), ENGINE)
        table = None
        with suppress(pyhudi.PyhudiError):
            table = opened(clone(bare))
        if table is not None:  # readable before its end: only if whole
            assert content(table) == expected, stop
        copy_table(source, bare, Options(), ENGINE)
        assert not bare.exists(STATE)
        assert content(opened(bare)) == expected, stop
    check(opened(bare), expected)


def test_a_continued_copy_keeps_its_snapshot_and_its_files(tmp_path: Path) -> None:
    table = made(tmp_path / "t", 9, "mor")
    expected, bare = content(table), MemoryFileSystem()
    with pytest.raises(Crash):
        copy_table(table._fs, CrashingFileSystem(bare, stop=14), Options(), ENGINE)
    table.upsert(rows(range(8), 7))
    with pytest.raises(UserError, match="another table or snapshot"):
        copy_table(table._fs, bare, Options(), ENGINE, as_of="20260101000000000")
    report = copy_table(table._fs, bare, Options(), ENGINE)
    assert 0 < report.copied < report.files
    check(opened(bare), expected)


def test_what_cannot_be_copied_is_refused(tmp_path: Path) -> None:
    table = made(tmp_path / "t", 9, "cow")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "a.csv").write_text("id")
    with pytest.raises(UserError, match="holds other files"):
        table.copy(tmp_path / "full")
    with pytest.raises(UserError, match="holds other files"):
        table.copy(tmp_path / "t")
    empty = pyhudi.create_table(tmp_path / "empty", rows(range(1), 0), record_key="id")
    with pytest.raises(UserError, match="no commit"):
        empty.copy(tmp_path / "new")
    elastic = pyhudi.create_table(
        tmp_path / "elastic", rows(range(1), 0), record_key="id", index="elastic"
    )
    elastic.insert(rows(range(3), 0))
    with pytest.raises(UnsupportedTableError, match="index=elastic"):
        elastic.copy(tmp_path / "new")
    assert not (tmp_path / "new").exists() and table.pinned_snapshots() == []


def test_a_dry_run_writes_nothing(tmp_path: Path) -> None:
    table = made(tmp_path / "t", 9, "mor")
    report = table.copy(tmp_path / "copy", dry_run=True)
    assert report.dry_run and report.files > 0 and report.bytes > 0
    assert not (tmp_path / "copy").exists()


def test_between_stores_and_back(tmp_path: Path) -> None:
    table = made(tmp_path / "t", 9, "mor")
    store = fresh_s3()
    copy_table(table._fs, store, Options(), ENGINE)
    assert content(opened(store)) == content(table)
    opened(store).copy(tmp_path / "back")
    check(pyhudi.open_table(tmp_path / "back", engine=ENGINE), content(table))


def test_version_6_keeps_the_times_of_its_instants(tmp_path: Path) -> None:
    table = made(tmp_path / "t", 6, "mor")
    table.copy(tmp_path / "copy")
    for name in [n.name for n in (tmp_path / "t/.hoodie").glob("*commit")]:
        at = (tmp_path / "t/.hoodie" / name).stat().st_mtime
        assert abs((tmp_path / "copy/.hoodie" / name).stat().st_mtime - at) < 0.001
