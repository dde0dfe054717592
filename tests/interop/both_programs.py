"""One table of version 8 or 9 with the actions of pyhudi and of Apache Hudi 1.x on it, and lists of
these actions as turns."""

from __future__ import annotations

import datetime as dt
import random
import re
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import pyhudi
from pyhudi.engine import LocalEngine
from pyhudi.errors import PyhudiError
from pyhudi.metadata.secondary_index.definition import secondary_indexes
from pyhudi.metadata.secondary_index.key_format import entry_keys, value_texts
from pyhudi.options import parse_options
from pyhudi.storage.local import LocalFileSystem
from pyhudi.table.properties import TableType
from tests.interop.test_apache_hudi import BY_INDEX, SCHEMA, Turns, plain, rows
from tests.metadata.secondary_index.stored import stored_keys
from tests.support.apache_hudi import ApacheHudi
from tests.support.inside import state_of

SETTINGS = {
    "hoodie.metadata.record.index.min.filegroup.count": "2",
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
}
AVRO = {"hoodie.logfile.data.block.format": "avro"}
LATEST = {"clean_policy": "KEEP_LATEST_COMMITS", "retain_commits": 1}

_BUCKETS = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "2"}
THEIRS = {
    "record": BY_INDEX,  # their default, the simple index, also finds keys deleted in logs
    "bloom": {"hoodie.index.type": "BLOOM"},
    "bucket": _BUCKETS,
}
"""Options with which Apache Hudi uses the index of the table."""

IN_PROCESS = {
    "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.InProcessLockProvider"
}
SKIPPING = {"hoodie.metadata.enable": "true", "hoodie.enable.data.skipping": "true"}


class Both:
    """One table, the rows it must have, and the actions of both programs on it.

    index: of the table, a key of THEIRS.
    """

    def __init__(
        self,
        path: Path,
        hudi: ApacheHudi,
        *,
        version: int,
        index: str = "record",
        **table: Any,
    ) -> None:
        options = {**SETTINGS, **table.pop("options", {})}
        if index == "bucket":
            options |= {name: _BUCKETS[name] for name in _BUCKETS if "bucket" in name}
        made = pyhudi.create_table(
            path, SCHEMA, record_key="id", partition_by="part", ordering="ts",
            version=version, index=index, options=options, **table,
        )  # fmt: skip
        self.path, self.hudi, self.options = path, hudi, options
        self.theirs = {
            **THEIRS[index], "hoodie.compact.inline": "false", "hoodie.clean.automatic": "false",
        }  # fmt: skip
        self.is_mor = made.config.table_type is TableType.MERGE_ON_READ
        self.turns = Turns(made, path, [hudi], has_entries=index == "record")
        self._saved: tuple[str, dict[str, Any]] = ("", {})
        self._number = 0
        self._indexed: dict[str, set[Any]] = {}
        """Columns with a secondary index and the values they have had."""

    @property
    def table(self) -> pyhudi.Table:
        return pyhudi.open_table(self.path, options=self.options)

    def agree(self, *, theirs: bool = True) -> None:
        """Rows of snapshot and read-optimized queries and of point queries by secondary indexes."""
        self.turns.agree(theirs=theirs)
        if not (theirs or self.turns.everybody_reads):
            return
        if self.is_mor and (self.turns.everybody_reads or self.turns.states % 3 == 0):
            ours = self.table.scan(SCHEMA.names, mode="read_optimized").to_arrow()
            theirs = self.hudi.read(self.path, query="read_optimized", mdt="on")
            assert plain(ours) == plain(theirs), "read-optimized"
        if self._indexed:
            self._points_agree()

    def _points_agree(self) -> None:
        """Rows by values of each indexed column; Apache Hudi reads one of them, in rotation."""
        table, rows = self.table, self.turns.expected.values()
        chosen = []
        for column, former in self._indexed.items():
            points = self._points(column, former)
            chosen.append((column, points[self._number % len(points)]))
            for value in points:
                field = pc.field(column)
                where = field.is_null() if value is None else field == value
                ours = table.scan(["id"], where).to_arrow()["id"].to_pylist()
                expected = sorted(row["id"] for row in rows if row[column] == value)
                assert sorted(ours) == expected, (column, value)
        query = " union all ".join(
            f"select {number} as n, id from {{table}} where {column} {_condition(value)}"
            for number, (column, value) in enumerate(chosen)
        )
        found = self.hudi.call("sql", path=str(self.path), text=query, conf=SKIPPING)["results"]
        for number, (column, value) in enumerate(chosen):
            expected = sorted(row["id"] for row in rows if row[column] == value)
            theirs = sorted(row["id"] for row in found if row["n"] == number)
            assert theirs == expected, (column, value)
        self._entries_agree(table)

    def _points(self, column: str, former: set[Any]) -> list[Any]:
        """Two frequent values, a former one if there is one, and null."""
        now = Counter(row[column] for row in self.turns.expected.values())
        frequent = [value for value, _ in now.most_common(3) if value is not None]
        points = [*frequent[:2], *sorted(former - set(now))[:1], None]
        former.update(value for value in now if value is not None)
        return points

    def _entries_agree(self, table: pyhudi.Table) -> None:
        """Every row has its entry; Apache Hudi leaves some entries of rows that it deletes."""
        state = state_of(table)
        assert state.metadata is not None
        indexes = secondary_indexes(state.fs, state.config)
        assert {index.column for index in indexes} == set(self._indexed)
        for index in indexes:
            found = table.scan(["_hoodie_record_key", index.column]).to_arrow().combine_chunks()
            keys, values = (column.combine_chunks() for column in found.columns)
            expected = set(entry_keys(value_texts(values), keys).to_pylist())
            assert expected <= set(stored_keys(state.metadata, index)), index.name

    def _batch(self, ids: range) -> Any:
        self._number += 1
        return rows(ids, self._number)

    # ---- our actions
    def bulk_insert(self, ids: range) -> None:
        batch = self._batch(ids)
        self.table.bulk_insert(batch)
        self.turns.put(batch)

    def upsert(self, ids: range) -> None:
        batch = self._batch(ids)
        self.table.upsert(batch)
        self.turns.put(batch)

    def insert(self, ids: range) -> None:
        batch = self._batch(ids)
        self.table.insert(batch)
        self.turns.put(batch)

    def delete(self, ids: range) -> None:
        keys = [key for key in self._batch(ids)["id"].to_pylist() if key in self.turns.expected]
        self.table.delete(keys=keys)
        self.turns.drop(keys)

    def insert_overwrite(self, ids: range) -> None:
        batch = self._batch(ids)
        self._replaced(set(batch["part"].to_pylist()))
        self.table.insert_overwrite(batch)
        self.turns.put(batch)

    def delete_partition(self, partition: str) -> None:
        self._replaced({partition})
        self.table.delete_partitions([partition])

    def _replaced(self, partitions: set[str]) -> None:
        known = self.turns.expected.items()
        self.turns.drop([key for key, row in known if row["part"] in partitions])

    def savepoint(self) -> None:
        table = self.table
        newest = table.timeline.commits.last
        assert newest is not None
        self._saved = (newest.time, dict(self.turns.expected))
        table.savepoint("test")

    def restore(self) -> None:
        self.table.restore(self._saved[0])
        self._undone(self._saved[1])
        self.table.delete_savepoint(self._saved[0])

    def _undone(self, before: dict[str, Any]) -> None:
        self.turns.gone.update(self.turns.expected)
        self.turns.expected = dict(before)

    def roll_back_an_upsert(self, ids: range) -> None:
        before = dict(self.turns.expected)
        report = self.table.upsert(self._batch(ids))
        self.table.rollback(report.instant)
        self._undone(before)

    def crash_in_an_upsert(self, ids: range) -> None:
        """All files and the metadata table are written, the instant is not completed."""
        table = pyhudi.Table(
            StopsAtCommit(self.path), options=parse_options(self.options), engine=LocalEngine()
        )
        with pytest.raises(KeyboardInterrupt):
            table.upsert(self._batch(ids))

    def many_upserts(self) -> None:
        """Enough delta commits for the metadata table to be compacted."""
        for start in range(11):
            self.upsert(range(70 + start, 74 + start))

    def their_savepoint_and_restore(self, ids: range) -> None:
        newest = self.table.timeline.commits.last
        assert newest is not None
        before = dict(self.turns.expected)
        self.their_service("savepoint", commit_time=newest.time)
        self.upsert(ids)
        self.their_write(ids)
        self.their_service("restore", instant_time=newest.time)
        self._undone(before)
        self.their_service("delete_savepoint", instant_time=newest.time)

    def their_rollback_of_ours(self, ids: range) -> None:
        before = dict(self.turns.expected)
        report = self.table.upsert(self._batch(ids))
        self.their_service("rollback", instant_time=report.instant)
        self._undone(before)

    def insert_during_their_clustering(self, ids: range) -> None:
        self.their_service("run_clustering", op="schedule")
        self.insert(ids)
        self.their_service("run_clustering", op="execute")

    def create_index(self, column: str) -> None:
        self.table.index.create("secondary", column)
        self._indexed[column] = set()

    # ---- their actions
    def their_index(self, column: str) -> None:
        text = f"create index by_{column} on {{table}} ({column})"
        self.hudi.call("sql", path=str(self.path), text=text, conf=IN_PROCESS)
        self._indexed[column] = set()

    def their_write(self, ids: range, operation: str = "upsert", **conf: str) -> None:
        batch = self._batch(ids)
        if operation == "insert_overwrite":
            self._replaced(set(batch["part"].to_pylist()))
        file = self.path.with_suffix(".in")
        pq.write_table(batch, file)
        self.hudi.call(
            "write", path=str(self.path), rows=str(file), operation=operation,
            conf={**self.theirs, **conf},
        )  # fmt: skip
        if operation == "delete":
            keys = batch["id"].to_pylist()
            self.turns.drop([key for key in keys if key in self.turns.expected])
        else:
            self.turns.put(batch)

    def their_service(self, name: str, **args: Any) -> None:
        self.hudi.call("service", path=str(self.path), name=name, args=args)


def _condition(value: Any) -> str:
    """The SQL of a value of a column."""
    if value is None:
        return "is null"
    return f"= date'{value}'" if isinstance(value, dt.date) else f"= {value}"


class StopsAtCommit(LocalFileSystem):
    """A store whose process is interrupted before the data table's commit point."""

    def create(self, path: str, data: Any, *, durable: bool = True) -> bool:
        if re.fullmatch(r"\.hoodie/timeline/\d+_\d+\.\w+", path):
            raise KeyboardInterrupt
        return super().create(path, data, durable=durable)


Turn = tuple[str, Callable[[Both], object]]


def take_turns(both: Both, turns: Sequence[Turn]) -> None:
    """Act and compare, turn after turn; in the default suite Apache Hudi reads after each eighth
    turn and after the last, in long forms after each."""
    for number, (name, act) in enumerate(turns):
        try:
            act(both)
            both.agree(theirs=number % 8 == 7 or number == len(turns) - 1)
        except (AssertionError, PyhudiError) as error:
            error.add_note(f"turn {number}: {name}")
            raise


WRITES: list[Turn] = [
    ("bulk insert", lambda b: b.bulk_insert(range(40))),
    ("upsert", lambda b: b.upsert(range(20, 50))),
    ("their upsert", lambda b: b.their_write(range(10, 45))),
    ("insert", lambda b: b.insert(range(50, 56))),
    ("delete", lambda b: b.delete(range(3))),
    ("their delete", lambda b: b.their_write(range(5, 8), "delete")),
    ("deleted keys come back", lambda b: b.upsert(range(9))),
]
UNDONE: list[Turn] = [
    ("savepoint", lambda b: b.savepoint()),
    ("upsert after it", lambda b: b.upsert(range(10))),
    ("their upsert after it", lambda b: b.their_write(range(5, 15))),
    ("restore", lambda b: b.restore()),
    ("their upsert on the restored", lambda b: b.their_write(range(10))),
    ("rollback", lambda b: b.roll_back_an_upsert(range(3, 30))),
    ("their upsert after the rollback", lambda b: b.their_write(range(10))),
    (
        "they roll back our crashed upsert",
        lambda b: (b.crash_in_an_upsert(range(30)), b.their_write(range(40, 45))),
    ),
    (
        "we roll back our crashed upsert",
        lambda b: (b.crash_in_an_upsert(range(30)), b.upsert(range(40, 45))),
    ),
]
COMPACTED: list[Turn] = [
    ("compaction", lambda b: b.table.compact()),
    ("upsert of compacted", lambda b: b.upsert(range(15, 25))),
    ("their compaction", lambda b: b.their_service("compact")),
    ("log compaction", lambda b: (b.upsert(range(20, 30)), b.upsert(range(25, 35)),
                                  b.table.compact_logs())),
    ("their upsert on it", lambda b: b.their_write(range(21, 25))),
    ("their upsert while ours is planned", lambda b: (b.table.schedule_compaction(),
        b.their_write(range(21, 28)), b.table.compact())),
    ("our upsert while theirs is planned", lambda b: (b.their_write(range(21, 28)),
        b.their_service("run_compaction", op="schedule"), b.upsert(range(24, 32)),
        b.their_service("run_compaction", op="run"))),
]  # fmt: skip
SERVED: list[Turn] = [
    ("clustering", lambda b: b.table.cluster(sort_by="id")),
    ("their upsert on the clustered", lambda b: b.their_write(range(12, 18))),
    ("insert overwrite", lambda b: b.insert_overwrite(range(60, 70))),
    ("their insert overwrite", lambda b: b.their_write(range(70, 80), "insert_overwrite")),
    ("delete partition", lambda b: b.delete_partition("p1")),
    ("clean", lambda b: b.table.clean()),
    ("their clean", lambda b: b.their_service("clean", **LATEST)),
    ("many upserts", lambda b: b.many_upserts()),
    ("their upsert after them", lambda b: b.their_write(range(70, 90))),
    ("upsert at the end", lambda b: b.upsert(range(75, 95))),
]


def drawn_turns(dice: random.Random, kind: str, index: str, count: int = 16) -> list[Turn]:
    """A bulk insert, then turns of either program in an order and on keys that are drawn.

    Without rollbacks of completed commits and restores by Apache Hudi: past a compaction of the
    metadata table the former are rejected, and the latter leave index entries of undone keys.
    """

    def turn(number: int) -> Turn:
        ids, others, fresh = _drawn(dice), _drawn(dice), range(200 + 5 * number, 205 + 5 * number)
        turns: list[Turn] = [
            (f"upsert {ids}", lambda b: b.upsert(ids)),
            (f"their upsert {ids}", lambda b: b.their_write(ids)),
            (f"insert {fresh}", lambda b: b.insert(fresh)),
            (f"delete {ids}", lambda b: b.delete(ids)),
            (f"their delete {ids}", lambda b: b.their_write(ids, "delete")),
            (f"crash {ids}, their {others}",
             lambda b: (b.crash_in_an_upsert(ids), b.their_write(others))),
            (f"crash {ids}, our {others}", lambda b: (b.crash_in_an_upsert(ids), b.upsert(others))),
            (f"restore over {ids} and their {others}",
             lambda b: (b.savepoint(), b.upsert(ids), b.their_write(others), b.restore())),
            (f"insert overwrite {fresh}", lambda b: b.insert_overwrite(fresh)),
            (f"their overwrite {ids}", lambda b: b.their_write(ids, "insert_overwrite")),
            ("clean", lambda b: b.table.clean()),
            ("their clean", lambda b: b.their_service("clean", **LATEST)),
        ]  # fmt: skip
        if index != "bucket":
            turns += [("clustering", lambda b: b.table.cluster(sort_by="id"))]
        return dice.choice([*turns, *(COMPACTED if kind == "mor" else ())])

    return [("bulk insert", lambda b: b.bulk_insert(range(60))), *map(turn, range(count))]


def _drawn(dice: random.Random) -> range:
    start = dice.randrange(80)
    return range(start, start + dice.randint(1, 25))
