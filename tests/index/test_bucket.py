"""The bucket index: keys fall where Apache Hudi puts them."""

from __future__ import annotations

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import example, given

from pyhudi._native import java_string_hash
from pyhudi.api.table import Table
from pyhudi.engine import LocalEngine
from pyhudi.errors import UserError
from pyhudi.index.bucket import (
    BucketFinder,
    BucketRule,
    begun,
    bucket_groups,
    bucket_of_file,
    buckets_of,
    hash_field_values,
    is_new_bucket,
    new_bucket,
)
from pyhudi.options import Options
from pyhudi.read.table_snapshot import load_state
from pyhudi.records import FileGroupId
from pyhudi.storage.memory import MemoryFileSystem
from tests.support.golden import golden_table


def hash_of(text: str) -> int:
    return int(java_string_hash(pa.array([text]))[0])


def bucket_in_java(key: str, fields: tuple[str, ...], count: int) -> int:
    """BucketIdentifier and KeyGenUtils.extractRecordKeysByFields of 1.2.0, step by step."""
    values: list[int] = []
    if ":" not in key or "," not in key:
        values = [hash_of(key)]
    else:
        at = 0
        while at < len(key):
            first = key.index(":", at)
            name, second = key[at:first], key.find(":", first + 1)
            if second < 0:
                value, at = key[first + 1 :], len(key)
            else:
                comma = key.rfind(",", 0, second + 1)
                while comma < first and second > 0:
                    second = key.find(":", second + 1)
                    comma = key.rfind(",", 0, second + 1)
                if comma > 0 and comma > first:
                    value, at = key[first + 1 : comma], comma + 1
                else:
                    value, at = key[first + 1 :], len(key)
            if name in fields:
                values.append(0 if value in ("__null__", "__empty__") else hash_of(value))
    h = 1
    for number in values or [hash_of(key)]:
        h = (31 * h + number) & 0xFFFFFFFF
    return (h & 0x7FFFFFFF) % count


@given(
    st.lists(st.text("ab:,_é", min_size=1, max_size=12), min_size=1, max_size=20),
    st.integers(1, 300),
)
@example(["1"], 256)
@example(["a:__null__,b:__empty__", "a:1,b:2,", "x:1", ":a", "a:b:c,d"], 7)
def test_buckets_are_those_of_java(keys: list[str], count: int) -> None:
    rule = BucketRule(count, ("a", "b"))
    got = buckets_of(pa.array(keys), rule).tolist()
    assert got == [bucket_in_java(key, rule.fields, count) for key in keys]


def test_values_may_hold_the_separators() -> None:
    assert hash_field_values("a:1,2,b:12:30:45", ("a", "b")) == ["1,2", "12:30:45"]
    assert hash_field_values("a:x:y,b:__null__", ("b",)) == [None]
    assert hash_field_values("z,a:1", ("a",)) == []


def test_buckets_that_apache_hudi_1_2_0_chose() -> None:
    found = {"a:b": 40, "id:x": 56, "id:x,y": 36, "a,id:z,": 5, ",:": 45, "12:30:45": 4}
    got = buckets_of(pa.array(list(found)), BucketRule(64, ("id",)))
    assert got.tolist() == list(found.values())


def test_known_buckets() -> None:
    assert buckets_of(pa.array(["1"]), BucketRule(256, ("id",))).tolist() == [80]
    assert buckets_of(pa.array(["x:a,y:b"]), BucketRule(8, ("x", "y"))).tolist() == [2]


def test_keys_of_a_golden_table_are_in_their_buckets() -> None:
    fs = golden_table("mor_bucket")
    state = load_state(fs, Options().read)
    groups = bucket_groups((s.group for s in state.slices()), BucketRule(4, ("id",)))
    rows = Table(fs, options=Options(), engine=LocalEngine(1)).scan().to_arrow()
    numbers = buckets_of(rows["_hoodie_record_key"].combine_chunks(), BucketRule(4, ("id",)))
    for row, number in zip(rows.to_pylist(), numbers.tolist(), strict=True):
        group = groups[row["_hoodie_partition_path"], number]
        assert row["_hoodie_file_name"].startswith(group.file_id)


def test_a_group_of_another_index_is_refused() -> None:
    rule = BucketRule(4, ("id",))
    for file_id in ("00000004-aaaa-0", "7c0b1f9e-aaaa-0"):
        with pytest.raises(UserError, match="not one of its buckets"):
            bucket_groups([FileGroupId("p", file_id)], rule)
    twice = [FileGroupId("p", "00000001-a-0"), FileGroupId("p", "00000001-b-0")]
    with pytest.raises(UserError, match="several file groups"):
        bucket_groups(twice, rule)


def test_a_new_bucket_gets_its_number_in_front() -> None:
    group = new_bucket("p", 3)
    assert is_new_bucket(group)
    started = begun(group, "12345678-90ab-cdef-1234-567890abcdef-0")
    assert started == FileGroupId("p", "00000003-90ab-cdef-1234-567890abcdef-0")
    assert bucket_of_file(started.file_id) == 3
    assert not is_new_bucket(started)


def rows_of(keys: list[str], paths: list[str], deleted: list[bool]) -> pa.Table:
    return pa.table(
        {
            "_hoodie_record_key": keys,
            "_hoodie_partition_path": pa.array(paths).dictionary_encode(),
            "deleted": deleted,
        }
    )


def test_deletes_are_looked_for_in_groups_that_are_there() -> None:
    rule = BucketRule(1, ("id",))
    there = FileGroupId("p", "00000000-x-0")
    finder = BucketFinder(rule, {("p", 0): there})
    rows = rows_of(["a", "b", "c", "d"], ["p", "q", "p", "q"], [False, False, True, True])
    found = finder.locate(MemoryFileSystem(), rows)
    assert found.rows.tolist() == [0, 1, 2]
    assert [found.groups[home] for home in found.homes] == [there, new_bucket("q", 0), there]
