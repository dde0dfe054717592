"""Checkpoints of the RocksDB index on the table's storage.

```
.hoodie/.pyhudi_rocksdb/                         Apache Hudi passes it over
    <instant>-<number>.checkpoint                JSON; counts once the instant is completed
    <bucket>/...                                 see `rocks_files`
```

A checkpoint names every bucket's tables, so a commit writes only what is new, and a machine that
has never seen the index restores it from there.  Checkpoints of one instant are of one content.
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
    """The index as of a commit.  buckets: by number; a key's is that of the record index with as
    many."""

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
        """Raises CorruptFileError."""
        try:
            body = json.loads(data)
            if body["version"] != _VERSION or body["hash"] != "java":
                raise CorruptFileError(
                    "a checkpoint of the RocksDB index is of a form this version does not know",
                    path=path, version=body["version"], hash=body["hash"],
                )  # fmt: skip
            pending = frozenset(InstantTime(time) for time in body["pending"])
            buckets = tuple(
                BucketState(b["number"], b["id"], tuple(StoredTable(**t) for t in b["tables"]))
                for b in body["buckets"]
            )
            return cls(Covered(InstantTime(body["instant"]), pending), buckets)
        except (ValueError, KeyError, TypeError) as error:
            raise CorruptFileError(
                "a checkpoint of the RocksDB index cannot be read", path=path,
                hint="table.index.rebuild() builds the index out of the table's keys",
            ) from error  # fmt: skip


def newest_believed(fs: FileSystem, log: TimelineLog, timeline: Timeline) -> Checkpoint | None:
    """The newest checkpoint that counts; fs: rooted at FOLDER.  Cost: a listing, and a read of
    each looked at."""
    for name in sorted(_names(fs), reverse=True):
        if _time(name) not in timeline.commits.times:
            continue
        found = Checkpoint.from_json(fs.read(name), path=name)
        if found.covered.is_believed(log, timeline):
            return found
    return None


def publish_checkpoint(fs: FileSystem, checkpoint: Checkpoint) -> None:
    """Put a checkpoint beside those there are."""
    time, data = checkpoint.covered.newest, checkpoint.to_json()
    number = 1 + max((int(m[2]) for m in _matches(fs) if m[1] == time), default=0)
    while not fs.create(f"{time}-{number:04d}.checkpoint", data):
        number += 1


def missing_files(fs: FileSystem, checkpoint: Checkpoint) -> list[str]:
    """What a checkpoint names and is not there.  Cost: a listing a bucket."""
    found = []
    for bucket in checkpoint.buckets:
        if bucket.id:
            there = {entry.name for entry in fs.children(bucket.folder)}
            found += [f"{bucket.folder}/{name}" for name in _files(bucket) if name not in there]
    return found


def remove_outdated_checkpoints(fs: FileSystem, timeline: Timeline, *, keep: int) -> None:
    """Remove what no checkpoint needs: all but the newest `keep` that count, and what writes have
    left that came to nothing.  The caller holds the table's lock.

    What pending writes are making stays; a checkpoint that cannot be read does not count.  Cost: a
    listing of each bucket's folder.
    """
    pending = timeline.where(WRITES, State.REQUESTED, State.INFLIGHT).times
    done = timeline.commits.times
    names = [n for n in sorted(_names(fs), reverse=True) if _time(n) not in pending]
    kept: dict[str, Checkpoint] = {}
    for name in (n for n in names if _time(n) in done):
        if len(kept) < keep:
            with suppress(CorruptFileError):
                kept[name] = Checkpoint.from_json(fs.read(name), path=name)
    fs.delete(name for name in names if name not in kept)
    buckets = [bucket for checkpoint in kept.values() for bucket in checkpoint.buckets]
    wanted = {f"{bucket.folder}/{name}" for bucket in buckets for name in _files(bucket)}
    for folder in fs.children():
        if folder.is_folder:
            fs.delete(
                f.path
                for f in fs.children(folder.path)
                if f.path not in wanted and _time(f.name) not in pending
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
