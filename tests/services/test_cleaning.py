"""Cleaning: what nobody needs goes, what somebody may need stays."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

import pyhudi
from pyhudi.errors import OptionError, SnapshotExpiredError
from pyhudi.options import parse_options
from pyhudi.services.cleaning import propose_clean
from pyhudi.storage.filesystem import FileInfo
from pyhudi.table.properties import TableType
from tests.crash.test_every_stop import SCHEMA, check_index, open_, options, rows, snapshot
from tests.support.filesystems import clone, every_stop
from tests.support.inside import state_of
from tests.support.versions import new_table

FEW = {
    "hoodie.metadata.record.index.min.filegroup.count": "2",
    "hoodie.clean.commits.retained": "2",
    "hoodie.table.services.enabled": "false",  # the tests call the verb
}


def table_of(path: Path, kind: str = "cow", **more: str) -> pyhudi.Table:
    """A table whose file groups have been written five times."""
    table = pyhudi.create_table(
        path, SCHEMA, record_key="id", partition_by="part", ordering="ts", table_type=kind,
        options={**FEW, **more},
    )  # fmt: skip
    table.bulk_insert(rows(range(8), 1))
    for ts in range(2, 6):
        table.upsert(rows(range(8), ts))
        if kind == "mor":
            table.compact()
    return table


def files(path: Path) -> list[str]:
    return sorted(p.name for p in path.glob("p*/*.parquet"))


def values(table: pyhudi.Table, **how: str) -> list[int]:
    return sorted(set(table.scan(["ts"], **how).to_arrow()["ts"].to_pylist()))


def is_readable(table: pyhudi.Table, as_of: str) -> bool:
    """Whether the snapshot is there, with rows."""
    try:
        return bool(values(table, as_of=as_of))
    except SnapshotExpiredError:
        return False


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_retained_commits_stay_readable_and_older_slices_go(tmp_path: Path, kind: str) -> None:
    table = table_of(tmp_path / "t", kind)
    commits = [i.time for i in table.timeline.commits]
    before = len(files(tmp_path / "t"))
    preview = table.clean(dry_run=True)
    assert preview.files and len(files(tmp_path / "t")) == before
    report = table.clean()
    assert (report.files, report.kept_from) == (preview.files, commits[-2])
    assert len(files(tmp_path / "t")) < before
    assert values(table) == [5]
    # the slice before the earliest instant kept is what its readers still see
    assert is_readable(table, commits[-2]) and is_readable(table, commits[-3])
    with pytest.raises(SnapshotExpiredError):
        table.scan(as_of=commits[0]).to_arrow()
    unlisted = pyhudi.open_table(tmp_path / "t", options={"hoodie.metadata.enable": "false"})
    assert values(unlisted) == [5]
    assert table.clean().notes == ("no files are eligible for cleaning",)


def test_what_a_savepoint_holds_stays(tmp_path: Path) -> None:
    from pyhudi.planning.cleaning import Claims, Retention, outdated
    from pyhudi.table.file_group_view import FileGroup

    table = table_of(tmp_path / "t")
    state = state_of(table)
    for group in state.view().groups.values():
        assert isinstance(group, FileGroup)
        oldest = group.slices[-1]
        saved = {oldest.partition: {str(f.name) for f in oldest.files}}
        newest = group.slices[0].instant
        going = outdated(group, Retention(newest), Claims(saved))
        assert oldest not in going and len(going) == len(group.slices) - 3
        assert oldest in outdated(group, Retention(newest), Claims())


def test_the_versions_policy_retains_the_requested_number_of_slices(tmp_path: Path) -> None:
    table = table_of(
        tmp_path / "t",
        **{
            "hoodie.clean.policy": "KEEP_LATEST_FILE_VERSIONS",
            "hoodie.clean.fileversions.retained": "2",
        },
    )
    table.clean()
    assert len(files(tmp_path / "t")) == 4


def test_slices_of_replaced_groups_go_and_their_partition_ends(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t")
    table.delete_partitions("p0")
    for ts in range(6, 9):
        table.upsert(rows(range(1, 8, 2), ts))
    table.clean()
    assert not list((tmp_path / "t" / "p0").glob("*.parquet"))
    assert table.partitions() == ["p1"]
    table.upsert(rows(range(0, 4, 2), 9))
    assert table.partitions() == ["p0", "p1"]
    assert sorted(table.scan(["ts"]).to_arrow()["ts"].to_pylist()) == [8, 8, 8, 8, 9, 9]


def test_groups_that_the_earliest_retained_commit_replaced_stay_for_its_changes(
    tmp_path: Path,
) -> None:
    """They hold the rows before it; Apache Hudi too deletes only what was replaced earlier."""
    table = table_of(tmp_path / "t")
    before = {str(f.name) for s in table.file_slices() for f in s.files}
    replacing = table.insert_overwrite(rows(range(8), 6)).instant
    table.upsert(rows(range(8), 7))
    assert table.clean(dry_run=True).kept_from in (None, replacing)
    table.clean()
    assert before <= set(files(tmp_path / "t"))
    table.upsert(rows(range(8), 8))
    table.clean()
    assert not before & set(files(tmp_path / "t"))


@pytest.mark.parametrize("option", ["selected", "regex"])
def test_a_clean_of_some_partitions_leaves_the_others_to_the_next(
    tmp_path: Path, option: str
) -> None:
    some = {"hoodie.clean.incremental.enabled": "false",
            f"hoodie.clean.partition.filter.{option}": "p1"}  # fmt: skip
    table = table_of(tmp_path / "t")
    before = len(files(tmp_path / "t")) // 2
    report = pyhudi.open_table(tmp_path / "t", options={**FEW, **some}).clean()
    assert report.partitions == 1 and report.kept_from is None
    assert len(list((tmp_path / "t" / "p0").glob("*.parquet"))) == before
    assert len(list((tmp_path / "t" / "p1").glob("*.parquet"))) < before
    table.upsert(rows(range(1, 8, 2), 6))
    table.clean()  # looks into all partitions, as the one before did not
    assert len(list((tmp_path / "t" / "p0").glob("*.parquet"))) < before
    with pytest.raises(OptionError, match="incremental"):
        pyhudi.open_table(tmp_path / "t", options={f"hoodie.clean.partition.filter.{option}": "p1"})


def test_nothing_goes_that_a_planned_compaction_will_read(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", "mor")
    table.upsert(rows(range(8), 6))
    planned = table.schedule_compaction()
    for ts in range(7, 10):
        table.upsert(rows(range(8), ts))
    table.clean()
    assert table.compact().instants == (planned,)
    assert values(table) == [9]
    table.compact()
    assert values(table) == [9] == values(table, mode="read_optimized")


def test_writes_clean_behind_them_on_request(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", **{"hoodie.table.services.enabled": "true"})
    report = table.upsert(rows(range(8), 6))
    assert any(note.startswith("clean ") for note in report.notes)
    assert len(files(tmp_path / "t")) <= 6
    assert values(table) == [6]


def test_a_stop_anywhere_changes_no_row_and_the_next_clean_ends_it() -> None:
    from pyhudi.api.table import Table
    from pyhudi.engine import LocalEngine
    from pyhudi.operations.create import create
    from pyhudi.storage.filesystem import FileSystem
    from pyhudi.storage.memory import MemoryFileSystem
    from pyhudi.write.table_creation import NewTable

    def few(fs: FileSystem) -> Table:
        return Table(fs, options=parse_options(FEW), engine=LocalEngine(1))

    start = MemoryFileSystem()
    create(
        start,
        NewTable(SCHEMA, "t", TableType.COPY_ON_WRITE, ("id",), ("part",), ("ts",), options()),
    )
    for ts in range(1, 6):
        few(start).upsert(rows(range(4), ts))
    want = snapshot(start)
    done = clone(start)
    assert few(done).clean().files
    stops = 0
    for stop in every_stop(start, lambda fs: few(fs).clean(), after=False):
        stops += 1
        assert snapshot(stop.fs) == want, str(stop)
        open_(stop.fs).upsert(rows(range(30, 32), 9))
        assert snapshot(stop.fs) == want | {"k30": 9, "k31": 9}, str(stop)
        few(stop.fs).clean()
        assert snapshot(stop.fs) == want | {"k30": 9, "k31": 9}, str(stop)
        check_index(stop.fs, want | {"k30": 9, "k31": 9})
        assert not open_(stop.fs).timeline.pending, str(stop)
    assert stops > 5


def test_a_clean_looks_only_where_commits_came_since_the_last(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t")
    table.clean()
    for ts in range(6, 12):
        table.upsert(rows(range(0, 8, 2), ts))  # of p0 alone
        if ts == 8:
            assert table.clean().partitions == 2
    plan = propose_clean(state_of(table), parse_options(FEW))
    everywhere = parse_options({**FEW, "hoodie.clean.incremental.enabled": "false"})
    assert plan.files == propose_clean(state_of(table), everywhere).files and set(plan.files) == {
        "p0"
    }
    requested: list[list[str]] = []
    state = state_of(table)

    class Watched:
        def partitions(self) -> list[str]:
            return state.listing.partitions()

        def files(self, partitions: Iterable[str]) -> dict[str, list[FileInfo]]:
            requested.append(list(partitions))
            return state.listing.files(requested[-1])

    propose_clean(replace(state, listing=Watched()), parse_options(FEW))
    assert [expected for expected in requested if expected] == [["p0"]]


def test_a_savepoint_that_ended_lets_go_of_slices_anywhere(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t")
    saved = table.savepoint("kept", table.timeline.commits.instants[1].time)
    table.clean()
    assert values(table, as_of=saved.instant)
    table.delete_savepoint(saved.instant)
    for ts in range(6, 9):
        table.upsert(rows(range(0, 8, 2), ts))
    assert "p1" in propose_clean(state_of(table), parse_options(FEW)).files


@pytest.mark.parametrize("version", [8, 9])
def test_a_clean_retains_the_base_file_below_logs_with_instants_of_their_own(version: int) -> None:
    table = new_table(
        f"memory://clean-layouts-{version}", version, pa.schema({"id": pa.string()}), kind="mor"
    )
    table.upsert(pa.table({"id": ["a", "b"]}))
    for _ in range(14):  # more than a clean retains
        table.upsert(pa.table({"id": ["a"]}))
    assert sorted(table.scan(["id"]).to_arrow().column(0).to_pylist()) == ["a", "b"]
