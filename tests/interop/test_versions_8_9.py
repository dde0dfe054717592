"""Tables of versions 8 and 9: pyhudi and Apache Hudi 1.x take turns with every kind of action.

After each turn both read the same rows, with and without the metadata table, and Apache Hudi finds
no difference between the metadata table, the storage and the record index.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import pyhudi
from pyhudi.engine import LocalEngine
from pyhudi.options import parse_options
from pyhudi.storage.local import LocalFileSystem
from tests.interop.test_apache_hudi import BY_INDEX, SCHEMA, Turns, rows
from tests.interop.test_decoding import decoded_actions, decoded_hfiles, decoded_logs
from tests.support.apache_hudi import ApacheHudi

pytestmark = pytest.mark.interop

SETTINGS = {
    "hoodie.metadata.record.index.min.filegroup.count": "2",
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
}
THEIRS = {**BY_INDEX, "hoodie.compact.inline": "false", "hoodie.clean.automatic": "false"}
"""Their default, the simple index, also finds keys that were deleted in logs."""
LATEST = {"clean_policy": "KEEP_LATEST_COMMITS", "retain_commits": 1}


class Both:
    """One table, the rows it must have, and the actions of both programs on it."""

    def __init__(self, path: Path, hudi: ApacheHudi, *, version: int, **table: Any) -> None:
        options = {**SETTINGS, **table.pop("options", {})}
        made = pyhudi.create_table(
            path, SCHEMA, record_key="id", partition_by="part", ordering="ts",
            version=version, options=options, **table,
        )  # fmt: skip
        self.path, self.hudi, self.options = path, hudi, options
        self.turns = Turns(made, path, [hudi])
        self._saved: tuple[str, dict[str, Any]] = ("", {})
        self._number = 0

    @property
    def table(self) -> pyhudi.Table:
        return pyhudi.open_table(self.path, options=self.options)

    def agree(self) -> None:
        self.turns.agree()

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

    # ---- their actions
    def their_write(self, ids: range, operation: str = "upsert", **conf: str) -> None:
        batch = self._batch(ids)
        if operation == "insert_overwrite":
            self._replaced(set(batch["part"].to_pylist()))
        file = self.path.with_suffix(".in")
        pq.write_table(batch, file)
        self.hudi.call(
            "write", path=str(self.path), rows=str(file), operation=operation,
            conf={**THEIRS, **conf},
        )  # fmt: skip
        if operation == "delete":
            keys = batch["id"].to_pylist()
            self.turns.drop([key for key in keys if key in self.turns.expected])
        else:
            self.turns.put(batch)

    def their_service(self, name: str, **args: Any) -> None:
        self.hudi.call("service", path=str(self.path), name=name, args=args)


class StopsAtCommit(LocalFileSystem):
    """A store whose process is interrupted before the data table's commit point."""

    def create(self, path: str, data: Any, *, durable: bool = True) -> bool:
        if re.fullmatch(r"\.hoodie/timeline/\d+_\d+\.\w+", path):
            raise KeyboardInterrupt
        return super().create(path, data, durable=durable)


Turn = tuple[str, Callable[[Both], object]]

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

AVRO = {"hoodie.logfile.data.block.format": "avro"}
CASES = [("1.2.0", 9, "mor", AVRO)]
LONG = [
    ("1.2.0", 9, "cow", {}),
    ("1.1.1", 9, "mor", {}),
    ("1.2.0", 8, "cow", {}),
    ("1.2.0", 8, "mor", AVRO),
    ("1.1.1", 8, "cow", {}),
]


@pytest.mark.parametrize(
    ("hudi", "version", "kind", "options"),
    [*CASES, *(pytest.param(*case, marks=pytest.mark.slow) for case in LONG)],
    ids=lambda value: str(value)[:6],
)
def test_both_agree_after_each_of_thirty_turns(
    hudi: str,
    version: int,
    kind: str,
    options: dict[str, str],
    tmp_path: Path,
    apache_hudi: Callable[[str], ApacheHudi],
) -> None:
    both = Both(
        tmp_path / "t", apache_hudi(hudi), version=version, table_type=kind, options=options
    )
    turns = [*WRITES, *UNDONE, *(COMPACTED if kind == "mor" else ()), *SERVED]
    for number, (name, act) in enumerate(turns):
        act(both)
        try:
            both.agree()
        except AssertionError as error:
            error.add_note(f"after turn {number}: {name}")
            raise
    self_check(both)


def self_check(both: Both) -> None:
    """Completion times rise with each completion and are later than their instants; hudi-rs, an
    engine of its own, reads the same rows."""
    instants = [i for i in both.table.timeline if i.completed_at is not None]
    done = [i.completed_at for i in instants]
    assert len(set(done)) == len(done) and not set(done) & {i.time for i in instants}
    assert all(i.completed_at is not None and i.completed_at > i.time for i in instants)
    both.turns.hudi_rs_agrees()


@pytest.mark.slow
@pytest.mark.parametrize(("version", "kind"), [(9, "mor"), (8, "cow")])
def test_apache_hudi_continues_a_metadata_table_that_was_restored_in_place(
    version: int, kind: str, tmp_path: Path, apache_hudi: Callable[[str], ApacheHudi]
) -> None:
    both = Both(tmp_path / "t", apache_hudi("1.2.0"), version=version, table_type=kind)
    both.bulk_insert(range(40))
    both.their_write(range(20, 50))
    both.savepoint()
    both.upsert(range(10))
    both.table.compact() if kind == "mor" else both.table.cluster()
    both.delete(range(3))
    both.their_write(range(60, 64))
    both.restore()
    own = both.path / ".hoodie/metadata/.hoodie/timeline"
    assert any(file.name.endswith(".restore") for file in own.iterdir())
    both.agree()
    both.their_write(range(5, 15))
    both.agree()
    both.upsert(range(12, 70))
    both.agree()


@pytest.mark.slow
@pytest.mark.parametrize(("version", "kind"), [(9, "mor"), (9, "cow"), (8, "mor"), (8, "cow")])
def test_apache_hudi_decodes_slices_and_undoes_what_we_wrote(
    version: int, kind: str, tmp_path: Path, apache_hudi: Callable[[str], ApacheHudi]
) -> None:
    hudi = apache_hudi("1.2.0")
    both = Both(tmp_path / "t", hudi, version=version, table_type=kind, options=AVRO)
    for turn in WRITES:
        turn[1](both)
    both.agree()
    assert decoded_actions(hudi, both.path) >= {"deltacommit" if kind == "mor" else "commit"}
    assert decoded_hfiles(hudi, both.path)
    assert decoded_logs(hudi, both.path) >= 2
    assert their_slices(both) == our_slices(both)
    for act in (
        lambda: both.upsert(range(3)),  # Apache Hudi undoes no commit that began before a
        # compaction of the metadata table: this one runs it
        lambda: both.their_rollback_of_ours(range(10)),
        lambda: both.their_savepoint_and_restore(range(20, 30)),
        lambda: both.their_service("run_clustering", op="scheduleAndExecute"),
        lambda: both.upsert(range(25, 35)),
        lambda: both.insert_during_their_clustering(range(200, 204)),
        lambda: both.upsert(range(5)),
    ):
        act()
        both.agree()
        assert their_slices(both) == our_slices(both)


Slices = dict[tuple[str, str], list[tuple[str, str | None, list[str]]]]


def their_slices(both: Both) -> Slices:
    """(instant, base file, logs) of each slice, newest first, by partition and file id."""
    found = both.hudi.call("slices", path=str(both.path))["partitions"]
    return {
        (partition, group["file_id"]): [
            (each["instant"], each["base_file"], sorted(each["logs"])) for each in group["slices"]
        ]
        for partition, groups in found.items()
        for group in groups
        if group["slices"]
    }


def our_slices(both: Both) -> Slices:
    view = both.table._state().view()
    return {
        (id.partition, id.file_id): [
            (each.instant, str(each.base.name) if each.base else None,
             sorted(str(log.name) for log in each.logs))
            for each in group.slices
        ]
        for id, group in view.groups.items()
    }  # fmt: skip
