"""Joda's patterns: what Apache Hudi prints and reads with them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import hypothesis.strategies as st
import pytest
from hypothesis import given

from pyhudi.errors import OptionError
from pyhudi.keygen.time_patterns import format_time, parse_time, tokens, zone_of_name

TIME = datetime(2023, 11, 5, 0, 7, 9, 45_600, timezone(timedelta(hours=-3, minutes=-30)))


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("yyyy/MM/dd", "2023/11/05"),
        ("yyyyMMddHHmmss", "20231105000709"),
        ("yy-M-d", "23-11-5"),
        ("MMM MMMM", "Nov November"),
        ("E EEEE e", "Sun Sunday 7"),
        ("xxxx-'W'ww", "2023-W44"),
        ("D DDD", "309 309"),
        ("h:mm a K k", "12:07 AM 0 24"),
        ("ss.SSS S SSSSSSSSSS", "09.045 0 0456000000"),
        ("HH Z ZZ", "00 -0330 -03:30"),
        ("'year='yyyy 'o''clock' ''", "year=2023 o'clock '"),
        ("yyyy年", "2023年"),
    ],
)
def test_times_are_printed_as_joda_prints_them(pattern: str, text: str) -> None:
    assert format_time(TIME, pattern) == text


@pytest.mark.parametrize(
    ("text", "pattern", "seconds"),
    [
        ("2023-10-10T00:30:00Z", "yyyy-MM-dd'T'HH:mm:ssZ", 1696897800),
        ("2023-10-10T00:30:00+02:00", "yyyy-MM-dd'T'HH:mm:ssZ", 1696890600),
        ("2023-10-10T00:30:00.250-0100", "yyyy-MM-dd'T'HH:mm:ss.SSSZ", 1696901400.25),
        ("20231010", "yyyyMMdd", 1696896000),
        ("1/2/2023", "M/d/yyyy", 1672617600),
        ("10 oct 2023 12 AM", "dd MMM yyyy hh a", 1696896000),
        ("2023 060", "yyyy DDD", 1677628800),
        ("2023-10-10 03:00 Europe/Berlin", "yyyy-MM-dd HH:mm ZZZ", 1696899600),
        ("02-29", "MM-dd", 951782400),
    ],
)
def test_texts_are_read_as_joda_reads_them(text: str, pattern: str, seconds: float) -> None:
    time = parse_time(text, pattern, zone=None)
    assert time is not None and time.timestamp() == seconds


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        ("2023-13-01", "yyyy-MM-dd"),
        ("2023-02-30", "yyyy-MM-dd"),
        ("2023-02-03 ", "yyyy-MM-dd"),
        ("2023-02", "yyyy-MM-dd"),
        ("2023-366", "yyyy-DDD"),
        ("2023-000", "yyyy-DDD"),
        ("2023-01-02 0 PM", "yyyy-MM-dd h a"),
        ("2023-01-02 13 PM", "yyyy-MM-dd h a"),
        ("2023-01-02 12 PM", "yyyy-MM-dd K a"),
        ("2023-01-02 25", "yyyy-MM-dd k"),
        ("", "yyyy"),
        ("1 Nowhere/Land", "d ZZZ"),
        ("٣", "d"),
    ],
)
def test_texts_of_another_form_are_none(text: str, pattern: str) -> None:
    assert parse_time(text, pattern, zone=None) is None


def test_a_zone_is_for_texts_that_name_none() -> None:
    berlin = zone_of_name("Europe/Berlin")
    named = parse_time("2023-07-01 10Z", "yyyy-MM-dd HHZ", zone=berlin)
    unnamed = parse_time("2023-07-01 10", "yyyy-MM-dd HH", zone=berlin)
    assert named is not None and named.hour == 12
    assert unnamed is not None and unnamed.astimezone(UTC).hour == 8


@pytest.mark.parametrize("pattern", ["yyyy-QQ", "yyyy'x", "G yyyy", "z"])
def test_patterns_that_are_not_supported_say_so(pattern: str) -> None:
    with pytest.raises(OptionError, match="unsupported time format"):
        tokens(pattern)


@pytest.mark.parametrize("pattern", ["yy-MM-dd", "EEE d", "xxxx ww"])
def test_patterns_that_cannot_be_read_say_so(pattern: str) -> None:
    with pytest.raises(OptionError, match="unsupported time format"):
        parse_time("x", pattern, zone=None)


def test_zones_go_by_the_names_java_knows() -> None:
    assert zone_of_name("GMT+5:30").utcoffset(None) == timedelta(hours=5, minutes=30)
    assert zone_of_name("GMT-08").utcoffset(None) == timedelta(hours=-8)
    with pytest.raises(OptionError, match="Europe/Berlin"):
        zone_of_name("Mars/Olympus")


@pytest.mark.parametrize("name", ["UTC+8", "UTC+08:00", "+08:00", "GMT+25", "GMT+8:60", "GMT+8:"])
def test_a_name_that_java_takes_for_gmt_is_refused(name: str) -> None:
    """TimeZone.getTimeZone returns GMT for each, in which Apache Hudi writes the partitions."""
    with pytest.raises(OptionError, match="unknown time zone"):
        zone_of_name(name)


@pytest.mark.parametrize(
    ("zone", "pattern", "expected"),
    [
        ("GMT+5:30", "ZZZ", "+05:30"),
        ("GMT-3:30", "ZZZ", "-03:30"),
        ("UTC", "ZZZ Z", "UTC +0000"),
        ("UTC", "''''yyyy'''T'''' o''clock'", "''1920'T'' o'clock"),
        ("America/St_Johns", "ZZZ ZZ", "America/St_Johns -03:30"),  # and 52 seconds
    ],
)
def test_zones_and_quotes_are_printed_as_joda_prints_them(
    zone: str, pattern: str, expected: str
) -> None:
    assert format_time(datetime(1920, 1, 2, tzinfo=zone_of_name(zone)), pattern) == expected


def test_a_day_of_the_year_alone_is_one_of_2000() -> None:
    assert parse_time("279", "DDD", zone=None) == datetime(2000, 10, 5, tzinfo=UTC)


PATTERNS = [
    "yyyy-MM-dd'T'HH:mm:ss.SSSSSSZ",
    "yyyyMMdd HHmmssSSSSSS ZZ",
    "d MMMM yyyy k:m:s.SSSSSS Z",
]


@given(
    st.datetimes(min_value=datetime(1000, 1, 1), max_value=datetime(9999, 1, 1)),
    st.integers(-14 * 60, 14 * 60),
    st.sampled_from(PATTERNS),
)
def test_what_is_printed_is_read_again(wall: datetime, minutes: int, pattern: str) -> None:
    time = wall.replace(tzinfo=timezone(timedelta(minutes=minutes)))
    assert parse_time(format_time(time, pattern), pattern, zone=None) == time
