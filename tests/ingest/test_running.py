"""Runs that go on: retries of errors that pass, states, pauses and the listings of an idle loop."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pyhudi
from pyhudi.errors import (
    CheckFailedError,
    CheckpointMovedError,
    LockError,
    OptionError,
    StorageError,
    WriteConflictError,
)
from pyhudi.ingest import (
    FileSource,
    IngestState,
    IngestStatus,
    Retries,
    SourceLag,
    Stream,
    health_file,
)
from pyhudi.ingest.retries import is_passing
from tests.support.row_sources import Counting

FAST = Retries(first_seconds=0.01, max_seconds=0.02)


class Failing(Counting):
    """Fails some reads before each batch."""

    def __init__(self, error: Exception, times: int) -> None:
        super().__init__(4, 2)
        self._error, self._times, self._failed = error, times, 0

    def read(self, *arguments: Any) -> Any:
        if self._failed < self._times:
            self._failed += 1
            raise self._error
        self._failed = 0
        return super().read(*arguments)


def made(tmp_path: Path) -> Any:
    schema = pa.schema({"id": pa.string(), "n": pa.int64()})
    return pyhudi.create_table(tmp_path / "t", schema, record_key="id")


def until_idle(states: list[IngestStatus]) -> Callable[[], bool]:
    return lambda: bool(states) and states[-1].state is IngestState.IDLE


@pytest.mark.parametrize(
    "error",
    [StorageError("slow down", retryable=True), WriteConflictError("busy"), LockError("held")],
)
def test_errors_that_pass_are_retried(tmp_path: Path, error: Exception) -> None:
    table, states = made(tmp_path), list[IngestStatus]()
    stream = Stream(Failing(error, 2), table)
    stream.run(continuous=True, stop=until_idle(states), on_status=states.append, retries=FAST)
    assert table.count() == 4
    retried = [state for state in states if state.state is IngestState.RETRYING]
    assert [state.failures for state in retried[:2]] == [1, 2]
    assert not retried[0].is_healthy and str(error) in (retried[0].error or "")
    assert states[-1].state is IngestState.STOPPED and states[-1].error is None


@pytest.mark.parametrize("error", [StorageError("gone"), CheckpointMovedError("moved")])
def test_other_errors_end_the_run(tmp_path: Path, error: Exception) -> None:
    states: list[IngestStatus] = []
    with pytest.raises(type(error)):
        Stream(Failing(error, 1), made(tmp_path)).run(continuous=True, on_status=states.append)
    assert states[-1].state is IngestState.FAILED


def test_the_count_of_retries_is_a_limit(tmp_path: Path) -> None:
    passing = StorageError("slow down", retryable=True)
    rules = Retries(2, 0.01, 0.01)
    with pytest.raises(StorageError):
        Stream(Failing(passing, 3), made(tmp_path)).run(retries=rules)
    with pytest.raises(StorageError):
        Stream(Failing(passing, 1), made(tmp_path / "once")).run()


def test_pauses_double_up_to_the_longest() -> None:
    rules = Retries(first_seconds=1.0, max_seconds=10.0)
    for attempt, longest in ((1, 1.0), (2, 2.0), (3, 4.0), (9, 10.0), (10_000, 10.0)):
        assert longest / 2 <= rules.pause(attempt) <= longest
    assert is_passing(StorageError("x", retryable=True)) and not is_passing(ValueError("x"))
    with pytest.raises(OptionError, match="retries"):
        Retries(first_seconds=0)


def test_the_health_file_has_the_state_and_the_lag(tmp_path: Path) -> None:
    table = made(tmp_path)
    receive = health_file(tmp_path / "health.json")
    Stream(Counting(4, 2), table, max_rows=1).run(on_status=[receive])
    state = json.loads((tmp_path / "health.json").read_text())
    assert (state["state"], state["batches"], state["rows"]) == ("stopped", 4, 4)
    assert (state["checkpoint"], state["lag"], state["healthy"]) == ("4", {"rows": 0}, True)
    assert state["tables"][table.path]["last_commit"] == table.timeline.commits.last.time


def test_an_idle_poll_loads_the_table_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = made(tmp_path)
    stream = Stream(Counting(2, 2), table)
    assert stream.run_once() is not None
    loads: list[int] = []
    load = type(table)._state

    def counted(self: Any) -> Any:
        loads.append(1)
        return load(self)

    monkeypatch.setattr(type(table), "_state", counted)
    assert stream.run_once() is None
    assert len(loads) == 1


class WithoutLag(Counting):
    """Cannot state its lag at present."""

    def lag(self, checkpoint: str | None) -> Any:
        raise StorageError("unreachable")


def test_an_unknown_lag_does_not_end_the_run(tmp_path: Path) -> None:
    states: list[IngestStatus] = []
    table = made(tmp_path)
    Stream(WithoutLag(4, 2), table).run(on_status=states.append)
    assert table.count() == 4 and states[-1].lag is None


def test_files_state_their_lag(tmp_path: Path) -> None:
    for number in range(3):
        path = tmp_path / f"{number}.csv"
        path.write_text("id\na\n")
        os.utime(path, (1_700_000_000 + number,) * 2)
    lag = FileSource(tmp_path).lag("1700000000000")
    assert (lag.files, lag.bytes) == (2, 10)
    assert (lag.seconds or 0) > 1e6
    assert FileSource(tmp_path).lag("1700000002000") == SourceLag(bytes=0, files=0, seconds=0.0)


class Slow(Counting):
    """Takes some time to state its lag."""

    seconds = 0.05

    def lag(self, checkpoint: str | None) -> SourceLag:
        time.sleep(self.seconds)
        return super().lag(checkpoint)


def test_the_lag_of_an_idle_ingest_becomes_that_of_its_checkpoint(tmp_path: Path) -> None:
    """Also if the source was asked after an earlier batch only, because that takes long."""
    states: list[IngestStatus] = []
    end = time.monotonic() + 20

    def stop() -> bool:
        is_known = bool(states) and states[-1].state is IngestState.IDLE
        return time.monotonic() > end or (is_known and states[-1].lag == SourceLag(rows=0))

    Stream(Slow(4, 2), made(tmp_path)).run(continuous=True, stop=stop, on_status=states.append)
    assert states[-1].lag == SourceLag(rows=0) and states[-1].checkpoint == "4"


@pytest.mark.parametrize("state", [IngestState.IDLE, IngestState.RETRYING])
def test_the_lag_grows_while_no_batch_is_written(
    tmp_path: Path, state: IngestState, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The source has more rows, which cannot be read yet or are not written."""
    monkeypatch.setattr("pyhudi.ingest.stream._LAG_SECONDS", 0.1)
    states: list[IngestStatus] = []
    behind = [0]

    class Growing(Counting):
        def lag(self, checkpoint: str | None) -> SourceLag:
            behind[0] += 1
            return SourceLag(rows=behind[0])

        def read(self, *arguments: Any) -> Any:
            if state is IngestState.RETRYING:
                raise StorageError("slow down", retryable=True)
            return None

    def stop() -> bool:
        return bool(states) and states[-1].state is state and states[-1].lag == SourceLag(rows=3)

    rules = Retries(first_seconds=2.0, max_seconds=2.0)
    stream = Stream(Growing(4, 2), made(tmp_path))
    stream.run(continuous=True, stop=stop, on_status=states.append, retries=rules)
    assert SourceLag(rows=2) in [known.lag for known in states]


class Acknowledged(Counting):
    """A queue: a batch that was acknowledged is not sent again."""

    def __init__(self, stop: int, step: int) -> None:
        super().__init__(stop, step)
        self.done = 0

    def read(self, checkpoint: str | None, *arguments: Any) -> Any:
        batch = super().read(str(self.done), *arguments)
        return batch and replace(batch, committed=lambda: self._acknowledge(batch.checkpoint))

    def _acknowledge(self, checkpoint: str) -> None:
        self.done = int(checkpoint)


def test_a_batch_is_acknowledged_after_its_commit_only(tmp_path: Path) -> None:
    """The write fails, and the rows are read and written by the next attempt."""
    made(tmp_path)
    checks = {
        "hoodie.precommit.validators": "SqlQuerySingleResultPreCommitValidator",
        "hoodie.precommit.validators.single.value.sql.queries":
            "SELECT COUNT(*) FROM <TABLE_NAME> WHERE n = 2#0",
    }  # fmt: skip
    checked = pyhudi.open_table(tmp_path / "t", options=checks)
    source = Acknowledged(4, 2)
    with pytest.raises(CheckFailedError):
        list(Stream(source, checked).available())
    assert source.done == 2
    table = pyhudi.open_table(tmp_path / "t")
    assert [report.inserted for report in Stream(source, table).available()] == [2]
    assert sorted(table.scan(["n"]).to_arrow()["n"].to_pylist()) == [0, 1, 2, 3]
