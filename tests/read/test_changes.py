"""Incremental reads: ranges, hollow_commits, globs, hidden no-ops, and what is opened for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import pyhudi
from pyhudi.api.table import Table
from pyhudi.engine import LocalEngine
from pyhudi.errors import (
    HollowCommitError,
    SnapshotExpiredError,
    UnsupportedTableError,
    UserError,
)
from pyhudi.options import parse_options
from pyhudi.storage.filesystem import FileSystem
from pyhudi.storage.local import LocalFileSystem
from pyhudi.storage.memory import MemoryFileSystem
from pyhudi.table.properties import MergeMode, TableType, store_config
from tests.support.filesystems import OpenCountingFileSystem
from tests.support.handmade import Handmade, file_id
from tests.support.versions import end_of

T1, T2, T3, T4, T5 = (f"2026010{n}000000000" for n in range(1, 6))
SCHEMA = pa.schema({"id": pa.string(), "ts": pa.int64(), "part": pa.string(), "v": pa.int64()})


def rows(*found: tuple[str, int, str, int]) -> pa.Table:
    return pa.Table.from_pylist(
        [dict(zip(SCHEMA.names, row, strict=True)) for row in found], schema=SCHEMA
    )


def opened(fs: FileSystem, **options: Any) -> Table:
    return Table(fs, options=parse_options(options), engine=LocalEngine(2))


def values(found: Any) -> dict[str, int]:
    table = found.to_arrow()
    return dict(zip(table["id"].to_pylist(), table["v"].to_pylist(), strict=True))


def copy_on_write(fs: FileSystem, commits: int = 3) -> Handmade:
    """Group n holds key kn; commit n (from the second) rewrites group n with value 10 n."""
    made = Handmade(
        fs, SCHEMA, partition_by=("part",), table_type=TableType.COPY_ON_WRITE,
        merge_mode=MergeMode.COMMIT_TIME, ordering=(),
    )  # fmt: skip
    for n in range(1, commits + 1):
        made.base(n, T1, rows((f"k{n}", 1, f"p{n % 2}", n)), partition=f"p{n % 2}")
    made.commit(T1, action="commit")
    for n in range(2, commits + 1):
        time = f"20260102{n:06}000"
        made.base(n, time, rows((f"k{n}", 2, f"p{n % 2}", 10 * n)), partition=f"p{n % 2}")
        made.commit(time, action="commit")
    return made


def test_reading_one_of_100_commits_opens_only_the_files_that_commit_wrote() -> None:
    memory = MemoryFileSystem()
    copy_on_write(memory, 100)
    fs = OpenCountingFileSystem(memory)
    table = opened(fs)
    fs.opened.clear()
    scan = table.changes("20260102000056000", "20260102000057000")
    assert values(scan) == {"k57": 570}
    data = {path for path in fs.opened if not path.startswith(".hoodie")}
    assert data == {f"p1/{file_id(57)}_0-0-0_20260102000057000.parquet"}
    assert fs.listed <= {".hoodie"}
    assert scan.explain().listed_by == "the commits' metadata"


def test_a_commit_time_log_is_read_without_its_base_file() -> None:
    memory = MemoryFileSystem()
    made = Handmade(memory, SCHEMA, merge_mode=MergeMode.COMMIT_TIME, ordering=())
    made.base(1, T1, rows(("a", 1, "", 1), ("b", 1, "", 2)))
    made.commit(T1)
    for version, time, key in ((1, T2, "a"), (2, T3, "b"), (3, T4, "c")):
        block = made.rows_block(1, time, rows((key, 2, "", 20 + version)))
        made.log(1, T1, version, [block], instant=time)
        made.commit(time)
    fs = OpenCountingFileSystem(memory)
    table = opened(fs)
    assert values(table.changes(T2, T3)) == {"b": 22}
    data = [path for path in fs.opened if not path.startswith(".hoodie")]
    assert {path.rpartition(".log.")[2] for path in data} == {"2_0-0-0"}
    assert values(table.changes(T1)) == {"a": 21, "b": 22, "c": 23}


def test_a_delete_in_the_range_hides_what_the_range_wrote() -> None:
    made = Handmade(MemoryFileSystem(), SCHEMA, merge_mode=MergeMode.COMMIT_TIME, ordering=())
    made.base(1, T1, rows(("a", 1, "", 1)))
    made.commit(T1)
    made.log(1, T1, 1, [made.rows_block(1, T2, rows(("a", 2, "", 2)))], instant=T2)
    made.commit(T2)
    made.log(1, T1, 2, [made.deletes_block(T3, ["a"])], instant=T3)
    made.commit(T3)
    table = opened(made.fs)
    assert values(table.changes(T1, T2)) == {"a": 2}
    assert values(table.changes(T1, T3)) == {}


def test_partitions_can_be_chosen_by_a_glob() -> None:
    fs = MemoryFileSystem()
    copy_on_write(fs, 4)
    table = opened(fs)
    assert values(table.changes("000", partitions="p0")) == {"k2": 20, "k4": 40}
    assert values(table.changes(T1, partitions="p1*")) == {"k3": 30}
    by_option = opened(fs, **{"hoodie.datasource.read.incr.path.glob": "p1"})
    assert values(by_option.changes(T1)) == {"k3": 30}


def test_filters_and_partition_filters_apply_to_changes() -> None:
    fs = MemoryFileSystem()
    copy_on_write(fs, 5)
    table = opened(fs)
    assert values(table.changes(T1, where=pc.field("v") > 25)) == {"k3": 30, "k4": 40, "k5": 50}
    plan = table.changes(T1, where=pc.field("part") == "p1").explain()
    assert [task.slice.partition for task in plan.tasks] == ["p1", "p1"]


def holed() -> Handmade:
    made = copy_on_write(MemoryFileSystem(), 2)
    made.fs.create(".hoodie/20260102000001500.commit.requested", b"")
    made.fs.create(".hoodie/20260102000001500.inflight", b"")
    return made


def test_a_hole_in_the_range_fails_blocks_or_cannot_be_served() -> None:
    table = opened(holed().fs)
    with pytest.raises(HollowCommitError, match="pending") as caught:
        table.changes(T1).to_arrow()
    assert caught.value.facts["instant"] == "20260102000001500"
    assert values(table.changes(T1, hollow_commits="block")) == {}
    assert values(table.changes("000", hollow_commits="block")) == {"k1": 1, "k2": 2}
    assert values(table.changes("000", T1)) == {"k1": 1, "k2": 2}
    with pytest.raises(UnsupportedTableError, match="version 6"):
        table.changes(T1, hollow_commits="use_transition_time").to_arrow()
    with pytest.raises(UserError, match="hollow commit policy"):
        table.changes(T1, hollow_commits="ignore")


def test_the_policy_for_holes_is_an_option() -> None:
    fs = holed().fs
    blocking = opened(fs, **{"hoodie.read.timeline.holes.resolution.policy": "BLOCK"})
    assert values(blocking.changes(T1)) == {}
    with pytest.raises(HollowCommitError):
        blocking.changes(T1, hollow_commits="fail").to_arrow()


def test_a_write_that_is_merely_under_way_is_no_hole() -> None:
    made = copy_on_write(MemoryFileSystem(), 2)
    made.fs.create(f".hoodie/{T5}.commit.requested", b"")
    assert values(opened(made.fs).changes(T1)) == {"k2": 20}


@pytest.mark.parametrize("version", [6, 9])
@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_updates_that_change_nothing_can_be_hidden(tmp_path: Path, kind: str, version: int) -> None:
    table = pyhudi.create_table(
        tmp_path / "t", SCHEMA, record_key="id", partition_by="part", ordering="ts",
        table_type=kind, version=version,
    )  # fmt: skip
    before = end_of(table.upsert(rows(("a", 1, "p", 1), ("b", 1, "p", 2), ("c", 1, "q", 3))))
    table.upsert(rows(("a", 1, "p", 1), ("b", 1, "p", 20), ("d", 1, "q", 4)))
    table.upsert(rows(("c", 1, "q", 30)))
    table.upsert(rows(("c", 1, "q", 3)))
    assert values(table.changes(before)) == {"a": 1, "b": 20, "c": 3, "d": 4}
    scan = table.changes(before, hide_unchanged=True)
    assert values(scan) == {"b": 20, "d": 4}
    assert scan.count() == scan.to_batches().read_all().num_rows == 2
    assert values(table.changes("000", hide_unchanged=True)) == {"a": 1, "b": 20, "c": 3, "d": 4}


def test_a_late_reader_learns_that_its_files_are_gone(tmp_path: Path) -> None:
    made = copy_on_write(LocalFileSystem(tmp_path), 3)
    scan = opened(made.fs).scan(as_of=T1)
    assert scan.explain().tasks
    made.fs.delete([f"p0/{file_id(2)}_0-0-0_{T1}.parquet"])
    for read in (scan.to_arrow, scan.count, lambda: list(scan.to_batches())):
        with pytest.raises(SnapshotExpiredError, match="no longer exists"):
            read()


def test_replaced_groups_give_no_changes() -> None:
    made = copy_on_write(MemoryFileSystem(), 3)
    made.base(9, T4, rows(("n", 1, "p1", 7)), partition="p1")
    made.commit(T4, action="replacecommit", replaced={"p1": (file_id(1), file_id(3))})
    assert values(opened(made.fs).changes(T1)) == {"k2": 20, "n": 7}


def test_a_table_without_meta_columns_has_no_changes() -> None:
    made = copy_on_write(MemoryFileSystem(), 1)
    bare = made.config.with_properties({"hoodie.populate.meta.fields": "false"})
    store_config(made.fs, bare)
    with pytest.raises(UserError, match="meta columns"):
        opened(made.fs).changes("000").to_arrow()


@pytest.mark.parametrize("version", [6, 9])
@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_what_is_left_of_a_cleaned_range_is_returned_on_request(
    tmp_path: Path, kind: str, version: int
) -> None:
    options = {"hoodie.clean.commits.retained": 1, "hoodie.clean.automatic": False}
    table = pyhudi.create_table(
        tmp_path, SCHEMA, record_key="id", partition_by="part", table_type=kind, options=options,
        version=version,
    )  # fmt: skip
    first = end_of(table.upsert(rows(("a", 1, "p", 1), ("b", 1, "p", 1))))
    second = end_of(table.upsert(rows(("b", 2, "p", 2), ("c", 2, "q", 2))))
    for turn in range(3, 6):
        table.upsert(rows(("b", turn, "p", turn)))
        if kind == "mor":
            table.compact()
    table.clean()
    with pytest.raises(SnapshotExpiredError):
        table.changes(first, second).to_arrow()
    name = "hoodie.datasource.read.incr.fallback.fulltablescan.enable"
    scan = pyhudi.open_table(tmp_path, options={name: True}).changes(first, second)
    assert values(scan) == {"c": 2}
    assert "rows written later are left out" in str(scan.explain())


@pytest.mark.parametrize("version", [6, 9])
@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_comparisons_with_a_cleaned_snapshot_are_refused(
    tmp_path: Path, kind: str, version: int
) -> None:
    options = {"hoodie.clean.commits.retained": 1, "hoodie.clean.automatic": False}
    table = pyhudi.create_table(
        tmp_path, SCHEMA, record_key="id", partition_by="part", table_type=kind, options=options,
        version=version,
    )  # fmt: skip
    ends = []
    for turn in range(1, 6):
        ends.append(end_of(table.upsert(rows(("b", turn, "p", turn)))))
        if kind == "mor":
            table.compact()
    table.clean()
    for read in (
        lambda: table.diff(ends[0]),
        lambda: table.diff(ends[0], ends[1]),
        lambda: table.changes(ends[0], hide_unchanged=True).to_arrow(),
        lambda: table.changes(ends[0], ends[1], hide_unchanged=True).to_arrow(),
    ):
        with pytest.raises(SnapshotExpiredError):
            read()
    if kind == "cow":  # else the clean retains the last compaction
        (row,) = table.diff(ends[-2]).to_pylist()
        assert (row["before"]["v"], row["after"]["v"]) == (4, 5)


@pytest.mark.parametrize("version", [6, 8, 9])
def test_columns_may_be_those_of_the_end_of_the_range(version: int, tmp_path: Path) -> None:
    table = pyhudi.create_table(
        tmp_path, SCHEMA, record_key="id", partition_by="part", version=version
    )
    reports = [table.upsert(rows(("a", 1, "p", 1))), table.upsert(rows(("b", 2, "p", 2)))]
    first, second = (each.completed_at or each.instant for each in reports)
    table.upsert(rows(("c", 3, "q", 3)).append_column("w", pa.array([3])), schema_mode="widen")
    assert first is not None
    assert "w" in table.changes(first, second).schema.names
    name = "hoodie.datasource.read.schema.use.end.instanttime"
    then = pyhudi.open_table(tmp_path, options={name: True})
    assert "w" not in then.changes(first, second).schema.names
    assert values(then.changes(first, second)) == {"b": 2}
    assert "w" in then.changes(first).schema.names
