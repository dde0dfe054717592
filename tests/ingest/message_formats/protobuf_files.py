"""Protobuf for tests: files, and the classes of their messages."""

from __future__ import annotations

import struct
from functools import cache
from typing import Any

from google.protobuf.message_factory import GetMessageClass

from pyhudi.ingest.message_formats.protobuf_schemas import message_at, registered_file
from pyhudi.ingest.message_formats.schema_registry import RegisteredSchema

EVERY_TYPE = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
enum Level { LOW = 0; HIGH = 1; }
message Ride {
  string id = 1;
  optional int64 ts = 2;
  google.protobuf.Timestamp at = 3;
  map<string, int32> counts = 4;
  message Stop { string name = 1; repeated double place = 2; }
  repeated Stop stops = 5;
  uint64 large = 6;
  fixed32 bits = 7;
  Level level = 8;
  oneof payment { string card = 9; int32 cents = 10; }
  google.protobuf.Int64Value wrapped = 11;
  repeated int32 numbers = 12;
  bytes raw = 13;
  bool flag = 14;
  float ratio = 15;
  Stop last = 16;
  Empty nothing = 17;
  uint32 count = 18;
  sint64 delta = 19;
  repeated google.protobuf.Timestamp times = 20;
  repeated Level levels = 21;
  map<int64, Stop> by_number = 22;
  string from = 23;
}
message Other { string name = 1; message Inner { int32 n = 1; } }
message Empty {}
"""
RECURSIVE = 'syntax = "proto3"; message Node { int32 v = 1; Node next = 2; }'


@cache
def message_class(text: str, *indexes: int) -> Any:
    """Of the type at these places."""
    return GetMessageClass(message_at(registered_file(RegisteredSchema(text, {})), indexes or (0,)))


def framed(number: int, message: Any, places: bytes = b"\0") -> bytes:
    """As a serializer of Confluent writes a message."""
    return struct.pack(">bI", 0, number) + places + message.SerializeToString()
