"""What is due is done, what is not is told, and a thread beside a writer does the same."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner

import pyhudi
from pyhudi.cli.app import commands
from pyhudi.errors import LockError
from pyhudi.operations.service_runs import BackgroundServices, ServicesReport
from pyhudi.table.properties import TableType
from tests.crash.torn import SCHEMA, copy_of, died, index_of, opened, rows, snapshot, table


def test_nothing_is_due_twice_and_rows_stay() -> None:
    fs = copy_of(table(TableType.MERGE_ON_READ))
    died(fs)
    want = snapshot(fs)
    reported = opened(fs).services.run(dry_run=True)
    assert {s.name for s in reported.services if s.is_due} >= {"rollback", "compaction"}
    assert opened(fs).timeline.pending, "a dry run changes nothing"
    report = opened(fs).services.run()
    assert not report.errors
    assert {s.name for s in report.services if s.did} >= {"rollback", "compaction"}
    again = opened(fs).services.run(dry_run=True)
    assert not any(s.is_due for s in again.services), str(again)
    assert snapshot(fs) == want
    assert index_of(fs) == set(want)


def test_a_run_that_is_stopped_completes_the_service_in_flight_only() -> None:
    fs = copy_of(table(TableType.MERGE_ON_READ))
    died(fs)
    answers = iter([False, True])
    report = opened(fs).services.run(stop=lambda: next(answers))
    assert [(s.name, bool(s.did)) for s in report.services] == [("rollback", True)]
    again = opened(fs).services.run(dry_run=True)
    due = {s.name for s in again.services if s.is_due}
    assert "rollback" not in due and "compaction" in due


def test_a_thread_compacts_concurrently_with_a_writer(tmp_path: Path) -> None:
    options = {"hoodie.compact.inline.max.delta.commits": "2"}
    made = pyhudi.create_table(
        tmp_path / "t", SCHEMA, record_key="id", partition_by="part", ordering="ts",
        table_type="mor", options=options,
    )  # fmt: skip
    with made.services.start(every_seconds=0.05) as background:
        for number in range(4):
            made.upsert(rows(range(8), number))
        while not background.reports and background.looks < 50:
            threading.Event().wait(0.05)
    assert not background.is_running
    assert background.failure is None
    found = made.scan(["id", "ts"], with_meta=False).to_arrow()
    assert found["ts"].to_pylist() == [3] * 8
    assert made.doctor().is_healthy


def test_a_look_that_fails_is_reported_and_retried() -> None:
    requested = threading.Event()
    answers = iter([LockError("another writer holds the lock")])

    def run() -> ServicesReport:
        try:
            raise next(answers)
        except StopIteration:
            requested.set()
            return ServicesReport()

    with BackgroundServices(run, every_seconds=0.01) as background:
        assert requested.wait(10)
    assert background.failure is None
    assert background.reports == ()


def test_the_command_line_reports_findings_by_its_exit_code(tmp_path: Path) -> None:
    made = pyhudi.create_table(tmp_path / "t", SCHEMA, record_key="id", partition_by="part")
    made.upsert(rows(range(4), 1))
    run = CliRunner()
    path = str(tmp_path / "t")
    assert run.invoke(commands, ["doctor", path]).exit_code == 0
    assert run.invoke(commands, ["metadata", "verify", path]).exit_code == 0
    assert "not due" in run.invoke(commands, ["services", "run", path]).output
    (tmp_path / "t" / "p0" / ".hoodie_partition_metadata").write_bytes(b"")
    broken = run.invoke(commands, ["doctor", path, "--json"])
    assert broken.exit_code == 3
    assert "partition-metafile" in broken.output
    assert run.invoke(commands, ["repair", path]).exit_code == 0
    assert run.invoke(commands, ["doctor", path]).exit_code == 0


def test_a_pause_must_be_positive(tmp_path: Path) -> None:
    made = pyhudi.create_table(tmp_path / "t", SCHEMA, record_key="id")
    with pytest.raises(pyhudi.UserError):
        made.services.start(every_seconds=0)


def many_logs(path: Path) -> pyhudi.Table:
    """A slice with six log blocks, and no compaction due."""
    options = {"hoodie.compact.inline.max.delta.commits": "100"}
    made = pyhudi.create_table(
        path, SCHEMA, record_key="id", partition_by="part", ordering="ts", table_type="mor",
        options=options,
    )  # fmt: skip
    for number in range(7):
        made.upsert(rows(range(4), number))
    return made


def test_log_compaction_runs_where_slices_have_many_blocks(tmp_path: Path) -> None:
    table = many_logs(tmp_path / "t")
    want = table.scan(with_meta=False).to_arrow().sort_by("id")
    reported = {s.name: s for s in table.services.run(dry_run=True).services}
    assert reported["log compaction"].is_due and not reported["compaction"].is_due
    report = table.services.run()
    assert not report.errors
    assert "merged" in {s.name: s.did for s in report.services}["log compaction"]
    again = {s.name: s for s in table.services.run(dry_run=True).services}
    assert not again["log compaction"].is_due
    assert table.scan(with_meta=False).to_arrow().sort_by("id") == want


def test_partitions_that_have_expired_are_deleted_by_services(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = pyhudi.create_table(tmp_path / "t", SCHEMA, record_key="id", partition_by="part")
    made.upsert(rows(range(4), 1))
    assert not {s.name: s for s in made.services.run(dry_run=True).services}["partition TTL"].is_due
    options = {"hoodie.partition.ttl.strategy.days.retain": "2"}
    table = pyhudi.open_table(tmp_path / "t", options=options)
    assert not {s.name: s for s in table.services.run().services}["partition TTL"].is_due
    later = datetime.now(UTC) + timedelta(days=3)
    monkeypatch.setattr("pyhudi.operations.ttl.system_clock", lambda: later)
    reported = {s.name: s for s in table.services.run(dry_run=True).services}["partition TTL"]
    assert reported.is_due and table.scan().count() == 4
    assert not table.services.run().errors
    assert table.scan().count() == 0
