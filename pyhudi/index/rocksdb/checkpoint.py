"""Checkpoints of the RocksDB index on the table's storage.

```
.hoodie/.pyhudi_rocksdb/                         ignored by Apache Hudi
    <instant>-<number>.checkpoint                JSON; valid once the instant is completed
    <bucket>/...                                 see `store_files`
```

A checkpoint lists every bucket's tables, so a commit writes only new tables, and a machine without
the index restores it from there.  Checkpoints of one instant have the same content.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Final

from pyhudi.errors import CorruptFileError
from pyhudi.filenames import HOODIE
from pyhudi.index.rocksdb.store_files import BucketState, StoredTable
from pyhudi.index.watermark import Covered
from pyhudi.records import InstantTime
from pyhudi.storage.filesystem import FileSystem
from pyhudi.timeline.instant import WRITES, State
from pyhudi.timeline.instant_files import TimelineLog
from pyhudi.timeline.timeline import Timeline

CHECKPOINT_FOLDER: Final = f"{HOODIE}/.pyhudi_rocksdb"
_NAME: Final = re.compile(r"(\d+)-(\d{4})\.checkpoint")
_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The index as of a commit.  buckets: by number; keys are assigned as in a record index with
    the same number of buckets."""

    covered: Covered
    buckets: tuple[BucketState, ...]

    def to_json(self) -> bytes:
        body = {
            "version": _VERSION,
            "instant": self.covered.newest,
            "pending": sorted(self.covered.pending),
            "hash": "java",
            "buckets": [asdict(bucket) for bucket in self.buckets],
        }
        return json.dumps(body).encode()

    @classmethod
    def from_json(cls, data: bytes, *, path: str) -> Checkpoint:
        """The checkpoint in a file.  Raises CorruptFileError."""
        try:
            body = json.loads(data)
            if body["version"] != _VERSION or body["hash"] != "java":
                raise CorruptFileError(
                    "a checkpoint of the RocksDB index has an unsupported format version",
                    path=path,
                    version=body["version"],
                    hash=body["hash"],
                )
            pending = frozenset(InstantTime(time) for time in body["pending"])
            buckets = tuple(
                BucketState(b["number"], b["id"], tuple(StoredTable(**t) for t in b["tables"]))
                for b in body["buckets"]
            )
            return cls(Covered(InstantTime(body["instant"]), pending), buckets)
        except (ValueError, KeyError, TypeError) as error:
            raise CorruptFileError(
                "a checkpoint of the RocksDB index cannot be read",
                path=path,
                hint="run table.index.rebuild() to build the index from the table's keys",
            ) from error


def newest_valid(fs: FileSystem, log: TimelineLog, timeline: Timeline) -> Checkpoint | None:
    """The newest valid checkpoint; fs: rooted at CHECKPOINT_FOLDER.  Cost: a listing, and a read of
    each checkpoint of a completed commit, newest first."""
    for name in sorted(_names(fs), reverse=True):
        if _time(name) not in timeline.commits.times:
            continue
        found = Checkpoint.from_json(fs.read(name), path=name)
        if found.covered.is_visible(log, timeline):
            return found
    return None


def publish_checkpoint(fs: FileSystem, checkpoint: Checkpoint) -> None:
    """Add a checkpoint to the existing ones."""
    time, data = checkpoint.covered.newest, checkpoint.to_json()
    number = 1 + max((int(m[2]) for m in _matches(fs) if m[1] == time), default=0)
    while not fs.create(f"{time}-{number:04d}.checkpoint", data):
        number += 1


def missing_files(fs: FileSystem, checkpoint: Checkpoint) -> list[str]:
    """Missing files of a checkpoint.  Cost: a listing a bucket."""
    found = []
    for bucket in checkpoint.buckets:
        if bucket.id:
            there = {entry.name for entry in fs.children(bucket.folder)}
            found += [f"{bucket.folder}/{name}" for name in _files(bucket) if name not in there]
    return found


def remove_outdated_checkpoints(fs: FileSystem, timeline: Timeline, *, keep: int) -> None:
    """Remove all but the newest `keep` checkpoints of completed commits, and files that none of
    these needs, such as those of failed writes.  The caller holds the table's lock.

    Files of pending writes are retained; a checkpoint that cannot be read is removed.  Cost: a
    listing of each bucket's folder.
    """
    pending = timeline.where(WRITES, State.REQUESTED, State.INFLIGHT).times
    done = timeline.commits.times
    names = [n for n in sorted(_names(fs), reverse=True) if _time(n) not in pending]
    retained: dict[str, Checkpoint] = {}
    for name in (n for n in names if _time(n) in done):
        if len(retained) < keep:
            with suppress(CorruptFileError):
                retained[name] = Checkpoint.from_json(fs.read(name), path=name)
    fs.delete(name for name in names if name not in retained)
    buckets = [bucket for checkpoint in retained.values() for bucket in checkpoint.buckets]
    referenced = {f"{bucket.folder}/{name}" for bucket in buckets for name in _files(bucket)}
    for folder in fs.children():
        if folder.is_folder:
            fs.delete(
                f.path
                for f in fs.children(folder.path)
                if f.path not in referenced and _time(f.name) not in pending
            )


def _time(name: str) -> InstantTime:
    return InstantTime(name.split("-")[0])


def _files(bucket: BucketState) -> Iterator[str]:
    yield f"{bucket.id}.state"
    yield from (table.stored for table in bucket.tables)


def _matches(fs: FileSystem) -> Sequence[re.Match[str]]:
    found = (_NAME.fullmatch(entry.name) for entry in fs.children())
    return [match for match in found if match]


def _names(fs: FileSystem) -> list[str]:
    return [match[0] for match in _matches(fs)]
