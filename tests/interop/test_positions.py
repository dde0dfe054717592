"""Record positions in logs of version 9: Apache Hudi reads and compacts ours, we read its."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pyhudi
from pyhudi.formats.base_file import read_base
from pyhudi.formats.log_block import data_batches
from pyhudi.formats.log_file import BlockKind, read_blocks
from pyhudi.formats.record_positions import read_positions, refers_to
from pyhudi.merge.merge_cache import OUTCOMES
from pyhudi.operations.create import create
from pyhudi.options import IndexKind, parse_options
from pyhudi.records import RECORD_KEY
from pyhudi.storage.local import LocalFileSystem
from pyhudi.table.properties import TableType
from pyhudi.write.table_creation import NewTable
from tests.support.apache_hudi import ApacheHudi
from tests.support.inside import state_of

pytestmark = pytest.mark.interop

SCHEMA = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("part", pa.string()),
                    ("v", pa.string()), ("n", pa.int64())])  # fmt: skip
BY_POSITION = {
    "hoodie.merge.use.record.positions": "true",
    "hoodie.file.group.reader.enabled": "true",
}


def rows(ids: Any, ts: int, v: str) -> pa.Table:
    found = [{"id": f"k{i:03}", "ts": ts, "part": f"p{i % 2}", "v": v, "n": i} for i in ids]
    return pa.Table.from_pylist(found, SCHEMA)


def made(path: Path, log_format: str, ordering: tuple[str, ...]) -> pyhudi.Table:
    options = parse_options(
        {"hoodie.logfile.data.block.format": log_format, "hoodie.write.table.version": "9"}
    )
    path.mkdir()
    kind = TableType.MERGE_ON_READ
    create(
        LocalFileSystem(path),
        NewTable(SCHEMA, "t", kind, ("id",), ("part",), ordering, options, IndexKind.SIMPLE),
    )
    return pyhudi.open_table(path, options={"hoodie.logfile.data.block.format": log_format,
                                            "hoodie.index.type": "SIMPLE"})  # fmt: skip


def seen(table: pa.Table) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in table.select(["id", "ts", "v", "n"]).to_pylist())


def positioned_blocks(table: pyhudi.Table) -> dict[str, int]:
    """Blocks with positions by instant; their records are the ones at those rows."""
    state = state_of(table)
    found: dict[str, int] = {}
    for slice_ in state.view().latest_slices():
        for log in slice_.logs:
            file = state.fs.open(log.path)
            for block in read_blocks(file, path=log.path):
                assert slice_.base is not None
                assert refers_to(block, slice_.base.name.instant)
                found[str(block.instant)] = found.get(str(block.instant), 0) + 1
                if block.kind is not BlockKind.DELETE:
                    keys = data_batches(block, file, path=log.path).column(RECORD_KEY)
                    at = read_positions(block, count=len(keys), path=log.path)
                    stored = read_base(state.fs, slice_.base.path, columns=[RECORD_KEY]).column(0)
                    assert stored.take(pa.array(at)).to_pylist() == keys.to_pylist()
    return found


@pytest.mark.conformance(10)
@pytest.mark.parametrize(
    ("log_format", "ordering"), [("avro", ("ts",)), ("parquet", ()), ("avro", ())]
)
def test_positions_of_both_writers_are_read_by_both(
    log_format: str, ordering: tuple[str, ...], tmp_path: Path, apache_hudi: Any
) -> None:
    hudi: ApacheHudi = apache_hudi("1.2.0")
    path = tmp_path / "t"
    table = made(path, log_format, ordering)
    table.bulk_insert(rows(reversed(range(60)), 5, "old"))
    table.upsert(rows([40, 3, 17, 8, 9], 6, "new"))
    table.upsert(rows([9, 3, 21], 4, "late"))
    table.delete(keys=["k012", "k013", "k001"])
    assert len(positioned_blocks(table)) == 3
    want = seen(table.scan().to_arrow())
    assert seen(hudi.read(path, conf=BY_POSITION)) == want
    assert seen(hudi.read(path, select=["id", "ts", "v", "n"], conf=BY_POSITION)) == want

    more = tmp_path / "more.parquet"
    pq.write_table(rows([30, 31, 3, 50], 7, "theirs"), more)
    given = {"hoodie.index.type": "SIMPLE", "hoodie.compact.inline": "false"}
    hudi.call("write", path=str(path), rows=str(more), conf=given)
    table = pyhudi.open_table(path)
    assert len(positioned_blocks(table)) == 4
    OUTCOMES.clear()
    after = seen(table.scan().to_arrow())
    assert after == seen(hudi.read(path, conf=BY_POSITION))
    assert [row for row in after if row[2] == "theirs"] == [
        ("k003", 7, "theirs", 3), ("k030", 7, "theirs", 30), ("k031", 7, "theirs", 31),
        ("k050", 7, "theirs", 50),
    ]  # fmt: skip
    hudi.call("service", path=str(path), name="compact", args={})
    assert seen(pyhudi.open_table(path).scan().to_arrow()) == after
