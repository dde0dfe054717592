"""Payloads of the metadata table: ours go round, and Apache Hudi's bytes are met exactly."""

from __future__ import annotations

import json
from datetime import UTC, timedelta, timezone
from uuid import UUID

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyhudi.errors import CorruptFileError
from pyhudi.metadata.payloads import (
    ALL_PARTITIONS,
    COMMIT_SCHEMA,
    FILES,
    RECORD_INDEX,
    SCHEMA,
    FileMap,
    codec,
    decode_files,
    encode_files,
    merge_files,
)
from pyhudi.metadata.record_index.locations import (
    decode_locations,
    encode_locations,
    instant_text,
    transcode_locations,
)
from pyhudi.records import META_COLUMNS

names = st.text(max_size=12)
maps = st.dictionaries(names, st.none() | st.integers(1, 1 << 40), max_size=6)


@given(st.dictionaries(names, maps, max_size=5))
def test_file_lists_go_round(records: dict[str, FileMap]) -> None:
    keys, values = encode_files(records)
    assert keys.to_pylist() == sorted(key.encode() for key in records)
    found = decode_files(values, SCHEMA, path="t")
    assert {k.decode(): f for k, f in zip(keys.to_pylist(), found, strict=True)} == records


def test_absent_records_decode_to_none() -> None:
    _, values = encode_files({"p": {"a": 1}})
    column = pa.array([None, values[0].as_py(), None], pa.binary())
    assert decode_files(column, SCHEMA, path="t") == [None, {"a": 1}, None]


def test_bytes_of_a_file_list_are_those_of_apache_hudi() -> None:
    _, values = encode_files({ALL_PARTITIONS: {"p0": 0}, "p0": {"a": 12, "b": None}})
    assert values.to_pylist() == [
        bytes(6) + b"\x02\x02\x02\x04p0\x00\x00\x00\x00\x00\x00",
        bytes(6) + b"\x04\x02\x04\x02a\x18\x00\x02b\x00\x01\x00\x00\x00\x00",
    ]


@pytest.mark.parametrize(
    ("older", "newer", "merged"),
    [
        ({"a": 1}, {"b": 2}, {"a": 1, "b": 2}),
        ({"a": 5}, {"a": 3}, {"a": 5}),
        ({"a": 5}, {"a": None}, {}),
        ({}, {"a": None}, {"a": None}),
        ({"a": None}, {"a": 3}, {"a": 3}),
        ({"a": None}, {"a": None}, {}),
    ],
)
def test_newer_file_lists_apply_to_older(older: FileMap, newer: FileMap, merged: FileMap) -> None:
    assert merge_files(older, newer) == merged


file_ids = st.one_of(
    st.uuids().map(str),
    st.tuples(st.uuids(), st.integers(0, (1 << 31) - 1)).map(lambda t: f"{t[0]}-{t[1]}"),
    st.text(min_size=1, max_size=50),
    st.sampled_from(
        [
            "ffffffff-ffff-ffff-ffff-ffffffffffff-0",
            "00000000-0000-0000-0000-000000000000-00",
            "38B49C06-03A3-477F-BB16-C6EAB55135A6-2",
            "38b49c06-03a3-477f-bb16-c6eab55135a6-2147483648",
        ]
    ),
)


@given(st.lists(st.tuples(names, file_ids), max_size=20))
def test_locations_go_round(places: list[tuple[str, str]]) -> None:
    partitions = pa.array([p for p, _ in places], pa.string())
    ids = pa.array([f for _, f in places], pa.string())
    values = encode_locations(partitions, ids, 1795242513855)
    found = decode_locations(values, SCHEMA, zone=UTC, path="t")
    assert found.partition_path.to_pylist() == partitions.to_pylist()
    assert found.file_id.to_pylist() == ids.to_pylist()
    assert found.instant_time.to_pylist() == ["20261121062833855"] * len(places)


def test_a_location_holds_the_fields_apache_hudi_wrote() -> None:
    """The example of the format description, taken from a golden table."""
    value = encode_locations(
        pa.array(["p2"]), pa.array(["38b49c06-03a3-477f-bb16-c6eab55135a6-2"]), 1795242513855
    )
    info = codec(SCHEMA).decode_column(value).to_pylist()[0]["recordIndexMetadata"]
    assert info == {
        "partitionName": "p2",
        "fileIdHighBits": 4086062311576651647,
        "fileIdLowBits": -4965562827762747994,
        "fileIndex": 2,
        "fileId": "",
        "instantTime": 1795242513855,
        "fileIdEncoding": 0,
    }
    assert UUID("38b49c06-03a3-477f-bb16-c6eab55135a6").int >> 64 == info["fileIdHighBits"]


def newer_schema() -> str:
    """As Apache Hudi 1.x: a position in the location, a secondary index behind it."""
    schema = json.loads(SCHEMA)
    fields = {field["name"]: field for field in schema["fields"]}
    fields["recordIndexMetadata"]["type"][1]["fields"].append(
        {"name": "position", "type": ["null", "long"], "default": None}
    )
    schema["fields"].append(
        {"name": "SecondaryIndexMetadata", "type": ["null", "long"], "default": None}
    )
    return json.dumps(schema)


def test_values_of_a_newer_writer_are_read_and_rewritten() -> None:
    ours = encode_locations(pa.array(["p", "q"]), pa.array(["x", "y"]), 1795242513855)
    theirs = pa.array([v + b"\0\0" for v in ours.to_pylist()], pa.binary())
    schema = newer_schema()
    assert transcode_locations(theirs, schema, path="t").to_pylist() == ours.to_pylist()
    found = decode_locations(theirs, schema, zone=UTC, path="t")
    assert found.file_id.to_pylist() == ["x", "y"]


def test_an_empty_value_is_an_absent_key() -> None:
    value = encode_locations(pa.array(["p"]), pa.array(["x"]), 0)[0].as_py()
    found = decode_locations(pa.array([b"", value], pa.binary()), SCHEMA, zone=UTC, path="t")
    assert found.file_id.to_pylist() == [None, "x"]


def test_an_entry_without_a_location_is_corrupt() -> None:
    _, values = encode_files({"p": {}})
    with pytest.raises(CorruptFileError, match="no location"):
        decode_locations(values, SCHEMA, zone=UTC, path="t")


@pytest.mark.parametrize("name", ["fileIdLowBits", "instantTime", "partitionName"])
def test_a_schema_without_a_field_of_a_location_is_corrupt(name: str) -> None:
    values = encode_locations(pa.array(["p"]), pa.array(["x"]), 0)
    schema = SCHEMA.replace(f'"{name}"', '"other"')
    with pytest.raises(CorruptFileError, match=name):
        decode_locations(values, schema, zone=UTC, path="t")


def test_every_cut_of_a_value_is_refused() -> None:
    value = encode_locations(pa.array(["part"]), pa.array(["file"]), 1795242513855)[0].as_py()
    for length in range(1, len(value)):
        with pytest.raises(CorruptFileError):
            decode_locations(pa.array([value[:length]]), SCHEMA, zone=UTC, path="t")


def test_instants_are_shown_in_the_zone_of_the_table() -> None:
    assert instant_text(1795242513855, UTC) == "20261121062833855"
    assert instant_text(1795242513855, timezone(timedelta(hours=2))) == "20261121082833855"
    with pytest.raises(CorruptFileError):
        instant_text(1 << 62, UTC)


def test_group_names_and_numbers() -> None:
    assert RECORD_INDEX.file_id(7) == "record-index-0007-0"
    assert FILES.number("files-0000-0") == 0
    assert RECORD_INDEX.number("record-index-10000-0") == 10000
    assert RECORD_INDEX.number("record-index-p1-0000-0") is None
    assert RECORD_INDEX.number("files-0000-0") is None


def test_the_commit_schema_lacks_only_the_meta_fields() -> None:
    stored, stated = json.loads(SCHEMA), json.loads(COMMIT_SCHEMA)
    assert [f["name"] for f in stored["fields"][:5]] == list(META_COLUMNS)
    assert stored["fields"][5:] == stated["fields"]
