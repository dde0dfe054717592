"""Table services that run in a thread while a continuous ingest writes batches."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pyhudi
from pyhudi.engine import LocalEngine
from pyhudi.errors import OptionError, StorageError, WriteConflictError
from pyhudi.ingest import (
    ConcurrentServices,
    IngestState,
    IngestStatus,
    Retries,
    SourceBatch,
    SourceLimits,
    Stream,
    health_file,
)
from pyhudi.ingest.streamer.settings import IngestSettings
from pyhudi.timeline.instant import Action
from pyhudi.write.write_report import WriteReport
from tests.ingest.kill_run import SCHEMA, FolderFeed, KillRun
from tests.ingest.killed_process import ServedProcess
from tests.support.row_sources import Counting

FAST = Retries(first_seconds=0.01, max_seconds=0.02)
NOW = ConcurrentServices(interval_seconds=0.0)
PATIENCE_SECONDS = 60


class Updating:
    """Endless batches that update the same four keys; the checkpoint is the number of batches."""

    def read(self, checkpoint: str | None, limits: SourceLimits, schema: pa.Schema) -> SourceBatch:
        number = int(checkpoint or 0) + 1
        rows = pa.table({"id": ["a", "b", "c", "d"], "n": [number] * 4})
        return SourceBatch(rows.to_reader(), str(number))


class WatchedEngine(LocalEngine):
    """Calls a function before each compaction; an error of it fails the compaction."""

    def __init__(self, before: Callable[[], None]) -> None:
        super().__init__(2)
        self._before = before

    def run(self, task: Any, items: Sequence[Any], *, label: str) -> list[Any]:
        if label == "compact":
            self._before()
        return super().run(task, items, label=label)


def made(path: Path, *, kind: str = "mor", engine: Any = None, **options: str) -> Any:
    schema = pa.schema({"id": pa.string(), "n": pa.int64()})
    stated = {"hoodie.compact.inline.max.delta.commits": "2", **options}
    return pyhudi.create_table(
        path, schema, record_key="id", table_type=kind, options=stated, engine=engine
    )


class Run:
    """A continuous run that ends when `until` is true of the newest status."""

    def __init__(
        self,
        stream: Stream,
        rules: ConcurrentServices,
        until: Callable[[IngestStatus], object],
        on_batch: Callable[[], None] = lambda: None,
    ) -> None:
        self.states: list[IngestStatus] = []
        self.notes: list[str] = []
        deadline = time.monotonic() + PATIENCE_SECONDS

        def ended() -> bool:
            assert time.monotonic() < deadline, self.states[-1]
            return bool(self.states) and bool(until(self.states[-1]))

        def received(report: WriteReport) -> None:
            self.notes.extend(report.notes)
            on_batch()

        stream.run(
            continuous=True, stop=ended, on_status=self.states.append, retries=FAST, services=rules,
            on_batch=received,
        )  # fmt: skip

    @property
    def last(self) -> IngestStatus:
        return self.states[-1]


def ran(name: str, least: int = 1) -> Callable[[IngestStatus], bool]:
    return lambda status: bool(status.services and status.services.runs.get(name, 0) >= least)


def test_batches_are_committed_while_a_compaction_runs(tmp_path: Path) -> None:
    committed, compactions = threading.Event(), list[bool]()

    def wait_for_a_batch() -> None:
        committed.clear()
        compactions.append(len(compactions) >= 2 or committed.wait(PATIENCE_SECONDS))

    table = made(tmp_path / "t", engine=WatchedEngine(wait_for_a_batch))
    run = Run(Stream(Updating(), table), NOW, ran("compaction", 2), committed.set)
    assert all(compactions), "no batch was committed during a compaction"
    assert table.scan(["n"]).to_arrow()["n"].to_pylist() == [run.last.batches] * 4
    assert not table.doctor().findings


def test_a_batch_runs_no_service_by_itself(tmp_path: Path) -> None:
    table = made(tmp_path / "t", **{"hoodie.compact.inline": "true"})
    run = Run(Stream(Updating(), table), NOW, ran("compaction"))
    assert run.notes == []


def test_cleaning_and_archival_run_as_the_options_say(tmp_path: Path) -> None:
    limits = {"hoodie.clean.commits.retained": "2", "hoodie.keep.min.commits": "3",
              "hoodie.keep.max.commits": "4"}  # fmt: skip
    run = Run(Stream(Updating(), made(tmp_path / "t", **limits)), NOW, ran("archival"))
    assert ran("cleaning")(run.last)
    off = {**limits, "hoodie.clean.automatic": "false"}
    run = Run(Stream(Updating(), made(tmp_path / "u", **off)), NOW, ran("archival"))
    assert not ran("cleaning")(run.last)
    none = made(tmp_path / "v", **limits, **{"hoodie.table.services.enabled": "false"})
    run = Run(Stream(Updating(), none), NOW, lambda status: status.batches == 8)
    assert run.last.services is not None and run.last.services.runs == {}


def test_a_failing_service_is_reported_and_retried_while_batches_go_on(tmp_path: Path) -> None:
    failures = iter([StorageError("disk full"), StorageError("disk full")])

    def fail_twice() -> None:
        for error in failures:
            raise error

    table = made(tmp_path / "t", engine=WatchedEngine(fail_twice))
    run = Run(Stream(Updating(), table), NOW, ran("compaction"))
    failed = [s for s in run.states if s.services and s.services.error]
    assert failed and "compaction: disk full" in str(failed[0].services)
    assert {s.services.failures for s in failed if s.services} <= {1, 2}
    assert all(s.is_healthy for s in failed)
    assert run.last.services is not None and run.last.services.error is None
    assert not table.doctor().findings


def test_a_service_that_conflicts_with_a_writer_is_no_failure(tmp_path: Path) -> None:
    conflicts = iter([WriteConflictError("another writer")])

    def conflict_once() -> None:
        for error in conflicts:
            raise error

    table = made(tmp_path / "t", engine=WatchedEngine(conflict_once))
    run = Run(Stream(Updating(), table), NOW, ran("compaction"))
    assert all(s.services is None or s.services.failures == 0 for s in run.states)


def test_the_end_of_a_run_waits_for_the_service_that_runs(tmp_path: Path) -> None:
    running = threading.Event()

    def run_slowly() -> None:
        running.set()
        time.sleep(0.5)

    table = made(tmp_path / "t", engine=WatchedEngine(run_slowly))
    run = Run(Stream(Updating(), table), NOW, lambda status: running.is_set())
    assert run.last.state is IngestState.STOPPED
    assert table.services.pending().compactions == 0
    assert [i for i in table.timeline if i.action is Action.COMMIT]


def test_a_defect_of_a_service_ends_the_run(tmp_path: Path) -> None:
    def fail() -> None:
        raise ZeroDivisionError

    table = made(tmp_path / "t", engine=WatchedEngine(fail))
    with pytest.raises(ZeroDivisionError):
        Run(Stream(Updating(), table), NOW, lambda status: False)


def test_a_run_waits_while_too_many_plans_are_pending(tmp_path: Path) -> None:
    table = made(tmp_path / "t")
    stream = Stream(Updating(), table)
    assert stream.run_once() and stream.run_once()
    assert table.schedule_compaction()
    batches: list[int] = []

    def until(status: IngestStatus) -> bool:
        if status.state is IngestState.WAITING:
            batches.append(status.batches)
            pyhudi.open_table(table.path).compact()
        return bool(batches) and status.batches > batches[0]

    rules = ConcurrentServices(compaction=False, pending_compactions_max=1, interval_seconds=0)
    run = Run(stream, rules, until)
    assert run.last.services is not None and not run.last.services.is_behind


def test_without_compaction_none_is_planned(tmp_path: Path) -> None:
    table = made(tmp_path / "t")
    rules = ConcurrentServices(compaction=False, interval_seconds=0)
    Run(Stream(Updating(), table), rules, lambda status: status.batches == 6)
    assert not [i for i in table.timeline if i.action in (Action.COMMIT, Action.COMPACTION)]


def test_clustering_runs_after_its_number_of_commits(tmp_path: Path) -> None:
    table = made(tmp_path / "t", kind="cow", **{"hoodie.parquet.small.file.limit": "0"})
    rules = ConcurrentServices(clustering_commits=2, interval_seconds=0)
    Run(Stream(Counting(400, 2), table), rules, ran("clustering"))
    assert [i for i in table.timeline if i.action is Action.REPLACE_COMMIT]
    assert not table.doctor().findings


def test_a_table_that_the_first_batch_creates_has_services(tmp_path: Path) -> None:
    settings = IngestSettings(
        {"hoodie.datasource.write.recordkey.field": "id", "stop": "200", "step": "2",
         "hoodie.clean.commits.retained": "1"},
        source_class="tests.support.row_sources:counting", target_base_path=str(tmp_path / "t"),
    )  # fmt: skip
    Run(settings.stream(), NOW, ran("cleaning"))


@pytest.mark.parametrize(
    ("properties", "flags", "expected"),
    [
        ({}, {}, ConcurrentServices()),
        ({"hoodie.clean.async": "true", "hoodie.archive.async": "true"}, {}, ConcurrentServices()),
        ({"hoodie.clustering.async.enabled": "true"}, {}, ConcurrentServices(clustering_commits=4)),
        (
            {"hoodie.datasource.clustering.async.enable": "true",
             "hoodie.clustering.async.max.commits": "9"},
            {}, ConcurrentServices(clustering_commits=9),
        ),
        ({"hoodie.clustering.async.max.commits": "9"}, {}, ConcurrentServices()),
        (
            {}, {"disable_compaction": True, "max_pending_compactions": 2,
                 "max_pending_clustering": 3},
            ConcurrentServices(
                compaction=False, pending_compactions_max=2, pending_clusterings_max=3
            ),
        ),
    ],
)  # fmt: skip
def test_options_of_the_streamer_choose_the_services(
    tmp_path: Path,
    properties: dict[str, str],
    flags: dict[str, Any],
    expected: ConcurrentServices,
) -> None:
    settings = IngestSettings(
        {"hoodie.datasource.write.recordkey.field": "id", "stop": "2", **properties},
        source_class="tests.support.row_sources:counting",
        target_base_path=str(tmp_path / "t"), table_type="MERGE_ON_READ", **flags,
    )  # fmt: skip
    assert settings.services() == expected
    assert settings.stream().run_once() is not None


@pytest.mark.parametrize(
    ("name", "text"),
    [("hoodie.clustering.async.enabled", "maybe"), ("hoodie.clustering.async.max.commits", "0")],
)
def test_options_of_services_are_checked(name: str, text: str) -> None:
    settings = IngestSettings({name: text}, source_class="tests.support.row_sources:counting")
    with pytest.raises(OptionError, match=name):
        settings.services()


def test_limits_of_services_are_checked(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="limits of concurrent services"):
        ConcurrentServices(pending_compactions_max=0)
    with pytest.raises(OptionError, match="continuous"):
        Stream(Updating(), made(tmp_path / "t")).run(services=NOW)


def test_the_health_file_has_the_services(tmp_path: Path) -> None:
    receive, states = health_file(tmp_path / "health.json"), list[IngestStatus]()
    Stream(Updating(), made(tmp_path / "t")).run(
        continuous=True, stop=lambda: bool(states) and ran("compaction")(states[-1]),
        on_status=[states.append, receive], services=NOW,
    )  # fmt: skip
    services = json.loads((tmp_path / "health.json").read_text())["services"]
    assert services["runs"]["compaction"] >= 1
    assert (services["failures"], services["error"], services["is_behind"]) == (0, None, False)


@pytest.mark.parametrize(
    ("kills", "seconds"), [(2, 6), pytest.param(4, 12, marks=pytest.mark.long)]
)
def test_a_stream_with_services_that_is_killed_loses_and_repeats_nothing(
    tmp_path: Path, kills: int, seconds: int
) -> None:
    path = tmp_path / "t"
    pyhudi.create_table(path, SCHEMA, record_key="id", ordering="number", table_type="mor")
    run = KillRun(
        FolderFeed(tmp_path / "landing"), path, seconds=seconds, kills=kills, rate=200,
        max_rows=200, started=ServedProcess,
    )  # fmt: skip
    assert run.run()["killed"] == {"process": kills}
    table = pyhudi.open_table(path)
    table.services.run()
    assert not table.doctor().findings
    assert table.count() == run.produced
