"""Random operations on a table, against a dict.

    python -m tests.properties.table_machine --minutes 10 --seed 1

The program draws tables until the time is up and tells how many; it ends with 3 if a table was not
as the dict says.
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterable
from typing import Any, ClassVar

import hypothesis.strategies as st
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, seed, settings
from hypothesis.stateful import precondition, rule, run_state_machine_as_test

import pyhudi
from pyhudi.errors import SchemaError, UserError, WriteConflictError
from pyhudi.options import IndexKind
from tests.properties.table_checks import CheckedTable, Identity, Stored, with_new
from tests.properties.table_setup import (
    EVOLUTIONS,
    KEYS,
    PARTITIONS,
    VERSIONS,
    Row,
    evolved,
    filled,
    rows,
)
from tests.support.inside import state_of

WIDEN: dict[str, Any] = {"schema_mode": "widen"}

a_key = st.lists(st.sampled_from(KEYS), min_size=1, max_size=6)


class TableMachine(CheckedTable):
    """What may be done to a table."""

    steps: ClassVar[Counter[str]] = Counter()

    def _committed(self, report: pyhudi.WriteReport, touched: set[Identity]) -> None:
        self.steps[report.operation] += 1
        if report.instant is None:
            return
        self.is_behind = False
        self.is_widening = self.is_widening and "delete" in report.operation
        for key in touched & self.model.keys():
            self.model[key].commit = report.instant
        self.history.append((report.instant, dict(self.model)))

    def _winners(self, batch: list[Row]) -> dict[Identity, Row]:
        best: dict[Identity, Row] = {}
        for row in batch:
            seen = best.get(self._identity(row))
            if seen is None or not self.setup.event_time or row["ts"] >= seen["ts"]:
                best[self._identity(row)] = row
        return best

    def _fresh(self, batch: list[Row]) -> dict[Identity, Row]:
        """Rows of keys that are not there, none of them a delete."""
        return {
            key: {**row, "_hoodie_is_deleted": None}
            for key, row in self._winners(batch).items()
            if key not in self.model
        }

    def _table_of(self, batch: Iterable[Row]) -> pa.Table:
        while self.is_widening and self.setup.merges and self._has_logs:  # rejects wider types
            self.table.compact()
        return pa.Table.from_pylist([filled(row, self.given) for row in batch], self.given)

    def _finish(self, report: pyhudi.WriteReport, deferred: bool) -> None:
        """Publish what was kept back."""
        if deferred and report.instant is not None:
            self.table.publish(report.instant)

    @rule(change=st.sampled_from(sorted(EVOLUTIONS)))
    def evolve(self, change: str) -> None:
        """Rows that are written from now on have another column, or one of a wider type."""
        field = EVOLUTIONS[change]
        present = self.given.get_field_index(field.name) >= 0
        if present == ("wider" in change) and field not in self.given:
            wider = evolved(self.given, field)
            if pa.types.is_nested(field.type) and field.name in self.table.schema.names:
                with pytest.raises(SchemaError, match="with other nested types"):
                    self.table.upsert(wider.empty_table(), **WIDEN)
                return
            self.given = wider
            self.is_widening |= "wider" in change
            self.steps[f"evolve: {change}"] += 1

    # --- verbs that bring rows ----------------------------------------------------------------

    @rule(batch=rows, verb=st.sampled_from(["upsert", "insert_overwrite", "delete_partitions"]))
    def discard(self, batch: list[Row], verb: str) -> None:
        """A kept write that is taken back leaves no trace."""
        given = "*" if verb == "delete_partitions" else self._table_of(batch)
        try:
            report = getattr(self.table, verb)(
                given, publish=False, **({} if verb == "delete_partitions" else WIDEN)
            )
        except WriteConflictError:
            assert self._has_plan and verb == "delete_partitions"
            return
        if report.instant is not None:
            self.table.discard(report.instant)
            self.steps["discard"] += 1

    @rule(batch=rows, deferred=st.booleans(), skips=st.booleans())
    def upsert(self, batch: list[Row], deferred: bool, skips: bool) -> None:
        if self.setup.remembers_deletes:
            batch = [{**row, "_hoodie_is_deleted": None} for row in batch]
        touched = set()
        for key, row in self._winners(batch).items():
            stored = self.model.get(key)
            if stored and self.setup.event_time and stored.row["ts"] > row["ts"]:
                continue
            if row["_hoodie_is_deleted"]:
                self.model.pop(key, None)
                continue
            home = stored.home if stored and not self.setup.moves else str(row["part"])
            expected = {**filled(row, self.given), "part": home}
            same = stored and with_new(stored.row) == with_new(expected)
            if skips and stored and same and stored.home == home:
                continue
            self.model[key] = Stored(expected, home, "")
            touched.add(key)
        given = self._table_of(batch)
        report = self.table.upsert(given, publish=not deferred, skip_unchanged=skips, **WIDEN)
        self._finish(report, deferred)
        self._committed(report, touched)

    @rule(batch=rows, bulk=st.booleans(), deferred=st.booleans())
    def insert_new_keys(self, batch: list[Row], bulk: bool, deferred: bool) -> None:
        if not (fresh := self._fresh(batch)):
            return
        verb = self.table.bulk_insert if bulk else self.table.insert
        report = verb(self._table_of(fresh.values()), publish=not deferred, **WIDEN)
        self._finish(report, deferred)
        if self.setup.index is not IndexKind.BUCKET:  # which does not look keys up
            assert report.inserted == len(fresh)
        self._put(fresh)
        self._committed(report, set(fresh))

    @rule(batch=rows)
    def insert_dropping_known_keys(self, batch: list[Row]) -> None:
        batch = [{**row, "_hoodie_is_deleted": None} for row in batch]
        fresh = self._fresh(batch)
        requested = self.setup.reopened(self.table, datasource__insert__dup__policy="drop")
        report = requested.insert(self._table_of(batch), **WIDEN)
        assert report.duplicates == len(batch) - len(fresh)
        self._put(fresh)
        self._committed(report, set(fresh))

    def _put(self, fresh: dict[Identity, Row]) -> None:
        for key, row in fresh.items():
            self.model[key] = Stored(filled(row, self.given), str(row["part"]), "")

    @rule(batch=rows, whole_table=st.booleans(), deferred=st.booleans())
    def overwrite(self, batch: list[Row], whole_table: bool, deferred: bool) -> None:
        chosen = PARTITIONS if whole_table else [str(row["part"]) for row in batch]
        stays = {k for k, s in self.model.items() if s.home not in chosen}
        fresh = {k: row for k, row in self._winners(batch).items() if k not in stays}
        if not whole_table:  # partitions are those of the rows that are written, deletes and all
            chosen = [str(row["part"]) for row in fresh.values()]
        verb = self.table.insert_overwrite_table if whole_table else self.table.insert_overwrite
        gone = {k for k, s in self.model.items() if s.home in chosen}
        fresh = {k: row for k, row in fresh.items() if k not in self.model or k in gone}
        if not whole_table and {str(row["part"]) for row in fresh.values()} != set(chosen):
            return
        report = verb(self._table_of(fresh.values()), publish=not deferred, **WIDEN)
        self._finish(report, deferred)
        assert report.deleted == len(gone)
        for key in gone:
            del self.model[key]
        live = {k: row for k, row in fresh.items() if not row["_hoodie_is_deleted"]}
        self._put(live)
        self._committed(report, set(live))

    # --- verbs that take rows away ------------------------------------------------------------

    @rule(keys=a_key, deferred=st.booleans())
    def delete_keys(self, keys: list[str], deferred: bool) -> None:
        present = [place for place in self.model if place[1] in keys]
        report = self.table.delete(keys=keys, publish=not deferred)
        assert report.missing_keys == len(set(keys) - {key for _, key in present})
        self._deleted(report, present, deferred)

    @rule(batch=rows)
    def delete_rows(self, batch: list[Row]) -> None:
        present = [key for key in self._winners(batch) if key in self.model]
        given = self._table_of(batch).select(["id", "part"])
        self._deleted(self.table.delete(given), present, deferred=False)

    @rule(above=st.integers(-2, 5), partition=st.none() | st.sampled_from(PARTITIONS))
    def delete_where(self, above: int, partition: str | None) -> None:
        where = pc.field("value") > above
        if partition is not None:
            where = where & (pc.field("part") == partition)
        doomed = [
            key
            for key, s in self.model.items()
            if s.row["value"] is not None and s.row["value"] > above
            if partition in (None, s.row["part"])
        ]
        self._deleted(self.table.delete(where=where), doomed, deferred=False)

    def _deleted(self, report: pyhudi.WriteReport, present: list[Identity], deferred: bool) -> None:
        self._finish(report, deferred)
        assert report.deleted == len(present)
        for place in present:
            self.model.pop(place)
        self._committed(report, set())

    @rule(partition=st.sampled_from(PARTITIONS), deferred=st.booleans())
    def delete_partition(self, partition: str, deferred: bool) -> None:
        folder = self._folder(partition)
        gone = {k for k, s in self.model.items() if s.home == partition}
        try:
            report = self.table.delete_partitions(folder, publish=not deferred)
        except WriteConflictError:
            assert self._has_plan
            return
        self._finish(report, deferred)
        assert report.deleted == len(gone)
        for key in gone:
            del self.model[key]
        self._committed(report, set())

    # --- services -----------------------------------------------------------------------------

    @property
    def _has_logs(self) -> bool:
        return any(each.logs for each in state_of(self.table).view().latest_slices())

    @property
    def _has_plan(self) -> bool:
        """Whether a compaction is planned, which holds up the deletion of its partitions."""
        return bool(len(self.table.timeline.pending))

    @rule()
    @precondition(lambda self: self.setup.merges)
    def compact(self) -> None:
        self.table.compact()
        self.steps["compact"] += 1

    @rule()
    @precondition(lambda self: self.setup.merges)
    def compact_logs(self) -> None:
        self.table.compact_logs()
        self.steps["compact_logs"] += 1

    @rule()
    @precondition(lambda self: self.setup.merges and not self._has_plan)
    def plan_compaction(self) -> None:
        self.table.schedule_compaction()
        self.steps["schedule_compaction"] += 1

    @rule()
    @precondition(lambda self: self.setup.index is not IndexKind.BUCKET and not self._has_plan)
    def cluster(self) -> None:
        self.table.cluster()
        self.is_behind = True
        self.steps["cluster"] += 1

    @rule()
    def archive(self) -> None:
        self.table.archive()
        self.steps["archive"] += 1

    @rule()
    @precondition(lambda self: len(self.history) > self.rebuilt_at + 1 and not self._has_plan)
    def roll_back_the_last_commit(self) -> None:
        if self.table.timeline.commits.instants[-1].time == self.history[-1][0]:
            try:
                self.table.rollback(self.history[-1][0])
            except UserError as refused:  # delta commits without a write of their own precede it
                is_cleaned = self.is_cleaned and "have been cleaned" in str(refused)
                assert is_cleaned or "has compacted this commit" in str(refused)
                return
            self.history.pop()
            self.model = dict(self.history[-1][1])
            self.is_behind = True
            self.steps["rollback"] += 1

    @rule(back=st.integers(1, 3))
    @precondition(lambda self: self.history and not self.is_cleaned)
    def restore(self, back: int) -> None:
        """Back over writes and services alike, planned ones too."""
        place = max(0, len(self.history) - 1 - back)
        instant, model = self.history[place]
        self.table.restore(instant)
        del self.history[place + 1 :]
        self.model = dict(model)
        if self.setup.version > 6:  # the restore rebuilds the metadata table, with this commit
            self.rebuilt_at = len(self.history)
        self.is_behind = True
        self.steps["restore"] += 1

    @rule()
    def clean(self) -> None:
        self.table.clean()
        self.steps["clean"] += 1


def bounded(tables: int, steps: int) -> settings:
    return settings(
        max_examples=tables,
        stateful_step_count=steps,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--steps", type=int, default=25)
    parser.add_argument("--version", type=int, action="append", help="of tables; default: all")
    requested = parser.parse_args()
    VERSIONS[:] = requested.version or VERSIONS[:]
    end = time.monotonic() + 60 * requested.minutes
    number, tables, problems = requested.seed, 0, 0
    while time.monotonic() < end:
        try:
            drawn = type("Drawn", (TableMachine,), {})  # a seed stays with its class
            run_state_machine_as_test(seed(number)(drawn), settings=bounded(20, requested.steps))
        except Exception:
            problems += 1
            print(f"== seed {number}", flush=True)
            traceback.print_exc()
        number, tables = number + 1, tables + 20
    done = ", ".join(f"{name} {count}" for name, count in sorted(TableMachine.steps.items()))
    print(f"seeds {requested.seed} to {number - 1}, {tables} tables, {problems} problems; {done}")
    return 3 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
