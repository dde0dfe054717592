"""Positions of records in log blocks: written by versions 8 and 9 where the index knows them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from pyhudi.api.table import Table
from pyhudi.engine import LocalEngine
from pyhudi.filenames import BaseFileName
from pyhudi.formats.base_file import read_base
from pyhudi.formats.delete_block import decode_deletes
from pyhudi.formats.log_block import data_batches, read_content
from pyhudi.formats.log_file import BlockKind, HeaderKey, LogBlock, read_blocks
from pyhudi.formats.record_positions import read_positions, refers_to
from pyhudi.merge.merge_cache import OUTCOMES
from pyhudi.operations.create import create
from pyhudi.options import IndexKind, parse_options
from pyhudi.records import RECORD_KEY
from pyhudi.storage.memory import MemoryFileSystem
from pyhudi.table.properties import TableType
from pyhudi.write.table_creation import NewTable
from tests.support.inside import state_of

SCHEMA = pa.schema(
    [("id", pa.string()), ("part", pa.string()), ("ts", pa.int64()), ("v", pa.string()),
     ("_hoodie_is_deleted", pa.bool_())]
)  # fmt: skip
LOOKING = [IndexKind.BLOOM, IndexKind.GLOBAL_BLOOM, IndexKind.SIMPLE, IndexKind.GLOBAL_SIMPLE]


def made(version: int, index: IndexKind, ordering: tuple[str, ...] = ("ts",), **more: str) -> Table:
    fs = MemoryFileSystem()
    options = parse_options({"hoodie.write.table.version": str(version), **more})
    kind = TableType.MERGE_ON_READ
    create(fs, NewTable(SCHEMA, "t", kind, ("id",), ("part",), ordering, options, index))
    return Table(fs, options=options, engine=LocalEngine(1))


def rows(ids: Any, ts: int, v: str, deleted: bool | None = None) -> pa.Table:
    found = [
        {"id": f"k{i:03}", "part": f"p{i % 2}", "ts": ts, "v": v, "_hoodie_is_deleted": deleted}
        for i in ids
    ]
    return pa.Table.from_pylist(found, SCHEMA)


def logged(table: Table) -> list[tuple[LogBlock, list[str], list[str] | None]]:
    """(block, keys of its records, keys of the base file at its positions) of each log block."""
    state = state_of(table)
    found = []
    for slice_ in state.view().latest_slices():
        for log in slice_.logs:
            file = state.fs.open(log.path)
            for block in read_blocks(file, path=log.path):
                if block.kind is BlockKind.DELETE:
                    content = read_content(block, file)
                    keys = decode_deletes(content, path=log.path).column("record_key").to_pylist()
                else:
                    keys = data_batches(block, file, path=log.path).column(RECORD_KEY).to_pylist()
                stored = None
                if slice_.base is not None and HeaderKey.RECORD_POSITIONS in block.header:
                    assert isinstance(slice_.base.name, BaseFileName)
                    assert refers_to(block, slice_.base.name.instant)
                    at = read_positions(block, count=len(keys), path=log.path)
                    column = read_base(state.fs, slice_.base.path, columns=[RECORD_KEY]).column(0)
                    stored = column.take(pa.array(at)).to_pylist()
                found.append((block, keys, stored))
    return found


def values(table: Table) -> dict[str, str]:
    OUTCOMES.clear()
    found = table.scan(columns=["id", "v"]).to_arrow().to_pylist()
    return {row["id"]: row["v"] for row in found}


def changed(table: Table) -> dict[str, str]:
    """Fill a table, change it, and return what it must contain."""
    want = {f"k{i:03}": "old" for i in range(40)}
    table.bulk_insert(rows(reversed(range(40)), 5, "old"))
    table.upsert(rows([30, 3, 12, 7], 6, "new"))
    table.upsert(rows([3, 9, 21], 4, "late"))
    table.delete(keys=["k012", "k030", "k001"])
    table.upsert(rows([17, 2], 7, "gone", deleted=True))
    want |= {"k003": "new", "k007": "new"}
    return {
        key: v for key, v in want.items() if key not in ("k012", "k030", "k001", "k017", "k002")
    }


@pytest.mark.parametrize("version", [8, 9])
@pytest.mark.parametrize("index", LOOKING)
@pytest.mark.parametrize("log_format", ["parquet", "avro"])
def test_updates_and_deletes_are_logged_with_their_positions(
    version: int, index: IndexKind, log_format: str
) -> None:
    table = made(version, index, **{"hoodie.logfile.data.block.format": log_format})
    want = changed(table)
    blocks = logged(table)
    assert {block.kind.name for block, _, _ in blocks} >= {"DELETE", log_format.upper()}
    for _, keys, stored in blocks:
        assert stored == keys
    assert values(table) == want
    table.compact()
    assert not logged(table)
    table.upsert(rows([5], 9, "newest"))
    ((_, keys, stored),) = logged(table)
    assert stored == keys == ["k005"]
    assert values(table) == want | {"k005": "newest"}


def test_records_without_a_known_row_are_logged_without_positions() -> None:
    for index in (IndexKind.RECORD, IndexKind.BUCKET):
        table = made(9, index)
        want = changed(table)
        upserted = [item for item in logged(table) if item[0].kind is not BlockKind.DELETE]
        assert upserted and all(stored is None for _, _, stored in upserted)
        assert values(table) == want


@pytest.mark.parametrize("version", [6, 9])
def test_positions_are_not_written_by_version_6_or_if_switched_off(version: int) -> None:
    off = {} if version == 6 else {"hoodie.write.record.positions": "false"}
    table = made(version, IndexKind.BLOOM, **off)
    want = changed(table)
    assert all(stored is None for _, _, stored in logged(table))
    assert values(table) == want


def test_a_key_with_several_rows_in_the_base_file_has_no_position() -> None:
    table = made(9, IndexKind.SIMPLE)
    table.bulk_insert(pa.concat_tables([rows([2, 4, 6], 1, "old"), rows([4], 1, "copy")]))
    table.upsert(rows([2], 2, "new"))
    table.upsert(rows([4], 2, "new"))
    found = {tuple(keys): stored for _, keys, stored in logged(table)}
    assert found == {("k002",): ["k002"], ("k004",): None}
    assert values(table) == {"k002": "new", "k004": "new", "k006": "old"}
    assert table.scan().count() == 3


def test_a_record_that_returns_after_its_delete_has_the_position_of_its_old_row() -> None:
    table = made(9, IndexKind.BLOOM, ordering=())
    table.bulk_insert(rows(range(10), 1, "old"))
    table.delete(keys=["k004"])
    table.upsert(rows([4], 1, "back"))
    assert values(table) == {f"k{i:03}": "old" for i in range(10)} | {"k004": "back"}
    for _, keys, stored in logged(table):
        assert stored == keys


def test_a_record_that_changes_its_partition_is_deleted_by_position() -> None:
    table = made(9, IndexKind.GLOBAL_BLOOM, **{"hoodie.bloom.index.update.partition.path": "true"})
    table.bulk_insert(rows(range(10), 1, "old"))
    moved = pa.Table.from_pylist([{"id": "k004", "part": "p1", "ts": 2, "v": "moved"}], SCHEMA)
    table.upsert(moved)
    ((_, keys, stored),) = [item for item in logged(table) if item[0].kind is BlockKind.DELETE]
    assert keys == stored == ["k004"]
    assert values(table) == {f"k{i:03}": "old" for i in range(10)} | {"k004": "moved"}


def test_a_log_compaction_merges_blocks_with_positions() -> None:
    table = made(9, IndexKind.BLOOM)
    want = changed(table)
    table.compact_logs()
    assert values(table) == want
    table.upsert(rows([5, 3], 9, "newest"))
    assert values(table) == want | {"k005": "newest", "k003": "newest"}
    table.compact()
    assert values(table) == want | {"k005": "newest", "k003": "newest"}


def test_rows_deleted_by_a_condition_and_rolled_back_writes_leave_valid_positions() -> None:
    table = made(9, IndexKind.GLOBAL_SIMPLE)
    table.bulk_insert(rows(range(20), 1, "old"))
    table.upsert(rows([4, 5], 2, "new"))
    table.upsert(rows([6, 7], 3, "undone"))
    table.rollback(table.timeline.commits.instants[-1].time)
    table.delete(where=pc.field("v") == "new")
    want = {f"k{i:03}": "old" for i in range(20) if i not in (4, 5)}
    assert values(table) == want
    table.upsert(rows([4, 8], 1, "again"))
    assert values(table) == want | {"k004": "again", "k008": "again"}
    for _, keys, stored in logged(table):
        assert stored in (None, keys)
