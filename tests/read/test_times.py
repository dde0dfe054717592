from __future__ import annotations

import datetime

import pytest

from pyhudi.errors import UserError
from pyhudi.read.times import as_bound, as_instant

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
        (datetime.date(2026, 11, 21), "20261121000000000"),
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
