"""Entries of new files in the indexes of files, which the tasks that write the files return."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any, Literal, TypeVar

import pyarrow as pa
import pytest

import pyhudi
from pyhudi.api.table import Table
from pyhudi.metadata.expression_index.changes import NAMING
from pyhudi.metadata.expression_index.definition import expression_indexes
from pyhudi.metadata.file_stats.changes import FEW_FILES
from pyhudi.metadata.file_stats.collect import bloom_filter_slices, newest_entries, read_filters
from pyhudi.metadata.file_stats.partition_ranges import partition_key
from pyhudi.metadata.file_stats.records import range_key
from pyhudi.metadata.payloads import COLUMN_STATS, PARTITION_STATS, MetadataPartition
from pyhudi.records import META_COLUMNS, RECORD_KEY
from pyhudi.write.files.file_plan import Written
from tests.support.engines import FarEngine
from tests.support.inside import state_of

T = TypeVar("T")
R = TypeVar("R")
Kind = Literal["cow", "mor"]
PARTS = FEW_FILES + 2
SCHEMA = pa.schema([
    ("id", pa.string()), ("part", pa.string()), ("ts", pa.int64()), ("s", pa.string()),
    ("x", pa.float64()), ("addr", pa.struct([("zip", pa.int32())])),
])  # fmt: skip


class WithoutEntries(FarEngine):
    """An engine whose tasks return no entries of the files that they write."""

    def run(self, task: Callable[[T], R], items: Sequence[T], *, label: str) -> list[R]:
        return [_stripped(result) for result in super().run(task, items, label=label)]


def _stripped(result: Any) -> Any:
    if not isinstance(result, list):
        return result
    return [replace(w, entries=()) if isinstance(w, Written) else w for w in result]


def batches(seed: int) -> list[pa.Table]:
    """Rows of every partition, twice; the second time with a column more."""
    random = Random(seed)
    return [
        pa.Table.from_pylist(
            [
                {
                    "id": f"k{n:03d}",
                    "part": f"p{n % PARTS:02d}",
                    "ts": 1_700_000_000 + random.randrange(10**7) + turn * 10**8,
                    "s": random.choice([None, "", "é", "Z" * 40, str(n)]),
                    "x": random.choice([None, float("nan"), -0.0, random.random(), float("inf")]),
                    "addr": random.choice([None, {"zip": None}, {"zip": n}]),
                    "later": n,
                }
                for n in range(3 * PARTS)
            ],
            schema,
        )
        for turn, schema in enumerate(
            (SCHEMA, SCHEMA, SCHEMA.append(pa.field("later", pa.int32())))
        )
    ]


def written(path: Path, engine: FarEngine, version: int, kind: Kind) -> tuple[Table, set[str]]:
    """A table after all batches, and the labels of runs of the first write that has indexes."""
    rows = batches(seed=version)

    def opened() -> Table:
        return pyhudi.open_table(path, engine=engine)

    pyhudi.create_table(
        path, SCHEMA, record_key="id", partition_by="part", ordering="ts", table_type=kind,
        version=version,
    ).bulk_insert(rows[0])  # fmt: skip
    index = opened().index
    for each in ("column_stats", "bloom_filters", *(["partition_stats"] if version > 6 else [])):
        index.create(each)
    if version > 6:
        index.create("expression", "s", expression="lower")
    engine.labels.clear()
    opened().upsert(rows[1])
    labels = set(engine.labels)
    opened().upsert(rows[2], schema_mode="widen")
    return opened(), labels


def entries(table: Table) -> dict[Any, Any]:
    """Every entry of the newest files and of the partitions, but those that name commits; files by
    their partition and number."""
    state = state_of(table)
    assert state.metadata is not None
    columns = [n for n in state.schema().names if n not in (*META_COLUMNS, "addr")]
    keys: dict[Any, tuple[MetadataPartition, str]] = {}
    filters = bloom_filter_slices(state.metadata)
    found: dict[Any, Any] = {}
    for slice_ in state.view().latest_slices():
        part = slice_.partition
        for column in (*columns, "addr.zip", RECORD_KEY):
            for number, file in enumerate(slice_.files):
                key = range_key(column, part, str(file.name))
                keys[part, number, column] = COLUMN_STATS, key
            keys[part, column] = PARTITION_STATS, partition_key(column, part)
        for index in expression_indexes(state.fs, state.config):
            for number, file in enumerate(slice_.files):
                key = range_key(index.column, part, str(file.name))
                keys[part, number, index.name] = index.partition, key
            keys[part, index.name] = index.partition, NAMING.key(index.column, part)
        assert slice_.base is not None
        names = [(part, str(slice_.base.name))]
        blooms = read_filters(state.metadata.log.fs, filters, names)
        found[part, "filter"] = [(bloom.kind, bloom.to_base64()) for _, bloom in blooms]
    for partition in {partition for partition, _ in keys.values()}:
        if partition.path in state.config.metadata_partitions:
            mine = {place: key for place, (home, key) in keys.items() if home == partition}
            stored = newest_entries(state.metadata, pa.array(mine.values()), partition)
            found |= dict(zip(mine, map(_comparable, stored.to_pylist()), strict=True))
    return found


def _comparable(entry: dict[str, Any] | None) -> dict[str, str] | None:
    """Without names of files, and sizes of chunks that names of files are in; NaN equals NaN."""
    return entry and {k: str(v) for k, v in entry.items() if k != "fileName" and "Size" not in k}


@pytest.mark.parametrize("kind", ["cow", "mor"])
@pytest.mark.parametrize("version", [6, 8, 9])
def test_entries_are_the_same_whoever_computes_them(
    tmp_path: Path, version: int, kind: Kind
) -> None:
    by_tasks, tasks = written(tmp_path / "tasks", FarEngine(), version, kind)
    by_commit, commit = written(tmp_path / "commit", WithoutEntries(), version, kind)
    found = entries(by_tasks)
    assert len(found) > 8 * PARTS and found == entries(by_commit)
    expected = {"file-index"} if version == 6 else {"file-index", "expression-index"}
    assert commit - tasks == expected
