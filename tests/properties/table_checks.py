"""What must hold of a table after each step: the snapshot, the changes since some commits, an old
snapshot and the record index are what a dict says, which knows nothing of files, slices or logs.

A record of the dict is a key, or a key in a partition where the table's index is not global.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow.compute as pc
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant

from pyhudi.errors import IndexNotReadyError, SnapshotExpiredError
from pyhudi.options import IndexKind
from pyhudi.records import InstantTime
from pyhudi.timeline.instant import Action, State
from tests.properties.table_setup import KEYS, NEW, SCHEMA, Row, Setup, setups
from tests.support.inside import state_of

Identity = tuple[str, str]
"""The partition, or nothing under a global index, and the key of a record."""


@dataclass
class Stored:
    """A record of the model: its row, the partition it lies in, the commit that wrote it."""

    row: Row
    home: str
    commit: str


class CheckedTable(RuleBasedStateMachine):
    """One table; what it is, is drawn once."""

    @initialize(setup=setups())
    def make(self, setup: Setup) -> None:
        self.setup, self.table = setup, setup.create()
        self.given = SCHEMA  # the columns of rows that are written from now on
        self.model: dict[Identity, Stored] = {}
        self.history: list[tuple[str, dict[Identity, Stored]]] = []
        self.rebuilt_at = 0  # commits up to here cannot be rolled back one by one
        self.is_behind = False  # the RocksDB index, which only writes bring up to date
        self.is_widening = False  # the next rows have a wider type than the table

    @property
    def is_cleaned(self) -> bool:
        """Whether a clean has run, by its verb or after a write."""
        return bool(self.table.timeline.where({Action.CLEAN}, State.COMPLETED))

    def _identity(self, row: Row) -> Identity:
        return "" if self.setup.index.is_global else str(row["part"]), str(row["id"])

    def _folder(self, partition: str) -> str:
        return f"part={partition}" if self.table.config.hive_style else partition

    @invariant()
    def snapshot_is_the_model(self) -> None:
        if not hasattr(self, "table"):
            return
        present = [name for name in NEW if name in self.table.schema.names]
        found = self.table.scan([*SCHEMA.names, *present]).to_arrow().to_pylist()
        assert len(found) == len(self.model)
        assert {self._identity(row): with_new(row) for row in found} == {
            place: with_new(stored.row) for place, stored in self.model.items()
        }
        assert self.table.scan().count() == len(self.model)

    @invariant()
    def filters_leave_no_row_out(self) -> None:
        """Files are passed over by statistics and blooms where the table keeps them."""
        if not hasattr(self, "table"):
            return
        key = KEYS[len(self.history) % len(KEYS)]
        found = self.table.scan(["id", "part"], where=pc.field("id") == key).to_arrow()
        assert len(found) == sum(place[1] == key for place in self.model)

    def _completed_at(self, instant: str) -> str:
        """When a commit completed; its instant where the table does not record it."""
        state = state_of(self.table)
        for commit in state.timeline.commits:
            if commit.time == instant:
                return commit.completed_at or commit.time
        return state.archive.completions.get(InstantTime(instant), instant)

    @invariant()
    def changes_are_the_difference(self) -> None:
        if not hasattr(self, "table"):
            return
        for since, _ in self.history[-3:]:
            try:
                begin = self._completed_at(since)
                changed = self.table.changes(since=begin, columns=["id"]).to_arrow()
            except SnapshotExpiredError:
                assert self.is_cleaned
                continue
            assert sorted(changed["id"].to_pylist()) == sorted(
                key for (_, key), s in self.model.items() if s.commit > since
            )

    @invariant()
    def index_is_exact(self) -> None:
        if not hasattr(self, "table"):
            return
        elastic = self.setup.index is IndexKind.ELASTIC
        if "record_index" not in self.table.config.metadata_partitions and not elastic:
            return
        try:
            found = self.table.lookup(KEYS).to_pylist()
        except IndexNotReadyError:  # a service has committed since; the next write catches up
            assert self.setup.index is IndexKind.ROCKSDB and self.is_behind
            return
        names = self.table.scan(["_hoodie_record_key", "_hoodie_file_name"]).to_arrow().to_pylist()
        files = {row["_hoodie_record_key"]: row["_hoodie_file_name"] for row in names}
        for key, row in zip(KEYS, found, strict=True):
            assert row["found"] == (("", key) in self.model), key
            if row["found"]:
                assert row["partition_path"] == self._folder(self.model["", key].home)
                assert files[key].startswith(row["file_id"])

    @invariant()
    def history_stays(self) -> None:
        if not hasattr(self, "table") or not self.history:
            return
        instant, model = self.history[len(self.history) // 2]
        try:
            scan = self.table.scan(as_of=instant)
            present = [name for name in NEW if name in scan.schema.names]
            names = ["id", "part", "value", *present]
            got = self.table.scan(names, as_of=instant).to_arrow().to_pylist()
        except SnapshotExpiredError:
            assert self.is_cleaned
            return
        names = ["id", "part", "value", *NEW]
        want = [{name: with_new(s.row)[name] for name in names} for s in model.values()]
        assert sorted(map(with_new, got), key=str) == sorted(want, key=str)


def with_new(row: Row) -> Row:
    """The row with nulls for new columns that it lacks: it is older, or the table has none yet."""
    base = {name: value for name, value in row.items() if name not in NEW}
    return base | {name: row.get(name) for name in NEW}
