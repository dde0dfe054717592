"""Delta commits: what is written is what is read, whatever happened before."""

from __future__ import annotations

import pyarrow as pa
import pytest

from pyhudi.errors import UnsupportedTableError
from pyhudi.metadata.bootstrap import LISTED
from pyhudi.metadata.writer import check_writable, write_bucket
from pyhudi.storage.memory import MemoryFileSystem
from pyhudi.timeline.instant import Action, State
from tests.metadata.small import SmallTable


def keys(start: int, stop: int, parts: int = 3) -> dict[str, str]:
    return {f"k{i:05d}": f"p{i % parts}" for i in range(start, stop)}


@pytest.fixture
def table() -> SmallTable:
    return SmallTable(MemoryFileSystem()).create()


def test_a_new_table_has_no_partitions_and_no_keys(table: SmallTable) -> None:
    table.check(absent=["", "k"])
    assert table.config.metadata_partitions == {"files", "record_index"}
    assert table.metadata().record_index().bucket_count == 3


def test_commits_add_files_and_keys(table: SmallTable) -> None:
    table.commit(keys(0, 50))
    table.check(absent=["nope"])
    table.commit(keys(50, 60), deletes=["k00001", "k00002"])
    table.check(absent=["k00001", "k00002"])


def test_a_deleted_key_comes_back_elsewhere(table: SmallTable) -> None:
    table.commit({"a": "p0", "b": "p0"})
    table.commit({}, deletes=["a"])
    table.check(absent=["a"])
    table.commit({"a": "p1"})
    table.check()


def test_a_key_deleted_and_put_by_one_commit_stays(table: SmallTable) -> None:
    table.commit({"a": "p0"})
    table.commit({"a": "p1"}, deletes=["a"])
    table.check()


def test_an_unpublished_commit_is_invisible(table: SmallTable) -> None:
    table.commit(keys(0, 10))
    begun = table.begin(keys(10, 20), deletes=["k00001"])
    table.check(absent=["k00015"])
    begun.metadata.finish(begun.stats, begun.index)  # complete there, not on the data table
    table.check(absent=["k00015"])


def test_logs_of_lost_attempts_are_deleted(table: SmallTable) -> None:
    begun = table.begin({"a": "p0"})
    (target,) = [
        t for t in begun.metadata.bucket_targets() if begun.index[0].file_id == t.group.file_id
    ]
    other = write_bucket(
        table.fs,
        target,
        begun.instant,
        keys=pa.array(["b"]),
        partition_path=pa.array(["p9"]),
        file_id=pa.array(["elsewhere"]),
        deleted=pa.array([], pa.string()),
    )
    assert other.path != begun.index[0].path
    table.publish(begun)
    table.check(absent=["b"])


def test_unsorted_and_repeated_keys_of_a_bucket(table: SmallTable) -> None:
    begun = table.begin({"a": "p0"})
    target = next(
        t for t in begun.metadata.bucket_targets() if t.group.file_id == begun.index[0].file_id
    )
    table.fs.delete([f".hoodie/metadata/{begun.index[0].path}"])
    begun.index[0] = write_bucket(
        table.fs,
        target,
        begun.instant,
        keys=pa.chunked_array([["z", "a"], ["b", "a"]]),
        partition_path=pa.array(["p0", "old", "p0", "p0"]).dictionary_encode(),
        file_id=pa.array([begun.stats[0].file_id] * 4),
        deleted=pa.array(["a", "gone", "gone"]),
    )
    assert begun.index[0].write_count == 3
    assert begun.index[0].delete_count == 1
    table.publish(begun)
    table.check()


def test_file_ids_that_are_no_uuid(table: SmallTable) -> None:
    begun = table.begin({"a": "p0"})
    target = next(
        t for t in begun.metadata.bucket_targets() if t.group.file_id == begun.index[0].file_id
    )
    table.fs.delete([f".hoodie/metadata/{begun.index[0].path}"])
    begun.index[0] = write_bucket(
        table.fs,
        target,
        begun.instant,
        keys=pa.array(["a"]),
        partition_path=pa.array([""]),
        file_id=pa.array(["bucket-7"]),
        deleted=pa.array([], pa.string()),
    )
    table.publish(begun)
    table.index["a"] = ("", "bucket-7", begun.instant.time)
    table.check()


@pytest.mark.parametrize("compact_after", [1, 3])
def test_compaction_changes_nothing_that_readers_see(compact_after: int) -> None:
    table = SmallTable(MemoryFileSystem()).create()
    for step in range(8):
        gone = [f"k{i:05d}" for i in range(step * 20, step * 20 + 3) if step]
        table.commit(keys(step * 10, step * 10 + 25), deletes=gone, compact_after=compact_after)
        table.check(absent=["nope", *(k for k in gone if k not in table.index)])
    own = table.metadata().timeline
    assert len(own.where({Action.COMMIT}, State.COMPLETED)) >= 2


def test_compaction_waits_for_pending_data_instants(table: SmallTable) -> None:
    pending = table.log.request(Action.COMPACTION)
    for step in range(4):
        table.commit(keys(step, step + 5), compact_after=1)
    own = table.metadata().timeline
    assert all(i.time < pending.time for i in own.where({Action.COMMIT}))
    table.check()


def test_old_slices_are_cleaned_and_readers_do_not_notice(table: SmallTable) -> None:
    for step in range(40):
        table.commit({f"k{step}": "p0"}, compact_after=3)
    own = table.metadata().timeline
    assert own.where({Action.CLEAN}, State.COMPLETED).instants
    logs = table.fs.children(".hoodie/metadata/files")
    assert len([i for i in logs if i.name.endswith(".hfile")]) < 10
    table.check()


@pytest.mark.parametrize("other", ["secondary_index_x", "partition_stats"])
def test_metadata_of_other_kinds_refuses_a_write(other: str, table: SmallTable) -> None:
    """Version 6 has neither; a write would leave them stale."""
    more = table.config.with_properties({LISTED: f"files,record_index,{other}"})
    with pytest.raises(UnsupportedTableError, match=other):
        check_writable(more)
