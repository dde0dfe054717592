from __future__ import annotations

import datetime

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import pyhudi
from pyhudi.errors import UserError
from pyhudi.read.time_travel import as_bound, as_instant

UTC = datetime.UTC
INDIA = datetime.timezone(datetime.timedelta(hours=5, minutes=30))


@pytest.mark.parametrize(
    ("given", "instant"),
    [
        ("20261121093000123", "20261121093000123"),
        ("20261121093000", "20261121093000"),
        ("20261121093000123010", "20261121093000123010"),
        ("2026-11-21", "20261121000000000"),
        ("2026-11-21 09:30:00", "20261121093000000"),
        ("2026-11-21 09:30:00.1", "20261121093000100"),
        ("2026-11-21T09:30:00.123456", "20261121093000123"),
        ("2026-11-21T09:30:00Z", "20261121093000000"),
        ("2026-11-21T09:30Z", "20261121093000000"),
        ("2026-11-21 09:30", "20261121093000000"),
        ("2026-11-21T15:00:00.123456789+05:30", "20261121093000123"),
        ("2026-11-21T01:30:00-08", "20261121093000000"),
        ("2026-11-20T23:30:00.5-1000", "20261121093000500"),
        (datetime.date(2026, 11, 21), "20261121000000000"),
        ("0999-01-01", "09990101000000000"),
        (datetime.date(500, 1, 2), "05000102000000000"),
        (datetime.datetime(1, 1, 1, tzinfo=UTC), "00010101000000000"),
        (datetime.datetime(2026, 11, 21, 9, 30, 0, 123999), "20261121093000123"),
        (datetime.datetime(2026, 11, 21, 15, 0, tzinfo=INDIA), "20261121093000000"),
    ],
)
def test_points_in_time_as_users_write_them(given: object, instant: str) -> None:
    assert as_instant(given, UTC) == instant  # type: ignore[arg-type]


@pytest.mark.parametrize("given", ["yesterday", "2026", "2026-13-01", "2026-11-21 25:00:00", ""])
def test_other_text_is_refused(given: str) -> None:
    with pytest.raises(UserError, match="not a point in time"):
        as_instant(given, UTC)


def test_a_bound_may_be_digits_of_any_length() -> None:
    assert as_bound("000", UTC) == "000"
    assert as_bound("2026-11-21", UTC) == "20261121000000000"


def test_a_zone_of_the_text_counts_against_that_of_the_table() -> None:
    assert as_instant("2026-11-21T09:30:00Z", INDIA) == "20261121150000000"
    assert as_instant("2026-11-21T09:30:00", INDIA) == "20261121093000000"
    with pytest.raises(UserError, match="not a point in time"):
        as_instant("2026-11-21T09:30:00+99:00", UTC)


def test_times_before_the_table_and_ranges_back_in_time_are_refused() -> None:
    schema = pa.schema([("id", pa.string()), ("v", pa.int64())])
    table = pyhudi.create_table("memory://times1", schema, record_key="id")
    assert table.scan(as_of="2001-01-01").count() == 0, "an empty table has no first commit"
    for value in (1, 2):
        table.upsert(pa.table({"id": ["a"], "v": [value]}))
    first, second = (i.completed_at or i.time for i in table.timeline.commits)
    assert table.scan("v", as_of=first).to_arrow().column("v").to_pylist() == [1]
    for early in ("2001-01-01", "2001-01-01T00:00:00Z", datetime.datetime(2001, 1, 1)):
        with pytest.raises(UserError, match="no commit at or before"):
            table.scan(as_of=early).to_arrow()
    for since, until in ((second, first), (first, "000"), ("2030-01-01", "2029-01-01")):
        with pytest.raises(UserError, match="ends before it begins"):
            table.changes(since, until)
    assert table.changes("000", first).count() == 1
    assert table.changes("000").count() == 1
    assert table.changes(second, second).count() == 0
    assert table.changes("2099-01-01").count() == 0


def test_a_write_that_finds_nothing_to_do_is_no_dry_run() -> None:
    schema = pa.schema([("id", pa.string()), ("v", pa.int64())])
    table = pyhudi.create_table("memory://times2", schema, record_key="id")
    table.upsert(pa.table({"id": ["a"], "v": [1]}))
    nothing = schema.empty_table()
    for report in (
        table.upsert(nothing),
        table.insert(nothing),
        table.delete(keys="absent"),
        table.delete(where=pc.field("v") > 7),
    ):
        assert report.instant is None and not report.dry_run
    assert table.delete(keys="absent", dry_run=True).dry_run
    assert table.upsert(pa.table({"id": ["a"], "v": [2]}), dry_run=True).dry_run
