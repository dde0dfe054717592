"""Readers of changes beside writers that complete in another order than they began.

A generated history has writers whose instants begin and complete in random orders, some of which
die, and table services with small retentions.  Consumers of `changes`, `diff`, `capture` and
`TableSource` go on from their last position at random moments; snapshots are pinned and scans
planned in between.  Each must return what a model of the completed commits says, or raise
SnapshotExpiredError; nothing may be missed, and nothing may come back.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest

from pyhudi.api.table import Table
from pyhudi.engine import LocalEngine
from pyhudi.errors import SnapshotExpiredError, UserError, WriteConflictError
from pyhudi.ingest import TableSource
from pyhudi.ingest.source import SourceLimits
from pyhudi.options import parse_options
from pyhudi.records import IS_DELETED
from pyhudi.storage.memory import MemoryFileSystem
from pyhudi.write.write_report import WriteReport
from tests.support.inside import fs_of
from tests.support.late_writers import OPTIMISTIC, LateWrite
from tests.support.versions import new_table

SCHEMA = pa.schema([("id", pa.string()), ("part", pa.string()), ("v", pa.int64())])
START = "00000000000000"
WRITERS = 4
LONG = int(os.environ.get("POSITION_HISTORIES", "0"))
Rows = dict[str, int]


@dataclass
class Commit:
    """A completed write.  rows: None for a deleted key."""

    position: str
    rows: dict[str, int | None]


@dataclass
class History:
    """A table, the model of its commits, and its readers."""

    version: int
    kind: str
    logs_changes: bool
    rnd: random.Random
    commits: list[Commit] = field(default_factory=list)
    pending: dict[int, tuple[LateWrite, dict[str, int | None]]] = field(default_factory=dict)
    seen: Counter[str] = field(default_factory=Counter)
    number: int = 0

    def __post_init__(self) -> None:
        rnd = self.rnd
        least = rnd.randint(2, 4)
        self.options = {
            **OPTIMISTIC,
            "hoodie.keep.min.commits": str(least),
            "hoodie.keep.max.commits": str(least + rnd.randint(1, 2)),
            "hoodie.clean.commits.retained": "1",
            "hoodie.clean.automatic": str(rnd.random() < 0.6).lower(),
            "hoodie.metadata.compact.max.delta.commits": "1",
            "hoodie.archive.beyond.savepoint": str(rnd.random() < 0.5).lower(),
            "hoodie.compact.inline": str(rnd.random() < 0.5).lower(),
            "hoodie.compact.inline.max.delta.commits": "3",
            "hoodie.metadata.record.index.min.filegroup.count": "1",
            "hoodie.table.cdc.enabled": str(self.logs_changes).lower(),
        }
        self.fs = MemoryFileSystem()
        self.url = f"memory://positions{self.version}{self.kind}{rnd.getrandbits(60)}"
        table = new_table(
            self.url, self.version, SCHEMA, kind=self.kind, partition_by=("part",),
            options=self.options,
        )  # fmt: skip
        self.fs = fs_of(table)  # type: ignore[assignment]
        self.readers: list[Reader] = [Changes(self), Differences(self), Source(self)]
        if self.logs_changes:
            self.readers.append(Captured(self))
        self.pins: list[tuple[Any, Rows, Any]] = []

    def table(self) -> Table:
        return Table(self.fs, options=parse_options(self.options), engine=LocalEngine(1))

    def at(self, position: str) -> Rows:
        """The rows of the commits up to a position."""
        found: dict[str, int | None] = {}
        for commit in sorted(self.commits, key=lambda c: c.position):
            if commit.position <= position:
                found |= commit.rows
        return {key: value for key, value in found.items() if value is not None}

    def between(self, since: str, until: str) -> Rows:
        """Keys that commits of the range wrote last, with their values at its end."""
        last: dict[str, str] = {}
        for commit in sorted(self.commits, key=lambda c: c.position):
            if commit.position <= until:
                last |= dict.fromkeys(commit.rows, commit.position)
        return {key: value for key, value in self.at(until).items() if last[key] > since}

    def batch(self, writer: int) -> dict[str, int | None]:
        keys = [f"w{writer}k{n}" for n in range(5)]
        chosen = self.rnd.sample(keys, self.rnd.randint(1, 4))
        self.number += 1
        if self.rnd.random() < 0.2:
            return dict.fromkeys(chosen)
        return {key: self.number * 10 + n for n, key in enumerate(chosen)}

    def write(self, rows: dict[str, int | None], table: Table) -> WriteReport:
        if None in rows.values():
            return table.delete(keys=list(rows))
        parts = [f"p{key[1]}" for key in rows]
        return table.upsert(pa.table([list(rows), parts, list(rows.values())], schema=SCHEMA))

    def completed(self, report: WriteReport | None, rows: dict[str, int | None]) -> None:
        if report is not None and report.instant is not None:
            self.commits.append(Commit(report.completed_at or report.instant, rows))

    def begin(self, writer: int) -> None:
        rows = self.batch(writer)
        late = LateWrite(self.fs, lambda table: self.write(rows, table), self.options)
        if late.is_held:
            self.pending[writer] = late, rows
            self.seen["late writes"] += 1
        else:
            self.completed(late.complete(), rows)

    def end(self, writer: int, *, dies: bool) -> None:
        late, rows = self.pending.pop(writer)
        report = late.complete(dies=dies)
        self.seen["died" if report is None else "completed late"] += 1
        self.completed(report, rows)

    def act(self) -> None:
        rnd = self.rnd
        what = rnd.choices(
            ["begin", "end", "write", "service", "read", "pin", "savepoint"],
            [3, 3, 8, 5, 5, 1, 0.4],
        )[0]
        free = [w for w in range(WRITERS) if w not in self.pending]
        if what == "begin" and len(free) > 1:
            self.begin(rnd.choice(free))
        elif what == "end" and self.pending:
            self.end(rnd.choice(list(self.pending)), dies=rnd.random() < 0.2)
        elif what == "write" and free:
            rows = self.batch(rnd.choice(free))
            self.completed(self.write(rows, self.table()), rows)
        elif what == "service":
            self.serve(rnd.choice(["clean", "archive", "archive", "compact", "cluster"]))
        elif what == "read":
            rnd.choice(self.readers).poll()
        elif what == "pin" and self.commits and len(self.pins) < 3:
            self.pin()
        elif what == "savepoint" and self.commits and not self.table().savepoints():
            self.table().savepoint("keep")
        self.check_pins()

    def serve(self, service: str) -> None:
        table = self.table()
        if service == "compact" and self.kind == "cow":
            return
        try:
            report = table.cluster(["v"]) if service == "cluster" else getattr(table, service)()
        except (UserError, WriteConflictError):  # nothing to do, or in the way of a writer
            return
        if service == "archive":
            self.seen["archived"] += len(report.instants)

    def pin(self) -> None:
        pin = self.table().pin_snapshot()
        planned = self.table().scan(["id", "v"], as_of=pin.instant)
        rows = rows_of(planned.to_arrow())
        self.pins.append((pin, rows, planned))
        self.seen["pins"] += 1

    def check_pins(self) -> None:
        for pin, rows, planned in self.pins:
            for as_of in (pin.instant, pin.name):
                found = rows_of(self.table().scan(["id", "v"], as_of=as_of).to_arrow())
                assert found == rows, f"the snapshot of {pin} has changed"
            assert rows_of(planned.to_arrow()) == rows
        if len(self.pins) > 2 or (self.pins and self.rnd.random() < 0.1):
            self.pins.pop(0)[0].release()

    def run(self, acts: int) -> None:
        for _ in range(acts):
            self.act()
        for writer in list(self.pending):
            self.end(writer, dies=False)
        now = self.table()
        assert rows_of(now.scan(["id", "v"]).to_arrow()) == self.at("9" * 17)
        for reader in self.readers:
            reader.poll()
            assert reader.position == now.position()
            assert reader.rows == self.at("9" * 17), type(reader).__name__
        for pin, _, _ in self.pins:
            pin.release()


def rows_of(found: pa.Table) -> Rows:
    rows = {row["id"]: row["v"] for row in found.to_pylist()}
    assert len(rows) == found.num_rows
    return rows


class Reader:
    """Goes on from its last position, or with a snapshot where files have been cleaned."""

    def __init__(self, history: History) -> None:
        self.history, self.rows, self.position = history, {}, START

    rows: Rows

    def poll(self) -> None:
        history, table = self.history, self.history.table()
        until = table.position()
        self._check_safe(until)
        name = type(self).__name__
        try:
            until = self.read(table, until)
            history.seen[name] += 1
        except SnapshotExpiredError as error:
            assert error.hint, "an error says what to do"
            history.seen[f"{name} expired"] += 1
            self.rows = rows_of(table.scan(["id", "v"], as_of=until).to_arrow())
        assert self.rows == history.at(until), f"{name} up to {until}"
        self.position = until

    def _check_safe(self, until: str) -> None:
        """No completed commit is missed after it: at version 6 those beside a pending write come
        again."""
        done = [commit.position for commit in self.history.commits]
        if self.history.version > 6 or not self.history.pending:
            assert until >= max(done, default=START)
        assert until >= self.position

    def read(self, table: Table, until: str) -> str:
        raise NotImplementedError


class Changes(Reader):
    def read(self, table: Table, until: str) -> str:
        history = self.history
        found = rows_of(table.changes(self.position, until, columns=["id", "v"]).to_arrow())
        assert found == history.between(self.position, until)
        deleted = history.at(self.position).keys() - history.at(until).keys()
        self.rows = {k: v for k, v in (self.rows | found).items() if k not in deleted}
        if history.rnd.random() < 0.3 and history.version > 6:
            assert rows_of(table.changes(self.position).to_arrow()) == found
        self._read_past(table, until)
        return until

    def _read_past(self, table: Table, until: str) -> None:
        """A range that ends at any earlier commit has the rows of its end, or they are gone."""
        history = self.history
        done = [commit.position for commit in history.commits if commit.position <= until]
        for _ in range(3 if done else 0):
            since, end = sorted(history.rnd.choices([START, *done], k=2))
            try:
                found = rows_of(table.changes(since, end, columns=["id", "v"]).to_arrow())
            except SnapshotExpiredError:
                history.seen["past ranges expired"] += 1
                continue
            assert found == history.between(since, end), f"from {since} to {end}"
            history.seen["past ranges"] += 1


class Differences(Reader):
    def read(self, table: Table, until: str) -> str:
        before, after = self.history.at(self.position), self.history.at(until)
        changed = {k for k in before.keys() | after.keys() if before.get(k) != after.get(k)}
        found = table.diff(self.position, until).to_pylist()
        assert sorted(row["record_key"] for row in found) == sorted(changed)
        for row in found:
            key = row["record_key"]
            assert (row["before"] or {}).get("v") == before.get(key)
            assert (row["after"] or {}).get("v") == after.get(key)
            self.rows.pop(key, None)
            if row["after"]:
                self.rows[key] = row["after"]["v"]
        return until


class Captured(Reader):
    def read(self, table: Table, until: str) -> str:
        state, expected = self.history.at(self.position), []
        for commit in sorted(self.history.commits, key=lambda c: c.position):
            if not self.position < commit.position <= until:
                continue
            for key, value in sorted(commit.rows.items()):
                if value is not None or key in state:
                    expected.append((key, state.get(key), value))
            state = {k: v for k, v in (state | commit.rows).items() if v is not None}
        found = [
            ((row["before"] or row["after"])["id"], (row["before"] or {}).get("v"),
             (row["after"] or {}).get("v"))
            for row in table.capture(self.position, until).to_pylist()
        ]  # fmt: skip
        assert sorted(found, key=repr) == sorted(expected, key=repr)
        for key, _, value in found:
            self.rows.pop(key, None)
            if value is not None:
                self.rows[key] = value
        return until


class Source(Reader):
    def read(self, table: Table, until: str) -> str:
        most = self.history.rnd.choice([None, 1, 2])
        source = TableSource(table, start="earliest", deletes=True, max_commits=most)
        while True:
            checkpoint = None if self.position == START else self.position
            found = source.read(checkpoint, SourceLimits(), SCHEMA)
            if found is None:
                return until
            for row in found.rows.read_all().to_pylist():
                self.rows.pop(row["id"], None)
                if not row[IS_DELETED]:
                    self.rows[row["id"]] = row["v"]
            self.position = found.checkpoint
            assert self.rows == self.history.at(self.position)


@pytest.mark.parametrize(
    ("version", "kind", "logs_changes", "seed"),
    [(6, "cow", True, 1), (6, "mor", False, 2), (8, "mor", True, 3), (9, "cow", True, 4),
     (9, "mor", False, 5)],
)  # fmt: skip
def test_readers_miss_nothing_of_late_writers(
    version: int, kind: str, logs_changes: bool, seed: int
) -> None:
    History(version, kind, logs_changes, random.Random(seed)).run(25)


@pytest.mark.slow
@pytest.mark.skipif(not LONG, reason="POSITION_HISTORIES is the number of histories")
def test_readers_miss_nothing_in_many_histories() -> None:
    seen: Counter[str] = Counter()
    first = int(os.environ.get("POSITION_SEED", "1000"))
    for seed in range(first, first + LONG):
        rnd = random.Random(seed)
        version, kind = rnd.choice([6, 8, 9, 9]), rnd.choice(["cow", "mor"])
        history = History(version, kind, rnd.random() < 0.5, rnd)
        try:
            history.run(rnd.randint(20, 60))
        except Exception as error:
            error.add_note(f"history {seed}: version {version} {kind}")
            raise
        seen += history.seen + Counter({"histories": 1, "commits": len(history.commits)})
    print(dict(seen))
