"""Bloom filters against a plain model, vectors of Apache Hudi and Hadoop, and real footers."""

from __future__ import annotations

import base64
import io
import json
import pickle
import struct
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyhudi._native.bloom import BloomFilter
from pyhudi.errors import CorruptFileError, UserError
from tests.support.fixtures import fixtures

GOLDEN = Path(__file__).parents[1] / "golden" / "bloom" / "footers.json"
VECTOR_KEYS = ["a", "ab", "abc", "abcd", "hello", "TXN-007"]
SIMPLE_VECTOR = "/////wAAABQBAAABIPEhRIB6GAjwxoUAIYKAACnIgbhagA1ajVKcCHJuQUBHHwggLw=="
DYNAMIC_VECTOR = (
    "/////wAAABQBAAABIAAAAAoAAAAGAAAAAf////8AAAAUAQAAASDxIUSAehgI8MaFACGCgAApyIG4WoANWo1S"
    "nAhybkFARx8IIC8="
)

both_kinds = pytest.mark.parametrize(
    ("kind", "text"),
    [("SIMPLE", SIMPLE_VECTOR), ("DYNAMIC_V0", DYNAMIC_VECTOR)],
    ids=["simple", "dynamic"],
)
keys = st.lists(
    st.binary(min_size=1, max_size=40) | st.text(min_size=1).map(str.encode), max_size=80
)
long_keys = st.lists(st.integers(1, 700).map(lambda n: bytes(255 - i % 251 for i in range(n))))


def murmur(key: bytes, seed: int) -> int:
    """Hadoop's Murmur2: the last bytes sign-extended and taken from the end."""
    mask, m, size = 0xFFFFFFFF, 0x5BD1E995, len(key)
    h = (seed ^ size) & mask
    for (word,) in struct.iter_unpack("<I", key[: size & ~3]):
        k = word * m & mask
        k = (k ^ k >> 24) * m & mask
        h = (h * m & mask) ^ k
    if size & 3:
        for back in range(size & 3, 0, -1):
            byte = key[-back] - (256 if key[-back] > 127 else 0)
            h ^= (byte << 8 * (back - 1)) & mask
        h = h * m & mask
    h = (h ^ h >> 13) * m & mask
    h ^= h >> 15
    return h - (1 << 32) if h >> 31 else h


def positions(key: bytes, hashes: int, bits: int) -> list[int]:
    seed, out = 0, []
    for _ in range(hashes):
        seed = murmur(key, seed)
        out.append(abs(seed) % bits)
    return out


class Model:
    """Apache Hudi's dynamic filter, line by line."""

    def __init__(self, entries: int, most: int, bits: int, hashes: int) -> None:
        self.entries, self.most, self.bits, self.hashes = entries, most, bits, hashes
        self.rows = [bytearray((bits + 7) // 8)]
        self.counted, self.full, self.turn = 0, False, 0

    def active(self) -> bytearray:
        if self.full:
            self.turn += 1
            return self.rows[(self.turn - 1) % len(self.rows)]
        if self.counted < self.entries:
            return self.rows[-1]
        if len(self.rows) * self.entries < self.most:
            self.rows.append(bytearray((self.bits + 7) // 8))
            self.counted = 0
            return self.rows[-1]
        self.full = True
        return self.rows[0]

    def add(self, key: bytes) -> None:
        row = self.active()
        for at in positions(key, self.hashes, self.bits):
            row[at >> 3] |= 1 << (at & 7)
        self.counted += 1

    def contains(self, key: bytes) -> bool:
        at = positions(key, self.hashes, self.bits)
        return any(all(row[p >> 3] >> (p & 7) & 1 for p in at) for row in self.rows)

    def text(self) -> str:
        head = struct.pack(">iibi", -1, self.hashes, 1, self.bits)
        growth = struct.pack(">iii", self.entries, self.counted, len(self.rows))
        body = b"".join(head + row for row in self.rows)
        return base64.b64encode(head + growth + body).decode()


def column(values: list[bytes]) -> pa.Array:
    return pa.array(values, pa.binary())


@pytest.mark.parametrize(
    ("key", "hashes"),
    [
        ("a", (-1838653602, 1529584742, 507861454)),
        ("ab", (1525573013, -1464330887, -1096641660)),
        ("abc", (1775488903, 1492699528, -1540251996)),
        ("é", (-384040333, 1849032984, 249031250)),
        ("日本", (659168028, -645251335, -794110614)),
    ],
)
def test_the_model_has_hadoops_hash(key: str, hashes: tuple[int, ...]) -> None:
    seed = 0
    for expected in hashes:
        seed = murmur(key.encode(), seed)
        assert seed == expected


@pytest.mark.parametrize(
    ("entries", "fpp", "bits", "hashes"),
    [
        (60_000, 1e-9, 2_587_966, 30),
        (10_000, 1e-9, 431_328, 30),
        (10, 1e-6, 288, 20),
        (100, 0.01, 959, 7),
    ],
)
def test_sizes_follow_from_entries_and_rate(
    entries: int, fpp: float, bits: int, hashes: int
) -> None:
    bloom = BloomFilter(entries, fpp)
    assert (bloom.bit_count, bloom.hash_count) == (bits, hashes)


@both_kinds
def test_the_vectors_of_hadoop_come_out_and_go_in(kind: str, text: str) -> None:
    bloom = BloomFilter(10, 1e-6, kind=kind.lower())
    bloom.add(VECTOR_KEYS)
    assert bloom.to_base64() == text
    read = BloomFilter.from_base64(text, kind)
    assert read.to_base64() == text
    assert read.contains(VECTOR_KEYS).to_pylist() == [True] * 6
    assert read.key_count == (6 if kind == "DYNAMIC_V0" else None)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(keys | long_keys, max_size=4),
    st.integers(1, 40),
    st.integers(1, 120),
    st.sampled_from([0.5, 0.01, 1e-6]),
    st.booleans(),
)
def test_growth_fullness_and_turn_equal_the_model(
    batches: list[list[bytes]], entries: int, most: int, fpp: float, through_text: bool
) -> None:
    bloom = BloomFilter(entries, fpp, entries_max=most)
    model = Model(entries, most, bloom.bit_count, bloom.hash_count)
    for batch in batches:
        bloom.add(column(batch))
        for key in batch:
            model.add(key)
        assert bloom.to_base64() == model.text()
        if through_text:
            bloom = BloomFilter.from_base64(bloom.to_base64(), entries_max=most)
    probes = [key for batch in batches for key in batch] + [b"absent-%d" % n for n in range(40)]
    assert bloom.contains(column(probes)).to_pylist() == [model.contains(key) for key in probes]
    assert bloom.key_count == sum(len(batch) for batch in batches)


@settings(deadline=None)
@given(keys, keys, st.integers(1, 60), st.sampled_from([0.3, 1e-3, 1e-9]))
def test_simple_filters_equal_the_model(
    added: list[bytes], probes: list[bytes], entries: int, fpp: float
) -> None:
    bloom = BloomFilter(entries, fpp, kind="SIMPLE")
    model = Model(entries, 1 << 30, bloom.bit_count, bloom.hash_count)
    model.entries = 1 << 30
    bloom.add(column(added))
    for key in added:
        model.add(key)
    assert base64.b64decode(bloom.to_base64())[13:] == bytes(model.rows[0])
    assert bloom.contains(column(probes)).to_pylist() == [model.contains(key) for key in probes]


def test_no_key_is_lost_and_few_are_invented() -> None:
    present = pa.array([f"key-{n:025d}" for n in range(20_000)])
    absent = pa.array([f"key-{n:025d}" for n in range(20_000, 60_000)])
    bloom = BloomFilter(20_000, 1e-3)
    bloom.add(present)
    assert bloom.contains(present).false_count == 0
    assert bloom.contains(absent).true_count < 120


def test_nulls_look_up_nothing_and_cannot_be_added() -> None:
    bloom = BloomFilter(10, 1e-6)
    before = bloom.to_base64()
    for unusable in (pa.array(["a", None]), ["a", ""]):
        with pytest.raises(UserError, match="row=1"):
            bloom.add(unusable)
    assert bloom.to_base64() == before
    bloom.add(["a"])
    assert bloom.contains(pa.array(["a", None, "b"])).to_pylist() == [True, None, False]
    with pytest.raises(UserError, match="row=1"):
        bloom.contains(["a", ""])
    assert bloom.contains([]).to_pylist() == []


def test_one_key_may_be_text_or_bytes() -> None:
    bloom = BloomFilter(10, 1e-6)
    bloom.add(["é"])
    assert bloom.contains_one("é") and bloom.contains_one("é".encode())
    assert not bloom.contains_one(b"e")


@pytest.mark.parametrize("kind", ["SIMPLE", "DYNAMIC_V0"])
def test_a_copy_and_a_pickle_are_filters_of_their_own(kind: str) -> None:
    bloom = BloomFilter(3, 1e-3, kind=kind, entries_max=5)
    bloom.add(["a", "b", "c", "d"])
    twins = [bloom.copy(), pickle.loads(pickle.dumps(bloom))]
    bloom.add(["x"])
    for twin in twins:
        assert twin.to_base64() != bloom.to_base64()
        twin.add(["x"])
        assert twin.to_base64() == bloom.to_base64()


def test_threads_that_add_at_once_lose_no_key() -> None:
    bloom = BloomFilter(40_000, 1e-4)
    parts = [pa.array([f"{part}-{n}" for n in range(10_000)]) for part in range(4)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(bloom.add, parts))
    assert all(bloom.contains(part).false_count == 0 for part in parts)
    assert bloom.key_count == 40_000


@pytest.mark.parametrize(
    "arguments",
    [{"entries": 0}, {"fpp": 0.0}, {"fpp": 1.0}, {"kind": "RIBBON"}, {"entries": 2**31 - 1}],
)
def test_an_impossible_filter_is_refused(arguments: dict[str, object]) -> None:
    with pytest.raises(UserError):
        BloomFilter(**arguments)  # type: ignore[arg-type]


@both_kinds
def test_every_prefix_of_a_filter_is_corrupt(kind: str, text: str) -> None:
    data = base64.b64decode(text)
    for size in range(len(data)):
        with pytest.raises(CorruptFileError):
            BloomFilter.from_base64(base64.b64encode(data[:size]).decode(), kind)
    for size in range(len(text)):
        with pytest.raises(CorruptFileError):
            BloomFilter.from_base64(text[:size], kind)
    with pytest.raises(CorruptFileError):
        BloomFilter.from_base64(base64.b64encode(data + b"\0").decode(), kind)


@both_kinds
def test_every_flipped_bit_gives_a_filter_or_an_error(kind: str, text: str) -> None:
    data = bytearray(base64.b64decode(text))
    for bit in range(len(data) * 8):
        data[bit >> 3] ^= 1 << (bit & 7)
        try:
            bloom = BloomFilter.from_base64(base64.b64encode(data).decode(), kind)
        except CorruptFileError:
            pass
        else:
            assert bloom.contains(VECTOR_KEYS).null_count == 0
            bloom.add(VECTOR_KEYS)
        data[bit >> 3] ^= 1 << (bit & 7)


@pytest.mark.parametrize("text", ["", "!", "AAAA\nAAAA", "é", "/////w==", b"\xff\xff"])
def test_text_that_is_no_filter_is_corrupt_and_names_the_file(text: str | bytes) -> None:
    with pytest.raises(CorruptFileError, match=r"path=t/a\.parquet"):
        BloomFilter.from_base64(text, "SIMPLE", path="t/a.parquet")


@pytest.mark.parametrize("footer", json.loads(GOLDEN.read_text()), ids=lambda f: f["table"])
def test_a_filter_of_apache_hudi_is_rebuilt_from_its_keys(footer: dict[str, object]) -> None:
    bloom = BloomFilter(footer["entries"], 1e-9, kind=footer["kind"])
    bloom.add(footer["keys"])
    assert bloom.to_base64() == footer["text"]


def base_files(table: Path) -> Iterator[pq.ParquetFile]:
    with zipfile.ZipFile(table) as archive:
        for name in archive.namelist():
            if name.endswith(".parquet") and "/expected/" not in name and "/.hoodie/" not in name:
                yield pq.ParquetFile(io.BytesIO(archive.read(name)))


@pytest.mark.parametrize("table", ["cow_rli_default_sizes", "kg_simple_urlencode", "mor_bloom"])
def test_footers_of_golden_tables_are_rebuilt_bit_for_bit(table: str) -> None:
    archive = fixtures() / "golden" / f"{table}.zip"
    rebuilt = 0
    for file in base_files(archive):
        footer = file.metadata.metadata or {}
        text = footer.get(b"org.apache.hudi.bloomfilter")
        if text is None:
            continue
        kind = footer.get(b"hoodie_bloom_filter_type_code", b"SIMPLE").decode()
        read = BloomFilter.from_base64(text, kind)
        keys = file.read(["_hoodie_record_key"]).column(0)
        assert read.contains(keys).false_count == 0
        assert read.key_count == len(keys)
        bloom = BloomFilter(read.entries, 1e-9, kind=kind)
        bloom.add(keys)
        assert bloom.to_base64().encode() == text
        rebuilt += 1
    assert rebuilt
