"""The metadata table of a table that has commits already."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from pyhudi.errors import IndexNotReadyError, UserError
from pyhudi.filenames import BaseFileName, LogFileName, join
from pyhudi.metadata.bootstrap import (
    LISTED,
    KeysOfGroup,
    create_metadata,
    drop_metadata,
    stored_files,
)
from pyhudi.metadata.reader import open_metadata
from pyhudi.records import FileGroupId, InstantTime
from pyhudi.storage.memory import MemoryFileSystem
from pyhudi.table.properties import load_config, store_config
from pyhudi.timeline.instant import Action
from tests.metadata.small import SmallTable


@pytest.fixture
def table() -> SmallTable:
    """A table with two commits and a delete."""
    table = SmallTable(MemoryFileSystem()).create()
    table.commit({f"k{i:03d}": f"p{i % 3}" for i in range(60)})
    table.commit({f"k{i:03d}": "p1" for i in range(60, 70)}, deletes=["k000"])
    return table


def stored_keys(table: SmallTable) -> Iterator[KeysOfGroup]:
    groups: dict[FileGroupId, list[str]] = {}
    for key, (partition, file_id, _) in table.index.items():
        groups.setdefault(FileGroupId(partition, file_id), []).append(key)
    for group, keys in groups.items():
        yield pa.chunked_array([keys[:3], keys[3:]], pa.string()), group


def restamped(table: SmallTable) -> SmallTable:
    """What is known of a record after a bootstrap: its place, and the last instant before it."""
    last = table.log.load().last
    assert last is not None
    table.index = {k: (p, f, last.time) for k, (p, f, _) in table.index.items()}
    return table


def test_rebuilding_finds_what_was_there(table: SmallTable) -> None:
    table.config = drop_metadata(table.fs, table.config)
    assert not table.fs.children(".hoodie/metadata")
    assert open_metadata(table.fs, table.config, table.log, table.log.load()) is None
    table.config = create_metadata(
        table.fs, table.config, table.log, bucket_count=4, records=stored_keys(table)
    )
    restamped(table).check(absent=["k000"])
    table.commit({"new": "p0"}, deletes=["k001"], compact_after=1)
    table.commit({"newer": "p0"}, compact_after=1)
    table.check(absent=["k000", "k001"])


def test_a_record_index_is_added_to_a_file_list(table: SmallTable) -> None:

    table.config = store_config(table.fs, table.config.with_properties({LISTED: "files"}))
    with pytest.raises(IndexNotReadyError):
        table.metadata().record_index()
    table.config = create_metadata(
        table.fs, table.config, table.log, bucket_count=2, records=stored_keys(table)
    )
    assert load_config(table.fs).metadata_partitions == {"files", "record_index"}
    assert table.metadata().record_index().bucket_count == 2
    restamped(table).check(absent=["k000"])
    table.commit({"new": "p0"}, compact_after=1)
    table.commit({"newer": "p0"}, compact_after=1)
    table.check(absent=["k000"])


def test_nothing_is_created_twice(table: SmallTable) -> None:
    assert create_metadata(table.fs, table.config, table.log) == table.config
    table.check()


def test_pending_writes_are_waited_for(table: SmallTable) -> None:
    config = drop_metadata(table.fs, table.config)
    table.log.request(Action.COMMIT)
    with pytest.raises(IndexNotReadyError, match="pending"):
        create_metadata(table.fs, config, table.log)


def test_the_number_of_buckets_is_checked(table: SmallTable) -> None:
    with pytest.raises(UserError, match="out of range"):
        create_metadata(table.fs, table.config, table.log, bucket_count=0)


def test_only_files_of_visible_commits_are_listed(table: SmallTable) -> None:
    failed = BaseFileName("f", "0-0-0", InstantTime("20261121120000000"))
    orphan = LogFileName("f", InstantTime("20261121120000000"), 1, "0-0-0")
    for name in (failed, orphan, "readme.txt"):
        table.fs.create(join("p0", str(name)), b"x")
    planned = table.log.request(Action.COMPACTION)
    log = LogFileName("f", planned.time, 1, "0-0-0")
    table.fs.create(join("p0", str(log)), b"x")
    found = stored_files(table.fs, table.log, table.log.load())
    assert found["p0"] == {**table.files["p0"], str(log): 1}


def test_a_duplicated_key_counts_where_it_comes_last(table: SmallTable) -> None:
    config = drop_metadata(table.fs, table.config)
    twice = [
        (pa.array(["a", "b"]), FileGroupId("p0", "old")),
        (pa.array(["b"]), FileGroupId("p1", "new")),
    ]
    table.config = create_metadata(table.fs, config, table.log, bucket_count=1, records=twice)
    found = table.metadata().record_index().lookup(["b", "a"])
    assert found["file_id"].to_pylist() == ["new", "old"]
