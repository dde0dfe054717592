"""Batches of streams, written once: a commit says whose batch it is, a replay is found by that.

```
extraMetadata: {"_hudi_streaming_sink_checkpoint": "{\"<identifier>\": \"<batch>\"}"}
```

The key and its value are those of Apache Hudi's streaming sink.  A stream replays its last batch
only, and numbers grow, so a batch was written if the newest commit with its identifier carries
its number or a greater one.  The writer asks under the table's lock: a writer that was given up
for dead may still be at it.  Source: CommitUtils.getValidCheckpointForCurrentWriter of Apache Hudi.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from pyhudi.errors import UserError
from pyhudi.records import InstantTime
from pyhudi.timeline.archive import Archive
from pyhudi.timeline.commit_metadata import CommitMetadata
from pyhudi.timeline.instant import Instant
from pyhudi.timeline.instant_files import TimelineLog

CHECKPOINT: Final = "_hudi_streaming_sink_checkpoint"


@dataclass(frozen=True, slots=True)
class StreamBatch:
    """One batch of one stream."""

    identifier: str
    number: int

    @property
    def metadata(self) -> dict[str, str]:
        """What its commit carries."""
        return {CHECKPOINT: json.dumps({self.identifier: str(self.number)})}

    @classmethod
    def of(cls, metadata: Mapping[str, str]) -> StreamBatch | None:
        """The batch that metadata is of; None where it is of none.  Raises UserError."""
        text = metadata.get(CHECKPOINT)
        if text is None:
            return None
        found = _numbers(text)
        if len(found) != 1:
            raise UserError("not the batch of a stream", option=CHECKPOINT, value=text)
        return cls(*next(iter(found.items())))


def written_before(
    batch: StreamBatch, log: TimelineLog, archive: Archive
) -> tuple[InstantTime, int] | None:
    """The newest commit of the batch's stream and its number, if that is not below the batch's.

    Reads commits back to the newest of the stream; all of them, the archive too, for its first.
    """
    for time, metadata in _newest_first(log, archive):
        text = metadata.extra.get(CHECKPOINT)
        number = None if text is None else _numbers(text).get(batch.identifier)
        if number is not None:
            return (time, number) if number >= batch.number else None
    return None


def writer_of(batch: StreamBatch, log: TimelineLog, commits: Iterable[Instant]) -> Instant | None:
    """The commit among these that has written the batch, or a later one of its stream."""
    for instant in commits:
        text = log.commit(instant).extra.get(CHECKPOINT)
        number = None if text is None else _numbers(text).get(batch.identifier)
        if number is not None and number >= batch.number:
            return instant
    return None


def _newest_first(
    log: TimelineLog, archive: Archive
) -> Iterator[tuple[InstantTime, CommitMetadata]]:
    for instant in reversed(log.load().commits.instants):
        yield instant.time, log.commit(instant)
    for archived in reversed(archive.commits):
        yield archived.time, archived.metadata


def _numbers(text: str) -> dict[str, int]:
    """Batch numbers by identifier; empty for what is not written so."""
    try:
        found = json.loads(text)
        return {str(name): int(number) for name, number in found.items()}
    except (ValueError, TypeError, AttributeError):
        return {}
