"""The histories by which XTable tests its source of Hudi tables, verified after each commit.

From apache/incubator-xtable, commit 54b58df0, ITHudiConversionSource and
TestHudiPartitionValuesExtractor: both table types, without partitions and by `level`; inserts of
100 rows, an upsert of 20, deletes, compaction, a deleted partition, repeated overwrites,
clustering, savepoint, rollback; cleaning and the positions from which changes are still complete;
the formats of dates in paths.  XTable compares lists of files; here the rows are compared.
"""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pyhudi
from pyhudi.keygen.new_table_keys import TimestampPartition

LEVELS = ("INFO", "WARN", "ERROR")
OPTIONS = {"hoodie.clean.automatic": "false", "hoodie.metadata.record.index.min.filegroup.count": 1}


def batch(numbers: range, level: str, value: int) -> pa.Table:
    keys = [f"{level}-{n:03}" for n in numbers]
    return pa.table({"key": keys, "level": [level] * len(keys), "v": [value] * len(keys)})


def created(path: Path, kind: str, partition_by: list[str]) -> pyhudi.Table:
    return pyhudi.create_table(
        path, batch(range(1), "INFO", 0).schema, record_key="key", partition_by=partition_by,
        table_type=kind, options=OPTIONS,
    )  # fmt: skip


def stored(table: pyhudi.Table, **how: Any) -> dict[str, int]:
    rows = table.scan(["key", "v"], **how).to_arrow()
    assert len(set(rows["key"].to_pylist())) == rows.num_rows
    return dict(zip(rows["key"].to_pylist(), rows["v"].to_pylist(), strict=True))


class Followed:
    """A table, the rows it must have, and a copy that follows by its changes."""

    def __init__(self, table: pyhudi.Table) -> None:
        self.table, self.rows, self.since = table, dict[str, int](), "000"

    def put(self, rows: pa.Table, verb: str = "upsert") -> None:
        getattr(self.table, verb)(rows)
        self.rows |= dict(zip(rows["key"].to_pylist(), rows["v"].to_pylist(), strict=True))
        self.verify()

    def remove(self, keys: list[str]) -> None:
        self.rows = {key: value for key, value in self.rows.items() if key not in keys}

    def verify(self) -> int:
        """How many rows changed since the last time; they are rows that the table has."""
        assert stored(self.table) == self.rows
        changed = self.table.changes(self.since, columns=["key", "v"]).to_arrow().to_pylist()
        assert all(self.rows[row["key"]] == row["v"] for row in changed)
        self.since = self.table.position()
        return len(changed)


@pytest.mark.parametrize("partition_by", [[], ["level"]], ids=["flat", "by level"])
@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_a_table_is_followed_through_writes_and_services(
    kind: str, partition_by: list[str], tmp_path: Path
) -> None:
    table = created(tmp_path, kind, partition_by)
    seen = Followed(table)
    for number, level in enumerate(LEVELS):
        seen.put(batch(range(100), level, number), "insert")
    seen.put(batch(range(20), "INFO", 10))
    doomed = [f"INFO-{n:03}" for n in range(15, 30)]
    table.delete(keys=doomed)
    seen.remove(doomed)
    assert seen.verify() == 0
    table.savepoint("before services")
    if kind == "mor":
        assert table.compact().instants
        assert seen.verify() == 0
    table.cluster()
    assert seen.verify() == 0
    before = dict(seen.rows)
    seen.put(batch(range(95, 105), "WARN", 20))
    table.rollback(table.timeline.commits.last.time)
    seen.rows = before
    seen.verify()
    if partition_by:
        for value in (30, 31):
            table.insert_overwrite(batch(range(5), "WARN", value))
            seen.remove([key for key in seen.rows if key.startswith("WARN")])
            seen.rows |= {f"WARN-{n:03}": value for n in range(5)}
            assert seen.verify() == 5
        table.delete_partitions("ERROR")
        seen.remove([key for key in seen.rows if key.startswith("ERROR")])
        seen.verify()
        rest = [key for key in seen.rows if key.startswith("INFO")]
        table.delete(keys=rest)
        seen.remove(rest)
        seen.verify()
        seen.put(batch(range(3), "INFO", 40))
    assert not table.metadata.verify().findings and not table.doctor().findings


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_cleaning_ends_older_snapshots_but_no_changes_to_the_newest(
    kind: str, tmp_path: Path
) -> None:
    """XTable, which needs each commit's files, starts again where pyhudi goes on."""
    table = created(tmp_path, kind, [])
    table.insert(batch(range(50), "INFO", 0))
    first = table.position()
    table.upsert(batch(range(10, 20), "INFO", 1))
    if kind == "mor":
        table.compact()
    table.insert(batch(range(50), "WARN", 2))
    later = table.position()
    table.upsert(batch(range(5), "WARN", 3))
    if kind == "mor":
        table.compact()
    keep = {**OPTIONS, "hoodie.clean.commits.retained": "1"}
    cleaned = pyhudi.open_table(tmp_path, options=keep)
    assert cleaned.clean().instants
    assert cleaned.changes(later).count() == 5
    with pytest.raises(pyhudi.SnapshotExpiredError):
        stored(cleaned, as_of=cleaned.timeline.commits.first.time)
    assert cleaned.changes(first).count() == 60


AT = dt.datetime(2022, 10, 2, 11, tzinfo=dt.UTC)


@pytest.mark.parametrize(
    ("output", "path"),
    [
        ("yyyy-MM", "2022-10"), ("yyyy-MM-dd", "2022-10-02"), ("yyyy", "2022"),
        ("yyyy/MM/dd/HH", "2022/10/02/11"), ("yyyy/MM/dd", "2022/10/02"), ("yyyy/MM", "2022/10"),
        ("yyyyMMddHH", "2022100211"), ("yyyyMMdd", "20221002"), ("yyyyMM", "202210"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("kind", ["long", "timestamp", "text"])
def test_dates_in_paths(output: str, path: str, kind: str, tmp_path: Path) -> None:
    """The stored value stays whole, and a filter on it finds the row."""
    value = {"long": int(AT.timestamp()) * 1000, "timestamp": AT, "text": "2022-10-02T11"}[kind]
    types = {"long": pa.int64(), "timestamp": pa.timestamp("ms", "UTC"), "text": pa.string()}
    rows = pa.table({"id": ["a"], "at": pa.array([value], types[kind])})
    how = {"type": "DATE_STRING", "input": "yyyy-MM-dd'T'HH"} if kind == "text" else {}
    table = pyhudi.create_table(
        tmp_path, rows.schema, record_key="id", options={"hoodie.metadata.enable": "false"},
        index="simple", partition_by=TimestampPartition("at", output=output, **how),
    )  # fmt: skip
    table.upsert(rows)
    assert pyhudi.open_table(tmp_path).upsert(rows).updated == 1
    assert [str(each) for each in table.partitions()] == [path]
    assert table.scan(with_meta=False).to_arrow().equals(rows)
