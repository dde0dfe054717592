"""Hash functions by name: what is a hash, what is refused, and an index that keeps to its own."""

from __future__ import annotations

import pickle
import zlib
from typing import Any

import mmh3
import numpy as np
import pyarrow as pa
import pytest

import pyhudi
from pyhudi._native import bucket_of
from pyhudi.api.table import Table
from pyhudi.engine import LocalEngine
from pyhudi.errors import IndexNotReadyError, OptionError, UserError
from pyhudi.metadata.record_index import hash_functions
from pyhudi.metadata.record_index.hash_functions import KeyHash, fingerprint
from pyhudi.operations.create import create
from pyhudi.options import IndexKind, parse_options
from pyhudi.storage.memory import MemoryFileSystem
from pyhudi.table.properties import TableType
from pyhudi.write.table_creation import NewTable

KEYS = pa.array([f"k{i}" for i in range(5000)] + ["", "ü", "\U0001f600"])
SCHEMA = pa.schema([("id", pa.string()), ("ts", pa.int64())])


def crc(keys: pa.Array) -> Any:
    return np.array([zlib.crc32(key.encode()) for key in keys.to_pylist()], np.uint32)


@pytest.fixture(autouse=True)
def registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """A registry of the test's own."""
    monkeypatch.setattr(hash_functions, "_REGISTERED", {})


def test_the_default_is_that_of_apache_hudi() -> None:
    assert np.array_equal(KeyHash(7).buckets(KEYS), bucket_of(KEYS, 7))
    assert KeyHash(7) == KeyHash.named("java", 7)


def test_murmur3_is_that_of_mmh3() -> None:
    for turn in (0, 1, 5):
        want = [mmh3.hash(key, turn, signed=False) % 11 for key in KEYS.to_pylist()]
        assert KeyHash.named("murmur3", 11, turn).buckets(KEYS).tolist() == want


@pytest.mark.parametrize("name", ["java", "murmur3", "crc"])
def test_each_group_of_buckets_has_a_hash_of_its_own(name: str) -> None:
    pyhudi.register_hash("crc", crc)
    first, second = (KeyHash.named(name, 10, turn).buckets(KEYS) for turn in (0, 1))
    assert 0.05 < (first == second).mean() < 0.2  # as chance would have it
    for found in (first, second):
        counts = np.bincount(found, minlength=10)
        assert counts.max() < 1.3 * counts.mean()
    of_chunks = pa.chunked_array([KEYS[:100], KEYS[100:]])
    assert np.array_equal(KeyHash.named(name, 10, 1).buckets(of_chunks), second)


def test_a_hash_goes_to_workers_with_its_function() -> None:
    pyhudi.register_hash("crc", crc)
    sent = pickle.loads(pickle.dumps(KeyHash.named("crc", 9, 2)))
    assert np.array_equal(sent.buckets(KEYS), KeyHash.named("crc", 9, 2).buckets(KEYS))


def test_arrow_arrays_and_all_widths_are_taken() -> None:
    for number, kind in enumerate((np.int32, np.uint32, np.int64, np.uint64)):
        name = f"wide{number}"
        pyhudi.register_hash(name, lambda keys, kind=kind: pa.array(crc(keys).astype(kind)))
        assert np.array_equal(KeyHash.named(name, 9).buckets(KEYS), crc(KEYS) % 9)


def one_at_a_time(key: str) -> int:
    return zlib.crc32(key.encode())


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda keys: [1] * len(keys), "must return an array"),
        (lambda keys: 5, "must return an array"),
        (lambda keys: np.ones(len(keys)), "integers of 32 or 64 bits"),
        (lambda keys: np.ones(len(keys), np.int16), "integers of 32 or 64 bits"),
        (lambda keys: np.ones(len(keys), np.bool_), "integers of 32 or 64 bits"),
        (lambda keys: np.ones(1, np.int64), "one number per key"),
        (lambda keys: np.ones((len(keys), 2), np.int64), "one number per key"),
        (lambda keys: pa.nulls(len(keys), pa.int64()), "a null"),
        (lambda keys: np.random.default_rng().integers(0, 9, len(keys)), "not deterministic"),
        ("crc32", "must be callable"),
    ],
)
def test_what_is_no_hash_is_refused(function: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        pyhudi.register_hash("mine", function)
    with pytest.raises(IndexNotReadyError, match="is not registered"):
        KeyHash.named("mine", 3)


def test_a_function_of_one_key_is_refused() -> None:
    with pytest.raises((UserError, AttributeError)):
        pyhudi.register_hash("mine", one_at_a_time)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["java", "murmur3", "", "a b", "a/b"])
def test_names_that_cannot_be_given(name: str) -> None:
    with pytest.raises(UserError):
        pyhudi.register_hash(name, crc)


def test_a_name_keeps_its_function() -> None:
    pyhudi.register_hash("crc", crc)
    pyhudi.register_hash("crc", lambda keys: crc(keys))  # the same, from a notebook run twice
    with pytest.raises(UserError, match="another hash function is registered"):
        pyhudi.register_hash("crc", lambda keys: crc(keys) + np.uint32(1))


def table(fs: MemoryFileSystem, **given: Any) -> Table:
    options = parse_options({f"pyhudi.index.elastic.{n}": v for n, v in given.items()})
    if not fs.exists(".hoodie/hoodie.properties"):
        cow = TableType.COPY_ON_WRITE
        create(fs, NewTable(SCHEMA, "t", cow, ("id",), (), (), options, IndexKind.ELASTIC))
    return Table(fs, options=options, engine=LocalEngine(2))


def rows(count: int) -> pa.Table:
    return pa.table({"id": [f"k{i}" for i in range(count)], "ts": [1] * count}, SCHEMA)


def test_an_index_is_queried_by_its_own_hash_only() -> None:
    fs = MemoryFileSystem()
    with pytest.raises(IndexNotReadyError, match="is not registered"):
        table(MemoryFileSystem(), hash="crc")
    pyhudi.register_hash("crc", crc)
    table(fs, hash="crc").upsert(rows(50))
    assert table(fs).upsert(rows(60)).inserted == 10
    assert table(fs).index.verify().is_exact
    for other in ("java", "murmur3"):
        with pytest.raises(OptionError, match="cannot be changed for an existing index"):
            table(fs, hash=other).upsert(rows(60))
    hash_functions._REGISTERED.clear()  # a process that has not registered it
    lookups = [
        lambda: table(fs).lookup(["k1"]),
        lambda: table(fs).upsert(rows(70)),
        lambda: table(fs).index.verify(),
    ]
    for call in lookups:
        with pytest.raises(IndexNotReadyError, match="register_hash"):
            call()
    pyhudi.register_hash("crc", lambda keys: crc(keys) + np.uint32(1))
    for call in lookups:
        with pytest.raises(IndexNotReadyError, match="is not the one the table"):
            call()
    assert table(fs).scan().count() == 60
    assert fingerprint("crc") != fingerprint("murmur3")
    table(fs, hash="murmur3").index.rebuild()
    assert table(fs).upsert(rows(70)).inserted == 10
    assert table(fs).index.verify().is_exact
