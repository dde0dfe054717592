"""A writer that was rolled back and lives on: it finds out, and what it leaves is never read."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

import pyhudi
from pyhudi.engine import LocalEngine
from pyhudi.errors import OvertakenError
from pyhudi.filenames import TEMP
from pyhudi.options import parse_options
from pyhudi.records import InstantTime
from pyhudi.recovery.rollback import roll_back_failed, roll_back_service
from pyhudi.recovery.rolled_back_files import LINGERS_SECONDS
from pyhudi.storage.filesystem import FileSystem, Sink
from pyhudi.storage.local import LocalFileSystem
from pyhudi.storage.memory import MemoryFileSystem
from pyhudi.table.properties import load_config
from pyhudi.timeline.instant_files import TimelineLog
from pyhudi.timeline.own_files import add_to_list, newest_list, read_list
from tests.crash.test_every_stop import rows
from tests.recovery.test_undo import OPTIONS, table_of, values
from tests.support.filesystems import Crash, TracingFileSystem

FEW = {
    "hoodie.keep.min.commits": "3",
    "hoodie.keep.max.commits": "4",
    "hoodie.clean.commits.retained": "2",
    "hoodie.metadata.compact.max.delta.commits": "3",
}


class Stalling(TracingFileSystem):
    """A store on which one writer stands still at some of its data files.

    stalls: a word in the paths of those files.  meanwhile: what others do then, once.
    """

    def __init__(self, inner: FileSystem, stalls: str, meanwhile: Callable[[], None]) -> None:
        super().__init__(inner)
        self.stalls, self.meanwhile = stalls, meanwhile
        self.dies_after = False
        self.done = False

    def _stall(self, path: str) -> None:
        if not self.done and self.stalls in path and not path.startswith(".hoodie"):
            self.done = True
            self.meanwhile()

    def open_sink(self, path: str) -> Sink:
        self._stall(path)
        return super().open_sink(path)

    def exists(self, path: str) -> bool:
        if self.done and self.dies_after and "inflight" in path:
            raise Crash
        return super().exists(path)


def opened(fs: FileSystem, **options: str) -> pyhudi.Table:
    return pyhudi.Table(fs, options=parse_options({**OPTIONS, **options}), engine=LocalEngine(1))


def roll_back(fs: FileSystem) -> None:
    """What another machine does that believes the writer dead."""
    config = load_config(fs)
    log = TimelineLog(fs, layout=config.layout)
    roll_back_failed(fs, config, log, engine=LocalEngine(1))


def data_files(fs: FileSystem) -> set[str]:
    return {
        info.path
        for partition in ("p0", "p1")
        for info in fs.children(partition)
        if not info.name.endswith("metadata")
    }


def stalled(
    path: Path, kind: str, *, stalls: str = "p1", dies_after: bool = False
) -> tuple[FileSystem, set[str]]:
    """A table on which a writer was rolled back while it wrote; what was there then."""
    table_of(path, kind, **FEW)
    fs = LocalFileSystem(path)
    seen: set[str] = set()

    def meanwhile() -> None:
        roll_back(fs)
        seen.update(data_files(fs))

    slow = Stalling(fs, stalls, meanwhile)
    slow.dies_after = dies_after
    with pytest.raises(Crash if dies_after else OvertakenError):
        opened(slow, **FEW).upsert(rows(range(12), 50))
    assert slow.done
    return fs, seen


@pytest.mark.parametrize("kind", ["cow", "mor"])
@pytest.mark.parametrize("stalls", ["p0", "p1"])
def test_a_writer_that_was_rolled_back_stops_at_its_next_file(
    tmp_path: Path, kind: str, stalls: str
) -> None:
    fs, seen = stalled(tmp_path / "t", kind, stalls=stalls)
    assert data_files(fs) == seen
    for enabled in ("true", "false"):
        table = opened(fs, **{"hoodie.metadata.enable": enabled})
        assert values(table) == {f"k{i}": 1 for i in range(8)}


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_what_it_wrote_before_it_died_is_deleted_by_the_next_writer(
    tmp_path: Path, kind: str
) -> None:
    fs, seen = stalled(tmp_path / "t", kind, dies_after=True)
    assert data_files(fs) - seen
    written = opened(fs).upsert(rows(range(2, 4), 60))
    assert all(written.instant in path or ".log." in path for path in data_files(fs) - seen)
    late = sum(1 for path in data_files(fs) - seen)
    assert late == 2
    want = {f"k{i}": 1 for i in range(8)} | {"k2": 60, "k3": 60}
    for enabled in ("true", "false"):
        assert values(opened(fs, **{"hoodie.metadata.enable": enabled})) == want
    assert opened(fs).doctor().is_healthy


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_what_it_wrote_is_never_visible_also_after_archival(tmp_path: Path, kind: str) -> None:
    fs, seen = stalled(tmp_path / "t", kind, dies_after=True)
    left = {path: fs.read(path) for path in data_files(fs) - seen}
    table = opened(fs, **FEW)
    want = {f"k{i}": 1 for i in range(8)}
    for ts in range(60, 75):
        table.upsert(rows(range(2, 4), ts))
        if kind == "mor" and ts % 3 == 0:
            table.compact()
        table.clean()
        table.archive()
        want |= {"k2": ts, "k3": ts}
    (lost,) = [
        time
        for time in table.timeline.rolled_back
        if not any(i.time == time for i in (*table.timeline, *table.archived_timeline))
    ]
    first = table.timeline.commits.first
    assert first is not None and first.time > lost
    for path, content in left.items():  # later than anybody looks for it by its markers
        fs.replace(path, content)
    unlisted = {"hoodie.metadata.enable": "false"}
    assert values(opened(fs, **unlisted)) == want
    assert [f.code for f in opened(fs).doctor().problems if "log" not in f.path] == (
        ["orphan"] * sum(".log." not in path for path in left)
    )
    opened(fs).metadata.rebuild()
    assert values(opened(fs)) == want
    assert values(opened(fs, **unlisted)) == want
    assert opened(fs).index.verify().is_exact


def test_markers_of_files_that_never_appear_are_given_up(tmp_path: Path) -> None:
    fs, _ = stalled(tmp_path / "t", "cow")
    (markers,) = fs.children(TEMP)
    opened(fs).upsert(rows(range(2), 60))
    assert [info.name for info in fs.children(TEMP)] == [markers.name]
    for path in (tmp_path / "t" / TEMP).rglob("*"):
        if path.is_file():
            old = path.stat().st_mtime - LINGERS_SECONDS - 1
            os.utime(path, (old, old))
    opened(fs).upsert(rows(range(2), 61))
    assert not fs.children(TEMP)


def test_rollbacks_of_other_writers_are_remembered_too(tmp_path: Path) -> None:
    fs, _ = stalled(tmp_path / "t", "cow")
    lost = opened(fs).timeline.rolled_back
    for info in fs.children(load_config(fs).layout.timeline_folder):
        if info.name.startswith(".pyhudi.rolled_back"):
            fs.delete([info.path])
    assert not opened(fs).timeline.rolled_back
    opened(fs).upsert(rows(range(2), 60))
    assert opened(fs).timeline.rolled_back == lost


def test_a_planned_service_that_is_run_again_is_visible(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", "mor", **FEW)
    table.upsert(rows(range(8), 2))
    fs = LocalFileSystem(tmp_path / "t")
    planned = table.schedule_compaction()

    def dies() -> None:
        raise Crash

    slow = Stalling(fs, ".parquet", dies)
    with pytest.raises(Crash):
        opened(slow, **FEW).compact()
    table = opened(fs, **FEW)
    assert table.compact().file_groups
    for ts in range(3, 12):
        table.upsert(rows(range(2), ts))
        table.compact()
        table.archive()
    assert planned is not None
    for enabled in ("true", "false"):
        found = values(opened(fs, **{"hoodie.metadata.enable": enabled}))
        assert found == {f"k{i}": 11 if i < 2 else 2 for i in range(8)}


@pytest.mark.parametrize("version", ["6", "9"])
def test_a_file_of_an_earlier_attempt_of_a_service_is_never_visible(
    tmp_path: Path, version: str
) -> None:
    """It appears after the rollback of its attempt, and has the instant of the next one."""
    table = table_of(tmp_path / "t", **FEW, **{"hoodie.write.table.version": version})
    table.bulk_insert(rows(range(8, 12), 1))
    fs = LocalFileSystem(tmp_path / "t")

    def taken_for_crashed() -> None:
        log = table._state().log
        (running,) = log.load().pending
        config = load_config(fs)
        roll_back_service(fs, config, log, running, engine=LocalEngine(1))

    slow = Stalling(fs, ".parquet", taken_for_crashed)
    slow.dies_after = True
    before = data_files(fs)
    with pytest.raises(Crash):
        opened(slow, **FEW).cluster()
    assert len(data_files(fs) - before) == 1
    assert table.cluster().instants
    for enabled in ("true", "false"):
        found = opened(fs, **{"hoodie.metadata.enable": enabled}).scan(["id"]).to_arrow()
        assert sorted(found["id"].to_pylist()) == sorted(f"k{i}" for i in range(12))


def test_a_list_grows_and_the_newest_counts() -> None:
    fs = MemoryFileSystem()
    times = [InstantTime(f"2024010100000000{i}") for i in range(3)]
    add_to_list(fs, ".hoodie", times[:2])
    add_to_list(fs, ".hoodie", times[:1])
    assert fs.names(".hoodie") == [".pyhudi.rolled_back.1"]
    add_to_list(fs, ".hoodie", times[2:])
    assert fs.names(".hoodie") == [".pyhudi.rolled_back.2"]
    name = newest_list([".pyhudi.rolled_back.9", ".pyhudi.rolled_back.10", ".pyhudi.rolled_back.x"])
    assert name == ".pyhudi.rolled_back.10"
    assert read_list(fs, ".hoodie/.pyhudi.rolled_back.2") == frozenset(times)
    fs.replace(".hoodie/.pyhudi.rolled_back.2", b"\xff..\n2024\n" + times[0].encode())
    assert read_list(fs, ".hoodie/.pyhudi.rolled_back.2") == frozenset(times[:1])
