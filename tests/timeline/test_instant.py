"""Names of instants, and the times they are given."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyhudi.errors import UserError
from pyhudi.records import InstantTime
from pyhudi.timeline.clock import (
    epoch_millis,
    format_instant,
    next_instant,
    parse_instant,
    zone_of,
)
from pyhudi.timeline.instant import (
    COMPLETES_AS,
    Action,
    Instant,
    State,
    file_name,
    parse_instant_name,
)

TIMES = st.datetimes(datetime(1971, 1, 1), datetime(2200, 1, 1)).map(
    lambda at: format_instant(at.replace(tzinfo=UTC), UTC)
)


@given(TIMES, st.sampled_from(Action), st.sampled_from(State), st.none() | TIMES)
def test_parse_is_the_inverse_of_file_name(
    at: InstantTime, action: Action, state: State, completed_at: InstantTime | None
) -> None:
    is_completed = state is State.COMPLETED
    instant = Instant(at, action, state, completed_at if is_completed else None)
    published = Instant(at, COMPLETES_AS[action], state, instant.completed_at)
    assert parse_instant_name(file_name(instant)) == (published if is_completed else instant)


@given(st.text(alphabet="0123456789._acdefilmnopqrstuvx \n/٣", max_size=45))
def test_a_name_parses_only_if_it_would_be_written_so(name: str) -> None:
    instant = parse_instant_name(name)
    assert instant is None or file_name(instant) == name


@pytest.mark.parametrize(
    ("name", "action", "state"),
    [
        ("20240101000000000.commit.requested", Action.COMMIT, State.REQUESTED),
        ("20240101000000000.inflight", Action.COMMIT, State.INFLIGHT),
        ("20240101000000000.commit", Action.COMMIT, State.COMPLETED),
        ("20240101000000000.deltacommit.inflight", Action.DELTA_COMMIT, State.INFLIGHT),
        ("20240101000000000.compaction.requested", Action.COMPACTION, State.REQUESTED),
        ("20240101000000000.logcompaction.inflight", Action.LOG_COMPACTION, State.INFLIGHT),
        ("20240101000000.savepoint", Action.SAVEPOINT, State.COMPLETED),
        ("00000000000000010.deltacommit", Action.DELTA_COMMIT, State.COMPLETED),
        ("20240101000000000001.commit", Action.COMMIT, State.COMPLETED),
        ("20240101000000000.restore", Action.RESTORE, State.COMPLETED),
        ("20240101000000000_20240101000000001.deltacommit", Action.DELTA_COMMIT, State.COMPLETED),
        ("20240101000000000.clustering.inflight", Action.CLUSTERING, State.INFLIGHT),
    ],
)
def test_names_apache_hudi_writes(name: str, action: Action, state: State) -> None:
    instant = parse_instant_name(name)
    assert instant is not None
    assert (instant.action, instant.state) == (action, state)


@pytest.mark.parametrize(
    "name",
    [
        "hoodie.properties",
        "hoodie.properties.backup",
        ".20240101000000000.commit.crc",
        "20240101000000000.commit.tmp",
        "20240101000000000.commit.requested.tmp",
        "20240101000000000.commit\n",
        "20240101000000000.compaction",
        "20240101000000000.commit.inflight",
        "20240101000000000.requested",
        "20240101000000000",
        "lock",
        ".pyhudi.lock",
        "٢٠٢٤.commit",
        "archived",
    ],
)
def test_names_that_are_no_instants(name: str) -> None:
    assert parse_instant_name(name) is None


@pytest.fixture
def zurich(monkeypatch: pytest.MonkeyPatch) -> Iterator[ZoneInfo]:
    """The machine's own zone is one with daylight saving."""
    monkeypatch.setitem(os.environ, "TZ", "Europe/Zurich")
    time.tzset()
    yield ZoneInfo("Europe/Zurich")
    monkeypatch.undo()
    time.tzset()


def drawn(moments: list[datetime], zone_name: str, after: InstantTime | None = None) -> list[str]:
    clock = iter(moments)
    times = []
    for _ in moments:
        after = next_instant(after, lambda: next(clock), zone_of(zone_name))
        times.append(after)
    return times


@given(
    st.lists(st.datetimes(datetime(1980, 1, 1), datetime(2100, 1, 1)), min_size=1, max_size=20),
    st.sampled_from(["UTC", "LOCAL"]),
    st.none() | TIMES | TIMES.map(lambda t: InstantTime(t[:14])),
)
def test_times_rise_strictly_whatever_the_clock_does(
    moments: list[datetime], zone: str, after: InstantTime | None
) -> None:
    times = drawn([m.replace(tzinfo=UTC) for m in moments], zone, after)
    before = [after or "", *times]
    assert all(a < b for a, b in zip(before, times, strict=False))
    assert all(len(t) == 17 and t.isdigit() for t in times)


def test_a_thousand_instants_in_one_millisecond_rise(zurich: ZoneInfo) -> None:
    noon = datetime(2024, 5, 1, 12, tzinfo=UTC)
    times = drawn([noon] * 1500, "UTC")
    assert times == sorted(set(times)) and times[-1] == "20240501120001499"


def test_times_rise_when_the_clocks_go_back(zurich: ZoneInfo) -> None:
    """At 03:00 summer time it is 02:00 again: an hour of local times comes twice."""
    start = datetime(2024, 10, 27, 0, 30, tzinfo=UTC)
    times = drawn([start + timedelta(minutes=10 * n) for n in range(12)], "LOCAL")
    assert times == sorted(set(times))
    assert times[0] == "20241027023000000" and times[-1] == "20241027032000000"
    assert [t[8:12] for t in times[2:5]] == ["0250", "0250", "0250"]


def test_times_rise_over_the_hour_that_is_left_out(zurich: ZoneInfo) -> None:
    start = datetime(2024, 3, 31, 0, 59, 59, 999000, tzinfo=UTC)
    times = drawn([start, start, start + timedelta(milliseconds=1)], "LOCAL")
    assert times == ["20240331015959999", "20240331020000000", "20240331030000000"]
    for text in times:  # the second never was on a clock, and still is a moment
        assert epoch_millis(InstantTime(text), None) > 0


@given(TIMES)
def test_an_instant_is_a_moment_and_back(at: InstantTime) -> None:
    assert format_instant(parse_instant(at, UTC), UTC) == at
    assert epoch_millis(at, UTC) == round(parse_instant(at, UTC).timestamp() * 1000)


def test_fourteen_digits_are_the_last_of_their_second() -> None:
    assert epoch_millis(InstantTime("20240101000000"), UTC) % 1000 == 999
    assert next_instant(
        InstantTime("20240101000000"), lambda: datetime(2023, 1, 1, tzinfo=UTC), UTC
    ) == ("20240101000001000")


@pytest.mark.parametrize("text", ["", "000", "20241301000000000", "2024010100000000x", "٢" * 17])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(UserError):
        parse_instant(InstantTime(text), UTC)


@pytest.mark.parametrize("after", ["99990101000000000", "20249999000000000"])
def test_time_goes_on_behind_an_instant_that_is_no_date(after: str) -> None:
    now = datetime(2024, 1, 1, tzinfo=UTC)
    assert next_instant(InstantTime(after), lambda: now, UTC) > after


def test_zones() -> None:
    assert zone_of("UTC") is UTC and zone_of("utc") is UTC
    assert zone_of("LOCAL") is None and zone_of(None) is None
    assert format_instant(datetime(2024, 1, 1, 23, tzinfo=UTC), UTC) == "20240101230000000"


def test_instants_of_one_time_have_an_order() -> None:
    """Two writers may draw one time for different actions, and leave files of both layouts."""
    time, later = InstantTime("20240101000000000"), InstantTime("20240101000000001")
    found = [
        Instant(time, action, state, completed_at)
        for action in Action
        for state in State
        for completed_at in (None, later)
    ]
    ordered = sorted(found)
    found.reverse()
    assert sorted(found) == ordered
    assert sorted([Instant(later, Action.CLEAN, State.REQUESTED), *found])[-1].time == later
