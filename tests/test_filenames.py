"""Names of files: made and parsed in one place, as inverses."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyhudi.filenames import (
    BaseFileName,
    LogFileName,
    MarkerName,
    archive_number,
    is_native_log,
    join,
    new_file_id,
    new_write_token,
    parse_data_file,
    parse_marker,
)
from pyhudi.records import InstantTime

IDS = st.from_regex(r"[0-9a-f]{8}-[0-9a-f-]{1,27}", fullmatch=True)
TOKENS = st.from_regex(r"[0-9]{1,4}-[0-9]{1,4}-[0-9]{1,10}", fullmatch=True)
TIMES = st.from_regex(r"[0-9]{14}|[0-9]{17}|[0-9]{20}", fullmatch=True).map(InstantTime)
BASES = st.builds(BaseFileName, IDS, TOKENS, TIMES, st.sampled_from([".parquet", ".hfile", ".orc"]))
LOGS = st.builds(
    LogFileName, IDS, TIMES, st.integers(0, 999_999_999), st.none() | TOKENS, st.booleans()
)


@given(BASES | LOGS)
def test_parse_is_the_inverse_of_format(name: BaseFileName | LogFileName) -> None:
    if isinstance(name, LogFileName) and name.is_cdc and name.write_token is None:
        return  # a change log always has a token
    assert parse_data_file(str(name)) == name


_LIKELY = st.lists(
    st.sampled_from(
        [
            ".",
            "_",
            "-",
            "a",
            "0",
            "12",
            "1-0-1",
            ".log.",
            ".parquet",
            ".cdc",
            "\n",
            "/",
            "٣",
            ".crc",
        ]
    ),
    max_size=12,
).map("".join)


@given(st.text(max_size=40) | _LIKELY)
def test_a_name_parses_only_if_it_would_be_written_so(name: str) -> None:
    for parse in (parse_data_file, parse_marker):
        parsed = parse(name)
        assert parsed is None or str(parsed) == name


@pytest.mark.parametrize(
    "name",
    [
        "a079bdb3-731c-4894-b855-abfcd6921007-0_0-182-253_20240418173550988.parquet",
        ".d0304c53-0000-4894-b855-abfcd6921007-0_20250331030642808.log.1_0-26-85",
        ".files-0000-0_00000000000000010.log.1_0-0-0",
        "record-index-0003-0_0-13-17_00000000000000011.hfile",
        "record-index-p_q-0000-0_0-13-17_00000000000000011.hfile",
        ".record-index-p_q-0000-0_20250331030642808.log.1_0-26-85",
        ".f-0_20250331030642808.log.12",
        ".f-0_20250331030642808.log.1_1-0-1.cdc",
    ],
)
def test_names_apache_hudi_writes(name: str) -> None:
    assert str(parse_data_file(name)) == name


@pytest.mark.parametrize(
    "name",
    [
        ".hoodie_partition_metadata",
        ".hoodie_partition_metadata.parquet",
        ".f-0_0-1-2_20240101000000000.parquet.crc",
        "f-0_0-1-2_20240101000000000.parquet.crc",
        "f-0_0-1-2_20240101000000000.parquet\n",
        "f-0_0-1_20240101000000000.parquet",
        "part-00000-c000.snappy.parquet",
        ".f-0_20250331030642808.log.01_0-26-85",
        ".f-0_20250331030642808.log.1_0-26-85.crc",
        ".commits_.archive.1_1-0-1",
        "hoodie.properties",
        "",
    ],
)
def test_names_that_are_not_data_files(name: str) -> None:
    assert parse_data_file(name) is None


def test_logs_sort_by_number_not_by_text() -> None:
    time = InstantTime("20240101000000000")
    logs = [LogFileName("f", time, n, "0-0-0") for n in (10, 9, 1, 100)]
    assert [log.version for log in sorted(logs, key=lambda log: log.order)] == [1, 9, 10, 100]
    bare, named = LogFileName("f", time, 1), LogFileName("f", time, 1, "0-0-0")
    assert bare.order < named.order


@given(BASES | LOGS, st.sampled_from(["CREATE", "MERGE", "APPEND"]))
def test_markers(name: BaseFileName | LogFileName, kind: str) -> None:
    assert parse_marker(str(MarkerName(str(name), kind))) == MarkerName(str(name), kind)


def test_archives_and_newer_logs_are_distinguished() -> None:
    assert archive_number(".commits_.archive.12_1-0-1") == 12
    assert archive_number(".commits_.archive.3") == 3
    assert archive_number(".commits_.archivex.3") is None
    assert is_native_log("f-0_0-1-2_20240101000000000_1.log.parquet")
    assert not is_native_log(".f-0_20240101000000000.log.1_0-1-2")


def test_new_names_are_new() -> None:
    assert len({new_file_id() for _ in range(100)}) == 100
    tokens = {new_write_token(3, 4) for _ in range(1000)}
    assert len(tokens) > 990 and all(t.startswith("3-4-") for t in tokens)
    name = BaseFileName(new_file_id(), new_write_token(), InstantTime("20240101000000000"))
    assert parse_data_file(str(name)) == name


def test_join() -> None:
    assert join("", "x") == "x" and join("a/b", "x") == "a/b/x"
