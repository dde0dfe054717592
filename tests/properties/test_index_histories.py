"""Long histories of writes, services and index changes with small retentions, against a dict.

After each step the rows, look-ups, filters and the metadata table must agree with the dict; writes
and services must never be refused, whatever happened to the indexes before.  Undo may be refused,
with nothing changed.

    PYHUDI_HISTORIES=300 pytest -m slow tests/properties/test_index_histories.py
"""

from __future__ import annotations

import itertools
import os
import random
from collections import Counter

import pyarrow as pa
import pytest

import pyhudi
from pyhudi.api.table import Table
from pyhudi.errors import PyhudiError, SnapshotExpiredError, UserError

SCHEMA = pa.schema({"id": pa.string(), "part": pa.string(), "v": pa.int64(), "w": pa.string()})
OPTIONS = {
    "hoodie.clean.commits.retained": "2",
    "hoodie.keep.min.commits": "3",
    "hoodie.keep.max.commits": "4",
    "hoodie.metadata.record.index.min.filegroup.count": "2",
}
KINDS = {
    "column_stats": "column_stats", "partition_stats": "partition_stats",
    "bloom_filters": "bloom_filters", "record": "record_index", "secondary": "secondary_index_of_w",
}  # fmt: skip
WEIGHTS = {
    "upsert": 12, "delete": 3, "delete_where": 1, "compact": 4, "cluster": 1, "clean": 2,
    "archive": 3, "create_index": 4, "drop_index": 2, "rebuild_index": 3, "rebuild_metadata": 1,
    "rollback": 2, "restore": 1, "savepoint": 1, "delete_savepoint": 2,
}  # fmt: skip
Rows = dict[str, tuple[str, int, str]]
names = itertools.count()


class History:
    """One table, and what must be in it."""

    def __init__(self, seed: int, version: int, kind: str) -> None:
        self.pick = random.Random(f"{seed} {version} {kind}")
        more = {
            "hoodie.metadata.compact.max.delta.commits": str(self.pick.choice([2, 4, 10])),
            "hoodie.archive.automatic": self.pick.choice(["true", "false"]),
            "hoodie.clean.automatic": self.pick.choice(["true", "false"]),
            "hoodie.parquet.small.file.limit": self.pick.choice(["0", "104857600"]),
        }
        if kind == "mor" and self.pick.random() < 0.5:
            more |= {
                "hoodie.compact.inline": "true",
                "hoodie.compact.inline.max.delta.commits": "2",
            }
        if self.pick.random() < 0.5:
            more["hoodie.metadata.index.column.stats.enable"] = "true"
        self.moves = self.pick.random() < 0.5
        more["hoodie.record.index.update.partition.path"] = str(self.moves).lower()
        self.options = {**OPTIONS, **more}
        self.url = f"memory://histories{next(names)}"
        self.version, self.is_mor = version, kind == "mor"
        self.given: set[str] = set()
        self.rows: Rows = {}
        self.before: list[tuple[str, Rows]] = []
        self.count = 0
        self.done: list[str] = []
        pyhudi.create_table(
            self.url, SCHEMA, record_key="id", partition_by="part", table_type=kind,
            version=version, options=self.options,
        )  # fmt: skip

    @property
    def table(self) -> Table:
        options = dict(self.options)
        if self.given:  # an index that was dropped does not come back by an option
            options.pop("hoodie.metadata.index.column.stats.enable", None)
        return pyhudi.open_table(self.url, options=options)

    @property
    def listed(self) -> frozenset[str]:
        return self.table.config.metadata_partitions

    def committed(self, report: pyhudi.WriteReport) -> None:
        if report.instant is not None:
            self.before.append((report.instant, dict(self.rows)))

    # --- steps --------------------------------------------------------------------------------

    def upsert(self) -> None:
        self.count += 1
        keys = self.pick.sample(range(12), self.pick.randrange(1, 5))
        rows: Rows = {
            f"k{key}": (f"p{self.pick.randrange(2)}", self.count * 10 + key, f"w{key % 3}")
            for key in keys
        }
        for key, row in rows.items():
            home = row[0] if self.moves or key not in self.rows else self.rows[key][0]
            self.rows[key] = (home, *row[1:])
        columns = [list(rows), *(list(column) for column in zip(*rows.values(), strict=True))]
        self.committed(self.table.upsert(pa.table(columns, schema=SCHEMA)))

    def delete(self) -> None:
        keys = [f"k{key}" for key in self.pick.sample(range(12), 2)]
        for key in keys:
            self.rows.pop(key, None)
        self.committed(self.table.delete(keys=keys))

    def delete_where(self) -> None:
        bound = self.count * 10 - 40
        self.rows = {key: row for key, row in self.rows.items() if row[1] >= bound}
        self.committed(self.table.delete(where=f"v < {bound}"))

    def compact(self) -> None:
        if self.is_mor:
            self.table.compact()

    def cluster(self) -> None:
        self.table.cluster(["v"])

    def clean(self) -> None:
        self.table.clean()

    def archive(self) -> None:
        self.table.archive()

    def create_index(self) -> None:
        known = [
            kind
            for kind in KINDS
            if self.version > 6 or kind not in ("partition_stats", "secondary")
        ]
        kind = self.pick.choice(known)
        if KINDS[kind] in self.listed or (
            kind == "secondary" and "record_index" not in self.listed
        ):
            return
        if kind == "partition_stats" and "column_stats" not in self.listed:
            return
        if kind == "secondary":
            self.table.index.create("secondary", "w", name="of_w")
        else:
            self.table.index.create(kind)

    def drop_index(self) -> None:
        dropped = [p for p in self.listed if p not in ("files", "record_index")]
        if not dropped:
            return
        name = self.pick.choice(sorted(dropped))
        if name == "column_stats" and "partition_stats" in dropped:
            name = "partition_stats"
        self.given.add(name)
        self.table.index.drop(name.removeprefix("secondary_index_"))

    def rebuild_index(self) -> None:
        if "record_index" in self.listed:
            self.table.index.rebuild()

    def rebuild_metadata(self) -> None:
        self.table.metadata.rebuild()

    def rollback(self) -> None:
        newest = self.table.timeline.commits.last
        if newest and len(self.before) > 1 and newest.time == self.before[-1][0]:
            self.undo(lambda: self.table.rollback(self.before[-1][0]), len(self.before) - 1)

    def restore(self) -> None:
        active = {each.time for each in self.table.timeline.commits}
        known = [n for n, (time, _) in enumerate(self.before) if time in active]
        if known:
            at = self.pick.choice(known[-4:])
            self.undo(lambda: self.table.restore(self.before[at][0]), at + 1)

    def undo(self, action: object, count: int) -> None:
        try:
            action()  # type: ignore[operator]
        except (UserError, SnapshotExpiredError):
            self.done[-1] += " refused"
            return
        self.before = self.before[:count]
        self.rows = dict(self.before[-1][1])

    def savepoint(self) -> None:
        if not self.table.savepoints() and self.before:
            self.table.savepoint("kept")

    def delete_savepoint(self) -> None:
        for each in self.table.savepoints():
            self.table.delete_savepoint(each.instant)

    # --- checks -------------------------------------------------------------------------------

    def step(self) -> None:
        name = self.pick.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
        self.done.append(name)
        getattr(self, name)()

    def check(self) -> None:
        table = self.table
        names = SCHEMA.names
        found = table.scan(names).to_arrow().to_pylist()
        assert sorted(tuple(row[n] for n in names) for row in found) == sorted(
            (key, *row) for key, row in self.rows.items()
        )
        keys = [f"k{n}" for n in range(12)]
        looked = {row["record_key"]: row for row in table.lookup(keys).to_pylist()}
        assert {k: row["partition_path"] for k, row in looked.items() if row["found"]} == {
            key: row[0] for key, row in self.rows.items()
        }
        for where in (f"v >= {self.count * 10 - 15}", "w = 'w1'", "part = 'p1'"):
            got = table.scan(["id"], where).to_arrow()["id"].to_pylist()
            assert sorted(got) == sorted(
                key for key, row in self.rows.items() if matches(where, row)
            )
        assert not table.metadata.verify().findings
        assert not table.index.verify().faults if "record_index" in self.listed else True


def matches(where: str, row: tuple[str, int, str]) -> bool:
    column, _, value = where.split(" ")
    if column == "v":
        return row[1] >= int(value)
    return value.strip("'") == (row[0] if column == "part" else row[2])


def run(seed: int, version: int, kind: str, steps: int, counts: Counter[str]) -> None:
    history = History(seed, version, kind)
    history.upsert()
    for _ in range(steps):
        try:
            history.step()
            history.check()
        except (PyhudiError, AssertionError) as error:
            error.add_note(f"seed {seed}, version {version}, {kind}: {' -> '.join(history.done)}")
            raise
    counts.update(history.done)


@pytest.mark.parametrize("steps", [12, pytest.param(25, marks=pytest.mark.long)])
@pytest.mark.parametrize(
    ("version", "kind"), [(9, "mor"), (9, "cow"), (8, "mor"), (8, "cow"), (6, "mor")]
)
def test_histories_of_writes_and_index_changes_leave_the_rows_and_a_sound_metadata_table(
    version: int, kind: str, steps: int
) -> None:
    run(1, version, kind, steps, Counter())


@pytest.mark.slow
def test_many_long_histories() -> None:
    counts: Counter[str] = Counter()
    first, number = int(os.environ.get("SEED", "0")), int(os.environ.get("PYHUDI_HISTORIES", "20"))
    for seed in range(first, first + number):
        version, kind = [(9, "mor"), (9, "cow"), (8, "mor"), (8, "cow"), (6, "mor")][seed % 5]
        run(seed, version, kind, 60, counts)
    print(f"{number} histories, {counts.total()} steps: {dict(counts)}")
