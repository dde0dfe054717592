"""Tables written while the wall clock is set back, jumps, stands still or changes to summer time:
what came later is later, whatever the clock said."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path

import pyarrow as pa
import pytest

import pyhudi
from pyhudi.storage.locks.lease import LeaseMutex
from pyhudi.storage.locks.numbered_lease import NumberedLease
from pyhudi.storage.memory import MemoryFileSystem
from pyhudi.timeline import clock
from tests.support.inside import state_of

SCHEMA = pa.schema({"id": pa.string(), "part": pa.string(), "v": pa.int64()})
SUMMER_ENDS = datetime(2024, 10, 27, 0, 50, tzinfo=UTC)  # 02:50 in Zurich, and soon 02:00 again
SUMMER_BEGINS = datetime(2024, 3, 31, 0, 59, 59, 999000, tzinfo=UTC)
MINUTES = {
    "stands still": [0, 0, 0, 0],
    "is set back": [0, 60, -60, -59],
    "runs ahead and is corrected": [0, 60 * 24 * 365, 1, 2],
    "goes on": [0, 20, 40, 60],
}


@pytest.fixture
def zurich(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setitem(os.environ, "TZ", "Europe/Zurich")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.fixture
def set_clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[datetime], None]:
    """Sets the clock that instants are drawn by; it stands still between."""

    def set_to(moment: datetime) -> None:
        class Stopped(datetime):
            @classmethod
            def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]
                return moment.astimezone(tz)

        monkeypatch.setattr(clock, "datetime", Stopped)

    return set_to


def rows(value: int, *keys: str, part: str = "p") -> pa.Table:
    found = [{"id": key, "part": part, "v": value} for key in keys]
    return pa.Table.from_pylist(found, SCHEMA)


def values(found: pyhudi.Scan) -> dict[str, int]:
    return {row["id"]: row["v"] for row in found.to_arrow().to_pylist()}


@pytest.mark.parametrize("version", [6, 9])
@pytest.mark.parametrize(
    ("zone", "start", "steps"),
    [
        ("UTC", SUMMER_ENDS, "is set back"),
        ("UTC", SUMMER_ENDS, "stands still"),
        ("LOCAL", SUMMER_ENDS, "goes on"),
        ("LOCAL", SUMMER_ENDS, "is set back"),
        ("LOCAL", SUMMER_BEGINS, "stands still"),
        ("LOCAL", SUMMER_BEGINS, "runs ahead and is corrected"),
    ],
)
def test_commits_keep_their_order(
    tmp_path: Path,
    zurich: None,
    set_clock: Callable[[datetime], None],
    zone: str,
    start: datetime,
    steps: str,
    version: int,
) -> None:
    set_clock(start)
    kind = "mor" if zone == "LOCAL" else "cow"
    pyhudi.create_table(
        tmp_path, SCHEMA, record_key="id", partition_by="part", table_type=kind, version=version,
        options={"hoodie.table.timeline.timezone": zone},
    )  # fmt: skip
    instants: list[str] = []
    ends: list[str] = []
    for number, minutes in enumerate(MINUTES[steps]):
        set_clock(start + timedelta(minutes=minutes))
        table = pyhudi.open_table(tmp_path)
        report = table.upsert(rows(number, "a", f"k{number}"))
        instants.append(str(report.instant))
        ends.append(str(report.completed_at or report.instant))
    assert instants == sorted(set(instants)) and ends == sorted(set(ends))
    table = pyhudi.open_table(tmp_path)
    for number, (instant, end) in enumerate(zip(instants, ends, strict=True)):
        then = {"a": number, **{f"k{n}": n for n in range(number + 1)}}
        assert values(table.scan(["id", "v"], as_of=instant)) == then
        after = {"a": 3, **{f"k{n}": n for n in range(number + 1, 4)}} if number < 3 else {}
        assert values(table.changes(end)) == after
    assert [row["instant"] for row in table.history("a").to_pylist()] == instants


def test_writers_of_one_millisecond_draw_different_instants(
    tmp_path: Path, set_clock: Callable[[datetime], None]
) -> None:
    set_clock(datetime(2024, 5, 1, tzinfo=UTC))
    options = {"hoodie.write.concurrency.mode": "optimistic_concurrency_control"}
    pyhudi.create_table(tmp_path, SCHEMA, record_key="id", partition_by="part", index="simple")
    drawn: list[str] = []

    def write(number: int) -> None:
        table = pyhudi.open_table(tmp_path, options=options)
        for again in range(2):
            report = table.upsert(rows(again, f"k{number}", part=f"p{number}"))
            drawn.append(str(report.instant))

    threads = [threading.Thread(target=write, args=(n,)) for n in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(drawn)) == len(drawn) == 6
    found = values(pyhudi.open_table(tmp_path).scan(["id", "v"]))
    assert found == {"k0": 1, "k1": 1, "k2": 1}


def test_a_lease_does_not_hear_of_the_wall_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    fs, shift = MemoryFileSystem(), [0.0]
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + shift[0])
    holder = LeaseMutex(NumberedLease(fs, "lock"), "steps", lease_seconds=5)
    heir = LeaseMutex(NumberedLease(fs, "lock"), "steps", lease_seconds=5)
    assert holder.acquire(0)
    for step in (1e9, -1e9, 86_400.0):
        shift[0] = step
        assert not holder.is_lost and holder.confirm() and not heir.acquire(0)
    holder.release()


@pytest.mark.parametrize("version", [8, 9])
def test_no_write_has_the_time_of_a_service_of_the_metadata_table(
    tmp_path: Path, set_clock: Callable[[datetime], None], version: int
) -> None:
    """Behind the newest instant both draw the time that follows it."""
    set_clock(SUMMER_ENDS)
    options = {
        "hoodie.metadata.compact.max.delta.commits": "1",
        "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
    }
    table = pyhudi.create_table(
        tmp_path / "t", SCHEMA, record_key="id", version=version, options=options
    )
    for value in range(4):
        table.upsert(rows(value, "a"))
    folder = state_of(table).log.layout.timeline_folder
    own = [path.name for path in (tmp_path / "t/.hoodie/metadata" / folder).iterdir()]
    services = {name[:17] for name in own if ".compaction." in name}
    written = {str(instant.time) for instant in table.timeline.commits}
    assert services
    assert services.isdisjoint(written)
