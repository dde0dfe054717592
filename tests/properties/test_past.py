"""Random histories on one table: every reader of an earlier state agrees with what was written.

Snapshots, differences, versions of a record, places and entries of the record index, copies and
unpublished writes are compared with a model after clustering, compaction, cleaning, archival,
restores, rollbacks and changes of the version.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

import pyhudi
from pyhudi.errors import IndexNotReadyError, PyhudiError, SnapshotExpiredError, UserError
from pyhudi.timeline.instant import Action

SCHEMA = pa.schema(
    [("id", pa.string()), ("n", pa.int64()), ("city", pa.string()), ("note", pa.string())]
)
CITIES = ("sf", "la", "ny")
KEYS = [f"k{n}" for n in range(24)]
Row = tuple[int, str, str | None]
Rows = dict[str, Row]
FILTERS: dict[str, Callable[[Row], bool]] = {
    "n > 5 and city = 'la'": lambda row: row[0] > 5 and row[1] == "la",
    "note is null or n < 4": lambda row: row[2] is None or row[0] < 4,
    "not (note = 'x')": lambda row: row[2] not in (None, "x"),
    "n between 3 and 9": lambda row: 3 <= row[0] <= 9,
    "city in ('sf', 'ny') and note <> 'y'": lambda row: (
        row[1] != "la" and row[2] not in (None, "y")
    ),
}


class Snapshot(NamedTuple):
    """The table after a write.

    position: only valid until the version changes.  step: its number; writers: those of the steps
    that wrote each row last.
    """

    time: str
    position: str
    rows: Rows
    step: int
    writers: dict[str, int]


WRITES = ("upsert",) * 5 + ("insert", "delete", "delete_where", "update", "merge", "deferred",
                            "overwrite", "drop")  # fmt: skip
SERVICES = ("cluster", "compact", "compact_logs", "clean", "archive", "restore", "rollback",
            "upgrade", "downgrade", "secondary")  # fmt: skip


def batch(rows: Rows) -> pa.Table:
    columns = [list(rows), *([row[n] for row in rows.values()] for n in range(3))]
    return pa.table(columns, schema=SCHEMA)


def rows_of(table: pa.Table) -> Rows:
    found = [tuple(row[name] for name in SCHEMA.names) for row in table.to_pylist()]
    assert len({row[0] for row in found}) == len(found), "a key is doubled"
    return {key: (n, city, note) for key, n, city, note in found}


def options_of(pick: random.Random) -> dict[str, Any]:
    retained = pick.choice([2, 4, 8])
    has_index = pick.random() < 0.7
    return {
        "hoodie.metadata.record.index.enable": has_index,
        "hoodie.index.type": "RECORD_INDEX" if has_index else pick.choice(["GLOBAL_BLOOM",
                                                                           "GLOBAL_SIMPLE"]),
        "hoodie.metadata.record.index.min.filegroup.count": pick.choice([1, 3]),
        "hoodie.metadata.compact.max.delta.commits": pick.choice([2, 3, 5]),
        "hoodie.metadata.index.column.stats.enable": pick.random() < 0.6,
        "hoodie.record.index.update.partition.path": True,
        "hoodie.bloom.index.update.partition.path": True,
        "hoodie.simple.index.update.partition.path": True,
        "hoodie.table.cdc.enabled": pick.random() < 0.4,
        "hoodie.table.services.enabled": pick.random() < 0.5,
        "hoodie.parquet.small.file.limit": pick.choice([0, 104857600]),
        "hoodie.compact.inline": pick.random() < 0.4,
        "hoodie.compact.inline.max.delta.commits": pick.choice([1, 3]),
        "hoodie.clean.commits.retained": retained,
        "hoodie.keep.min.commits": retained + 1,
        "hoodie.keep.max.commits": retained + 2,
        "hoodie.archive.beyond.savepoint": True,
    }  # fmt: skip


class Past:
    """A table with its rows now and after each write."""

    def __init__(self, seed: int) -> None:
        self.pick = random.Random(seed)
        self.options = options_of(self.pick)
        self.path = f"memory://past-{seed}"
        self.by_city = self.pick.random() < 0.7
        self.kind: Any = self.pick.choice(["cow", "mor"])
        self.rows: Rows = {}
        self.writers: dict[str, int] = {}
        self.snapshots: list[Snapshot] = []
        self.done: list[str] = []
        self.copies = 0
        pyhudi.create_table(
            self.path, SCHEMA, record_key="id", partition_by="city" if self.by_city else None,
            table_type=self.kind, version=self.pick.choice([6, 8, 9, 9]), options=self.options,
        )  # fmt: skip

    @property
    def table(self) -> pyhudi.Table:
        return pyhudi.open_table(self.path, options=self.options)

    def new(self, number: int, note: str | None = None) -> Rows:
        keys = self.pick.sample(KEYS, self.pick.randint(1, 6))
        notes = [note] if note else ["x", "y", None]
        return {key: (number, self.pick.choice(CITIES), self.pick.choice(notes)) for key in keys}

    def place(self, row: Row) -> str:
        return row[1] if self.by_city else ""

    def step(self, number: int) -> None:
        """One write or service; what is refused changes nothing."""
        verb = self.pick.choice(self.pick.choice([WRITES, WRITES, SERVICES]))
        self.done.append(verb)
        try:
            if verb in WRITES:
                self.write(verb, number)
            else:
                self.serve(verb)
        except PyhudiError:
            self.done[-1] += " refused"
        commit = self.table.timeline.commits.last
        if commit is None or verb in ("restore", "rollback"):
            return
        if not self.snapshots or commit.time > self.snapshots[-1].time:
            rows, writers = dict(self.rows), dict(self.writers)
            place = self.table.position()
            self.snapshots.append(Snapshot(commit.time, place, rows, number, writers))

    def write(self, verb: str, number: int) -> None:
        table, new = self.table, self.new(number)
        city = self.pick.choice(CITIES)
        gone: set[str] = set()
        if verb == "upsert":
            table.upsert(batch(new))
        elif verb == "insert":
            new = {key: row for key, row in new.items() if key not in self.rows}
            table.insert(batch(new))
        elif verb == "delete":
            table.delete(keys=list(new))
            gone, new = set(new), {}
        elif verb == "delete_where":
            table.delete(where=f"note = 'x' and n < {number - 3}")
            old = {key for key, row in self.rows.items() if row[0] < number - 3}
            gone, new = {key for key in old if self.rows[key][2] == "x"}, {}
        elif verb == "update":
            table.update({"n": number}, where=f"city = '{city}'")
            new = {k: (number, *row[1:]) for k, row in self.rows.items() if row[1] == city}
        elif verb == "merge":
            merge = table.merge(batch(new)).when_matched_update({"n": "source.n"})
            merge.when_not_matched_insert().execute()
            new = {k: (number, *self.rows.get(k, row)[1:]) for k, row in new.items()}
        elif verb == "deferred":
            table.upsert(batch(new), publish=False)
            (instant,) = self.table.unpublished()
            assert rows_of(self.table.preview(instant).to_arrow()) == {**self.rows, **new}
            assert rows_of(self.table.scan().to_arrow()) == self.rows
            if self.pick.random() < 0.6:
                self.table.publish(instant)
            else:
                self.table.discard(instant)
                new = {}
        elif not self.by_city:
            new = {}
        else:
            if verb == "overwrite":
                new = {f"o{number}": (number, city, "o")}
                table.insert_overwrite(batch(new))
            else:
                new = {}
                table.delete_partitions(city)
            gone = {key for key, row in self.rows.items() if row[1] == city}
        self.rows = {key: row for key, row in self.rows.items() if key not in gone} | new
        self.writers |= dict.fromkeys(new, number)

    def serve(self, verb: str) -> None:
        table = self.table
        if verb == "cluster":
            table.cluster("n")
        elif verb == "restore" and self.snapshots:
            at = self.pick.randrange(max(0, len(self.snapshots) - 3), len(self.snapshots))
            instant = self.snapshots[at].time
            table.savepoint(instant=instant)
            self.table.restore(instant)
            self.table.delete_savepoint(instant)
            del self.snapshots[at + 1 :]
            self.return_to(self.snapshots[at])
        elif verb == "rollback" and self.snapshots and not self.ends_with_compaction(table):
            table.rollback(self.snapshots[-1].time)
            self.snapshots.pop()
            self.return_to(self.snapshots[-1] if self.snapshots else None)
        elif verb in ("upgrade", "downgrade"):
            getattr(table, verb)(self.pick.choice([8, 9] if verb == "upgrade" else [6, 8]))
            self.snapshots = [each._replace(position=each.time) for each in self.snapshots]
        elif verb == "secondary":
            if self.pick.random() < 0.5:
                table.index.create("secondary", "note", name="of_note")
            else:
                table.index.drop("secondary_index_of_note")
        elif verb in ("compact", "compact_logs", "clean", "archive"):
            getattr(table, verb)()

    def ends_with_compaction(self, table: pyhudi.Table) -> bool:
        last = table.timeline.commits.last
        return self.kind == "mor" and last is not None and last.action is Action.COMMIT

    def return_to(self, snapshot: Snapshot | None) -> None:
        self.rows = dict(snapshot.rows) if snapshot else {}
        self.writers = dict(snapshot.writers) if snapshot else {}

    # --- readers ----------------------------------------------------------------------------------

    def check(self) -> None:
        table = self.table
        assert rows_of(table.scan().to_arrow()) == self.rows
        for where, accepts in FILTERS.items():
            some = {key: row for key, row in self.rows.items() if accepts(row)}
            assert rows_of(table.scan(where=where).to_arrow()) == some, where
        alive = [each for each in self.snapshots if self.check_snapshot(table, each)]
        if "record_index" in table.config.metadata_partitions:
            for each in alive:
                for at in (each.time, each.position):
                    self.check_index(table, at, each.rows)
            keys = self.pick.sample(KEYS, 6)
            known = {key: self.rows[key] for key in keys if key in self.rows}
            assert rows_of(table.fetch(keys)) == known
        if len(alive) > 1:
            first, second = sorted(self.pick.sample(range(len(alive)), 2))
            self.check_difference(table, alive[first], alive[second])
            with suppress(SnapshotExpiredError):
                self.check_changes(table, alive[first], alive[second])
        self.check_versions(table, self.pick.choice(KEYS))
        if alive and self.pick.random() < 0.3:
            self.check_copy(table, self.pick.choice(alive))

    def check_snapshot(self, table: pyhudi.Table, snapshot: Snapshot) -> bool:
        """False if it has expired."""
        where, accepts = self.pick.choice(list(FILTERS.items()))
        for at in (snapshot.time, snapshot.position):
            try:
                assert rows_of(table.scan(as_of=at).to_arrow()) == snapshot.rows, f"as of {at}"
                some = {key: row for key, row in snapshot.rows.items() if accepts(row)}
                found = rows_of(table.scan(where=where, as_of=at).to_arrow())
                assert found == some, f"{where} as of {at}"
            except SnapshotExpiredError:
                return False
        return True

    def check_index(self, table: pyhudi.Table, at: str, rows: Rows) -> None:
        try:
            found = table.index.lookup(KEYS, as_of=at).to_pylist()
        except (SnapshotExpiredError, IndexNotReadyError):
            return
        places = {row["record_key"]: row["partition_path"] for row in found if row["found"]}
        want = {key: self.place(row) for key, row in rows.items() if key in KEYS}
        assert places == want, f"places as of {at}"
        newest = {row["record_key"]: row for row in table.index.entries(at).to_pylist()}
        for key in self.rows:
            entry = newest.get(key)
            assert key in rows or entry is not None, f"no entry of {key} after {at}"
            if entry is not None:
                place = None if entry["ended"] else entry["partition_path"]
                assert place == self.place(self.rows[key]), f"entry of {key} after {at}"

    def check_difference(self, table: pyhudi.Table, first: Snapshot, second: Snapshot) -> None:
        ends = [self.pick.choice(each[:2]) for each in (first, second)]
        before, after = (
            {(key, self.place(row)): row for key, row in each.rows.items()}
            for each in (first, second)
        )
        want = {
            key: (before.get(key), after.get(key))
            for key in before.keys() | after.keys()
            if before.get(key) != after.get(key)
        }
        found = table.diff(*ends).to_pylist()
        versions = [
            tuple(row[end] and tuple(row[end].values())[-3:] for end in ("before", "after"))
            for row in found
        ]
        keys = [(row["record_key"], row["partition_path"]) for row in found]
        assert len(keys) == len(want), f"difference {ends}"
        assert dict(zip(keys, versions, strict=True)) == want, f"difference {ends}"

    def check_changes(self, table: pyhudi.Table, first: Snapshot, second: Snapshot) -> None:
        ends = [self.pick.choice(each[:2]) for each in (first, second)]
        want = {k: row for k, row in second.rows.items() if second.writers[k] > first.step}
        found = rows_of(table.changes(*ends).to_arrow())
        assert found == want, f"changes {ends}"
        if not self.options["hoodie.table.cdc.enabled"]:
            return
        events = table.capture(*ends).to_pylist()
        rows = dict(first.rows)
        gone = {event["before"]["id"] for event in events if event["op"] == "d"}
        for event in events:
            if event["op"] != "d":
                key, *row = list(event["after"].values())[-4:]
                rows[key] = tuple(row)
        for key in gone - second.rows.keys():
            del rows[key]
        assert rows == second.rows, f"captured changes {ends}"

    def check_versions(self, table: pyhudi.Table, key: str) -> None:
        at = {each.time: each.rows for each in self.snapshots}
        version: dict[str, Any] = {"change": "gone"}
        for version in table.history(key).to_pylist():
            if version["instant"] in at and version["change"] in ("insert", "update"):
                row = tuple(version["row"].values())[-3:]
                assert row == at[version["instant"]].get(key), f"{key} at {version['instant']}"
        if version["change"] != "gone":
            row = version["row"] and tuple(version["row"].values())[-3:]
            assert row == self.rows.get(key), f"the last version of {key}"

    def check_copy(self, table: pyhudi.Table, snapshot: Snapshot) -> None:
        self.copies += 1
        place = f"{self.path}-{self.copies}"
        try:
            table.copy(place, as_of=self.pick.choice(snapshot[:2]))
        except UserError as error:
            assert "archived" in error.what
            return
        copy = pyhudi.open_table(place, options=self.options)
        assert rows_of(copy.scan().to_arrow()) == snapshot.rows
        new = self.new(99, "c")
        copy.upsert(batch(new))
        copy = pyhudi.open_table(place, options=self.options)
        assert rows_of(copy.scan().to_arrow()) == {**snapshot.rows, **new}
        assert not copy.metadata.verify().findings


FOUND_DEFECTS = (3, 8, 31)


@pytest.mark.parametrize(
    "seed",
    [
        *FOUND_DEFECTS,
        *(pytest.param(n, marks=pytest.mark.long) for n in range(200) if n not in FOUND_DEFECTS),
    ],
)
def test_every_reader_of_the_past_agrees_with_what_was_written(seed: int) -> None:
    past = Past(seed)
    for number in range(past.pick.randint(8, 26)):
        past.step(number)
        if past.pick.random() < 0.35:
            past.check()
    past.check()
