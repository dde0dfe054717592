"""Keys with several rows: a filter on the key, `fetch` and a whole scan give the same rows."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import strategies as st

import pyhudi
from pyhudi.api.table import Table
from pyhudi.read.skipping.key_uniqueness import KEYS, LOOKED_UP, UNIQUE, keys_are_unique
from pyhudi.timeline.instant import Action
from pyhudi.transaction.heartbeat import Heartbeat
from tests.support.examples import UNSHRUNK, examples
from tests.support.inside import fs_of, state_of

SCHEMA = pa.schema([("id", pa.string()), ("p", pa.string()), ("v", pa.int64())])
META = {
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.metadata.index.bloom.filter.enable": "true",
}
SMALL = {
    "hoodie.parquet.small.file.limit": "0",
    "hoodie.metadata.record.index.min.filegroup.count": "2",
}
names = itertools.count()
values = itertools.count()

rows = st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from("xy")), min_size=1, max_size=4)
VERBS = ("upsert", "insert", "bulk_insert", "insert_overwrite", "insert_overwrite_table", "delete")
steps = st.lists(st.tuples(st.sampled_from(VERBS), rows), min_size=1, max_size=4)


def batch(keys: list[tuple[str, str]]) -> pa.Table:
    found = [{"id": key, "p": path, "v": next(values)} for key, path in keys]
    return pa.Table.from_pylist(found, SCHEMA)


def carry_out(table: Table, verb: str, keys: list[tuple[str, str]]) -> Any:
    if verb == "delete":
        return table.delete(keys=pa.array([key for key, _ in keys]))
    return getattr(table, verb)(batch(keys))


def made(kind: str = "cow", index: str = "record", partitioned: bool = True, **more: str) -> Table:
    return pyhudi.create_table(
        f"memory://unique{next(names)}", SCHEMA, record_key="id", table_type=kind, index=index,
        partition_by="p" if partitioned else (), options={**SMALL, **more},
    )  # fmt: skip


def plain(found: pa.Table) -> list[str]:
    return sorted(map(repr, found.select(SCHEMA.names).to_pylist()))


def check_filters(table: Table) -> None:
    """Every way to ask for keys gives what a whole scan holds of them."""
    whole = table.scan().to_arrow()
    unskipped = pyhudi.open_table(table.path, options={"hoodie.enable.data.skipping": "false"})
    for key in "abcd":
        expected = plain(whole.filter(pc.field("id") == key))
        for column in ("id", "_hoodie_record_key"):
            for where in (pc.field(column) == key, pc.field(column).isin([key, "absent"])):
                assert plain(table.scan(where=where).to_arrow()) == expected
                assert plain(unskipped.scan(where=where).to_arrow()) == expected
                assert table.scan(where=where).count() == len(expected)
        assert plain(table.fetch([key])) == expected
    assert plain(table.fetch(list("abcd"))) == plain(whole)


@pytest.mark.parametrize("kind", ["cow", "mor"])
@pytest.mark.parametrize("verb", ["bulk_insert", "insert"])
def test_a_filter_on_the_key_finds_each_row_of_a_doubled_key(kind: str, verb: str) -> None:
    table = made(kind)
    getattr(table, verb)(batch([("a", "x")]))
    getattr(table, verb)(batch([("a", "x")]))
    assert table.scan(where=pc.field("id") == "a").count() == 2
    assert table.fetch(["a"]).num_rows == 2
    check_filters(table)


def test_a_doubled_key_inside_one_bulk_insert_is_found_whole() -> None:
    table = made()
    table.bulk_insert(batch([("a", "x"), ("a", "y"), ("b", "x")]))
    check_filters(table)


@pytest.mark.parametrize("kind", ["cow", "mor"])
@pytest.mark.parametrize("partitioned", [True, False])
@pytest.mark.parametrize("more", [{}, META], ids=["index", "index-stats-blooms"])
@examples(4, 12, UNSHRUNK, turns=steps)
def test_no_sequence_of_writes_lets_a_filter_on_the_key_lose_rows(
    kind: str, partitioned: bool, more: dict[str, str], turns: list[Any]
) -> None:
    table = made(kind, partitioned=partitioned, **more)
    for verb, keys in turns:
        carry_out(table, verb, keys)
        unique = keys_are_unique(state_of(table))
        ids = table.scan().to_arrow().column("id")
        assert not unique or len(pc.unique(ids)) == len(ids)
    check_filters(table)


@pytest.mark.parametrize("first", ["upsert", "bulk_insert", "insert"])
@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_upserts_after_one_load_keep_the_index_usable_by_filters(kind: str, first: str) -> None:
    table = made(kind)
    getattr(table, first)(batch([("a", "x"), ("b", "y"), ("c", "x")]))
    for _ in range(3):
        table.upsert(batch([("a", "x"), ("d", "y")]))
    table.delete(keys=["c"])
    assert keys_are_unique(state_of(table))
    plan = table.scan(where=pc.field("id") == "a").plan
    assert plan.skipped_by["record index"] > 0
    check_filters(table)


def test_services_keep_the_index_usable_by_filters() -> None:
    table = made("mor")
    table.bulk_insert(batch([("a", "x"), ("b", "y"), ("c", "x")]))
    table.upsert(batch([("a", "x"), ("b", "y")]))
    table.compact()
    table.cluster()
    table.delete_partitions("p=none")
    assert keys_are_unique(state_of(table))


def test_overwriting_a_table_with_doubled_keys_makes_the_index_usable_again() -> None:
    table = made()
    table.bulk_insert(batch([("a", "x")]))
    table.bulk_insert(batch([("a", "y")]))
    assert not keys_are_unique(state_of(table))
    table.insert_overwrite(batch([("b", "x")]))
    assert not keys_are_unique(state_of(table))
    table.insert_overwrite_table(batch([("a", "x"), ("b", "y")]))
    assert keys_are_unique(state_of(table))
    check_filters(table)


def test_an_insert_that_looks_keys_up_keeps_the_index_usable() -> None:
    table = made(**{"hoodie.datasource.insert.dup.policy": "drop"})
    table.insert(batch([("a", "x"), ("a", "y")]))
    table.insert(batch([("a", "y"), ("b", "y")]))
    assert keys_are_unique(state_of(table))
    check_filters(table)


def strip_marks(table: Table) -> None:
    """Leave the commits as another writer would have left them."""
    for instant in table.timeline.commits:
        path = state_of(table).log.path(instant)
        log = state_of(table).log
        commit = log.commit(instant)
        extra = {name: value for name, value in commit.extra.items() if name != KEYS}
        fs_of(table).delete([path])
        fs_of(table).create(path, log.encode(replace(commit, extra=extra)))


@pytest.mark.parametrize(
    ("partitioned", "verbs", "expected"),
    [
        (False, ["upsert", "upsert", "delete"], True),
        (False, ["bulk_insert", "upsert"], False),
        (False, ["insert"], False),
        # an index that is not global leaves the row of the old partition
        (True, ["upsert", "upsert"], False),
    ],
)
def test_commits_of_other_writers_prove_what_their_operation_proves(
    partitioned: bool, verbs: list[str], expected: bool
) -> None:
    table = made(partitioned=partitioned)
    for verb in verbs:
        carry_out(table, verb, [("a", "x"), ("b", "y")])
    strip_marks(table)
    state = state_of(pyhudi.open_table(table.path))
    assert keys_are_unique(state) is expected


def test_a_commit_speaks_for_the_whole_table_only_without_an_older_pending_write() -> None:
    options = {
        "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
        "hoodie.clean.failed.writes.policy": "LAZY",
    }
    table = made(partitioned=False, **options)
    table.upsert(batch([("a", "x")]))
    log = state_of(table).log
    pending = log.request(Action.COMMIT)
    with Heartbeat(fs_of(table), pending.time):
        table.upsert(batch([("b", "x")]))
    marks = [log.commit(instant).extra[KEYS] for instant in table.timeline.commits]
    assert marks == [UNIQUE, LOOKED_UP]
    assert keys_are_unique(state_of(table))
    table.upsert(batch([("c", "x")]))
    newest = table.timeline.commits.last
    assert newest is not None
    assert log.commit(newest).extra[KEYS] == UNIQUE
