"""insert_overwrite, insert_overwrite_table and delete_partitions, on both table types."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from pyhudi import HFileReader
from pyhudi.api.table import Table
from pyhudi.engine import LocalEngine
from pyhudi.errors import OptionError, UserError, WriteConflictError
from pyhudi.operations.create import create
from pyhudi.options import Options, parse_options
from pyhudi.recovery.newest_commit import roll_back_newest
from pyhudi.storage.memory import MemoryFileSystem
from pyhudi.table.log import timeline_log
from pyhudi.table.properties import TableType, load_config
from pyhudi.timeline.instant import Action, State
from pyhudi.timeline.service_payloads import REQUESTED_REPLACE, write_avro
from pyhudi.write.overwrite import literal
from pyhudi.write.table_creation import NewTable
from tests.support.filesystems import tree
from tests.support.golden import golden_table

SCHEMA = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("part", pa.string())])
OPTIONS = {
    "hoodie.metadata.record.index.min.filegroup.count": "2",
    "hoodie.index.bloom.num_entries": "50",
}


def rows(keys: list[str], part: str, ts: int = 5) -> pa.Table:
    return pa.Table.from_pylist([{"id": k, "ts": ts, "part": part} for k in keys], SCHEMA)


def options(**more: str) -> Options:
    return parse_options(OPTIONS | more)


@pytest.fixture(params=TableType, ids=["cow", "mor"])
def fs(request: pytest.FixtureRequest) -> MemoryFileSystem:
    """Partitions a (a0 … a4) and b (b0 … b4), some rows updated, a4 and b4 deleted."""
    fs = MemoryFileSystem()
    create(fs, NewTable(SCHEMA, "t", request.param, ("id",), ("part",), ("ts",), options()))
    for part in "ab":
        keys = [f"{part}{i}" for i in range(5)]
        table(fs).bulk_insert(rows(keys, part, 1))
        table(fs).upsert(rows(keys[:2], part, 2))
        table(fs).delete(keys=[keys[4]])
    return fs


def table(fs: MemoryFileSystem, opts: Options | None = None) -> Table:
    return Table(fs, options=opts or options(), engine=LocalEngine(1))


def stored(fs: MemoryFileSystem, as_of: str | None = None) -> dict[str, tuple[str, int]]:
    found = table(fs).scan(["id", "part", "ts"], as_of=as_of).to_arrow().to_pylist()
    assert len({row["id"] for row in found}) == len(found)
    return {row["id"]: (row["part"], row["ts"]) for row in found}


def check_index(fs: MemoryFileSystem) -> None:
    """The index finds every stored key where it is, and no other."""
    want = stored(fs)
    keys = sorted({f"{p}{i}" for p in "abcdn" for i in range(6)} | want.keys())
    slices = {(s.partition, s.file_id) for s in table(fs).file_slices()}
    for found in table(fs).lookup(keys).to_pylist():
        assert found["found"] == (found["record_key"] in want), found
        if found["found"]:
            assert found["partition_path"] == want[found["record_key"]][0]
            assert (found["partition_path"], found["file_id"]) in slices


def test_partitions_of_the_batch_are_replaced_and_the_others_stay(fs: MemoryFileSystem) -> None:
    before = stored(fs)
    old = {s.file_id for s in table(fs).file_slices("a")}
    report = table(fs).insert_overwrite(rows(["a1", "n1"], "a"))
    assert (report.operation, report.inserted, report.deleted) == ("insert_overwrite", 2, 4)
    assert (report.file_groups, report.replaced_file_groups) == (1, 1)
    want = {k: v for k, v in before.items() if v[0] == "b"}
    assert stored(fs) == want | {"a1": ("a", 5), "n1": ("a", 5)}
    assert not old & {s.file_id for s in table(fs).file_slices("a")}
    check_index(fs)
    table(fs).upsert(rows(["a0", "a1", "b1"], "a", 9))
    assert {k for k, v in stored(fs).items() if v[1] == 9} == {"a0", "a1", "b1"}
    check_index(fs)


def test_a_new_partition_replaces_nothing(fs: MemoryFileSystem) -> None:
    before = stored(fs)
    report = table(fs).insert_overwrite(rows(["c0"], "c"))
    assert (report.inserted, report.deleted, report.replaced_file_groups) == (1, 0, 0)
    assert stored(fs) == before | {"c0": ("c", 5)}
    check_index(fs)


def test_an_overwrite_of_the_table_leaves_the_batch_alone(fs: MemoryFileSystem) -> None:
    report = table(fs).insert_overwrite_table(rows(["a0", "c0"], "c"))
    assert (report.inserted, report.deleted, report.replaced_file_groups) == (2, 8, 2)
    assert stored(fs) == {"a0": ("c", 5), "c0": ("c", 5)}
    check_index(fs)


def test_an_overwrite_of_the_table_by_no_rows_empties_it(fs: MemoryFileSystem) -> None:
    report = table(fs).insert_overwrite_table(SCHEMA.empty_table())
    assert (report.inserted, report.deleted) == (0, 8)
    assert stored(fs) == {}
    check_index(fs)
    assert table(fs).insert_overwrite_table(SCHEMA.empty_table()).instant is None
    table(fs).insert(rows(["b0"], "b"))
    assert stored(fs) == {"b0": ("b", 5)}
    check_index(fs)


def test_an_overwrite_by_no_rows_does_nothing(fs: MemoryFileSystem) -> None:
    before = stored(fs)
    report = table(fs).insert_overwrite(SCHEMA.empty_table())
    assert report.instant is None and "nothing to write" in report.notes
    assert stored(fs) == before


def test_static_mode_replaces_every_partition(fs: MemoryFileSystem) -> None:
    static = options(**{"hoodie.datasource.overwrite.mode": "static"})
    report = table(fs, static).insert_overwrite(rows(["a9"], "a"))
    assert (report.operation, report.deleted) == ("insert_overwrite_table", 8)
    assert stored(fs) == {"a9": ("a", 5)}
    check_index(fs)


def test_static_partitions_are_replaced_also_where_no_row_lies(fs: MemoryFileSystem) -> None:
    static = options(**{"hoodie.static.overwrite.partition.paths": "a,b"})
    assert table(fs, static).insert_overwrite(rows(["a9"], "a")).deleted == 8
    assert stored(fs) == {"a9": ("a", 5)}
    check_index(fs)


def test_rows_outside_the_static_partitions_are_refused(fs: MemoryFileSystem) -> None:
    before = stored(fs)
    static = options(**{"hoodie.static.overwrite.partition.paths": "b"})
    with pytest.raises(UserError, match="outside the partitions to overwrite; partitions=a"):
        table(fs, static).insert_overwrite(rows(["a9"], "a"))
    assert stored(fs) == before and not table(fs).timeline.pending


def test_an_unknown_overwrite_mode_is_refused() -> None:
    with pytest.raises(OptionError, match="STATIC, DYNAMIC"):
        options(**{"hoodie.datasource.overwrite.mode": "both"})


def test_deleted_partitions_are_gone_and_can_come_back(fs: MemoryFileSystem) -> None:
    before = stored(fs)
    report = table(fs).delete_partitions(["a", "nowhere"])
    assert (report.operation, report.deleted, report.inserted) == ("delete_partition", 4, 0)
    assert report.notes == ("no such partition: nowhere",)
    assert stored(fs) == {k: v for k, v in before.items() if v[0] == "b"}
    assert table(fs).partitions() == ["b"]
    check_index(fs)
    table(fs).upsert(rows(["a0"], "a"))
    assert stored(fs)["a0"] == ("a", 5)
    assert table(fs).partitions() == ["a", "b"]
    check_index(fs)


def test_a_star_names_many_partitions(fs: MemoryFileSystem) -> None:
    table(fs).insert(rows(["c0"], "x[1]/c"))
    assert table(fs).delete_partitions("*[1]*").deleted == 1
    assert table(fs).delete_partitions("*").deleted == 8
    assert stored(fs) == {}


def test_a_partition_with_a_star_in_its_name_is_named_by_it(fs: MemoryFileSystem) -> None:
    table(fs).insert(rows(["c0"], "*"))
    table(fs).insert(rows(["c1"], "a*"))
    before = stored(fs)
    assert table(fs).delete_partitions(["*", "a*"]).deleted == 2
    assert stored(fs) == {k: v for k, v in before.items() if k not in ("c0", "c1")}


def test_a_literal_path_names_no_other_partition(fs: MemoryFileSystem) -> None:
    table(fs).insert(rows(["c0"], "x[1]*"))
    before = stored(fs)
    assert table(fs).delete_partitions([literal("*"), literal("x*")]).deleted == 0
    assert stored(fs) == before
    assert table(fs).delete_partitions(literal("x[1]*")).deleted == 1
    assert "c0" not in stored(fs)


def test_deleting_a_partition_that_is_not_there_changes_nothing(fs: MemoryFileSystem) -> None:
    times = table(fs).timeline.times
    report = table(fs).delete_partitions("zzz")
    assert report.instant is None
    assert report.notes == ("nothing to write", "no such partition: zzz")
    assert table(fs).timeline.times == times
    with pytest.raises(UserError, match="no partitions given"):
        table(fs).delete_partitions([])


@pytest.mark.parametrize("verb", ["insert_overwrite", "insert_overwrite_table", "delete"])
def test_a_dry_run_reports_what_would_leave_and_changes_nothing(
    fs: MemoryFileSystem, verb: str
) -> None:
    files = tree(fs)
    if verb == "delete":
        report = table(fs).delete_partitions(["a"], dry_run=True)
    else:
        report = getattr(table(fs), verb)(rows(["a9"], "a"), dry_run=True)
    assert report.dry_run and report.instant is None
    assert report.deleted == (8 if verb.endswith("table") else 4)
    assert tree(fs) == files


def test_older_snapshots_keep_what_was_replaced(fs: MemoryFileSystem) -> None:
    before = stored(fs)
    newest = table(fs).timeline.commits.last
    assert newest is not None
    table(fs).insert_overwrite(rows(["a9"], "a"))
    table(fs).delete_partitions("b")
    assert stored(fs, as_of=newest.time) == before


def test_a_rolled_back_overwrite_brings_everything_back(fs: MemoryFileSystem) -> None:
    before = stored(fs)
    report = table(fs).insert_overwrite(rows(["a1", "n1"], "a"))
    config = load_config(fs)
    log = timeline_log(fs, config)
    assert report.instant is not None
    newest = log.load().commits.last
    assert newest is not None and newest.action is Action.REPLACE_COMMIT
    roll_back_newest(fs, config, log, newest.time, engine=LocalEngine(1))
    assert stored(fs) == before
    check_index(fs)


def test_a_key_that_also_lives_elsewhere_stays_in_the_index(fs: MemoryFileSystem) -> None:
    """`insert` does not look keys up, so a key may be in two partitions; the index knows one."""
    table(fs).insert(rows(["b0"], "c"))
    assert table(fs).lookup(["b0"])["partition_path"].to_pylist() == ["c"]
    table(fs).delete_partitions("b")
    assert table(fs).lookup(["b0"])["partition_path"].to_pylist() == ["c"]
    check_index(fs)


def test_file_groups_in_a_pending_clustering_are_not_replaced(fs: MemoryFileSystem) -> None:
    file_slice = table(fs).file_slices("a")[0]
    planned = {"fileId": file_slice.file_id, "partitionPath": "a"}
    plan = {"clusteringPlan": {"inputGroups": [{"slices": [planned]}]}, "operationType": "CLUSTER"}
    log = timeline_log(fs, load_config(fs))
    clustering = Action(log.layout.clustering_action)
    at = log.request(clustering, write_avro(REQUESTED_REPLACE, plan))
    for act in (
        lambda: table(fs).insert_overwrite(rows(["a9"], "a")),
        lambda: table(fs).insert_overwrite_table(rows(["a9"], "a")),
        lambda: table(fs).delete_partitions("a"),
    ):
        with pytest.raises(WriteConflictError, match=f"instant={at.time}, file_groups=a/"):
            act()
    assert [i.time for i in table(fs).timeline.pending] == [at.time]
    table(fs).insert_overwrite(rows(["b9"], "b"))


def test_replace_commits_are_written_as_apache_hudi_writes_them(fs: MemoryFileSystem) -> None:
    """Field by field against the replace commits of a golden table."""
    golden = golden_table("cow_overwritten")
    theirs, ours = (timeline_log(each, load_config(each)) for each in (golden, fs))
    table(fs).insert_overwrite(rows(["a9"], "a"))
    table(fs).delete_partitions("b")
    table(fs).insert_overwrite_table(rows(["a9"], "a"))
    done = ours.load().where({Action.REPLACE_COMMIT}, State.COMPLETED)
    models = theirs.load().where({Action.REPLACE_COMMIT}, State.COMPLETED)
    for mine, model in zip(done, models, strict=True):
        written, expected = ours.commit(mine), theirs.commit(model)
        assert written.operation == expected.operation
        assert {len(s.path.split("/")) for s in written.stats} <= {2}
        assert bool(written.stats) == bool(expected.stats) and written.replaced
        for log, instant in ((ours, mine), (theirs, model)):
            profile = log.commit(replace(instant, state=State.INFLIGHT))
            assert profile.operation == expected.operation
            # Ours names them early: writers beside it see what it takes out.
            assert profile.replaced == (written.replaced if log is ours else None)
            assert all(s.file_id == "" and s.insert_count for s in profile.stats)
        assert ours.requested(mine).keys() == theirs.requested(model).keys()
    assert ours.commit(done.instants[2]).replaced == {
        "a": ours.commit(done.instants[2]).replaced["a"],  # type: ignore[index]
        "b": (),  # deleted, and listed until it is cleaned
    }


def test_an_index_bucket_all_of_whose_keys_ended_gets_no_file_without_cells() -> None:
    """Apache Hudi 0.15 cannot scan such a file."""
    fs = MemoryFileSystem()
    many = options(**{"hoodie.metadata.record.index.min.filegroup.count": "8"})
    create(fs, NewTable(SCHEMA, "t", TableType.COPY_ON_WRITE, ("id",), ("part",), ("ts",), many))
    table(fs).insert(rows([f"a{i}" for i in range(40)], "a"))
    table(fs).delete_partitions("a")
    for ts in range(12):
        table(fs).upsert(rows(["b0"], "b", ts))
    bases = [i for i in fs.children(".hoodie/metadata/record_index") if i.name.endswith(".hfile")]
    assert bases and all(HFileReader(fs.read(i.path)).entry_count for i in bases)
    check_index(fs)
    table(fs).insert(rows([f"a{i}" for i in range(40)], "c"))
    check_index(fs)
