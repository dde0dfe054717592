"""pyhudi and Apache Hudi take turns with the same index: equal rows, and no key is there twice.

Each turn updates old keys, brings new ones, and (under a global index) moves some to another
partition; keys are deleted in between.  Apache Hudi is told the index by its option, as version-6
tables do not tell it; in the last turn of a bucket table it finds pyhudi's properties by itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pyhudi
from pyhudi.errors import IndexNotReadyError
from pyhudi.options import IndexKind
from tests.interop.test_apache_hudi import Turns as Reading
from tests.support.apache_hudi import ApacheHudi, newest_table_version

pytestmark = pytest.mark.interop

SCHEMA = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("part", pa.string())])
OWN = (
    IndexKind.RECORD,
    IndexKind.PARTITIONED_RECORD,
    IndexKind.ELASTIC,
    IndexKind.ROCKSDB,
    IndexKind.HBASE,
)  # tested beside this
KINDS = [kind for kind in IndexKind if kind not in OWN]
MOVES = {  # as others do without being told
    "pyhudi.index.rocksdb.update.partition.path": True,
    "hoodie.record.index.update.partition.path": True,
}
Row = tuple[str, int, str]


class Turns:
    """One table, its rows as they must be, and the writers in turn."""

    def __init__(
        self, index: IndexKind, path: Path, kind: str, hudis: list[ApacheHudi], **more: Any
    ) -> None:
        self.index, self.path, self.hudis = index, path, hudis
        self.options = {"hoodie.bucket.index.num.buckets": 4, "hoodie.index.bloom.num_entries": 200}
        self.options |= more
        self.table = pyhudi.create_table(
            path, SCHEMA, record_key="id", partition_by="part", ordering="ts", table_type=kind,
            index=index.value, version=newest_table_version(hudis), options=self.options,
        )  # fmt: skip
        self.rows: dict[tuple[str, str], Row] = {}
        self.turn = self.states = 0

    def place(self, row: Row) -> tuple[str, str]:
        return ("" if self.index.is_global else row[2]), row[0]

    def batch(self) -> pa.Table:
        """Keys of earlier turns and new ones; some in another partition than before."""
        self.turn += 1
        first = self.turn * 7
        made = []
        for i in range(first, first + 30):
            shift = self.turn if i % 5 == 0 else 0
            made.append((f"key-{i:03d}" + ",x-é" * (i % 11 == 0), self.turn, f"p{(i + shift) % 3}"))
        self.rows.update({self.place(row): row for row in made})
        return pa.table(dict(zip(SCHEMA.names, map(list, zip(*made, strict=True)), strict=True)))

    def delete(self) -> pa.Table:
        """Some rows to delete, as they are stored."""
        chosen = [place for n, place in enumerate(sorted(self.rows)) if n % 6 == self.turn % 6]
        rows = [self.rows.pop(place) for place in chosen]
        return pa.table(dict(zip(SCHEMA.names, map(list, zip(*rows, strict=True)), strict=True)))

    def by_pyhudi(self) -> None:
        table = pyhudi.open_table(self.path, options=MOVES)
        report = table.upsert(self.batch())
        assert f"{self.index.value.replace('_', ' ')} index" in report.index
        table.delete(self.delete())

    def by_apache_hudi(self, hudi: ApacheHudi, **conf: Any) -> None:
        for operation, rows in (("upsert", self.batch), ("delete", self.delete)):
            file = self.path.with_name(f"{self.path.name}-batch.parquet")
            pq.write_table(rows(), file)
            hudi.call(
                "write", path=str(self.path), rows=str(file), operation=operation,
                conf={name: str(value) for name, value in conf.items()},
            )  # fmt: skip

    def seen_by_pyhudi(self) -> None:
        found = Counter(as_rows(pyhudi.open_table(self.path).scan().to_arrow()))
        assert found == Counter(self.rows.values())

    def agree(self) -> None:
        """Each Apache Hudi reads with and without the metadata table, in the default suite in one
        of these ways, in rotation."""
        self.seen_by_pyhudi()
        want = Counter(self.rows.values())
        self.states += 1
        for number, hudi in enumerate(self.hudis, self.states):
            ways = ("on", "off") if number % 2 else ("off", "on")
            for listing in ways if Reading.everybody_reads else ways[:1]:
                out = self.path.with_name(f"{self.path.name}-{hudi.version}-{listing}.parquet")
                out.unlink(missing_ok=True)
                hudi.call("read", path=str(self.path), mdt=listing, out=str(out))
                got = Counter(as_rows(pq.ParquetFile(out).read()))
                assert got == want, f"Apache Hudi {hudi.version}, metadata table {listing}"


CONSISTENT = {"hoodie.index.bucket.engine": "CONSISTENT_HASHING"}
CLUSTERING = "org.apache.hudi.client.clustering"
RESIZE = {
    "hoodie.index.type": "BUCKET",
    "hoodie.bucket.index.num.buckets": 4,
    "hoodie.bucket.index.max.num.buckets": 8,
    "hoodie.parquet.max.file.size": 4000,
    "hoodie.clustering.plan.strategy.class":
        f"{CLUSTERING}.plan.strategy.SparkConsistentBucketClusteringPlanStrategy",
    "hoodie.clustering.execution.strategy.class":
        f"{CLUSTERING}.run.strategy.SparkConsistentBucketClusteringExecutionStrategy",
    "hoodie.clustering.updates.strategy":
        f"{CLUSTERING}.update.strategy.SparkConsistentBucketDuplicateUpdateStrategy",
    **CONSISTENT,
}  # fmt: skip


def as_rows(table: pa.Table) -> list[Row]:
    return [(r["id"], r["ts"], r["part"]) for r in table.select(SCHEMA.names).to_pylist()]


@pytest.mark.parametrize("kind", ["cow", "mor"])
@pytest.mark.parametrize("index", KINDS, ids=lambda k: k.value)
def test_turns_with_every_index(
    index: IndexKind, kind: str, tmp_path: Path, hudis: list[ApacheHudi]
) -> None:
    turns = Turns(index, tmp_path / "t", kind, hudis)
    stated: dict[str, Any] = {"hoodie.index.type": index.option}
    if index is IndexKind.BUCKET:
        stated["hoodie.bucket.index.num.buckets"] = 4
    turns.by_pyhudi()
    turns.by_pyhudi()
    for hudi in hudis:
        turns.by_apache_hudi(hudi, **stated)
        turns.seen_by_pyhudi()
        turns.by_pyhudi()
        turns.agree()
    if index is IndexKind.BUCKET:
        for hudi in hudis:
            turns.by_apache_hudi(hudi)
            turns.seen_by_pyhudi()
        turns.by_pyhudi()
        turns.agree()


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "growth"), [("cow", "GROUPS"), ("mor", "SEAL")])
def test_an_elastic_index_is_passed_over_and_lacks_what_others_write(
    kind: str, growth: str, tmp_path: Path, hudis: list[ApacheHudi]
) -> None:
    """Apache Hudi reads and writes the table; the index is not asked then until it is built anew.
    A compaction by Apache Hudi changes nothing for it."""
    small = {"pyhudi.index.elastic.growth": growth, "pyhudi.index.elastic.bucket.entries": 5}
    turns = Turns(IndexKind.ELASTIC, tmp_path / "t", kind, hudis, **small)
    turns.by_pyhudi()
    turns.by_pyhudi()
    turns.agree()
    for hudi in hudis:
        if kind == "mor":
            planned = pyhudi.open_table(turns.path).schedule_compaction()
            what = {"op": "execute", "instants": planned}
            hudi.call("service", path=str(turns.path), name="compact", args=what)
            turns.by_pyhudi()
        assert pyhudi.open_table(turns.path).index.verify().is_exact
        turns.by_apache_hudi(hudi, **{"hoodie.index.type": "GLOBAL_SIMPLE"})
        turns.seen_by_pyhudi()
        table = pyhudi.open_table(turns.path)
        with pytest.raises(IndexNotReadyError, match="lacks commits of other writers"):
            table.lookup(["key-030"])
        with pytest.raises(IndexNotReadyError, match="lacks commits of other writers"):
            table.delete(keys=["key-030"])
        table.index.rebuild()
        turns.by_pyhudi()
        assert pyhudi.open_table(turns.path).index.verify().is_exact
        turns.agree()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_turns_of_rocksdb_with_an_index_of_apache_hudi(
    kind: str, tmp_path: Path, hudis: list[ApacheHudi]
) -> None:
    """Apache Hudi passes the checkpoints over, and what it has written is caught up with."""
    turns = Turns(IndexKind.ROCKSDB, tmp_path / "t", kind, hudis)
    turns.by_pyhudi()
    for hudi in hudis:
        turns.by_apache_hudi(hudi, **{"hoodie.index.type": "GLOBAL_SIMPLE"})
        turns.seen_by_pyhudi()
        turns.by_pyhudi()
        turns.by_pyhudi()
        turns.agree()


@pytest.mark.slow
def test_turns_with_consistent_hashing(tmp_path: Path, hudis: list[ApacheHudi]) -> None:
    """Buckets that Apache Hudi splits in between are found, and those that pyhudi overwrote."""
    turns = Turns(IndexKind.BUCKET, tmp_path / "t", "mor", hudis, **CONSISTENT)
    stated = {name: RESIZE[name] for name in RESIZE if "clustering" not in name}
    turns.by_pyhudi()
    for hudi in hudis:
        turns.by_apache_hudi(hudi, **stated)
        turns.seen_by_pyhudi()
        turns.by_pyhudi()
        hudi.call("service", path=str(turns.path), name="compact", conf=RESIZE)
        hudi.call("service", path=str(turns.path), name="cluster", conf=RESIZE)
        turns.seen_by_pyhudi()
        turns.by_pyhudi()
        turns.by_apache_hudi(hudi, **stated)
        turns.agree()
    batch = turns.batch()
    pyhudi.open_table(turns.path).insert_overwrite(batch)
    turns.rows = {turns.place(row): row for row in as_rows(batch)}
    turns.agree()
    for hudi in hudis:
        turns.by_apache_hudi(hudi, **stated)
        turns.by_pyhudi()
        turns.agree()


@pytest.mark.slow
def test_turns_after_pyhudi_has_resized_buckets(tmp_path: Path, hudis: list[ApacheHudi]) -> None:
    """Apache Hudi reads and upserts after pyhudi's splits and merges, which follow its own."""
    turns = Turns(IndexKind.BUCKET, tmp_path / "t", "mor", hudis, **CONSISTENT)
    stated = {name: RESIZE[name] for name in RESIZE if "clustering" not in name}
    splits = {
        "hoodie.bucket.index.max.num.buckets": 12, "hoodie.parquet.max.file.size": 4000,
        "hoodie.parquet.small.file.limit": 0,
    }  # fmt: skip
    merges = {"hoodie.bucket.index.min.num.buckets": 3}
    turns.by_pyhudi()
    for name in ("compact", "cluster"):
        hudis[0].call("service", path=str(turns.path), name=name, conf=RESIZE)
    for hudi in hudis:
        for options in (splits, merges):
            turns.by_pyhudi()
            table = pyhudi.open_table(turns.path, options=options)
            table.compact()
            assert table.cluster().new_file_groups
            turns.agree()
            turns.by_apache_hudi(hudi, **stated)
            turns.seen_by_pyhudi()
    turns.by_pyhudi()
    turns.agree()


@pytest.mark.slow
def test_either_resizes_buckets_after_the_other(
    tmp_path: Path, apache_hudi: Callable[[str], ApacheHudi]
) -> None:
    """0.15.0 loads rings while its own new one is not committed: no marker may be in its way."""
    hudi = apache_hudi("0.15.0")
    turns = Turns(IndexKind.BUCKET, tmp_path / "t", "mor", [hudi], **CONSISTENT)

    def by_pyhudi(most: int) -> None:
        turns.by_pyhudi()
        options = {
            "hoodie.parquet.max.file.size": 1000, "hoodie.parquet.small.file.limit": 0,
            "hoodie.bucket.index.max.num.buckets": most,
        }  # fmt: skip
        table = pyhudi.open_table(turns.path, options=options)
        table.compact()
        assert table.cluster().new_file_groups
        turns.seen_by_pyhudi()

    by_pyhudi(7)
    resize = RESIZE | {"hoodie.bucket.index.max.num.buckets": 10}
    turns.by_apache_hudi(hudi, **{name: RESIZE[name] for name in RESIZE if "cluster" not in name})
    for name in ("compact", "cluster"):
        done = hudi.call("service", path=str(turns.path), name=name, conf=resize)
    assert any(name.endswith(".replacecommit") for name in done["new_instants"])
    by_pyhudi(13)
    turns.agree()
