"""Holds: what a living reader reads is not cleaned, and what a dead one read is."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

import pyhudi
from pyhudi.engine import LocalEngine
from pyhudi.errors import SnapshotExpiredError, UserError
from pyhudi.filenames import HOLDS
from pyhudi.options import parse_options
from pyhudi.services.cleaning import propose_clean, write_clean_plan
from pyhudi.storage.filesystem import FileSystem
from pyhudi.table.properties import TableType
from tests.crash.test_every_stop import OPTIONS, before, open_, rows, snapshot
from tests.services.test_cleaning import FEW, files, table_of, values
from tests.support.filesystems import TracingFileSystem, clone, every_stop
from tests.support.inside import state_of

READER = """
import sys, time
import pyhudi
held = pyhudi.open_table(sys.argv[1]).pin_snapshot(sys.argv[2])
print(held.instant, flush=True)
time.sleep(60)
"""
CRASHED = json.dumps({"machine": "other/pid:[1]", "pid": 1, "started": "1", "token": "x"}).encode()
SOON = {
    "hoodie.client.heartbeat.interval_in_ms": "20",
    "hoodie.client.heartbeat.tolerable.misses": "1",
}


def impatient(fs: FileSystem) -> pyhudi.Table:
    """The table of somebody who keeps one commit and believes no silence."""
    options = {**OPTIONS, **SOON, "hoodie.clean.commits.retained": "1"}
    return pyhudi.Table(fs, options=parse_options(options), engine=LocalEngine(1))


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_a_pinned_snapshot_stays_until_its_reader_releases_it(tmp_path: Path, kind: str) -> None:
    table = table_of(tmp_path / "t", kind)
    commits = table.timeline.commits.instants
    oldest, old = commits[0].time, commits[3 if kind == "mor" else 1].time
    with table.pin_snapshot(oldest) as pinned:
        assert pinned.instant == oldest
        assert [h.instant for h in table.pinned_snapshots() if h.is_alive] == [oldest]
        report = table.clean()
        assert report.files and report.held == (oldest,) == table.clean(dry_run=True).held
        assert values(table, as_of=oldest) == [1]
        with pytest.raises(SnapshotExpiredError):
            table.scan(as_of=old).to_arrow()
    assert not table.pinned_snapshots()
    table.upsert(rows(range(0, 8, 2), 9))  # of p0 alone; the hold's end lets go of p1 too
    going = propose_clean(state_of(table), parse_options(FEW)).files
    assert set(going) == {"p0", "p1"}
    assert not table.clean().held
    with pytest.raises(SnapshotExpiredError):
        table.scan(as_of=oldest).to_arrow()


def test_a_pin_is_of_the_newest_commit_unless_stated_otherwise(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t")
    commits = [i.time for i in table.timeline.commits]
    with (
        table.pin_snapshot() as now,
        table.pin_snapshot("2999-01-01") as later,
        table.pin_snapshot(commits[-2]) as then,
    ):
        assert [now.instant, later.instant, then.instant] == [commits[-1], commits[-1], commits[-2]]
        assert [h.instant for h in table.pinned_snapshots()] == [
            commits[-2],
            commits[-1],
            commits[-1],
        ]
        assert all(h.is_alive and "since 2" in h.reader for h in table.pinned_snapshots())


def test_a_policy_by_versions_respects_pins_too(tmp_path: Path) -> None:
    policy = {"hoodie.clean.policy": "KEEP_LATEST_FILE_VERSIONS"}
    table = table_of(tmp_path / "t", **policy, **{"hoodie.clean.fileversions.retained": "1"})
    with table.pin_snapshot(table.timeline.commits.instants[1].time):
        table.clean()
        assert len(files(tmp_path / "t")) == 4
    table.clean()
    assert len(files(tmp_path / "t")) == 2


def test_no_snapshot_before_the_first_commit_can_be_pinned(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t")
    for call in (table.pin_snapshot, lambda as_of: table.scan(as_of=as_of).count()):
        with pytest.raises(UserError, match="no commit at or before this time"):
            call(as_of="2001-01-01")
    assert table.pinned_snapshots() == []


def test_a_pinned_partition_outlives_its_deletion(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t")
    with table.pin_snapshot() as pinned:
        table.delete_partitions("p0")
        for ts in range(6, 9):
            table.upsert(rows(range(1, 8, 2), ts))
        table.clean()
        assert table.scan(as_of=pinned.instant).count() == 8
    table.upsert(rows(range(1, 8, 2), 9))
    table.clean()
    assert not list((tmp_path / "t" / "p0").glob("*.parquet"))


def test_what_a_scan_planned_before_a_compaction_reads_stays(tmp_path: Path) -> None:
    """The compaction is older than the held instant: by now its snapshot is read elsewhere."""
    table = table_of(tmp_path / "t", "mor")
    table.upsert(rows(range(8), 6))
    table.schedule_compaction()
    table.upsert(rows(range(8), 7))
    with table.pin_snapshot() as pinned:
        planned = table.scan(["ts"], as_of=pinned.instant)
        assert planned.tasks
        table.compact()
        for ts in range(8, 12):
            table.upsert(rows(range(8), ts))
            table.compact()
        assert table.clean().files
        assert (
            set(planned.to_arrow()["ts"].to_pylist())
            == {7}
            == set(values(table, as_of=pinned.instant))
        )


def test_the_hold_of_a_reader_that_is_gone_is_dropped_and_reported() -> None:
    fs = before(TableType.COPY_ON_WRITE)
    for ts in range(3, 7):
        open_(fs).upsert(rows(range(8), ts))
    oldest = open_(fs).timeline.commits.instants[0].time
    path = f"{HOLDS}/{oldest}-0123456789abcdef"
    for content in (CRASHED, b"", b"[]", b"{"):
        fs.replace(path, content)
        assert [h.is_alive for h in open_(fs).pinned_snapshots()] == [True]
        assert open_(fs).clean(dry_run=True).held == (oldest,)
        time.sleep(0.03)
        assert impatient(fs).clean(dry_run=True).held == () and fs.exists(path)
        report = impatient(fs).clean()
        assert not fs.exists(path) and len(report.dropped) == 1
        assert oldest in report.dropped[0]
        assert "its reader is no longer alive" in report.dropped[0]
    assert not impatient(fs).clean().dropped


@pytest.mark.skipif(not Path("/proc/self/ns").exists(), reason="only Linux tells of processes so")
def test_the_hold_of_a_killed_process_ends_at_once(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t")
    oldest = table.timeline.commits.instants[0].time
    child = subprocess.Popen(
        [sys.executable, "-c", READER, str(tmp_path / "t"), oldest],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None and child.stdout.readline() == f"{oldest}\n"
    assert table.clean().held == (oldest,) and not table.doctor().findings
    child.kill()
    child.wait()
    assert values(table, as_of=oldest) == [1]
    assert [f.what for f in table.doctor().findings] == ["a snapshot pin of a crashed reader"]
    report = table.clean()
    assert f" {child.pid} since" in report.dropped[0] and report.files and not report.held
    assert not table.pinned_snapshots() and not table.doctor().findings


def test_services_report_a_pin_that_was_dropped() -> None:
    fs = before(TableType.COPY_ON_WRITE)
    oldest = open_(fs).timeline.commits.instants[0].time
    for ts in range(3, 7):
        open_(fs).upsert(rows(range(8), ts))
    fs.replace(f"{HOLDS}/{oldest}-0123456789abcdef", CRASHED)
    time.sleep(0.03)
    reported = next(s for s in impatient(fs).services.run().services if s.name == "clean")
    assert "deleted" in reported.did and "its reader is no longer alive" in reported.did


def test_files_with_other_names_are_no_holds() -> None:
    fs = before(TableType.COPY_ON_WRITE)
    for name in ("notes.txt", "20260101000000000", "x-y"):
        fs.replace(f"{HOLDS}/{name}", b"")
    assert not open_(fs).pinned_snapshots() and not impatient(fs).clean().dropped


def test_a_hold_is_refused_where_files_are_gone_or_going() -> None:
    fs = before(TableType.COPY_ON_WRITE)
    for ts in range(3, 7):
        open_(fs).upsert(rows(range(8), ts))
    oldest = open_(fs).timeline.commits.instants[0].time
    with open_(fs).pin_snapshot():
        pass
    assert write_clean_plan(state_of(impatient(fs)), impatient(fs)._options)
    with pytest.raises(UserError, match="planned clean"):
        open_(fs).pin_snapshot(oldest)
    open_(fs).clean()
    with pytest.raises(SnapshotExpiredError):
        open_(fs).pin_snapshot(oldest)
    assert not fs.children(HOLDS)


def test_an_empty_table_has_nothing_to_hold(tmp_path: Path) -> None:
    fs = before(TableType.COPY_ON_WRITE)
    table = pyhudi.create_table(
        tmp_path / "t", open_(fs).schema, record_key="id", partition_by="part", ordering="ts"
    )
    with pytest.raises(UserError, match="no commit"):
        table.pin_snapshot()


def test_a_reader_changes_nothing_but_its_hold() -> None:
    fs = TracingFileSystem(before(TableType.MERGE_ON_READ))
    with open_(fs).pin_snapshot() as pinned:
        open_(fs).scan(as_of=pinned.instant).to_arrow()
    assert {step.split()[1].rpartition("/")[0] for step in fs.trace} == {HOLDS}


@pytest.mark.parametrize("kind", TableType, ids=["cow", "mor"])
def test_a_reader_that_dies_anywhere_changes_no_row(kind: TableType) -> None:
    start = before(kind)
    want = snapshot(start)

    def read(fs: FileSystem) -> None:
        with open_(fs).pin_snapshot() as pinned:
            open_(fs).scan(as_of=pinned.instant).to_arrow()

    for stop in every_stop(start, read):
        assert snapshot(stop.fs) == want, str(stop)
        open_(stop.fs).upsert(rows(range(8), 5))
        assert impatient(stop.fs).clean() is not None
        assert set(snapshot(stop.fs).values()) == {5}, str(stop)
        assert not impatient(stop.fs).pinned_snapshots(), str(stop)


def test_a_clean_that_stops_anywhere_retains_what_is_pinned() -> None:
    start = before(TableType.COPY_ON_WRITE)
    for ts in range(3, 6):
        open_(start).upsert(rows(range(8), ts))
    oldest = open_(start).timeline.commits.instants[0].time
    want = open_(start).scan(["id", "ts"], as_of=oldest).to_arrow().sort_by("id")
    start.replace(f"{HOLDS}/{oldest}-0123456789abcdef", CRASHED)  # of elsewhere, and young
    assert open_(clone(start)).clean(dry_run=True).held == (oldest,)
    for stop in every_stop(start, lambda fs: open_(fs).clean()):
        open_(stop.fs).clean()
        found = open_(stop.fs).scan(["id", "ts"], as_of=oldest).to_arrow().sort_by("id")
        assert found == want, str(stop)
