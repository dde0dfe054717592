"""Log compaction: one log file stands for many, and every reader sees what it saw."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest

import pyhudi
from pyhudi.errors import UserError
from pyhudi.formats.log_block import delete_block
from pyhudi.formats.log_file import BlockKind, LogBlock, read_blocks
from pyhudi.records import InstantTime
from pyhudi.storage.local import LocalFileSystem
from pyhudi.timeline.instant import Action, State
from pyhudi.timeline.service_payloads import COMPACTION_PLAN, read_avro, write_avro
from pyhudi.transaction.heartbeat import heartbeat_path
from tests.crash.test_every_stop import SCHEMA, rows
from tests.services.test_compaction import OPTIONS, everything
from tests.support.inside import fs_of

MERGE = {"hoodie.log.compaction.blocks.threshold": "2"}


def table_with_logs(path: Path, **options: str) -> pyhudi.Table:
    """Two partitions, one with many logs: updates that come late, deletes, rows after deletes."""
    table = pyhudi.create_table(
        path, SCHEMA, record_key="id", partition_by="part", ordering="ts", table_type="mor",
        options={**OPTIONS, **MERGE, **options},
    )  # fmt: skip
    table.bulk_insert(rows(range(0, 20, 2), 5))
    for ts in (6, 4, 7):
        table.upsert(rows(range(0, 12, 2), ts))
    table.delete(keys=["k2", "k4", "k18"])
    table.upsert(rows(range(4, 8, 2), 3))
    return table


def blocks_of(table: pyhudi.Table, path: str) -> list[LogBlock]:
    with closing(fs_of(table).open(path)) as file:
        return read_blocks(file, path=path)


@pytest.mark.parametrize("log_format", ["parquet", "avro"])
@pytest.mark.parametrize("ordering", ["ts", None])
def test_rows_stay_what_they_were_and_so_do_later_ones(
    tmp_path: Path, log_format: str, ordering: str | None
) -> None:
    options = {"hoodie.logfile.data.block.format": log_format}
    if ordering is None:
        options["hoodie.record.merge.mode"] = "COMMIT_TIME_ORDERING"
    table = table_with_logs(tmp_path / "t", **options)
    twin = table_with_logs(tmp_path / "twin", **options)
    before = everything(table)
    report = table.compact_logs()
    assert (report.file_groups, report.blocks) == (1, 5)
    assert everything(table) == before
    unlisted = pyhudi.open_table(tmp_path / "t", options={"hoodie.metadata.enable": "false"})
    assert everything(unlisted) == before
    for each in (table, twin):
        each.upsert(rows(range(0, 20, 4), 5))
        each.delete(keys=["k6"])
    ours = [(row["id"], row["ts"]) for row in everything(table)]
    assert ours == [(row["id"], row["ts"]) for row in everything(twin)]
    assert table.index.verify().is_exact
    assert table.compact().file_groups
    assert [(row["id"], row["ts"]) for row in everything(table, "read_optimized")] == ours


def test_the_new_file_names_what_it_stands_for(tmp_path: Path) -> None:
    table = table_with_logs(tmp_path / "t")
    merged = [i.time for i in table.timeline.where({Action.DELTA_COMMIT}, State.COMPLETED)][1:]
    report = table.compact_logs()
    (file_slice,) = [file_slice for file_slice in table.file_slices() if file_slice.logs]
    blocks = blocks_of(table, file_slice.logs[-1].path)
    assert {block.instant for block in blocks} == {report.instant}
    assert {block.compacted_instants for block in blocks} == {tuple(reversed(merged))}
    assert blocks[-1].kind in (BlockKind.AVRO, BlockKind.PARQUET)
    named = table.scan(["_hoodie_file_name"]).to_arrow()["_hoodie_file_name"].to_pylist()
    assert file_slice.file_id in named  # rows of logs name their file group


def test_what_was_merged_is_merged_again_when_new_logs_have_come(tmp_path: Path) -> None:
    table = table_with_logs(tmp_path / "t")
    table.compact_logs()
    assert table.compact_logs(dry_run=True).file_groups == 1  # it is three blocks
    table.upsert(rows(range(0, 4, 2), 9))
    before = everything(table)
    again = table.compact_logs()
    assert again.instant is not None and everything(table) == before


def test_few_blocks_are_left_alone(tmp_path: Path) -> None:
    table = table_with_logs(tmp_path / "t", **{"hoodie.log.compaction.blocks.threshold": "6"})
    newest = table.timeline.last
    report = table.compact_logs()
    assert report.instant is None and report.notes == ("no file group has enough log blocks",)
    assert table.timeline.last == newest


def test_blocks_of_unfinished_writes_do_not_count_towards_the_threshold(tmp_path: Path) -> None:
    """As in Apache Hudi, which counts the blocks that a scan of the slice returns."""
    table = table_with_logs(tmp_path / "t", **{"hoodie.log.compaction.blocks.threshold": "6"})
    (file_slice,) = (each for each in table.file_slices() if len(each.logs) == 5)
    last = file_slice.logs[-1].path
    failed = "20990101000000000"
    more = tuple(delete_block(pa.array(["k0"]), "", None, instant=failed) for _ in range(3))
    with (tmp_path / "t" / last).open("ab") as log:
        log.write(b"".join(more))
    assert table.compact_logs(dry_run=True).file_groups == 0


def test_it_runs_after_a_write_where_requested(tmp_path: Path) -> None:
    table = table_with_logs(tmp_path / "t", **{"hoodie.log.compaction.inline": "true"})
    report = table.upsert(rows(range(0, 4, 2), 9))
    assert any("log compaction" in note for note in report.notes)


def test_a_log_compaction_may_be_taken_back(tmp_path: Path) -> None:
    table = table_with_logs(tmp_path / "t")
    before = everything(table)
    report = table.compact_logs()
    assert report.instant is not None
    table.rollback(report.instant)
    assert everything(table) == before
    table.compact_logs()
    assert everything(table) == before


def test_a_plan_that_was_left_is_made_again(tmp_path: Path) -> None:
    table = table_with_logs(tmp_path / "t")
    done = table.compact_logs()
    fs, folder = LocalFileSystem(tmp_path / "t"), table.config.layout.timeline_folder
    path = f"{folder}/{done.instant}.logcompaction.requested"
    plan = write_avro(COMPACTION_PLAN, {**read_avro(fs.read(path), path=path), "extraMetadata": {}})
    table.rollback(done.instant or "")
    fs.create(f"{folder}/20991121000000000.logcompaction.requested", plan)
    before = everything(table)
    report = table.compact_logs()
    assert report.notes[0].endswith("which no process was running")
    assert everything(table) == before
    assert not table.timeline.pending.instants


def test_a_clean_leaves_the_logs_that_another_machine_compacts(tmp_path: Path) -> None:
    """Also those of groups that were replaced since."""
    versions = {"hoodie.clean.policy": "KEEP_LATEST_FILE_VERSIONS",
                "hoodie.clean.fileversions.retained": "1"}  # fmt: skip
    table = table_with_logs(tmp_path / "t", **versions)
    done = table.compact_logs()
    fs, folder = LocalFileSystem(tmp_path / "t"), table.config.layout.timeline_folder
    plan = fs.read(f"{folder}/{done.instant}.logcompaction.requested")
    table.rollback(done.instant or "")
    logs = {str(log.name) for each in table.file_slices() for log in each.logs}
    time = InstantTime(done.instant or "")
    fs.create(f"{folder}/{time}.logcompaction.requested", plan)
    fs.create(heartbeat_path(time), b"")  # as Apache Hudi writes it
    table.insert_overwrite(rows(range(0, 20, 2), 9))
    for ts in range(10, 13):
        table.upsert(rows(range(0, 20, 2), ts))
        table.compact()
        table.clean()
    assert [i.action for i in table.timeline.pending] == [Action.LOG_COMPACTION]
    there = {info.name for part in table.partitions() for info in fs.children(part)}
    assert logs <= there


def test_changes_and_older_snapshots_are_what_they_were(tmp_path: Path) -> None:
    table = table_with_logs(tmp_path / "t")
    commits = [instant.time for instant in table.timeline.commits]
    seen = {
        at: (table.scan(as_of=at).to_arrow().num_rows, table.changes(at).to_arrow().num_rows)
        for at in commits
    }
    table.compact_logs()
    for at, counts in seen.items():
        found = (table.scan(as_of=at).to_arrow().num_rows, table.changes(at).to_arrow().num_rows)
        assert found == counts, at


@pytest.mark.parametrize("log_format", ["parquet", "avro"])
@pytest.mark.parametrize("ordering", [pa.int64(), pa.string(), None], ids=str)
@pytest.mark.parametrize("how", ["by key", "with ordering values", "both"])
def test_logs_that_hold_deletes_alone_are_merged(
    tmp_path: Path, log_format: str, ordering: pa.DataType | None, how: str
) -> None:
    schema = pa.schema([("id", pa.string()), ("o", ordering or pa.int64())])

    def some(ids: list[str], at: int) -> pa.Table:
        return pa.table({"id": ids, "o": pa.array([at] * len(ids)).cast(schema.field("o").type)})

    table = pyhudi.create_table(
        tmp_path / "t", schema, record_key="id", ordering="o" if ordering else None,
        table_type="mor", options={**MERGE, "hoodie.logfile.data.block.format": log_format},
    )  # fmt: skip
    table.upsert(some(["1", "2", "3"], 5))
    for key in ("1", "2"):
        if how == "by key" or (how == "both" and key == "2"):
            table.delete(keys=[key])
        else:
            table.delete(some([key], 6))
    report = table.compact_logs()
    assert (report.file_groups, report.deletes, report.rows) == (1, 2, 0)
    assert not table.timeline.pending
    assert [row["id"] for row in everything(table)] == ["3"]
    table.upsert(some(["1"], 7))
    inline = {"hoodie.log.compaction.inline": "true", **MERGE}
    pyhudi.open_table(tmp_path / "t", options=inline).delete(keys=["3"])
    assert [row["id"] for row in everything(table)] == ["1"]
    table.compact()
    assert [row["id"] for row in everything(table, "read_optimized")] == ["1"]


def test_of_several_ordering_columns_only_logs_with_deletes_are_left(tmp_path: Path) -> None:
    table = pyhudi.create_table(
        tmp_path / "t", SCHEMA, record_key="id", partition_by="part", ordering=["ts", "id"],
        table_type="mor", version=9, options={**OPTIONS, **MERGE},
    )  # fmt: skip
    table.bulk_insert(rows(range(8), 5))
    for ts in (6, 7):
        table.upsert(rows(range(8), ts))
    table.delete(keys=["k1"])
    before = everything(table)
    report = table.compact_logs()
    assert (report.file_groups, report.blocks) == (1, 2)
    assert [note for note in report.notes if "skipped 1 file groups with deletes" in note]
    assert everything(table) == before


def test_a_copy_on_write_table_has_none(tmp_path: Path) -> None:
    table = pyhudi.create_table(tmp_path / "t", SCHEMA, record_key="id", ordering="ts")
    table.insert(rows(range(2), 1))
    with pytest.raises(UserError, match="copy-on-write"):
        table.compact_logs()


def test_rows_merged_value_by_value_are_left(tmp_path: Path) -> None:
    payload = "org.apache.hudi.common.model.OverwriteNonDefaultsWithLatestAvroPayload"
    table = pyhudi.create_table(
        tmp_path / "t", SCHEMA, record_key="id", ordering="ts", table_type="mor",
        options={**MERGE, "hoodie.datasource.write.payload.class": payload},
    )  # fmt: skip
    table.bulk_insert(rows(range(4), 1))
    for ts in (2, 3):
        table.upsert(rows(range(4), ts))
    assert "need base files" in table.compact_logs().notes[0]
    assert isinstance(table.scan().to_arrow(), pa.Table)
