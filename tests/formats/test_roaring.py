"""Roaring bitmaps: bytes of Apache Hudi and of CRoaring, back and forth; damage is an error."""

from __future__ import annotations

import base64
import hashlib
import random
import struct
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyhudi.errors import CorruptFileError, UserError
from pyhudi.formats.roaring import decode, encode

MANY = 1 << 22

APACHE_HUDI = {
    "AQAAAAAAAAAAAAAAOjAAAAEAAAAAAAAAEAAAAAAA": [0],
    "AQAAAAAAAAAAAAAAOjAAAAEAAAAAAAEAEAAAAAAAAQA=": [0, 1],
    "AQAAAAAAAAAAAAAAOjAAAAEAAAAAAAEAEAAAAAEAAwA=": [1, 3],
    "AQAAAAAAAAAAAAAAOjAAAAEAAAAAAAYAEAAAAAAAAQACAAYABwAKAAsA": [0, 1, 2, 6, 7, 10, 11],
    "AQAAAAAAAAAAAAAAOjAAAAEAAAAAAAMAEAAAAAcACQAKAAsA": [7, 9, 10, 11],
}
"""Headers of log blocks that Apache Hudi 1.0 to 1.2 wrote."""

CROARING = {
    "AAAAAAAAAAA=": [],
    "AQAAAAAAAAAAAAAAOzAAAAEAAAkAAQAAAAkA": list(range(10)),
    "AQAAAAAAAAAAAAAAOzACAAIAAAAAAQBjAAMAAAAFAAEAAABjAEAN": [5, *range(65536, 65636), 200000],
    "AQAAAAAAAAAAAAAAOzAEABAAAAAAAQAAAAIAAAADAAAABAAxAC0AAAAvAAAAMQAAADMAAAA1AAAAAQAAAAAAAAABAAAAMQA=":
    [1, 65536, 131072, 196608, *range(262144, 262194)],
    "BAAAAAAAAAAAAAAAOjAAAAEAAAAAAAAAEAAAAAEAAQAAADowAAABAAAAAAAAABAAAAAFAAIAAAA7MAAAAQAAAwABAAAAAwAA"
    "AABAOjAAAAEAAAAAAAAAEAAAAAkA":
    [1, 2**32 + 5, 2**33, 2**33 + 1, 2**33 + 2, 2**33 + 3, 2**62 + 9],
}  # fmt: skip
"""Written by CRoaring 4 (pyroaring 1.2.0) after its run optimisation."""

CROARING_SHA256 = {
    "4dd71d2e434750e56249a8a1f30540e2a15a033fd3cc7df33e8bf5915ef6adad": [
        *range(100, 5000), 70000, 70002, *range(131072, 196608), *range(600000, 660000, 3),
    ],
    "247442676a4e4b8a6738f72592d5e4d5f98c6202c37f583f58d70463134c4d46": range(0, 60000, 2),
    "e84eedbad2e23b5d849c2683bcc72af4d63cb9316ea673fb1ddb1b3acd3e58f5": [
        *range(0, 8192, 2), *range(65536, 65536 + 8194, 2),
    ],
}  # fmt: skip
"""Digests of larger ones: containers of each kind, and of 4,096 and 4,097 values."""


@pytest.mark.parametrize(("text", "values"), [*APACHE_HUDI.items(), *CROARING.items()])
def test_bitmaps_of_others_read_and_write_back_the_same_bytes(text: str, values: list[int]) -> None:
    data = base64.b64decode(text)
    found = decode(data, count_max=1000)
    assert found.tolist() == values
    assert encode(found) == data


@pytest.mark.parametrize(("digest", "values"), CROARING_SHA256.items())
def test_large_bitmaps_have_the_bytes_of_another_implementation(
    digest: str, values: list[int]
) -> None:
    data = encode(np.array(values))
    assert hashlib.sha256(data).hexdigest() == digest
    assert decode(data, count_max=MANY).tolist() == list(values)


VALUES = st.one_of(
    st.integers(0, 300),
    st.integers(65500, 65600),
    st.integers(0, 1 << 22),
    st.integers(0, (1 << 63) - 1),
)
STRETCHES = st.tuples(VALUES, st.integers(1, 9000), st.integers(1, 20))


@settings(max_examples=150, deadline=None)
@given(st.sets(VALUES, max_size=50), st.lists(STRETCHES, max_size=4))
def test_any_set_of_values_survives(
    values: set[int], stretches: list[tuple[int, int, int]]
) -> None:
    for start, count, step in stretches:
        end = min(start + count * step, (1 << 63) - 1)
        values |= set(range(start, end, step))
    expected = np.array(sorted(values), np.int64)
    assert np.array_equal(decode(encode(expected), count_max=len(expected)), expected)


@pytest.mark.parametrize("values", [[1, 1], [2, 1], [-1, 3]])
def test_values_out_of_order_are_not_written(values: list[int]) -> None:
    with pytest.raises(UserError, match="ascending"):
        encode(np.array(values))


def test_more_values_than_expected_are_refused_before_they_are_created() -> None:
    """A bucket of 65,536 containers of one run each: 655 KB that stand for 4 billion values."""
    count = 1 << 16
    head = struct.pack("<QIHH", 1, 0, 12347, count - 1) + b"\xff" * (count // 8)
    described = b"".join(struct.pack("<HH", key, 0xFFFF) for key in range(count))
    begin = len(head) - 12 + len(described) + 4 * count
    offsets = b"".join(struct.pack("<I", begin + 6 * number) for number in range(count))
    data = head + described + offsets + struct.pack("<HHH", 1, 0, 0xFFFF) * count
    with pytest.raises(CorruptFileError, match="more values than expected"):
        decode(data, count_max=1000)


@pytest.mark.parametrize("text", [*APACHE_HUDI, *CROARING])
def test_truncated_and_lengthened_bitmaps_are_damage(text: str) -> None:
    data = base64.b64decode(text)
    for size in range(len(data)):
        with pytest.raises(CorruptFileError):
            decode(data[:size], count_max=1000)
    with pytest.raises(CorruptFileError):
        decode(data + b"\0", count_max=1000)


def test_damaged_bitmaps_are_other_values_or_an_error() -> None:
    chance = random.Random(7)
    files = [base64.b64decode(text) for text in [*APACHE_HUDI, *CROARING] if text != "AAAAAAAAAAA="]
    files.append(encode(np.array([*range(0, 9000, 2), *range(70000, 70900), 2**33])))
    for _ in range(4000):
        data = bytearray(chance.choice(files))
        for _ in range(chance.randint(1, 3)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        with suppress(CorruptFileError):
            values = decode(bytes(data), count_max=10_000)
            assert len(values) <= 10_000
            assert (np.diff(values) > 0).all()
