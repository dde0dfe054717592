"""Random keys put, moved, ended, put again, and taken back under an elastic index that grows all
the time, against a dict of places; both ways of growing, every hash.

    python -m tests.properties.test_elastic_machine --minutes 10 --seed 1
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from typing import Any

import hypothesis.strategies as st
import pyarrow as pa
from hypothesis import seed
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from pyhudi.api.table import Table
from pyhudi.engine import LocalEngine
from pyhudi.errors import UserError
from pyhudi.operations.create import create
from pyhudi.options import IndexKind, parse_options
from pyhudi.storage.memory import MemoryFileSystem
from pyhudi.table.properties import TableType
from pyhudi.write.table_creation import NewTable
from tests.properties.table_machine import bounded

SCHEMA = pa.schema([("id", pa.string()), ("v", pa.int64()), ("part", pa.string())])
KEYS = [f"k{i:02d}" for i in range(24)]
some_keys = st.lists(st.sampled_from(KEYS), min_size=1, max_size=8, unique=True)


class ElasticMachine(RuleBasedStateMachine):
    """places: partition of each key; before: the last commit, and the places before it."""

    @initialize(
        growth=st.sampled_from(["SEAL", "GROUPS"]),
        hash=st.sampled_from(["java", "murmur3"]),
        entries=st.integers(1, 5),
        buckets=st.integers(1, 3),
        kind=st.sampled_from(list(TableType)),
    )
    def make(self, growth: str, hash: str, entries: int, buckets: int, kind: TableType) -> None:
        options = {
            "pyhudi.index.elastic.growth": growth,
            "pyhudi.index.elastic.hash": hash,
            "pyhudi.index.elastic.bucket.entries": entries,
            "hoodie.metadata.record.index.min.filegroup.count": buckets,
            "hoodie.metadata.compact.max.delta.commits": 2,
            "hoodie.record.index.update.partition.path": True,
        }
        fs, parsed = MemoryFileSystem(), parse_options(options)
        create(fs, NewTable(SCHEMA, "t", kind, ("id",), ("part",), (), parsed, IndexKind.ELASTIC))
        self.table = Table(fs, options=parsed, engine=LocalEngine(1))
        self.places: dict[str, str] = {}
        self.before: tuple[str, dict[str, str]] | None = None
        self.turn = 0

    def _done(self, report: Any, before: dict[str, str]) -> None:
        if report.instant is not None:
            self.before = report.instant, before

    @rule(keys=some_keys, part=st.sampled_from(["a", "b", "c"]))
    def put(self, keys: list[str], part: str) -> None:
        before, self.turn = dict(self.places), self.turn + 1
        report = self.table.upsert(self._rows(keys, part))
        assert report.inserted >= len([key for key in keys if key not in before])
        self.places.update(dict.fromkeys(keys, part))
        self._done(report, before)

    def _rows(self, keys: list[str], part: str) -> pa.Table:
        made = [{"id": key, "v": self.turn, "part": part} for key in keys]
        return pa.Table.from_pylist(made, SCHEMA)

    @rule(keys=some_keys)
    def end(self, keys: list[str]) -> None:
        before = dict(self.places)
        report = self.table.delete(keys=keys)
        assert report.deleted == sum(key in before for key in keys)
        for key in keys:
            self.places.pop(key, None)
        self._done(report, before)

    @rule(keys=some_keys, part=st.sampled_from(["a", "b"]))
    def give_up(self, keys: list[str], part: str) -> None:
        deferred = self.table.upsert(self._rows(keys, part), publish=False)
        if deferred.instant is not None:
            self.table.discard(deferred.instant)

    @precondition(lambda self: self.before is not None)
    @rule()
    def roll_back(self) -> None:
        assert self.before is not None
        instant, places = self.before
        self.before = None
        try:
            self.table.rollback(instant)
        except UserError as refused:  # which the machine's few delta commits make likely
            assert "has compacted this commit" in str(refused)
            return
        self.places = places

    @rule(buckets=st.integers(1, 4))
    def rebuild_index(self, buckets: int) -> None:
        self.table.index.rebuild(buckets)
        self.before = None

    @invariant()
    def places_are_those_of_the_dict(self) -> None:
        if not hasattr(self, "table"):
            return
        found = self.table.lookup(KEYS).to_pylist()
        located = {row["record_key"]: row["partition_path"] for row in found if row["found"]}
        assert located == self.places

    def teardown(self) -> None:
        if hasattr(self, "table"):
            assert self.table.index.verify().is_exact
            assert self.table.scan().count() == len(self.places)


TestElasticMachine = ElasticMachine.TestCase
TestElasticMachine.settings = bounded(8, 12)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--steps", type=int, default=30)
    arguments = parser.parse_args()
    end = time.monotonic() + 60 * arguments.minutes
    number, problems = arguments.seed, 0
    while time.monotonic() < end:
        try:
            drawn = type("Drawn", (ElasticMachine,), {})  # a seed stays with its class
            run_state_machine_as_test(seed(number)(drawn), settings=bounded(10, arguments.steps))
        except Exception:
            problems += 1
            print(f"== seed {number}", flush=True)
            traceback.print_exc()
        number += 1
    print(f"seeds {arguments.seed} to {number - 1}, {10 * (number - arguments.seed)} tables, "
          f"{problems} problems")  # fmt: skip
    return 3 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
