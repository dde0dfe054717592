"""Who is alive: the process on this machine that beats, and elsewhere a file young enough."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from pyhudi.api.table import Table
from pyhudi.errors import StorageError
from pyhudi.options import Heartbeats
from pyhudi.records import InstantTime
from pyhudi.storage.local import LocalFileSystem
from pyhudi.storage.memory import MemoryFileSystem
from pyhudi.table.log import timeline_log
from pyhudi.table.properties import load_config
from pyhudi.timeline.instant import Action, Instant
from pyhudi.transaction.heartbeat import Heartbeat, heartbeat_path, living
from tests.concurrency.test_conflicts import new_table, open_, rows, snapshot

T = InstantTime("20260101000000000")

BEAT = """
import sys, time
from pyhudi.storage.local import LocalFileSystem
from pyhudi.transaction.heartbeat import Heartbeat
Heartbeat(LocalFileSystem(sys.argv[1]), sys.argv[2]).start()
print("beats", flush=True)
time.sleep(60)
"""


@pytest.mark.skipif(not Path("/proc/self/ns").exists(), reason="only Linux tells of processes so")
def test_a_killed_process_counts_as_crashed_at_once(tmp_path: Path) -> None:
    fs = LocalFileSystem(tmp_path)
    child = subprocess.Popen(
        [sys.executable, "-c", BEAT, str(tmp_path), T], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None and child.stdout.readline() == "beats\n"
    assert living(fs) == {T}
    os.kill(child.pid, signal.SIGKILL)
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # dead, though nobody has reaped it
    assert not living(fs)
    child.wait()
    assert fs.exists(heartbeat_path(T)) and not living(fs)


@pytest.mark.skipif(not Path("/proc/self/ns").exists(), reason="only Linux tells of processes so")
def test_a_process_that_has_the_id_of_a_crashed_one_is_not_its_writer(tmp_path: Path) -> None:
    fs = LocalFileSystem(tmp_path)
    command = [sys.executable, "-c", BEAT, str(tmp_path), T]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None and child.stdout.readline() == "beats\n"
        stated = json.loads(fs.read(heartbeat_path(T)))
        assert living(fs) == {T}
        earlier = {**stated, "started": str(int(stated["started"]) - 1)}
        fs.replace(heartbeat_path(T), json.dumps(earlier).encode())
        assert not living(fs)
        child.kill()


def test_a_heartbeat_of_elsewhere_is_judged_by_its_age() -> None:
    fs, rules = MemoryFileSystem(), Heartbeats(interval_seconds=0.02, misses=2)
    other = {"machine": "other/pid:[1]", "pid": 1, "started": "1", "token": "x"}
    for content in (b"", b"not json", b"[]", json.dumps(other).encode()):
        fs.replace(heartbeat_path(T), content)
        assert living(fs, Heartbeats()) == {T}
        time.sleep(0.06)
        assert not living(fs, rules)


SLOW = {"hoodie.client.heartbeat.interval_in_ms": "600000"}


@pytest.fixture(params=["stated", "empty"])
def slow_writer(request: pytest.FixtureRequest) -> tuple[MemoryFileSystem, Instant]:
    """A table with a writer elsewhere whose last beat, of one every ten minutes, is five old."""
    fs = new_table()
    assert isinstance(fs, MemoryFileSystem)
    log = timeline_log(fs, load_config(fs))
    pending = log.start(log.request(Action.COMMIT), b"{}")
    facts = {"machine": "other/pid:[1]", "pid": 1, "started": "1", "token": "x"}
    stated = json.dumps({**facts, "interval_seconds": 600.0}).encode()
    fs.replace(heartbeat_path(pending.time), stated if request.param == "stated" else b"")
    fs.store.times[fs._file(heartbeat_path(pending.time))] -= 300
    return fs, pending


CALLS: dict[str, Callable[[Table], object]] = {
    "upsert": lambda table: table.upsert(rows(range(4), 2)),
    "rollback": lambda table: table.rollback(str(table.upsert(rows(range(4), 2)).instant)),
    "a failing write": lambda table: fails(table),
    "discard": lambda table: table.discard(table.upsert(rows(range(4), 2), publish=False).instant),
    "repair": lambda table: table.repair(),
    "clean": lambda table: table.clean(),
}


def fails(table: Table) -> None:
    run = table._engine.run

    def failing(task, items, *, label):  # type: ignore[no-untyped-def]
        if label == "write":
            raise StorageError("no space left on device")
        return run(task, items, label=label)

    table._engine.run = failing  # type: ignore[method-assign]
    with pytest.raises(StorageError, match="no space"):
        table.upsert(rows(range(4), 2))


@pytest.mark.parametrize("call", CALLS)
def test_no_call_rolls_back_a_living_writer_that_beats_slowly(
    slow_writer: tuple[MemoryFileSystem, Instant], call: str
) -> None:
    fs, pending = slow_writer
    CALLS[call](open_(fs, **SLOW, **{"hoodie.write.concurrency.mode": "single_writer"}))
    assert pending in open_(fs).timeline


def test_a_stated_interval_counts_for_callers_with_the_default_options() -> None:
    fs, rules = MemoryFileSystem(), Heartbeats(interval_seconds=0.01)
    facts = {"machine": "other/pid:[1]", "pid": 1, "started": "1", "token": "x"}
    for stated, lives in ((600, True), (0.01, False), (None, False), (1e300, False), (-1, False)):
        content = json.dumps({**facts, "interval_seconds": stated}).encode()
        fs.replace(heartbeat_path(T), content)
        fs.store.times[heartbeat_path(T)] = time.time() - 300
        assert bool(living(fs, rules)) is lives, stated
    beat = Heartbeat(fs, T, interval_seconds=600).start()
    assert json.loads(fs.read(heartbeat_path(T)))["interval_seconds"] == 600
    beat.stop()


def test_one_that_has_ended_in_this_process_is_not_alive_though_its_file_is_there() -> None:
    fs = MemoryFileSystem()
    beat = Heartbeat(fs, T).start()
    content = fs.read(heartbeat_path(T))
    beat.stop()
    beat.stop()
    fs.replace(heartbeat_path(T), content)
    assert not living(fs)


def test_live_writes_are_never_rolled_back_and_crashed_ones_are() -> None:
    fs = new_table()
    pending = timeline_log(fs, load_config(fs)).request(Action.COMMIT)
    with Heartbeat(fs, pending.time):
        for options in ({}, {"hoodie.write.concurrency.mode": "single_writer"}):
            report = open_(fs, **options).upsert(rows(range(4), 2))
            assert report.rolled_back == ()
        assert pending in open_(fs).timeline
    assert open_(fs).upsert(rows(range(4), 3)).rolled_back == (pending.time,)
    assert snapshot(fs)["k0"] == 3


def test_a_lazy_table_has_heartbeats_of_single_writers_too() -> None:
    fs = new_table()
    seen: list[int] = []
    table = open_(
        fs,
        **{
            "hoodie.write.concurrency.mode": "single_writer",
            "hoodie.clean.failed.writes.policy": "LAZY",
        },
    )
    run = table._engine.run

    def watching(task, items, *, label):  # type: ignore[no-untyped-def]
        if label == "write":
            seen.append(len(living(fs)))
        return run(task, items, label=label)

    table._engine.run = watching  # type: ignore[method-assign]
    table.upsert(rows(range(4), 2))
    assert seen == [1] and not living(fs)
