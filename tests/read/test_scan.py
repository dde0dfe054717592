"""Scans over tables put together by hand."""

from __future__ import annotations

import itertools
import math
import pickle
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from pyhudi.api.table import Table
from pyhudi.engine import LocalEngine
from pyhudi.errors import (
    CorruptFileError,
    IndexNotReadyError,
    SnapshotExpiredError,
    UnsupportedTableError,
    UserError,
)
from pyhudi.formats import base_file
from pyhudi.formats.log_file import BlockKind
from pyhudi.options import parse_options
from pyhudi.read.scan_tasks import read_task
from pyhudi.records import COMMIT_TIME, META_COLUMNS
from pyhudi.storage.filesystem import FileSystem
from pyhudi.storage.local import LocalFileSystem
from pyhudi.storage.memory import MemoryFileSystem
from pyhudi.table.properties import MergeMode, TableType, store_config
from pyhudi.timeline.service_payloads import CLEAN_METADATA, write_avro
from tests.support.handmade import Handmade, file_id

T1, T2, T3, T4, T5 = (f"2026010{n}000000000" for n in range(1, 6))
SCHEMA = pa.schema({"id": pa.string(), "ts": pa.int64(), "part": pa.string(), "v": pa.int64()})


def rows(*found: tuple[str, int, str, int]) -> pa.Table:
    return pa.Table.from_pylist(
        [dict(zip(SCHEMA.names, row, strict=True)) for row in found], schema=SCHEMA
    )


def opened(fs: FileSystem, **options: str) -> Table:
    return Table(fs, options=parse_options(options), engine=LocalEngine(2))


def values(table: pa.Table) -> dict[str, int]:
    return dict(zip(table["id"].to_pylist(), table["v"].to_pylist(), strict=True))


@pytest.fixture
def mor() -> Handmade:
    """Two partitions; b updated and c deleted at T2, d added to a log at T3."""
    made = Handmade(MemoryFileSystem(), SCHEMA, partition_by=("part",))
    made.base(1, T1, rows(("a", 1, "p", 1), ("b", 1, "p", 2)), partition="p")
    made.base(2, T1, rows(("c", 1, "q", 3), ("e", 1, "q", 5)), partition="q")
    made.commit(T1)
    update = made.rows_block(1, T2, rows(("b", 2, "p", 20)), partition="p")
    made.log(1, T1, 1, [update], partition="p", instant=T2)
    made.log(2, T1, 1, [made.deletes_block(T2, ["c"])], partition="q", instant=T2)
    made.commit(T2)
    avro = made.rows_block(2, T3, rows(("d", 1, "q", 4)), partition="q", kind=BlockKind.AVRO)
    made.log(2, T1, 2, [avro], partition="q", instant=T3)
    made.commit(T3)
    return made


def test_a_snapshot_merges_logs_into_base_files(mor: Handmade) -> None:
    table = opened(mor.fs).scan().to_arrow()
    assert values(table) == {"a": 1, "b": 20, "e": 5, "d": 4}
    assert table.column_names == [*META_COLUMNS, *SCHEMA.names]


def test_read_optimized_reads_base_files_alone(mor: Handmade) -> None:
    scan = opened(mor.fs).scan(mode="read_optimized")
    assert values(scan.to_arrow()) == {"a": 1, "b": 2, "c": 3, "e": 5}


def test_as_of_sees_the_rows_of_that_instant(mor: Handmade) -> None:
    table = opened(mor.fs)
    assert values(table.scan(as_of=T1).to_arrow()) == {"a": 1, "b": 2, "c": 3, "e": 5}
    assert values(table.scan(as_of=T2).to_arrow()) == {"a": 1, "b": 20, "e": 5}
    assert values(table.scan(as_of="2026-01-02 00:00:00").to_arrow()) == {"a": 1, "b": 20, "e": 5}
    with pytest.raises(UserError, match="no commit at or before"):
        table.scan(as_of="2025-12-31").to_arrow()


def test_changes_are_the_rows_of_commits_in_the_range(mor: Handmade) -> None:
    table = opened(mor.fs)
    assert values(table.changes("000").to_arrow()) == {"a": 1, "b": 20, "e": 5, "d": 4}
    assert values(table.changes(T1).to_arrow()) == {"b": 20, "d": 4}
    assert values(table.changes(T1, T2).to_arrow()) == {"b": 20}
    assert values(table.changes(T2, T3).to_arrow()) == {"d": 4}
    assert values(table.changes(T3).to_arrow()) == {}


def test_changes_skip_file_groups_that_were_not_written(mor: Handmade) -> None:
    plan = opened(mor.fs).changes(T2).explain()
    assert [task.slice.partition for task in plan.tasks] == ["q"]
    assert plan.partitions_read == 1


def test_columns_come_in_the_requested_order_without_meta_columns(mor: Handmade) -> None:
    table = opened(mor.fs)
    assert table.scan(columns=["v", "id"]).to_arrow().column_names == ["v", "id"]
    assert table.scan(with_meta=False).to_arrow().column_names == SCHEMA.names
    assert table.scan(columns=["id", COMMIT_TIME]).to_arrow().column_names == ["id", COMMIT_TIME]


def test_rows_without_columns_are_as_many_as_rows_with(mor: Handmade) -> None:
    table = opened(mor.fs)
    for where, count in ((None, 4), (pc.field("v") > 4, 2), (pc.field("part") == "p", 2)):
        scan = table.scan([], where)
        assert scan.to_arrow().num_rows == scan.count() == count
        assert scan.to_batches().read_all().num_rows == count


def test_unknown_columns_and_filters_are_refused(mor: Handmade) -> None:
    table = opened(mor.fs)
    with pytest.raises(UserError, match="no such column"):
        table.scan(columns=["nope"]).to_arrow()
    with pytest.raises(UserError, match=r"columns=prat; did you mean part\? it has "):
        table.scan(columns=["prat"]).to_arrow()
    with pytest.raises(UserError, match=r"pass a list of names: \['v', 'part'\]"):
        table.scan(columns="v, part").to_arrow()
    with pytest.raises(UserError, match=r"lacks; .*column=prat; did you mean part\? it has "):
        table.scan(where=pc.field("prat") == 1).to_arrow()
    with pytest.raises(UserError, match=r"the types of the columns.* v is .*: compare with values"):
        table.scan(where=pc.field("v") == "text").to_arrow()
    with pytest.raises(UserError, match="Expression"):
        table.scan(where=("v", "=", 1)).to_arrow()  # type: ignore[arg-type]
    with pytest.raises(UserError, match="unknown mode"):
        table.scan(mode="fast")


def test_a_filter_may_name_nested_fields_and_odd_names() -> None:
    odd = pa.schema(
        {"id": pa.string(), "ts": pa.int64(), "addr": pa.struct({"v": pa.int64()}), "v": pa.int64()}
    )
    made = Handmade(MemoryFileSystem(), odd)
    stored = [
        {"id": "a", "ts": 1, "addr": {"v": 7}, "v": 1},
        {"id": "b", "ts": 1, "addr": None, "v": 2},
    ]
    made.base(1, T1, pa.Table.from_pylist(stored, schema=odd))
    made.commit(T1)
    table = opened(made.fs)
    assert table.scan(["id"], pc.field("addr", "v") == 7).to_arrow().to_pylist() == [{"id": "a"}]
    assert table.scan(["id"], pc.field("v") == 2).to_arrow().to_pylist() == [{"id": "b"}]
    assert table.scan(["id"], pc.scalar(True)).count() == 2


def test_a_filter_reads_only_the_columns_it_names(mor: Handmade) -> None:
    plan = opened(mor.fs).scan(["id"], pc.field("v") > 1).explain()
    assert plan.tasks[0].spec.filter_columns == ("v",)


def test_a_filter_sees_merged_rows(mor: Handmade) -> None:
    table = opened(mor.fs)
    assert values(table.scan(where=pc.field("v") == 2).to_arrow()) == {}
    assert values(table.scan(where=pc.field("v") == 20).to_arrow()) == {"b": 20}
    assert table.scan(["id"], pc.field("v") > 4).to_arrow().to_pydict() == {"id": ["b", "e"]}


def test_a_filter_on_the_partition_lists_only_what_matches(mor: Handmade) -> None:
    scan = opened(mor.fs).scan(where=(pc.field("part") == "q") & (pc.field("v") < 5))
    assert scan.explain().partitions_read == 1
    assert values(scan.to_arrow()) == {"d": 4}


def test_count_stream_and_table_agree(mor: Handmade) -> None:
    table = opened(mor.fs)
    for where in (None, pc.field("v") > 4):
        scan = table.scan(where=where)
        rows_read = scan.to_arrow()
        assert scan.count() == rows_read.num_rows == scan.to_batches().read_all().num_rows
        assert pa.table(scan).equals(rows_read)
    assert pa.table(table).num_rows == 4


def test_a_scan_keeps_the_snapshot_it_first_saw(mor: Handmade) -> None:
    table = opened(mor.fs)
    scan = table.scan()
    assert scan.count() == 4
    mor.base(3, T4, rows(("z", 1, "p", 26)), partition="p")
    mor.commit(T4)
    assert scan.count() == 4
    assert table.scan().count() == 5


def test_tasks_pickle(tmp_path: Path) -> None:
    made = Handmade(LocalFileSystem(tmp_path), SCHEMA, partition_by=("part",))
    made.base(1, T1, rows(("a", 1, "p", 1), ("b", 1, "p", 2)), partition="p")
    made.commit(T1)
    scan = opened(made.fs).scan(where=pc.field("v") > 1)
    tasks = pickle.loads(pickle.dumps(scan.tasks))
    assert values(pa.concat_tables(map(read_task, tasks))) == {"b": 2}


def test_partition_columns_come_from_the_path() -> None:
    """The path wins over the stored value, and `""` under the default partition reads null."""
    made = Handmade(MemoryFileSystem(), SCHEMA, partition_by=("part",), hive_style=True)
    made.base(1, T1, rows(("a", 1, "stored", 1)), partition="part=p")
    made.base(2, T1, rows(("b", 1, "", 2)), partition="part=__HIVE_DEFAULT_PARTITION__")
    made.commit(T1)
    table = opened(made.fs)
    assert set(table.scan(["part", "id"]).to_arrow()["part"].to_pylist()) == {"p", None}
    assert values(table.scan(where=pc.field("part") == "p").to_arrow()) == {"a": 1}
    assert values(table.scan(where=pc.field("part") == "stored").to_arrow()) == {}


def test_partition_columns_that_files_lack_come_from_the_path() -> None:
    made = Handmade(MemoryFileSystem(), SCHEMA, partition_by=("part", "day"), hive_style=True)
    drop = {"hoodie.datasource.write.drop.partition.columns": "true"}
    store_config(made.fs, made.config.with_properties(drop))
    lacking = rows(("a", 1, "", 1)).drop_columns(["part"])
    made.base(1, T1, lacking, partition="part=p/day=2026")
    made.commit(T1, schema=lacking.schema)
    table = opened(made.fs)
    assert table.scan(["id", "part", "day"], pc.field("day") == "2026").to_arrow().to_pylist() == [
        {"id": "a", "part": "p", "day": "2026"}
    ]


def test_explain_reports_what_is_read_and_what_is_skipped(mor: Handmade) -> None:
    text = str(opened(mor.fs).scan(["id"], pc.field("part") == "p").explain())
    assert text.splitlines()[:5] == [
        "columns     id",
        'filter      (part == "p")',
        "as of       now",
        "partitions  1 of 2",
        "listed by   the store",
    ]


def test_only_partition_columns_can_be_read(mor: Handmade) -> None:
    table = opened(mor.fs)
    assert sorted(table.scan(["part"]).to_arrow()["part"].to_pylist()) == ["p", "p", "q", "q"]
    assert table.scan(["part"], mode="read_optimized").to_arrow().num_rows == 4
    assert table.scan(where=pc.field("part") == "q", mode="read_optimized").count() == 2
    assert table.scan(where=pc.field("part") == "q").count() == 2


def test_uncommitted_files_and_blocks_are_invisible(mor: Handmade) -> None:
    mor.base(9, T5, rows(("x", 9, "p", 9)), partition="p")
    block = mor.rows_block(1, T5, rows(("a", 9, "p", 9)), partition="p")
    mor.log(1, T1, 2, [block], partition="p")
    mor.fs.create(f".hoodie/{T5}.deltacommit.inflight", b"")
    assert values(opened(mor.fs).scan().to_arrow()) == {"a": 1, "b": 20, "e": 5, "d": 4}


def test_a_rolled_back_block_is_invisible_even_when_its_instant_comes_back(mor: Handmade) -> None:
    failed = mor.rows_block(1, T4, rows(("a", 9, "p", 9)), partition="p")
    good = mor.rows_block(1, T4, rows(("b", 9, "p", 90)), partition="p")
    mor.log(1, T1, 2, [failed, mor.rollback_block(T5, T4), good], partition="p", instant=T4)
    mor.commit(T4)
    assert values(opened(mor.fs).scan().to_arrow()) == {"a": 1, "b": 90, "e": 5, "d": 4}


def test_the_torn_tail_of_a_write_that_never_committed_is_passed_over(mor: Handmade) -> None:
    good = mor.rows_block(1, T4, rows(("a", 9, "p", 9)), partition="p")
    torn = mor.rows_block(1, T5, rows(("b", 9, "p", 9)), partition="p")[:-20]
    mor.log(1, T1, 2, [good, torn], partition="p", instant=T4)
    mor.commit(T4)
    assert values(opened(mor.fs).scan().to_arrow())["b"] == 20
    assert values(opened(mor.fs).scan().to_arrow())["a"] == 9


def test_the_torn_tail_of_a_committed_write_is_an_error(mor: Handmade) -> None:
    good = mor.rows_block(1, T4, rows(("a", 9, "p", 9)), partition="p")
    torn = mor.rows_block(1, T4, rows(("b", 9, "p", 9)), partition="p")[:-20]
    mor.log(1, T1, 2, [good, torn], partition="p", instant=T4)
    mor.commit(T4)
    with pytest.raises(CorruptFileError, match="committed write is damaged"):
        opened(mor.fs).scan().to_arrow()


def test_a_group_of_logs_alone_is_read() -> None:
    made = Handmade(MemoryFileSystem(), SCHEMA)
    made.log(1, T1, 1, [made.rows_block(1, T1, rows(("a", 1, "", 1), ("b", 1, "", 2)))], instant=T1)
    made.commit(T1)
    made.log(1, T1, 2, [made.deletes_block(T2, ["a"])], instant=T2)
    made.commit(T2)
    assert values(opened(made.fs).scan().to_arrow()) == {"b": 2}
    assert opened(made.fs).scan(mode="read_optimized").count() == 0


def test_commit_time_order_ignores_the_ordering_column() -> None:
    made = Handmade(MemoryFileSystem(), SCHEMA, merge_mode=MergeMode.COMMIT_TIME)
    made.base(1, T1, rows(("a", 9, "", 1)))
    made.commit(T1)
    made.log(1, T1, 1, [made.rows_block(1, T2, rows(("a", 1, "", 2)))], instant=T2)
    made.commit(T2)
    assert values(opened(made.fs).scan(columns=["id", "v"]).to_arrow()) == {"a": 2}


def test_replaced_groups_are_gone_from_their_replacement_on(mor: Handmade) -> None:
    mor.base(5, T4, rows(("n", 1, "p", 7)), partition="p")
    mor.commit(T4, action="replacecommit", replaced={"p": (file_id(1),)})
    table = opened(mor.fs)
    assert values(table.scan().to_arrow()) == {"n": 7, "e": 5, "d": 4}
    assert values(table.scan(as_of=T3).to_arrow()) == {"a": 1, "b": 20, "e": 5, "d": 4}


def test_a_cleaned_snapshot_has_expired(mor: Handmade) -> None:
    table = opened(mor.fs)
    mor.base(1, T4, rows(("a", 1, "p", 1), ("b", 2, "p", 20)), partition="p")
    mor.commit(T4, action="commit", operation="COMPACT")
    gone = [f for f in table.file_slices("p")[0].files if f.name.instant == T1]
    old = [i.path for i in mor.fs.children("p") if T1 in i.name]
    assert not gone and len(old) == 2
    mor.fs.delete(old)
    part = {
        "partitionPath": "p", "policy": "KEEP_LATEST_COMMITS", "deletePathPatterns": [],
        "successDeleteFiles": [p.rsplit("/")[-1] for p in old], "failedDeleteFiles": [],
        "isPartitionDeleted": False,
    }  # fmt: skip
    record = {
        "startCleanTime": T5, "timeTakenInMillis": 1, "totalFilesDeleted": 2,
        "earliestCommitToRetain": T4, "lastCompletedCommitTimestamp": T4,
        "partitionMetadata": {"p": part}, "version": 2,
    }  # fmt: skip
    mor.fs.create(f".hoodie/{T5}.clean", write_avro(CLEAN_METADATA, record))
    for instant in (T1, T2, T3):
        with pytest.raises(SnapshotExpiredError, match="cleaned"):
            table.scan(as_of=instant).to_arrow()
        with pytest.raises(SnapshotExpiredError):
            table.scan(as_of=instant, where=pc.field("part") == "p").to_arrow()
        assert table.scan(as_of=instant, where=pc.field("part") == "q").count() > 0
        with pytest.raises(SnapshotExpiredError):
            table.changes("000", instant).to_arrow()
    assert values(table.changes(T1, T4).to_arrow()) == {"a": 1, "b": 20, "d": 4}
    assert values(table.scan(as_of=T4).to_arrow()) == {"a": 1, "b": 20, "e": 5, "d": 4}
    with pytest.raises(UserError, match="no commit at or before"):
        table.scan(as_of="2025-12-31").to_arrow()


def test_columns_added_since_are_null_in_older_files() -> None:
    made = Handmade(MemoryFileSystem(), SCHEMA)
    made.base(1, T1, rows(("a", 1, "", 1), ("b", 1, "", 2)))
    made.commit(T1)
    wider = pa.schema([*SCHEMA, pa.field("extra", pa.string())])
    newer = pa.table({"id": ["b"], "ts": [2], "part": [""], "v": [20], "extra": ["x"]}, wider)
    made.log(1, T1, 1, [made.rows_block(1, T2, newer)], instant=T2)
    made.commit(T2, schema=wider)
    table = opened(made.fs)
    found = table.scan(["id", "extra"]).to_arrow().to_pylist()
    assert found == [{"id": "a", "extra": None}, {"id": "b", "extra": "x"}]
    assert "extra" not in table.scan(as_of=T1).schema.names
    assert "extra" in table.changes("000", T1).schema.names
    assert table.scan(where=pc.field("extra").is_null()).count() == 1


def test_a_number_that_became_text_is_widened() -> None:
    made = Handmade(MemoryFileSystem(), SCHEMA)
    made.base(1, T1, rows(("a", 1, "", 7)))
    made.commit(T1)
    wider = pa.schema([pa.field("v", pa.string()) if f.name == "v" else f for f in SCHEMA])
    made.base(2, T2, pa.table({"id": ["b"], "ts": [2], "part": [""], "v": ["x"]}, wider))
    made.commit(T2, schema=wider)
    assert values(opened(made.fs).scan().to_arrow()) == {"a": "7", "b": "x"}
    assert values(opened(made.fs).scan(where=pc.field("v") == "7").to_arrow()) == {"a": "7"}


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()])
def test_a_floating_number_that_became_text_is_written_as_in_java(kind: pa.DataType) -> None:
    texts = {"2.0": 2.0, "0.1": 0.1, "1.1E-5": 1.1e-5, "-0.0": -0.0, "NaN": math.nan}
    old = rows(*((text, 1, "", 0) for text in texts))
    at = old.schema.get_field_index("v")
    made = Handmade(MemoryFileSystem(), SCHEMA)
    made.base(1, T1, old.set_column(at, pa.field("v", kind), [pa.array(texts.values(), kind)]))
    made.commit(T1, schema=SCHEMA.set(at, pa.field("v", pa.string())))
    assert values(opened(made.fs).scan().to_arrow()) == {text: text for text in texts}
    assert values(opened(made.fs).scan(where="v = '2.0'").to_arrow()) == {"2.0": "2.0"}


def test_payloads_with_rules_of_their_own_are_refused_by_name(mor: Handmade) -> None:
    payload = "com.example.SumPayload"
    store_config(mor.fs, mor.config.with_properties({"hoodie.compaction.payload.class": payload}))
    table = opened(mor.fs)
    with pytest.raises(UnsupportedTableError, match="SumPayload"):
        table.scan().to_arrow()
    assert table.scan(mode="read_optimized").count() == 4


def test_row_groups_that_cannot_match_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Handmade(MemoryFileSystem(), SCHEMA, table_type=TableType.COPY_ON_WRITE)
    made.base(1, T1, rows(*((f"k{n:02}", 1, "", n) for n in range(40))), row_group_rows=10)
    made.commit(T1, action="commit")
    read: list[object] = []
    plain = base_file.read_parquet

    def watched(*args: object, **options: object) -> pa.Table:
        read.append(options.get("row_groups"))
        return plain(*args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(base_file, "read_parquet", watched)
    scan = opened(made.fs).scan(where=pc.field("v") >= 25)
    assert scan.count() == 15
    assert read == [[2, 3]]
    assert [b["v"][0].as_py() for b in scan.to_batches()] == [25, 30]


@pytest.mark.parametrize("mode", [MergeMode.EVENT_TIME, MergeMode.COMMIT_TIME])
def test_pruned_row_groups_do_not_change_what_a_merge_gives(mode: MergeMode) -> None:
    """A base row the filter drops may be the winner over a logged row that passes."""
    made = Handmade(MemoryFileSystem(), SCHEMA, merge_mode=mode)
    base = rows(*((f"k{n:02}", n % 3, "", n) for n in range(40)))
    log = rows(*((f"k{n:02}", 1, "", n + 20) for n in range(0, 50, 2)))
    made.base(1, T1, base, row_group_rows=5)
    made.commit(T1)
    made.log(1, T1, 1, [made.rows_block(1, T2, log)], instant=T2)
    made.commit(T2)
    whole = opened(made.fs).scan().to_arrow()
    for low, high in itertools.product((0, 11, 25), (12, 30, 70)):
        where = (pc.field("v") >= low) & (pc.field("v") < high)
        got = opened(made.fs).scan(where=where).to_arrow()
        assert values(got) == values(whole.filter(where))


def test_lookups_without_a_record_index_say_so(mor: Handmade) -> None:
    with pytest.raises(IndexNotReadyError, match="record index"):
        opened(mor.fs).lookup(["a"])


def test_slices_of_an_unknown_partition_are_refused(mor: Handmade) -> None:
    table = opened(mor.fs)
    assert [s.partition for s in table.file_slices()] == ["p", "q"]
    with pytest.raises(UserError, match="no such partition"):
        table.file_slices("nope")


def test_a_table_without_commits_is_empty() -> None:
    made = Handmade(MemoryFileSystem(), SCHEMA)
    table = opened(made.fs)
    assert table.scan().to_arrow().schema.names == [*META_COLUMNS, *SCHEMA.names]
    assert table.scan().count() == 0
    assert list(table.scan().to_batches()) == []
    assert table.partitions() == []
