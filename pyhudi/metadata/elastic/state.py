"""States of an elastic index: its contents at one commit as pure values, and their JSON.

```
index   = groups of buckets, the oldest first     each with a separate hash
group   = buckets
bucket  = file groups, the oldest first           all but the last are sealed: no more writes
file group = base HFile, and logs of entries      as in the record index
```

Writes go to the last file group of each bucket of the last group, so later file groups are newer:
the newest entry of a key, location or tombstone, is the valid one.  The index grows by adding a
file group to a bucket (growth SEAL) or a group of buckets (growth GROUPS).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from pyhudi.errors import CorruptFileError
from pyhudi.filenames import join
from pyhudi.metadata.hfile_slices import MapSlice, StoredFile
from pyhudi.metadata.payloads import RECORD_INDEX, MetadataPartition
from pyhudi.options import Growth
from pyhudi.timeline.commit_metadata import WriteStat

FORMAT: Final = 1


@dataclass(frozen=True, slots=True)
class IndexRule:
    """The immutable parameters of an index.

    entries: planned number per bucket.  load: fraction of it at which a new group is added.
    """

    growth: Growth
    hash: str
    fingerprint: str
    entries: int
    load: float = 0.8


@dataclass(frozen=True, slots=True)
class ElasticFile:
    """A file of entries; instant: of the commit that wrote the log, "" for a base file."""

    name: str
    size_bytes: int
    values: int
    deletes: int
    instant: str = ""

    def stored(self) -> StoredFile:
        return StoredFile(join(RECORD_INDEX.path, self.name), self.size_bytes)


@dataclass(frozen=True, slots=True)
class Segment:
    """A file group of a bucket."""

    base: ElasticFile | None = None
    logs: tuple[ElasticFile, ...] = ()

    @property
    def files(self) -> tuple[ElasticFile, ...]:
        return (self.base, *self.logs) if self.base else self.logs

    @property
    def entries(self) -> int:
        """Upper bound of the number of entries, including tombstones in a base file; exact without
        logs."""
        return sum(file.values for file in self.files)

    def slice(self, number: int) -> MapSlice:
        """The file group as a slice for readers of metadata partitions."""
        return MapSlice(
            RECORD_INDEX.path,
            number,
            self.base.stored() if self.base else None,
            tuple(log.stored() for log in self.logs),
            frozenset(log.instant for log in self.logs),
        )


Bucket = tuple[Segment, ...]


@dataclass(frozen=True, slots=True)
class BucketGroup:
    """Buckets of one hash; turn: the number that varies the hash per group."""

    turn: int
    buckets: tuple[Bucket, ...]

    @classmethod
    def empty(cls, turn: int, count: int) -> BucketGroup:
        return cls(turn, ((Segment(),),) * count)

    @property
    def entries(self) -> int:
        return sum(segment.entries for bucket in self.buckets for segment in bucket)


@dataclass(frozen=True, slots=True)
class IndexState:
    """An index at one commit.

    sequence: greater for a later state.  instant: the commit that the state belongs to ("" where
    the table had none).  covered: commits at or after `since` whose entries the index contains; it
    contains those of all older commits.  path: relative to the root of the index, if it was read.
    """

    sequence: int
    instant: str
    since: str
    covered: frozenset[str]
    rule: IndexRule
    groups: tuple[BucketGroup, ...]
    path: str = ""

    @property
    def bucket_count(self) -> int:
        """The number of buckets of the last group, which writes go to."""
        return len(self.groups[-1].buckets)

    def segments(self) -> Iterator[tuple[int, int, int, Segment]]:
        """(group, bucket, number in the bucket, file group) of every file group."""
        for group_number, group in enumerate(self.groups):
            for bucket_number, bucket in enumerate(group.buckets):
                for number, segment in enumerate(bucket):
                    yield group_number, bucket_number, number, segment

    def file_names(self) -> set[str]:
        return {file.name for *_, segment in self.segments() for file in segment.files}

    def partition(self, bucket: int) -> MetadataPartition:
        """The metadata partition that names the file group of a bucket that writes go to."""
        last = len(self.groups) - 1
        return segment_name(last, len(self.groups[last].buckets[bucket]) - 1)

    def with_logs(self, stats: Iterable[WriteStat], instant: str) -> IndexState:
        """The state with the logs of one commit added; their file ids are those of `partition`."""
        buckets = list(self.groups[-1].buckets)
        for stat in stats:
            number = self._number(stat.file_id, buckets)
            log = ElasticFile(
                stat.file_name, stat.size_bytes, stat.write_count, stat.delete_count, instant
            )
            *sealed, last = buckets[number]
            buckets[number] = (*sealed, replace(last, logs=(*last.logs, log)))
        newest = replace(self.groups[-1], buckets=tuple(buckets))
        return replace(self, groups=(*self.groups[:-1], newest))

    def _number(self, file_id: str, buckets: list[Bucket]) -> int:
        number = int(file_id.rsplit("-", 2)[1])
        if not 0 <= number < len(buckets) or self.partition(number).file_id(number) != file_id:
            raise CorruptFileError("index entries of a file group closed to writes", file=file_id)
        return number

    def grown(self) -> IndexState:
        """The state with capacity for the next writes; itself where there is some."""
        newest, rule = self.groups[-1], self.rule
        if rule.growth is Growth.GROUPS:
            if newest.entries < rule.load * rule.entries * len(newest.buckets):
                return self
            group = BucketGroup.empty(newest.turn + 1, len(newest.buckets))
            return replace(self, groups=(*self.groups, group))
        buckets = tuple(
            (*bucket, Segment()) if bucket[-1].entries >= rule.entries else bucket
            for bucket in newest.buckets
        )
        if buckets == newest.buckets:
            return self
        return replace(self, groups=(*self.groups[:-1], replace(newest, buckets=buckets)))

    def to_json(self) -> bytes:
        rule = self.rule
        return json.dumps(
            {
                "format": FORMAT,
                "sequence": self.sequence,
                "instant": self.instant,
                "since": self.since,
                "covered": sorted(self.covered),
                "growth": rule.growth.value,
                "hash": rule.hash,
                "fingerprint": rule.fingerprint,
                "entries": rule.entries,
                "load": rule.load,
                "groups": [
                    {
                        "turn": group.turn,
                        "buckets": [[_segment_json(s) for s in b] for b in group.buckets],
                    }
                    for group in self.groups
                ],
            },
            separators=(",", ":"),
        ).encode()


def segment_name(group: int, number: int) -> MetadataPartition:
    """The naming of file groups of buckets: `elastic-<group>-<number>-<bucket>-0`."""
    return MetadataPartition(RECORD_INDEX.path, f"elastic-{group}-{number}-")


def _segment_json(segment: Segment) -> list[Any]:
    base = segment.base
    return [
        None if base is None else [base.name, base.size_bytes, base.values, base.deletes],
        [[log.name, log.size_bytes, log.values, log.deletes, log.instant] for log in segment.logs],
    ]


def state_of(data: bytes, path: str) -> IndexState:
    """Parse a stored state.  Raises CorruptFileError."""
    try:
        record = json.loads(data)
        if record["format"] != FORMAT:
            raise CorruptFileError(
                "an index state has an unknown format version", path=path, format=record["format"]
            )
        return _state(record, path)
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise CorruptFileError("cannot read an index state", path=path) from error


def _state(record: Mapping[str, Any], path: str) -> IndexState:
    rule = IndexRule(
        Growth(record["growth"]),
        str(record["hash"]),
        str(record["fingerprint"]),
        int(record["entries"]),
        float(record["load"]),
    )
    groups = tuple(
        BucketGroup(
            int(group["turn"]),
            tuple(tuple(_segment(s) for s in bucket) for bucket in group["buckets"]),
        )
        for group in record["groups"]
    )
    if not groups or not all(group.buckets and all(group.buckets) for group in groups):
        raise ValueError("no buckets")
    return IndexState(
        int(record["sequence"]),
        str(record["instant"]),
        str(record["since"]),
        frozenset(map(str, record["covered"])),
        rule,
        groups,
        path,
    )


def _segment(record: Any) -> Segment:
    base, logs = record
    return Segment(None if base is None else _file(*base), tuple(_file(*each) for each in logs))


def _file(name: str, size: int, values: int, deletes: int, instant: str = "") -> ElasticFile:
    if "/" in name:
        raise ValueError("a file outside its folder")
    return ElasticFile(str(name), int(size), int(values), int(deletes), str(instant))
