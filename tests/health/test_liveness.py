"""A writer that lives is nowhere called crashed: doctor, services, report and locks judge alike."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import pyhudi
from pyhudi.api.table import Table
from pyhudi.cli.app import commands
from pyhudi.engine import LocalEngine
from pyhudi.health.doctor import examine
from pyhudi.health.findings import Diagnosis
from pyhudi.options import Options, parse_options
from pyhudi.storage.local import LocalFileSystem
from pyhudi.storage.locks.table_lock import TableLock
from pyhudi.table.properties import TableType
from tests.crash.torn import OPTIONS, SCHEMA, copy_of, died, opened, rows, table
from tests.support.filesystems import Steps, TracingFileSystem, every_stop

WITHOUT_LOCK = OPTIONS | {"hoodie.write.concurrency.mode": "optimistic_concurrency_control"}


class Watched(Steps):
    """Steps of a process; after some of them another one looks at the table."""

    def __init__(self, look: Callable[[], object], every: int) -> None:
        super().__init__()
        self._look, self._every = look, every

    def take(self, what: str, act: Callable[[], Any]) -> Any:
        result = super().take(what, act)
        if len(self.trace) % self._every == 0:
            failed: list[BaseException] = []
            looking = threading.Thread(target=_catching, args=(self._look, failed))
            looking.start()
            looking.join()
            if failed:
                raise AssertionError(f"after step {len(self.trace)}, {what}: {failed[0]}")
        return result


def _catching(look: Callable[[], object], failed: list[BaseException]) -> None:
    try:
        look()
    except BaseException as error:
        failed.append(error)


def newest(table: Table) -> str:
    last = table.timeline.commits.last
    assert last is not None
    return str(last.time)


def restored(table: Table) -> None:
    saved = table.savepoint("now")
    table.upsert(rows(range(4), 9))
    table.restore(saved.instant)


WRITES: dict[str, tuple[dict[str, str], Callable[[Table], object]]] = {
    "upsert": (OPTIONS, lambda t: t.upsert(rows(range(8, 24), 9))),
    "upsert without the lock": (WITHOUT_LOCK, lambda t: t.upsert(rows(range(8, 24), 9))),
    "overwrite": (OPTIONS, lambda t: t.insert_overwrite(rows(range(0, 8, 2), 9))),
    "compaction": (OPTIONS, lambda t: t.compact()),
    "clustering": (OPTIONS, lambda t: t.cluster(sort_by=["ts"])),
    "clean": (OPTIONS, lambda t: t.clean()),
    "rollback": (OPTIONS, lambda t: t.rollback(newest(t))),
    "restore": (OPTIONS, restored),
}


@pytest.mark.parametrize("kind", TableType, ids=["cow", "mor"])
@pytest.mark.parametrize("name", WRITES)
def test_a_table_in_normal_operation_is_healthy_at_each_step(name: str, kind: TableType) -> None:
    if name == "compaction" and kind is TableType.COPY_ON_WRITE:
        return
    fs = copy_of(table(kind, 9))
    given, act = WRITES[name]
    options = parse_options(given)
    codes: set[str] = set()

    def look() -> None:
        found = examine(fs, quick=True)
        codes.update(f.code for f in found.findings)
        assert not found.problems, [str(f) for f in found.problems]
        reported = Table(fs, options=options, engine=LocalEngine(1)).services.run(dry_run=True)
        assert not next(s for s in reported.services if s.name == "rollback").is_due

    watched = TracingFileSystem(fs, steps=Watched(look, every=3))
    act(Table(watched, options=options, engine=LocalEngine(1)))
    if name in ("upsert", "overwrite"):
        assert "running-write" in codes
    if name in ("rollback", "restore"):
        assert "running-service" in codes


def test_what_a_crashed_restore_left_is_pending_and_no_damage() -> None:
    fs = copy_of(table(TableType.COPY_ON_WRITE, 9))
    made = opened(fs)
    saved = made.savepoint("now")
    made.upsert(rows(range(4), 9))
    explained = set()
    for stop in every_stop(fs, lambda at: opened(at).restore(saved.instant)):
        found = examine(stop.fs, quick=True)
        assert {f.code for f in found.problems} <= {"pending-service", "pending-write"}, stop
        explained |= {f.code for f in found.findings if "the restore" in f.why}
    assert "metadata-files" in explained


def test_crashed_and_running_writers_are_different_findings() -> None:
    fs = copy_of(table(TableType.COPY_ON_WRITE, 9))
    died(fs)
    assert [f.code for f in examine(fs).problems] == ["pending-write"]
    with TableLock(fs, purpose="clean"):
        found: list[Diagnosis] = []
        looking = threading.Thread(target=lambda: found.append(examine(fs)))
        looking.start()
        looking.join()
        assert [f.code for f in found[0].findings] == ["running-write"], "its holder rolls it back"
        assert "purpose=clean" in found[0].findings[0].why
        assert [f.code for f in examine(fs).problems] == ["pending-write"], "asked by the holder"


def test_another_process_sees_the_writer_that_holds_the_lock(tmp_path: Path) -> None:
    path = tmp_path / "t"
    pyhudi.create_table(path, SCHEMA, record_key="id", partition_by="part", version=9)
    answers: dict[str, Any] = {}

    def look() -> None:
        if not answers and list(path.glob(".hoodie/timeline/*.inflight")):
            for name, *given in (["locks"], ["doctor"], ["services", "run", "--dry-run"]):
                call = [sys.executable, "-m", "pyhudi", name, *given[:1], str(path), *given[1:]]
                done = subprocess.run([*call, "--json"], capture_output=True, check=False)
                answers[name] = json.loads(done.stdout)
                assert done.returncode == 0, done.stdout

    fs = TracingFileSystem(LocalFileSystem(path), steps=Watched(look, every=1))
    Table(fs, options=Options(), engine=LocalEngine(1)).upsert(rows(range(4), 1))
    (pending,) = answers["locks"]["pending"]
    assert answers["locks"]["holder"]["pid"] == os.getpid()
    assert answers["locks"]["running"] == [pending["instant"]]
    assert pending["is_running"]
    assert [f["code"] for f in answers["doctor"]["findings"]] == ["running-write"]
    assert not answers["services"]["services"][0]["is_due"]


def test_locks_name_no_holder_after_a_crash(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    pyhudi.create_table(path, SCHEMA, record_key="id", partition_by="part")
    left = Path(path, ".hoodie/.pyhudi.lock.holder")
    left.write_text('{"pid": 1, "host": "h", "purpose": "upsert"}', "utf-8")
    answer = json.loads(CliRunner().invoke(commands, ["locks", path, "--json"]).output)
    assert answer["holder"] is None
    assert answer["last_holder"]["purpose"] == "upsert"
