"""Hashes over columns against plain models, mmh3 and the vectors of Apache Hudi's tables."""

import mmh3
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyhudi._native.column import plain
from pyhudi._native.hashing import (
    bucket_of,
    group_keys,
    hash_id,
    java_string_hash,
    murmur3_32,
    xxh64,
)
from pyhudi.errors import UserError

texts = st.lists(st.text(max_size=40) | st.text("abc019-", max_size=60))
blobs = st.lists(st.binary(max_size=40))


def java_hash(text: str) -> int:
    units = np.frombuffer(text.encode("utf-16-be"), dtype=">u2")
    hash_ = 0
    for unit in units.tolist():
        hash_ = (31 * hash_ + unit) & 0xFFFFFFFF
    return hash_ - (1 << 32) if hash_ >= 1 << 31 else hash_


def java_bucket(hash_: int, count: int) -> int:
    magnitude = hash_ if hash_ == -(1 << 31) else abs(hash_)
    return abs(int(np.fmod(magnitude, count)))


@given(texts, st.integers(1, 2**31 - 1))
def test_java_hash_and_bucket_equal_their_definitions(keys: list[str], count: int) -> None:
    hashes = [java_hash(key) for key in keys]
    column = pa.array(keys, pa.string())
    assert java_string_hash(column).tolist() == hashes
    assert bucket_of(column, count).tolist() == [java_bucket(h, count) for h in hashes]


@given(blobs)
def test_malformed_utf8_hashes_as_its_replacement_characters(keys: list[bytes]) -> None:
    expected = [java_hash(key.decode("utf-8", "replace")) for key in keys]
    assert java_string_hash(pa.array(keys, pa.binary())).tolist() == expected


def test_the_smallest_hash_has_a_bucket() -> None:
    smallest = "polygenelubricants"  # a known String.hashCode of Integer.MIN_VALUE
    assert java_hash(smallest) == -(1 << 31)
    assert bucket_of([smallest], 10).tolist() == [8]
    assert bucket_of([smallest], 1).tolist() == [0]


def test_vectors_of_the_table_format() -> None:
    keys = ["1dced545-862b-4ceb-8b43-d2a568f6616b", "1", "id:1,name:Alice"]
    assert bucket_of(keys, 10).tolist() == [5, 9, 9]
    assert hash_id("driver") == "AjpJ7N1gBZc="
    assert hash_id("city=san_francisco") == "8L2cgj6DtVM="
    assert hash_id(".") == "FXThHwelITM="
    assert hash_id("id") == "sLZoasJosec="


@given(blobs, st.integers(0, 2**32 - 1))
def test_murmur3_equals_mmh3(keys: list[bytes], seed: int) -> None:
    hashes = murmur3_32(pa.array(keys, pa.binary()), seed).tolist()
    assert hashes == [mmh3.hash(key, seed) for key in keys]


@pytest.mark.parametrize(
    ("size", "seed", "expected"),
    [
        (0, 0, 0xEF46DB3751D8E999),
        (0, 0x9E3779B1, 0xAC75FDA2929B17EF),
        (1, 0, 0xE934A84ADB052768),
        (1, 0x9E3779B1, 0x5014607643A9B4C3),
        (14, 0, 0x8282DCC4994E35C8),
        (14, 0x9E3779B1, 0xC3BD6BF63DEB6DF0),
        (222, 0, 0xB641AE8CB691C174),
        (222, 0x9E3779B1, 0x20CB8AB7AE10C14A),
    ],
)
def test_xxh64_passes_the_sanity_check_of_its_authors(size: int, seed: int, expected: int) -> None:
    generator = 2654435761  # the buffer of xxHash's own sanity check
    data = bytearray()
    for _ in range(size):
        data.append((generator >> 56) & 0xFF)
        generator = generator * 11400714785074694797 % (1 << 64)
    assert xxh64(bytes(data), seed) == expected


def test_nulls_hash_to_zero() -> None:
    column = pa.array(["a", None, "b"])
    assert java_string_hash(column).tolist() == [97, 0, 98]
    assert murmur3_32(column)[1] == 0
    assert bucket_of(column, 10).tolist() == [7, 0, 8]


@pytest.mark.parametrize("count", [0, -1, 2**31])
def test_an_impossible_count_of_file_groups_is_refused(count: int) -> None:
    with pytest.raises(UserError, match="file groups"):
        bucket_of(["a"], count)


KEYS = ["a", None, "", "日本", "wörld", None, "0123456789abcdefghij"]
FORMS = {
    "string": pa.array(KEYS, pa.string()),
    "large_string": pa.array(KEYS, pa.large_string()),
    "binary": pa.array(KEYS, pa.string()).cast(pa.binary()),
    "large_binary": pa.array(KEYS, pa.large_string()).cast(pa.large_binary()),
    "string_view": pa.array(KEYS, pa.string_view()),
    "dictionary": pa.array(KEYS, pa.string()).dictionary_encode(),
    "run_end_encoded": pc.run_end_encode(pa.array(KEYS, pa.string())),
    "chunked": pa.chunked_array([KEYS[:2], [], KEYS[2:]], pa.string()),
    "chunked_dictionary": pa.chunked_array([KEYS[:2], KEYS[2:]], pa.string()).dictionary_encode(),
    "sliced": pa.array(["x", None, *KEYS, "y"], pa.string()).slice(2, len(KEYS)),
    "list": KEYS,
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_a_column_gives_the_same_hashes(form: str) -> None:
    expected = [0 if key is None else java_hash(key) for key in KEYS]
    assert java_string_hash(FORMS[form]).tolist() == expected


@pytest.mark.parametrize(
    "empty", [pa.array([], pa.string()), pa.chunked_array([], pa.binary()), [], pa.nulls(0)]
)
def test_an_empty_column_gives_an_empty_answer(empty: object) -> None:
    assert java_string_hash(empty).tolist() == []


def test_a_column_of_nulls_only_is_a_column() -> None:
    assert java_string_hash(pa.nulls(3)).tolist() == [0, 0, 0]
    assert plain(pa.nulls(3)).type == pa.binary()


@pytest.mark.parametrize("keys", [pa.array([1, 2]), [1], pa.array([["a"]]), object()])
def test_a_column_of_another_type_is_refused(keys: object) -> None:
    with pytest.raises(UserError, match="strings or bytes"):
        java_string_hash(keys)


@given(
    st.lists(st.text(max_size=12), max_size=60),
    st.integers(1, 7),
    st.sampled_from([pa.string(), pa.large_string(), pa.binary()]),
)
def test_keys_are_grouped_by_bucket_in_their_order(
    texts: list[str], count: int, kind: pa.DataType
) -> None:
    keys = pa.array([text.encode() for text in texts], pa.binary()).cast(kind)
    homes = bucket_of(keys, count)
    grouped, rows, begins = group_keys(keys, homes, count)
    assert grouped.type == kind and grouped.equals(keys.take(pa.array(rows)))
    assert rows.tolist() == np.argsort(homes, kind="stable").tolist()
    assert begins.tolist() == np.searchsorted(homes[rows], np.arange(count + 1)).tolist()
    grouped.validate(full=True)


def test_a_slice_of_keys_is_grouped() -> None:
    keys = pa.array(["x", "aa", "b", "", "cccc", "y"]).slice(1, 4)
    grouped, rows, begins = group_keys(keys, np.array([1, 0, 1, 0], np.int32), 2)
    assert grouped.to_pylist() == ["b", "cccc", "aa", ""]
    assert rows.tolist() == [1, 3, 0, 2] and begins.tolist() == [0, 2, 4]


@pytest.mark.parametrize(
    ("keys", "homes"),
    [(["a", "b"], [0]), (["a", None], [0, 0]), (["a"], [2]), (["a"], [-1])],
)
def test_buckets_that_do_not_fit_the_keys_are_refused(
    keys: list[str | None], homes: list[int]
) -> None:
    with pytest.raises(UserError, match="bucket"):
        group_keys(pa.array(keys), np.array(homes, np.int32), 2)
