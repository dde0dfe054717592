"""The table's writer lock, between threads and between real processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest

from pyhudi.errors import LockError
from pyhudi.storage.filesystem import FileSystem
from pyhudi.storage.local import LocalFileSystem
from pyhudi.storage.locks.table_lock import LOCK, TableLock
from pyhudi.storage.memory import MemoryFileSystem
from pyhudi.timeline.instant_files import TimelineLog

ROOT = Path(__file__).parents[2]


@pytest.fixture(params=["local", "memory"])
def fs(request: pytest.FixtureRequest, tmp_path: Path) -> FileSystem:
    return LocalFileSystem(tmp_path) if request.param == "local" else MemoryFileSystem()


def test_the_holder_may_enter_again_through_another_lock_of_the_table(fs: FileSystem) -> None:
    outer, inner = TableLock(fs), TableLock(fs)
    with outer, inner, outer:
        assert outer.is_held and inner.is_held
    assert not outer.is_held
    with TableLock(fs, wait_seconds=0):
        pass


def test_the_lock_is_freed_by_an_error_inside(fs: FileSystem) -> None:
    with pytest.raises(KeyError), TableLock(fs):
        raise KeyError
    with TableLock(fs, wait_seconds=0):
        pass


def test_a_lock_is_freed_though_its_signature_cannot_be_removed(tmp_path: Path) -> None:
    mutex = LocalFileSystem(tmp_path).mutex("lock")
    assert mutex.acquire(0)
    (tmp_path / "lock.holder").mkdir()
    mutex.release()
    assert LocalFileSystem(tmp_path).mutex("lock").acquire(0)


def test_one_thread_at_a_time(fs: FileSystem) -> None:
    inside, most, order = 0, 0, []

    def work(number: int) -> None:
        nonlocal inside, most
        for _ in range(5):
            with TableLock(fs):
                inside += 1
                most = max(most, inside)
                time.sleep(0.001)
                order.append(number)
                inside -= 1

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 1 and len(order) == 20


def test_waiting_in_vain_reports_who_holds_it(fs: FileSystem) -> None:
    caught: list[LockError] = []

    def intrude() -> None:
        try:
            with TableLock(fs, wait_seconds=0.05):
                pass
        except LockError as error:
            caught.append(error)

    with TableLock(fs, purpose="upsert"):
        thread = threading.Thread(target=intrude)
        thread.start()
        thread.join()
    (error,) = caught
    assert error.facts["pid"] == os.getpid() and error.facts["purpose"] == "upsert"
    assert error.facts["waited_seconds"] == 0.05 and str(error.facts["path"]).endswith(LOCK)


def test_a_wait_is_logged_soon_and_at_times_with_the_holder(
    fs: FileSystem, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("pyhudi.storage.locks.table_lock._NOTICE_SECONDS", 0.1)
    monkeypatch.setattr("pyhudi.storage.locks.table_lock._NOTICES_SECONDS", 0.2)
    is_held, is_over = threading.Event(), threading.Event()

    def hold() -> None:
        with TableLock(fs, purpose="compact"):
            is_held.set()
            is_over.wait(60)

    holder = threading.Thread(target=hold)
    holder.start()
    assert is_held.wait(60)
    with pytest.raises(LockError), TableLock(fs, wait_seconds=0.7):
        pass
    is_over.set()
    holder.join()
    waits = [r.message for r in caplog.records if "waiting for a lock" in r.message]
    assert 1 <= len(waits) <= 4
    assert all("purpose=compact" in wait and "wait_time_ms" in wait for wait in waits)


def test_tables_do_not_share_a_lock(fs: FileSystem) -> None:
    with TableLock(fs.sub("a")):
        done = threading.Event()

        def other() -> None:
            with TableLock(fs.sub("b"), wait_seconds=0):
                done.set()

        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert done.is_set()


def test_two_ways_to_one_folder_share_a_lock(tmp_path: Path) -> None:
    (tmp_path / "table").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "table")
    with (
        TableLock(LocalFileSystem(tmp_path / "table")),
        TableLock(LocalFileSystem(tmp_path / "link"), wait_seconds=0),
    ):
        pass


def test_the_timeline_passes_over_the_locks_files(tmp_path: Path) -> None:
    fs = LocalFileSystem(tmp_path)
    with TableLock(fs):
        assert len(os.listdir(tmp_path / ".hoodie")) == 3
        assert len(TimelineLog(fs).load()) == 0
    assert sorted(os.listdir(tmp_path / ".hoodie")) == [".pyhudi.lock", ".pyhudi.lock.turn"]


def spawn(body: str, *args: str) -> subprocess.Popen[str]:
    text = "import sys, time\nfrom pyhudi.storage.local import LocalFileSystem\n"
    text += "from pyhudi.storage.locks.table_lock import TableLock\n" + textwrap.dedent(body)
    return subprocess.Popen(
        [sys.executable, "-c", text, *args],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )


HOLD = """
    with TableLock(LocalFileSystem(sys.argv[1]), purpose="held"):
        print("in", flush=True)
        sys.stdin.readline()
"""


def test_another_process_is_locked_out_until_the_holder_leaves(tmp_path: Path) -> None:
    fs = LocalFileSystem(tmp_path)
    with spawn(HOLD, str(tmp_path)) as child:
        assert child.stdout is not None and child.stdin is not None
        assert child.stdout.readline() == "in\n"
        with pytest.raises(LockError) as caught, TableLock(fs, wait_seconds=0.1):
            pass
        assert caught.value.facts["pid"] == child.pid
        assert caught.value.facts["purpose"] == "held"
        child.stdin.write("\n")
        child.stdin.flush()
        with TableLock(fs, wait_seconds=10):
            pass
        assert child.wait(10) == 0


def test_the_death_of_the_holder_frees_the_lock(tmp_path: Path) -> None:
    fs = LocalFileSystem(tmp_path)
    with spawn(HOLD, str(tmp_path)) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "in\n"
        child.send_signal(signal.SIGKILL)
        child.wait(10)
        with TableLock(fs, wait_seconds=5):
            pass


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_child_does_not_hold_its_parents_lock(tmp_path: Path) -> None:
    fs = LocalFileSystem(tmp_path)
    with TableLock(fs):
        pid = os.fork()
        if pid == 0:
            try:
                with TableLock(LocalFileSystem(tmp_path), wait_seconds=0.05):
                    os._exit(1)
            except LockError:
                os._exit(0)
            except BaseException:
                os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    with TableLock(fs, wait_seconds=0):
        pass


def test_two_processes_lose_no_update(tmp_path: Path) -> None:
    body = """
        fs = LocalFileSystem(sys.argv[1])
        for _ in range(20):
            with TableLock(fs):
                count = int(fs.read("n")) if fs.exists("n") else 0
                fs.replace("n", str(count + 1).encode())
    """
    children = [spawn(body, str(tmp_path)) for _ in range(2)]
    assert [child.wait(60) for child in children] == [0, 0]
    for child in children:
        child.__exit__(None, None, None)
    assert LocalFileSystem(tmp_path).read("n") == b"40"


def test_who_comes_back_at_once_does_not_pass_those_who_wait(tmp_path: Path) -> None:
    fs, taken, ended = LocalFileSystem(tmp_path), [0, 0], threading.Event()

    def work(number: int) -> None:
        while not ended.is_set():
            with TableLock(fs):
                taken[number] += 1
                time.sleep(0.005)
            if sum(taken) >= 40:
                ended.set()

    threads = [threading.Thread(target=work, args=(n,)) for n in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert min(taken) >= 10
