"""Changes of entries by a commit, against a model, and their bytes."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyhudi.metadata.hfile_slices import MapSlice, StoredFile
from pyhudi.metadata.record_schema import RECORDS_V9
from pyhudi.metadata.secondary_index.changes import EntryChanges, changes_between, combined
from pyhudi.metadata.secondary_index.key_format import entry_keys
from pyhudi.metadata.secondary_index.lookup import ended, live_keys
from pyhudi.metadata.secondary_index.records import entry_value, log_blocks_of
from pyhudi.records import InstantTime
from pyhudi.storage.memory import MemoryFileSystem

VALUES = st.one_of(st.none(), st.sampled_from("xyz$"))
HOMES = st.integers(0, 3)
"""A file group; 3: the record does not exist."""

ROWS_BY_GROUP = st.tuples(st.sampled_from("abcdef"), VALUES, HOMES, VALUES, HOMES)


def keys_of(rows: dict[str, str | None]) -> pa.Array:
    return entry_keys(pa.array(list(rows.values()), pa.string()), pa.array(list(rows), pa.string()))


@given(st.lists(ROWS_BY_GROUP, max_size=6, unique_by=lambda row: row[0]))
def test_changes_lead_from_the_entries_before_to_those_after(
    rows: list[tuple[str, str | None, int, str | None, int]],
) -> None:
    def group(number: int, value: int, home: int) -> pa.Array:
        return keys_of({row[0]: row[value] for row in rows if row[home] == number})

    made = combined(changes_between(group(n, 1, 2), group(n, 3, 4)) for n in range(3))
    before = {key for n in range(3) for key in group(n, 1, 2).to_pylist()}
    after = {key for n in range(3) for key in group(n, 3, 4).to_pylist()}
    added, ended = set(made.added.to_pylist()), set(made.ended.to_pylist())
    assert not added & ended
    assert (before - ended) | added == after
    assert len(made.added) == len(added) and len(made.ended) == len(ended)


def test_an_update_that_leaves_the_value_changes_nothing() -> None:
    rows = {"a": "x", "b": None}
    assert changes_between(keys_of(rows), keys_of(rows)).is_empty


def test_a_record_that_moves_keeps_its_entry() -> None:
    one = changes_between(keys_of({"a": "x"}), keys_of({}))
    other = changes_between(keys_of({}), keys_of({"a": "x"}))
    assert combined([one, other]).added.to_pylist() == ["x$a"]
    assert not len(combined([one, other]).ended)


@pytest.mark.parametrize("is_deleted", [False, True])
def test_values_say_whether_the_entry_is_deleted(is_deleted: bool) -> None:
    value = pa.array([entry_value(is_deleted=is_deleted)], pa.binary())
    assert ended(value, RECORDS_V9.stored, path="x").tolist() == [is_deleted]
    assert entry_value().hex() == "0000000000000e000000000200"  # as Apache Hudi 1.1 writes it


def test_logs_add_and_end_entries() -> None:
    fs = MemoryFileSystem()
    steps = [
        EntryChanges(keys_of({"b": "y", "a": "x", "c": None}), keys_of({})),
        EntryChanges(keys_of({"a": "z"}), keys_of({"a": "x", "nobody": "x"})),
    ]
    logs = []
    for number, step in enumerate(steps):
        content = b"".join(log_blocks_of(step, "p", instant=InstantTime(f"{number:017d}")))
        name = f"p/.g-0000-0_00000000000000000.log.{number + 1}_0-0-0"
        fs.create(name, content)
        logs.append(StoredFile(name, len(content)))
    valid = frozenset(f"{number:017d}" for number in range(2))
    group = MapSlice("p", 0, None, tuple(logs), valid)
    assert sorted(live_keys(fs, group, [""]).to_pylist()) == [b"\0$c", b"y$b", b"z$a"]
    assert live_keys(fs, group, ["x$"]).to_pylist() == []
    assert live_keys(fs, group, ["z$", "y$"]).to_pylist() == [b"y$b", b"z$a"]
