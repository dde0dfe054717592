"""A small data table written by hand, step by step, with a model of what its metadata must say."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pyarrow as pa

from pyhudi._native.bloom import BloomFilter
from pyhudi._native.hashing import bucket_of
from pyhudi.engine import LocalEngine
from pyhudi.filenames import BaseFileName, join, new_file_id, new_write_token
from pyhudi.formats.avro_schema import arrow_to_avro, table_record_name, with_meta_fields
from pyhudi.formats.base_file import write_base
from pyhudi.merge.merge_choice import mode_properties
from pyhudi.metadata.bootstrap import create_metadata
from pyhudi.metadata.delta_commit import MetadataCommit
from pyhudi.metadata.reader import MetadataTable, open_metadata
from pyhudi.metadata.rollback import rollback_metadata
from pyhudi.metadata.writer import begin_metadata, write_bucket
from pyhudi.records import META_COLUMNS, InstantTime
from pyhudi.storage.filesystem import FileSystem
from pyhudi.table.listing import ensure_partition
from pyhudi.table.new_table import new_table_properties
from pyhudi.table.properties import (
    MergeMode,
    TableConfig,
    TableType,
    store_config,
)
from pyhudi.timeline.commit_metadata import CommitMetadata, WriteStat
from pyhudi.timeline.instant import Action, Instant
from pyhudi.timeline.instant_files import TimelineLog
from pyhudi.timeline.service_payloads import ROLLBACK_METADATA, write_avro

SCHEMA = pa.schema({"id": pa.string(), "ts": pa.int64(), "part": pa.string()})
START = datetime(2026, 11, 21, 9, 30, tzinfo=UTC)


class Ticks:
    """A clock that goes on a second at each look."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> datetime:
        self.now += timedelta(seconds=1)
        return self.now


@dataclass
class SmallTable:
    """A COW table with one column of keys; each commit writes new file groups.

    files: partition -> name -> size; index: key -> (partition, file id, instant): what readers
    must find after the last commit that completed.
    """

    fs: FileSystem
    real_files: bool = False
    name: str = "small"
    files: dict[str, dict[str, int]] = field(default_factory=dict)
    index: dict[str, tuple[str, str, str]] = field(default_factory=dict)
    ticks: Ticks = field(default_factory=Ticks)
    config: TableConfig = field(default_factory=TableConfig)

    @property
    def log(self) -> TimelineLog:
        return TimelineLog(self.fs, zone=UTC, clock=self.ticks)

    @property
    def avro(self) -> str:
        name, namespace = table_record_name(self.name)
        return arrow_to_avro(SCHEMA, name=name, namespace=namespace)

    def create(self, *, bucket_count: int = 3, with_metadata: bool = True) -> SmallTable:
        self.config = store_config(
            self.fs,
            new_table_properties(
                name=self.name,
                table_type=TableType.COPY_ON_WRITE,
                record_key=("id",),
                partition_by=("part",),
                ordering=("ts",),
                create_schema=self.avro,
                merge_properties=mode_properties(MergeMode.EVENT_TIME, 6),
                version=6,
            ),
        )
        if with_metadata:
            self.config = create_metadata(self.fs, self.config, self.log, bucket_count=bucket_count)
        return self

    def metadata(self) -> MetadataTable:
        table = open_metadata(self.fs, self.config, self.log, self.log.load())
        assert table is not None
        return table

    # ---- writing ------------------------------------------------------------------------------

    def commit(
        self,
        puts: Mapping[str, str],
        deletes: Iterable[str] = (),
        *,
        compact_after: int = 10,
    ) -> InstantTime:
        """puts: key -> partition, each partition's in a new file group; deletes: keys that end."""
        written = self.begin(puts, deletes, compact_after=compact_after)
        return self.publish(written)

    def begin(
        self, puts: Mapping[str, str], deletes: Iterable[str] = (), *, compact_after: int = 10
    ) -> Begun:
        log = self.log
        instant = log.request(Action.COMMIT)
        metadata = begin_metadata(
            self.fs,
            self.config,
            log,
            log.load(),
            instant,
            compact_after=compact_after,
            engine=LocalEngine(1),
        )
        inflight = log.start(instant)
        by_partition: dict[str, list[str]] = {}
        for key, partition in puts.items():
            by_partition.setdefault(partition, []).append(key)
        stats = [self._write(p, keys, instant.time) for p, keys in by_partition.items()]
        homes = {s.partition: s for s in stats}
        new = list(puts)
        gone = list(deletes)
        index = []
        targets = metadata.bucket_targets()
        new_home = bucket_of(pa.array(new, pa.string()), len(targets))
        gone_home = bucket_of(pa.array(gone, pa.string()), len(targets))
        for target in targets:
            mine = [k for k, h in zip(new, new_home, strict=True) if h == target.number]
            lost = [k for k, h in zip(gone, gone_home, strict=True) if h == target.number]
            if mine or lost:
                stat = write_bucket(
                    self.fs,
                    target,
                    instant,
                    keys=pa.array(mine, pa.string()),
                    partition_path=pa.array([puts[k] for k in mine], pa.string()),
                    file_id=pa.array([homes[puts[k]].file_id for k in mine], pa.string()),
                    deleted=pa.array(lost, pa.string()),
                )
                index.append(stat)
        return Begun(inflight, metadata, stats, index, puts, gone)

    def publish(self, begun: Begun) -> InstantTime:
        begun.metadata.finish(begun.stats, begun.index)
        content = CommitMetadata(
            tuple(begun.stats), operation="UPSERT", extra={"schema": self.avro}
        ).to_json()
        self.log.complete(begun.instant, content)
        self.make_visible(begun)
        return begun.instant.time

    def make_visible(self, begun: Begun) -> None:
        """Take a commit into the model."""
        homes = {s.partition: s for s in begun.stats}
        for stat in begun.stats:
            self.files.setdefault(stat.partition, {})[stat.file_name] = stat.size_bytes
        for key in begun.deletes:
            self.index.pop(key, None)
        for key, partition in begun.puts.items():
            self.index[key] = (partition, homes[partition].file_id, begun.instant.time)

    def _write(self, partition: str, keys: list[str], time: InstantTime) -> WriteStat:
        ensure_partition(self.fs, partition, time)
        file_id = new_file_id()
        name = BaseFileName(file_id, new_write_token(), time)
        path = join(partition, str(name))
        if self.real_files:
            size = self._write_parquet(path, partition, keys, time, str(name))
        else:
            size = 100 + len(keys)
            self.fs.create(path, b"x" * size)
        n = len(keys)
        return WriteStat(partition, file_id, path, None, n, 0, 0, n, size, size)

    def _write_parquet(
        self, path: str, partition: str, keys: list[str], time: InstantTime, name: str
    ) -> int:
        bloom = BloomFilter(1000)
        bloom.add(pa.array(keys, pa.string()))
        n = len(keys)
        meta = [
            [time] * n,
            [f"{time}_0_{i}" for i in range(n)],
            keys,
            [partition] * n,
            [name] * n,
        ]
        rows = pa.table(
            {
                **{c: pa.array(v, pa.string()) for c, v in zip(META_COLUMNS, meta, strict=True)},
                "id": pa.array(keys, pa.string()),
                "ts": pa.array([1] * n, pa.int64()),
                "part": pa.array([partition] * n, pa.string()),
            }
        )
        with self.fs.open_sink(path) as sink:
            return write_base(
                sink, rows, avro_schema=with_meta_fields(self.avro), bloom=bloom
            ).size_bytes

    # ---- rolling back -------------------------------------------------------------------------

    def roll_back(self, failed: Instant, *, at: Instant | None = None) -> Instant:
        """What recovery/rollback does, as far as it touches the metadata table."""
        log = self.log
        at = at or log.start(log.request(Action.ROLLBACK))
        for partition in ("p0", "p1", "p2"):
            gone = [i.path for i in self.fs.children(partition) if failed.time in i.name]
            self.fs.delete(gone)
        rollback_metadata(
            self.fs,
            self.config,
            log,
            log.load(),
            failed=failed,
            at=at.time,
            log_files={},
            engine=LocalEngine(1),
        )
        log.forget(failed)
        result = {
            "startRollbackTime": at.time,
            "timeTakenInMillis": 0,
            "totalFilesDeleted": 0,
            "commitsRollback": [failed.time],
            "partitionMetadata": {},
            "version": 1,
            "instantsRollback": [{"commitTime": failed.time, "action": "commit"}],
        }
        log.complete(at, write_avro(ROLLBACK_METADATA, result))
        return at

    # ---- checking -----------------------------------------------------------------------------

    def check(self, absent: Iterable[str] = ()) -> None:
        """The metadata table says exactly what the model says."""
        metadata = self.metadata()
        listing = metadata.listing()
        partitions = sorted(self.files)
        assert listing.partitions() == partitions
        for partition, infos in listing.files(partitions).items():
            assert {i.name: i.size_bytes for i in infos} == self.files[partition]
            assert all(i.path == join(partition, i.name) for i in infos)
        index = metadata.record_index()
        found = index.lookup([*self.index, *absent])
        places = zip(
            found["partition_path"].to_pylist(),
            found["file_id"].to_pylist(),
            found["instant_time"].to_pylist(),
            strict=True,
        )
        want = [*self.index.values(), *((None, None, None) for _ in absent)]
        assert list(places) == want


@dataclass
class Begun:
    """A commit written but not published."""

    instant: Instant
    metadata: MetadataCommit
    stats: list[WriteStat]
    index: list[WriteStat]
    puts: Mapping[str, str]
    deletes: list[str]
