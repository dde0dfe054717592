"""From a batch to the rows of each target: keyed, tagged, assigned, routed, against a dict."""

from __future__ import annotations

import itertools
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given

from pyhudi._native import bucket_of
from pyhudi.index import record
from pyhudi.index.record import RecordFinder
from pyhudi.keygen.generators import KeyRule
from pyhudi.metadata.record_index.hash_functions import KeyHash
from pyhudi.metadata.record_index.lookup import LOOKUP_SCHEMA
from pyhudi.options import FileSizing
from pyhudi.records import DEFAULT_PARTITION, IS_DELETED, RECORD_KEY, FileGroupId, InstantTime
from pyhudi.storage.memory import MemoryFileSystem
from pyhudi.storage.spill import MemoryStaging
from pyhudi.table.file_group_view import FileSlice, PendingPlans
from pyhudi.write.input.batch import BatchChunk, KeyPlan, bucket_order, rows_of_bucket, stage_rows
from pyhudi.write.input.deduplicate import Duplicates, TagPlan
from pyhudi.write.placement.assignment import AssignRules, Mode, assign
from pyhudi.write.placement.routing import Router, targets_of
from pyhudi.write.placement.tagging import BucketTags, RowAction, TagTask, tag_bucket

BUCKETS = 3
RULE = KeyRule(("id",), ("part",), composite=False, hive_style=False, url_encoded=False)
SCHEMA = pa.schema(
    [("id", pa.string()), ("part", pa.string()), ("n", pa.int64()), (IS_DELETED, pa.bool_())]
)
KEYS = [f"k{n}" for n in range(12)]
PATHS = {"a": "a", "b": "b", "": DEFAULT_PARTITION, None: DEFAULT_PARTITION}

Row = tuple[str, str | None, bool]

batches = st.lists(
    st.lists(
        st.tuples(st.sampled_from(KEYS), st.sampled_from(list(PATHS)), st.booleans()), max_size=8
    ),
    min_size=1,
    max_size=4,
)
homes = st.dictionaries(
    st.sampled_from(KEYS), st.tuples(st.sampled_from(list(PATHS.values())), st.sampled_from("xy"))
)


def staged(batch: list[list[Row]]) -> tuple[BatchChunk, ...]:
    plan = KeyPlan(SCHEMA, RULE, KeyHash(BUCKETS))
    counter = itertools.count()
    return tuple(
        stage_rows(
            pa.Table.from_pylist(
                [
                    {"id": key, "part": part, "n": next(counter), IS_DELETED: gone}
                    for key, part, gone in rows
                ],
                SCHEMA,
            ),
            plan,
            MemoryStaging(),
        )
        for rows in batch
    )


def answer(index: dict[str, tuple[str, str]], keys: pa.Array) -> pa.RecordBatch:
    found = [index.get(key) for key in keys.to_pylist()]
    columns = [
        pa.array([f and f[0] for f in found], pa.string()).dictionary_encode(),
        pa.array([f and f[0] + f[1] for f in found], pa.string()).dictionary_encode(),
        pa.array([f and "001" for f in found], pa.string()),
        pa.array([f is not None for f in found]),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=LOOKUP_SCHEMA)


def tagged(
    parts: tuple[BatchChunk, ...], index: dict[str, tuple[str, str]], *, moves: bool
) -> list[BucketTags]:
    plan = TagPlan(
        MemoryFileSystem(),
        parts,
        MemoryStaging(),
        Duplicates.NEWEST,
        None,
        deletes_all=False,
        moves=moves,
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            record, "lookup_bucket", lambda fs, bucket, keys, reported: answer(index, keys)
        )
        finder = RecordFinder(object())  # type: ignore[arg-type]
        return [tag_bucket(TagTask(plan, number, finder)) for number in range(BUCKETS)]


class View:
    """Slices of the groups an index names, which hold no files."""

    pending = PendingPlans()

    def __init__(self, index: dict[str, tuple[str, str]]) -> None:
        self._groups = sorted({FileGroupId(p, p + f) for p, f in index.values()})

    def latest_slices(self) -> list[FileSlice]:
        return [FileSlice(group, InstantTime("001")) for group in self._groups]


def expected(
    batch: list[list[Row]], index: dict[str, tuple[str, str]], *, moves: bool
) -> set[tuple[int, str, str | None, RowAction]]:
    """(row, partition, file id or None for a new record, action): the last row of a key counts."""
    last = {
        row[0]: (number, row) for number, row in enumerate(itertools.chain.from_iterable(batch))
    }
    out: set[tuple[int, str, str | None, RowAction]] = set()
    for key, (number, (_, value, gone)) in last.items():
        home, part = index.get(key), PATHS[value]
        if home is None:
            if not gone:
                out.add((number, part, None, RowAction.PUT))
        elif gone:
            out.add((number, home[0], home[0] + home[1], RowAction.DELETE))
        elif moves and home[0] != part:
            out.add((number, home[0], home[0] + home[1], RowAction.LEAVE))
            out.add((number, part, None, RowAction.PUT))
        else:
            out.add((number, home[0], home[0] + home[1], RowAction.PUT))
    return out


@given(batches, homes, st.booleans())
def test_every_row_reaches_its_target(
    batch: list[list[Row]], index: dict[str, tuple[str, str]], moves: bool
) -> None:
    parts = staged(batch)
    buckets = tagged(parts, index, moves=moves)
    counter = itertools.count()
    rules = AssignRules(
        FileSizing(file_bytes_max=30), merge_on_read=True, record_bytes=10, small_files=False
    )
    view: Any = View(index)
    assigned = assign(buckets, view, rules, new_file_id=lambda: f"new{next(counter)}")
    router = Router.of(parts, buckets, assigned.routes, [None] * len(buckets))
    found: set[tuple[int, str, str | None, RowAction]] = set()
    count = 0
    for number, target in enumerate(assigned.targets):
        routed = router.rows_of(number)
        rows = routed.rows.column("n").to_pylist()
        assert rows == sorted(rows)
        assert len(rows) == target.update_count + target.insert_count
        assert target.mode is Mode.APPEND or len(rows) <= 3
        file_id = None if target.group.file_id.startswith("new") else target.group.file_id
        actions = [RowAction(action) for action in routed.action.tolist()]
        found |= {
            (n, target.group.partition, file_id, action)
            for n, action in zip(rows, actions, strict=True)
        }
        count += len(rows)
    assert found == expected(batch, index, moves=moves)
    assert count == len(found)
    keys = {key for rows in batch for key, _, _ in rows}
    assert sum(s.duplicate_count for s in buckets) == sum(map(len, batch)) - len(keys)
    for bucket, route in zip(buckets, assigned.routes, strict=True):
        assert len(targets_of(route)) == bucket.tags.load().num_rows


@given(batches)
def test_a_bucket_sees_its_rows_and_no_others(batch: list[list[Row]]) -> None:
    for part in staged(batch):
        keys = part.staged.load().column(RECORD_KEY)
        homes = np.asarray(bucket_of(keys, BUCKETS))
        for bucket in range(BUCKETS):
            assert rows_of_bucket(part, bucket).tolist() == np.flatnonzero(homes == bucket).tolist()


def test_more_buckets_than_sixteen_bits_hold() -> None:
    keys = pa.chunked_array([[f"key-{n}" for n in range(100)]])
    order = bucket_order(keys, KeyHash(70_000))
    homes = np.asarray(bucket_of(keys, 70_000))
    rows = order.column("row").to_numpy()
    assert homes[rows].tolist() == sorted(homes.tolist())


@given(batches, homes, st.data())
def test_rows_that_lose_are_left_out(
    batch: list[list[Row]],
    index: dict[str, tuple[str, str]],
    data: st.DataObject,
) -> None:
    parts = staged(batch)
    buckets = tagged(parts, index, moves=False)
    rules = AssignRules(FileSizing(), merge_on_read=True, record_bytes=10, small_files=False)
    view: Any = View(index)
    assigned = assign(buckets, view, rules, new_file_id=lambda: "new")
    lost = []
    gone: set[int] = set()
    for bucket in buckets:
        tags = bucket.tags.load()
        picked = sorted(data.draw(st.sets(st.integers(0, max(0, tags.num_rows - 1)))))
        picked = [position for position in picked if position < tags.num_rows]
        for position in picked:
            part, row = (tags.column(name)[position].as_py() for name in ("part", "row"))
            gone.add(parts[part].staged.load().column("n")[row].as_py())
        table = pa.table({"position": pa.array(picked, pa.int64())})
        lost.append(MemoryStaging().put("lost", table) if picked else None)
    router = Router.of(parts, buckets, assigned.routes, lost)
    retained = {
        n
        for number in range(len(assigned.targets))
        for n in router.rows_of(number).rows.column("n").to_pylist()
    }
    assert retained == {row[0] for row in expected(batch, index, moves=False)} - gone
