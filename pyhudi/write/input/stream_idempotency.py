"""Idempotent stream batches: each commit records its stream and batch number.

```
extraMetadata: {"_hudi_streaming_sink_checkpoint": "{\"<identifier>\": \"<batch>\"}"}
```

The key and its value are those of Apache Hudi's streaming sink.  A stream replays only its last
batch, and numbers increase, so a batch was written if the newest commit with its identifier has
its number or a greater one.  The writer checks under the table's lock, because a writer that was
presumed crashed may still be running.
Source: CommitUtils.getValidCheckpointForCurrentWriter of Apache Hudi.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from pyhudi.errors import UserError
from pyhudi.records import InstantTime
from pyhudi.timeline.archive import Archive, commits_newest_first
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
        """The extra metadata of its commit."""
        return {CHECKPOINT: json.dumps({self.identifier: str(self.number)})}

    @classmethod
    def of(cls, metadata: Mapping[str, str]) -> StreamBatch | None:
        """The batch of commit metadata; None if it has no batch.  Raises UserError."""
        text = metadata.get(CHECKPOINT)
        if text is None:
            return None
        found = _numbers(text)
        if len(found) != 1:
            raise UserError("invalid stream batch", option=CHECKPOINT, value=text)
        return cls(*next(iter(found.items())))


def written_before(
    batch: StreamBatch, log: TimelineLog, archive: Archive
) -> tuple[InstantTime, int] | None:
    """The newest commit of the batch's stream and its number, if not below the batch's number.

    Reads commits back to the newest of the stream; for its first batch all, including archived.
    """
    for time, metadata in commits_newest_first(log, log.load(), archive):
        text = metadata.extra.get(CHECKPOINT)
        number = None if text is None else _numbers(text).get(batch.identifier)
        if number is not None:
            return (time, number) if number >= batch.number else None
    return None


def writer_of(batch: StreamBatch, log: TimelineLog, commits: Iterable[Instant]) -> Instant | None:
    """The commit among `commits` that wrote the batch or a later one of its stream."""
    for instant in commits:
        text = log.commit(instant).extra.get(CHECKPOINT)
        number = None if text is None else _numbers(text).get(batch.identifier)
        if number is not None and number >= batch.number:
            return instant
    return None


def _numbers(text: str) -> dict[str, int]:
    """Batch numbers by identifier; empty for any other text."""
    try:
        found = json.loads(text)
        return {str(name): int(number) for name, number in found.items()}
    except (ValueError, TypeError, AttributeError):
        return {}
