"""The timestamp key generator, against what its Java original does with the same values."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from decimal import Decimal

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import given

from pyhudi.errors import OptionError, SchemaError, UserError
from pyhudi.keygen.time_patterns import format_time, zone_of_name
from pyhudi.keygen.timestamp_generator import time_rule, time_texts
from pyhudi.options import TimestampSettings


def texts(values: object, kind: pa.DataType | None = None, **settings: str) -> list[str]:
    rule = time_rule(TimestampSettings(**{"output_format": "yyyy-MM-dd HH", **settings}))
    column = pa.chunked_array([pa.array(values, kind)])
    return time_texts(column, "at", rule=rule).to_pylist()


@pytest.mark.parametrize(
    ("kind", "number"),
    [
        ("UNIX_TIMESTAMP", 1_700_000_000),
        ("EPOCHMILLISECONDS", 1_700_000_000_999),
        ("EPOCHMICROSECONDS", 1_700_000_000_999_999),
    ],
)
def test_numbers_count_in_the_unit_of_the_type(kind: str, number: int) -> None:
    assert texts([number], timestamp_type=kind) == ["2023-11-14 22"]


@pytest.mark.parametrize(
    ("unit", "number"),
    [("DAYS", 19675), ("HOURS", 472_222), ("MINUTES", 28_333_333), ("SECONDS", 1_700_000_000),
     ("MILLISECONDS", 1_700_000_000_000), ("NANOSECONDS", 1_700_000_000 * 10**9)],
)  # fmt: skip
def test_scalars_count_in_the_stated_unit(unit: str, number: int) -> None:
    found = texts([number], timestamp_type="SCALAR", scalar_unit=unit, output_format="yyyyMMdd")
    assert found == ["20231114"]


def test_a_null_is_the_number_one_and_1970_for_texts() -> None:
    assert texts([None], pa.int64(), timestamp_type="SCALAR", scalar_unit="DAYS") == [
        "1970-01-02 00"
    ]
    assert texts([None], pa.string(), timestamp_type="DATE_STRING", input_formats="yyyy") == [
        "1970-01-01 00"
    ]


@pytest.mark.parametrize(
    ("values", "kind", "scalar"),
    [
        ([1.9, -1.9], pa.float64(), ["1970-01-02 00", "1969-12-31 00"]),
        ([Decimal("1.90")], pa.decimal128(10, 2), ["1970-01-02 00"]),
        ([date(2023, 11, 14)], pa.date32(), ["2023-11-14 00"]),
    ],
)
def test_other_numbers_are_cut_to_whole_ones(values, kind, scalar) -> None:
    assert texts(values, kind, timestamp_type="SCALAR", scalar_unit="DAYS") == scalar


def test_a_timestamp_counts_as_the_number_that_is_stored() -> None:
    at = [datetime(2023, 11, 14, 22)]
    assert texts(at, pa.timestamp("us"), timestamp_type="EPOCHMICROSECONDS") == ["2023-11-14 22"]
    assert texts(at, pa.timestamp("ms"), timestamp_type="EPOCHMILLISECONDS") == ["2023-11-14 22"]


def test_microseconds_before_1970_are_cut_toward_zero() -> None:
    found = texts([-1], timestamp_type="EPOCHMICROSECONDS", output_format="yyyy SSS")
    assert found == ["1970 000"]


def test_numbers_are_shown_in_the_output_zone() -> None:
    kwargs = {"timestamp_type": "UNIX_TIMESTAMP", "output_format": "yyyy-MM-dd HH:mm Z"}
    assert texts([1_700_000_000], output_timezone="GMT+8", **kwargs) == ["2023-11-15 06:13 +0800"]
    found = texts([1_700_000_000], timezone="America/New_York", output_timezone="UTC", **kwargs)
    assert found == ["2023-11-14 17:13 -0500"]


def test_texts_are_read_by_the_first_format_that_fits() -> None:
    found = texts(
        ["2023-10-10T00:30:00Z", "2023-10-10T00:30:00.123+0800", "2023-10-10T00:30:00Z"],
        timestamp_type="MIXED",
        input_formats="yyyy-MM-dd'T'HH:mm:ssZ, yyyy-MM-dd'T'HH:mm:ss.SSSZ",
        output_timezone="UTC",
    )
    assert found == ["2023-10-10 00", "2023-10-09 16", "2023-10-10 00"]


def test_formats_may_be_parted_by_another_sign() -> None:
    settings = {"timestamp_type": "DATE_STRING", "input_delimiter": ";"}
    assert texts(["a,2023", "2023"], input_formats="'a,'yyyy;yyyy", **settings) == [
        "2023-01-01 00",
        "2023-01-01 00",
    ]


def test_a_text_of_another_format_names_its_row() -> None:
    with pytest.raises(UserError, match=r"row=1.*value=x"):
        texts(["2023", "x"], timestamp_type="DATE_STRING", input_formats="yyyy")


def test_a_number_in_another_unit_names_its_row() -> None:
    with pytest.raises(UserError, match=r"row=1.*the column's unit"):
        texts([0, 1_700_000_000_000], timestamp_type="UNIX_TIMESTAMP")
    with pytest.raises(UserError, match="row=0"):
        texts([2**62], timestamp_type="SCALAR", scalar_unit="DAYS")


def test_columns_must_suit_the_type() -> None:
    with pytest.raises(SchemaError):
        texts(["2023"], timestamp_type="UNIX_TIMESTAMP")
    with pytest.raises(SchemaError):
        texts([1], timestamp_type="DATE_STRING", input_formats="yyyy")
    with pytest.raises(SchemaError):
        texts([True], timestamp_type="UNIX_TIMESTAMP")


@pytest.mark.parametrize(
    "settings",
    [
        {"output_format": "yyyy"},
        {"timestamp_type": "UNIX_TIMESTAMP", "output_format": None},
        {"timestamp_type": "DATE_STRING"},
        {"timestamp_type": "UNIX_TIMESTAMP", "timezone": "Mars/Olympus"},
        {"timestamp_type": "UNIX_TIMESTAMP", "output_format": "QQ"},
    ],
)
def test_what_is_missing_or_impossible_is_an_option_error(settings) -> None:
    with pytest.raises(OptionError):
        texts([1], **settings)


SPANS = ["yyyy", "yyyyMMdd", "yyyy-MM-dd HH", "HH:mm", "HH:mm:ss", "ss.SSS", "a", "D Z"]


@given(
    st.lists(st.integers(-(10**13), 10**13), min_size=1, max_size=20),
    st.sampled_from(SPANS),
    st.sampled_from(["UTC", "Europe/Berlin", "Asia/Kathmandu", "GMT-3:30"]),
)
def test_spans_of_a_format_print_as_each_of_their_times(numbers, pattern, zone) -> None:
    """Times are printed once for each span the format tells apart; one by one gives the same."""
    epoch = datetime(1970, 1, 1, tzinfo=zone_of_name("UTC"))
    single = [
        format_time((epoch + timedelta(milliseconds=n)).astimezone(zone_of_name(zone)), pattern)
        for n in numbers
    ]
    found = texts(numbers, timestamp_type="EPOCHMILLISECONDS", output_format=pattern, timezone=zone)
    assert found == single
