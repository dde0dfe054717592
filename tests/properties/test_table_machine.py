"""Random operations on a table, against a dict.

After each step the snapshot, the changes since each commit, and the record index must be what the
dict says: the model knows nothing of files, slices or logs.  A record of the model is a key, or a
key in a partition where the table's index is not global.
"""

from __future__ import annotations

from dataclasses import dataclass

import hypothesis.strategies as st
import pyarrow as pa
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

import pyhudi
from pyhudi.api import Table
from pyhudi.engine import LocalEngine
from pyhudi.options import IndexKind
from pyhudi.pipeline import NewTable, create
from pyhudi.storage.memory import MemoryFileSystem
from pyhudi.table.config import TableType

SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("ts", pa.int64()),
        ("part", pa.string()),
        ("value", pa.int32()),
        ("tags", pa.list_(pa.string())),
        ("_hoodie_is_deleted", pa.bool_()),
    ]
)
KEYS = [f"k{i:02d}" for i in range(24)] + ["ключ", "key:with,marks", "\U0001f511"]
PARTITIONS = ["a", "b", "c"]

Identity = tuple[str, str]
"""The partition, or nothing under a global index, and the key of a record."""

rows = st.lists(
    st.fixed_dictionaries(
        {
            "id": st.sampled_from(KEYS),
            "ts": st.integers(0, 6),
            "part": st.sampled_from(PARTITIONS),
            "value": st.none() | st.integers(-5, 5),
            "tags": st.none() | st.lists(st.none() | st.sampled_from(["x", "y"]), max_size=2),
            "_hoodie_is_deleted": st.sampled_from([None, False, False, True]),
        }
    ),
    min_size=1,
    max_size=12,
)


@dataclass
class Stored:
    """A record of the model: its row, the partition it lies in, the commit that wrote it."""

    row: dict[str, object]
    home: str
    commit: str


class TableMachine(RuleBasedStateMachine):
    """One table; `kind`, `index`, `event_time`, `moves` are drawn once."""

    @initialize(
        kind=st.sampled_from(list(TableType)),
        index=st.sampled_from(list(IndexKind)),
        event_time=st.booleans(),
        moves=st.booleans(),
        log_format=st.sampled_from(["parquet", "avro"]),
    )
    def make(
        self, kind: TableType, index: IndexKind, event_time: bool, moves: bool, log_format: str
    ) -> None:
        self.event_time, self.moves = event_time, moves
        self.index, self.kind = index, kind
        self.fs = MemoryFileSystem()
        options = pyhudi.options.parse_options(
            {
                "hoodie.record.index.update.partition.path": str(moves).lower(),
                "hoodie.bloom.index.update.partition.path": str(moves).lower(),
                "hoodie.simple.index.update.partition.path": str(moves).lower(),
                "hoodie.bucket.index.num.buckets": "3",
                "hoodie.logfile.data.block.format": log_format,
                "hoodie.metadata.record.index.min.filegroup.count": "3",
                "hoodie.index.bloom.num_entries": "100",
                "hoodie.parquet.max.file.size": "9kb",
                "hoodie.parquet.small.file.limit": "7kb",
            }
        )
        ordering = ("ts",) if event_time else ()
        create(self.fs, NewTable(SCHEMA, "t", kind, ("id",), ("part",), ordering, options, index))
        self.table = Table(self.fs, options=options, engine=LocalEngine(1))
        self.model: dict[Identity, Stored] = {}
        self.history: list[tuple[str, dict[Identity, Stored]]] = []

    def _identity(self, row: dict[str, object]) -> Identity:
        return "" if self.index.is_global else str(row["part"]), str(row["id"])

    def _committed(self, report: pyhudi.WriteReport, touched: set[Identity]) -> None:
        if report.instant is None:
            return
        for key in touched & self.model.keys():
            self.model[key].commit = report.instant
        self.history.append((report.instant, dict(self.model)))

    def _winners(self, batch: list[dict[str, object]]) -> dict[Identity, dict[str, object]]:
        best: dict[Identity, dict[str, object]] = {}
        for row in batch:
            seen = best.get(self._identity(row))
            if seen is None or not self.event_time or row["ts"] >= seen["ts"]:  # type: ignore
                best[self._identity(row)] = row
        return best

    @property
    def logs_remember_deletes(self) -> bool:
        """Whether a delete may win over an older row of its key that comes after it: they meet in
        one file group's logs.  See docs/differences.md."""
        merges = self.kind is TableType.MERGE_ON_READ and self.event_time
        return merges and not self.index.is_global

    @rule(batch=rows, verb=st.sampled_from(["upsert", "insert_overwrite", "delete_partitions"]))
    def discard(self, batch: list[dict[str, object]], verb: str) -> None:
        """A kept write that is taken back leaves no trace."""
        given = "*" if verb == "delete_partitions" else pa.Table.from_pylist(batch, SCHEMA)
        report = getattr(self.table, verb)(given, publish=False)
        if report.instant is not None:
            self.table.discard(report.instant)

    @rule(batch=rows, kept=st.booleans())
    def upsert(self, batch: list[dict[str, object]], kept: bool) -> None:
        if self.logs_remember_deletes:
            batch = [{**row, "_hoodie_is_deleted": None} for row in batch]
        touched = set()
        for key, row in self._winners(batch).items():
            stored = self.model.get(key)
            if stored and self.event_time and stored.row["ts"] > row["ts"]:  # type: ignore
                continue
            if row["_hoodie_is_deleted"]:
                self.model.pop(key, None)
                continue
            home = stored.home if stored and not self.moves else str(row["part"])
            self.model[key] = Stored({**row, "part": home}, home, "")
            touched.add(key)
        report = self.table.upsert(pa.Table.from_pylist(batch, SCHEMA), publish=not kept)
        if kept and report.instant is not None:
            self.table.publish(report.instant)
        self._committed(report, touched)

    @rule(keys=st.lists(st.sampled_from(KEYS), min_size=1, max_size=6))
    def delete(self, keys: list[str]) -> None:
        present = [place for place in self.model if place[1] in keys]
        for place in present:
            self.model.pop(place)
        report = self.table.delete(keys=keys)
        assert report.deleted == len(present)
        assert report.missing_keys == len(set(keys) - {key for _, key in present})
        self._committed(report, set())

    @rule(batch=rows)
    def bulk_insert_new_keys(self, batch: list[dict[str, object]]) -> None:
        fresh = {
            key: {**row, "_hoodie_is_deleted": None}
            for key, row in self._winners(batch).items()
            if key not in self.model
        }
        if not fresh:
            return
        report = self.table.bulk_insert(pa.Table.from_pylist(list(fresh.values()), SCHEMA))
        if self.index is not IndexKind.BUCKET:  # which does not look keys up
            assert report.inserted == len(fresh)
        for key, row in fresh.items():
            self.model[key] = Stored(dict(row), str(row["part"]), "")
        self._committed(report, set(fresh))

    @rule(batch=rows, whole_table=st.booleans())
    def overwrite(self, batch: list[dict[str, object]], whole_table: bool) -> None:
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
        report = verb(pa.Table.from_pylist(list(fresh.values()), SCHEMA))
        assert report.deleted == len(gone)
        for key in gone:
            del self.model[key]
        live = {k: row for k, row in fresh.items() if not row["_hoodie_is_deleted"]}
        self.model |= {k: Stored(dict(row), str(row["part"]), "") for k, row in live.items()}
        self._committed(report, set(live))

    @rule(partition=st.sampled_from(PARTITIONS))
    def delete_partition(self, partition: str) -> None:
        gone = {k for k, s in self.model.items() if s.home == partition}
        report = self.table.delete_partitions(partition)
        assert report.deleted == len(gone)
        for key in gone:
            del self.model[key]
        self._committed(report, set())

    @invariant()
    def snapshot_is_the_model(self) -> None:
        if not hasattr(self, "table"):
            return
        rows = self.table.scan(SCHEMA.names).to_arrow().to_pylist()
        assert {self._identity(row): row for row in rows} == {
            place: stored.row for place, stored in self.model.items()
        }
        assert self.table.scan().count() == len(self.model)

    @invariant()
    def changes_are_the_difference(self) -> None:
        if not hasattr(self, "table"):
            return
        for since, _ in self.history[-3:]:
            changed = self.table.changes(since=since, columns=["id"]).to_arrow()["id"].to_pylist()
            assert sorted(changed) == sorted(
                key for (_, key), s in self.model.items() if s.commit > since
            )

    @invariant()
    def index_is_exact(self) -> None:
        if not hasattr(self, "table") or self.index is not IndexKind.RECORD:
            return
        found = self.table.lookup(KEYS).to_pylist()
        names = self.table.scan(["_hoodie_record_key", "_hoodie_file_name"]).to_arrow().to_pylist()
        files = {row["_hoodie_record_key"]: row["_hoodie_file_name"] for row in names}
        for key, row in zip(KEYS, found, strict=True):
            assert row["found"] == (("", key) in self.model), key
            if row["found"]:
                assert row["partition_path"] == self.model["", key].home
                assert files[key].startswith(row["file_id"])

    @invariant()
    def history_stays(self) -> None:
        if not hasattr(self, "table") or not self.history:
            return
        instant, model = self.history[len(self.history) // 2]
        got = self.table.scan(["id", "part", "value"], as_of=instant).to_arrow().to_pylist()
        want = [{name: s.row[name] for name in ("id", "part", "value")} for s in model.values()]
        assert sorted(got, key=str) == sorted(want, key=str)


TestTableMachine = TableMachine.TestCase
TestTableMachine.settings = settings(
    max_examples=40,
    stateful_step_count=10,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
