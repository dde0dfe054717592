"""Protobuf messages become columns, by schemas of a registry or a set of descriptors."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2

from pyhudi.errors import OptionError, StorageError, UserError
from pyhudi.ingest import ProtobufFormat
from tests.ingest.message_formats.protobuf_files import (
    EVERY_TYPE,
    RECURSIVE,
    framed,
    message_class,
)
from tests.ingest.registries import Registry

HEAD = 'syntax = "proto3"; package shop; '
FIRST = HEAD + "message Ride { string id = 1; int32 ts = 2; }"
SECOND = HEAD + "message Ride { string id = 1; int64 ts = 2; optional string city = 3; }"


@pytest.fixture
def registry() -> Iterator[Registry]:
    with Registry().running() as found:
        found.add(1, FIRST, "PROTOBUF")
        found.add(70_000, SECOND, "PROTOBUF")
        found.add(3, EVERY_TYPE, "PROTOBUF")
        yield found


def decoded(form: ProtobufFormat, values: list[bytes]) -> Any:
    return form.decoder(pa.schema([])).decode(pa.array(values, pa.binary()))


def ride(text: str = FIRST, **values: Any) -> Any:
    return message_class(text)(**values)


def test_messages_of_several_schemas_keep_their_order(registry: Registry) -> None:
    values = [
        framed(1, ride(id="a", ts=1)),
        framed(70_000, ride(SECOND, id="b", ts=1 << 40, city="sf")),
        framed(1, ride()),
    ]
    found = decoded(ProtobufFormat(registry.url), values)
    assert found.rows.to_pylist() == [
        {"id": "a", "ts": 1, "city": None},
        {"id": "b", "ts": 1 << 40, "city": "sf"},
        {"id": "", "ts": 0, "city": None},
    ]
    assert found.places.tolist() == [0, 1, 2]
    assert len(registry.requests) == 2


def test_each_type_has_a_column(registry: Registry) -> None:
    full = ride(
        EVERY_TYPE, id="a", ts=0, large=2**64 - 1, bits=2**32 - 1, level=1, card="",
        numbers=[1, 2], raw=b"\0\xff", flag=True, ratio=0.5, count=2**32 - 1, delta=-1,
        levels=[1, 7], **{"from": "x"},
    )  # fmt: skip
    full.at.FromDatetime(datetime(1969, 12, 31, 23, 59, 59, 999_999))
    full.counts.update({"q": 1, "a": 2})
    full.stops.add(name="s", place=[1.0, 2.0])
    full.wrapped.value = 0
    full.last.SetInParent()
    full.nothing.SetInParent()
    full.times.add(seconds=1)
    full.by_number[-5].name = "n"
    found = decoded(ProtobufFormat(registry.url), [framed(3, full), framed(3, ride(EVERY_TYPE))])
    first, second = found.rows.to_pylist()
    assert first == {
        "id": "a", "ts": 0, "at": datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC),
        "counts": [{"key": "a", "value": 2}, {"key": "q", "value": 1}],
        "stops": [{"name": "s", "place": [1.0, 2.0]}], "large": Decimal(2**64 - 1), "bits": -1,
        "level": "HIGH", "card": "", "cents": None, "wrapped": 0, "numbers": [1, 2],
        "raw": b"\0\xff", "flag": True, "ratio": 0.5, "last": {"name": "", "place": []},
        "count": 2**32 - 1, "delta": -1, "times": [datetime(1970, 1, 1, 0, 0, 1, 0, UTC)],
        "levels": ["HIGH", "UNKNOWN_ENUM_VALUE_Level_7"],
        "by_number": [{"key": -5, "value": {"name": "n", "place": []}}], "from": "x",
    }  # fmt: skip
    assert second == {
        "id": "", "ts": None, "at": None, "counts": [], "stops": [], "large": Decimal(0), "bits": 0,
        "level": "LOW", "card": None, "cents": None, "wrapped": None, "numbers": [], "raw": b"",
        "flag": False, "ratio": 0.0, "last": None, "count": 0, "delta": 0, "times": [],
        "levels": [], "by_number": [], "from": "",
    }  # fmt: skip


def test_times_and_wrappers_can_be_structs(registry: Registry) -> None:
    value = ride(EVERY_TYPE)
    value.at.seconds, value.wrapped.value = 5, 7
    form = ProtobufFormat(registry.url, wrappers_as_records=True, timestamps_as_records=True)
    row = decoded(form, [framed(3, value)]).rows.to_pylist()[0]
    assert (row["at"], row["wrapped"]) == ({"seconds": 5, "nanos": 0}, {"value": 7})


def test_the_place_of_a_type_names_the_message(registry: Registry) -> None:
    inner = message_class(EVERY_TYPE, 1, 0)(n=7)
    other = message_class(EVERY_TYPE, 1)(name="x")
    values = [framed(3, inner, bytes([4, 2, 0])), framed(3, other, bytes([2, 2]))]
    assert decoded(ProtobufFormat(registry.url), values).rows.to_pylist() == [
        {"n": 7, "name": None},
        {"n": None, "name": "x"},
    ]


def test_bad_messages_fail_alone(registry: Registry) -> None:
    registry.add(4, "no schema", "PROTOBUF")
    registry.add(5, "{}", "JSON")
    good = framed(1, ride(id="a", ts=1))
    late = ride(EVERY_TYPE)
    late.at.seconds = 1 << 60
    bad = [
        b"", b"\1\0\0\0\1\0", framed(2, ride()), framed(4, ride()), framed(5, ride()), good[:-1],
        good[:5], framed(1, ride(), b"\2"), framed(1, ride(), bytes([2, 8])),
        framed(1, ride(), bytes([2, 1])), framed(1, ride(), bytes([200, 1])),
        framed(1, ride(), b"\xff" * 9), framed(3, late), good[:6] + b"\x0a\1\xff",
    ]  # fmt: skip
    found = decoded(ProtobufFormat(registry.url), [good, *bad, good])
    assert found.places.tolist() == [0, len(bad) + 1]
    assert [failure.place for failure in found.failures] == list(range(1, len(bad) + 1))
    reasons = [failure.reason for failure in found.failures]
    for place, text in [(0, "no number"), (2, "no such schema"), (3, "does not compile"),
                        (4, "another kind"), (5, "not Protobuf"), (7, "cut off"),
                        (8, "no message at this place"), (12, "years 1 to 9999")]:  # fmt: skip
        assert text in reasons[place]


def test_a_message_within_itself_ends_in_bytes(registry: Registry) -> None:
    registry.add(6, RECURSIVE, "PROTOBUF")
    node = message_class(RECURSIVE)
    whole = node(v=1, next=node(v=2, next=node(v=3)))
    rows = decoded(ProtobufFormat(registry.url, recursion_max=2), [framed(6, whole)]).rows
    assert rows.to_pylist() == [
        {"v": 1, "next": {"v": 2, "next": {"descriptor_full_name": "Node",
                                           "proto_bytes": node(v=3).SerializeToString()}}}
    ]  # fmt: skip
    deep = b""
    for _ in range(300):
        deep = b"\x12" + bytes([len(deep) & 0x7F | 0x80, len(deep) >> 7]) + deep
    failure = decoded(ProtobufFormat(registry.url), [framed(6, node()) + deep]).failures[0]
    assert "MaxDepth" in failure.reason


def test_a_schema_with_too_many_columns_is_rejected(registry: Registry) -> None:
    types = " ".join(f"T{n} f{n} = {n + 1};" for n in range(12))
    text = 'syntax = "proto3";' + " ".join(f"message T{n} {{ {types} }}" for n in range(12))
    registry.add(7, text, "PROTOBUF")
    found = decoded(ProtobufFormat(registry.url), [framed(7, ride())])
    assert "too many columns" in found.failures[0].reason


def test_schemas_import_others_of_the_registry(registry: Registry) -> None:
    registry.add_subject("a/place.proto", HEAD + "message Place { double x = 1; }", "PROTOBUF")
    text = HEAD + 'import "a/place.proto"; message Ride { Place at = 1; }'
    registry.add(8, text, "PROTOBUF", "a/place.proto")
    body = b"\x0a\x09\x09" + b"\0" * 8
    values = [framed(8, ride())[:6] + body]
    assert decoded(ProtobufFormat(registry.url), values).rows.to_pylist() == [{"at": {"x": 0.0}}]
    registry.add_subject("../evil.proto", HEAD, "PROTOBUF")
    registry.add(9, text, "PROTOBUF", "../evil.proto")
    found = decoded(ProtobufFormat(registry.url), [framed(9, ride())])
    assert "invalid name" in found.failures[0].reason


def test_a_schema_in_base64_needs_no_compiler(registry: Registry) -> None:
    file = descriptor_pb2.FileDescriptorProto()
    message_class(EVERY_TYPE).DESCRIPTOR.file.CopyToProto(file)
    registry.add(10, base64.b64encode(file.SerializeToString()).decode(), "PROTOBUF")
    found = decoded(ProtobufFormat(registry.url), [framed(10, ride(EVERY_TYPE, id="a"))])
    assert found.rows.to_pylist()[0]["id"] == "a"


@pytest.mark.parametrize("name", ["shop.Ride", "com.shop.Ride", "com.shop.Rides$Ride"])
def test_a_set_of_descriptors_reads_messages_without_a_header(tmp_path: Path, name: str) -> None:
    found = descriptor_pb2.FileDescriptorSet()
    file = found.file.add()
    message_class(FIRST).DESCRIPTOR.file.CopyToProto(file)
    file.options.java_package = "com.shop"
    path = tmp_path / "rides.desc"
    path.write_bytes(found.SerializeToString())
    form = ProtobufFormat(descriptors=str(path), message=name)
    rows = decoded(form, [ride(id="a", ts=1).SerializeToString(), b"\xff"])
    assert rows.rows.to_pylist() == [{"id": "a", "ts": 1}]
    assert [failure.place for failure in rows.failures] == [1]
    with pytest.raises(UserError, match="no such message"):
        decoded(ProtobufFormat(descriptors=str(path), message="shop.Trip"), [])
    with pytest.raises(UserError, match="cannot be read"):
        decoded(ProtobufFormat(descriptors=str(tmp_path / "none"), message="shop.Trip"), [])


def test_a_message_of_a_schema_without_a_common_type_fails_alone(registry: Registry) -> None:
    other = HEAD + "message Ride { string id = 1; repeated string ts = 2; }"
    registry.add(11, other, "PROTOBUF")
    values = [framed(1, ride(id="a")), framed(11, ride(other, id="b"))]
    found = decoded(ProtobufFormat(registry.url), values)
    assert found.rows.to_pylist() == [{"id": "a", "ts": 0}]
    assert [(failure.place, failure.reason) for failure in found.failures] == [
        (1, "column ts: not a value of type int32")
    ]


def test_a_registry_that_does_not_answer_is_an_error_that_may_pass() -> None:
    with pytest.raises(StorageError, match="registry does not answer") as caught:
        decoded(ProtobufFormat("http://127.0.0.1:9"), [framed(1, ride())])
    assert caught.value.retryable


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"registry": "http://x", "descriptors": "a", "message": "b"},
        {"descriptors": "a"},
        {"registry": "http://x", "recursion_max": 0},
    ],
)
def test_wrong_settings_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(OptionError):
        ProtobufFormat(**wrong)
