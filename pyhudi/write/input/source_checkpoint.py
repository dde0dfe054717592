"""Checkpoints of sources: each commit of an ingest records how far the source has been read.

```
extraMetadata: {"deltastreamer.checkpoint.key": "<text>"}    table version 6
               {"streamer.checkpoint.key.v2": "<text>"}      table versions 8 and 9
```

Keys and texts are those of Apache Hudi's streamer, so that either program continues the other.  The
checkpoint of a table is that of its newest commit with one.  Rows and checkpoint are one commit: a
write whose table has left the checkpoint that its rows follow is refused, so no row is written
twice, whatever process read it.
Source: StreamerCheckpointV1 and StreamerCheckpointV2 of Apache Hudi 1.2.0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from pyhudi.errors import WriteConflictError
from pyhudi.layouts.table_layout import TableLayout
from pyhudi.records import InstantTime
from pyhudi.timeline.archive import Archive
from pyhudi.timeline.instant import Instant
from pyhudi.timeline.instant_files import TimelineLog
from pyhudi.write.input.stream_idempotency import newest_first

_KEYS: Final = ("streamer.checkpoint.key.v2", "deltastreamer.checkpoint.key")


@dataclass(frozen=True, slots=True)
class SourceAdvance:
    """The rows of a write lead from one checkpoint of their source to the next.

    before: the checkpoint that the table must have; None: it must have none.
    """

    before: str | None
    after: str

    def metadata(self, layout: TableLayout) -> dict[str, str]:
        """The extra metadata of the commit."""
        return {layout.checkpoint_key: self.after}

    def check(self, log: TimelineLog, archive: Archive) -> None:
        """Raises WriteConflictError if the table has another checkpoint than `before`."""
        newest = newest_checkpoint(log, archive)
        found = None if newest is None else newest[1]
        if found != self.before:
            raise WriteConflictError(
                "another write has moved the checkpoint of the source",
                expected=self.before, found=found, instant=None if newest is None else newest[0],
                hint="read the table's checkpoint and continue from it; run one ingest a table",
            )  # fmt: skip


def newest_checkpoint(log: TimelineLog, archive: Archive) -> tuple[InstantTime, str] | None:
    """The newest commit with a checkpoint, and the checkpoint; None if no commit has one.

    Reads commits back to it: all, including archived ones, if there is none.
    """
    for time, metadata in newest_first(log, archive):
        text = _checkpoint(metadata.extra)
        if text is not None:
            return time, text
    return None


def moved_by(log: TimelineLog, commits: Iterable[Instant]) -> Instant | None:
    """The first commit among `commits` that has a checkpoint."""
    return next((i for i in commits if _checkpoint(log.commit(i).extra) is not None), None)


def _checkpoint(extra: Mapping[str, str]) -> str | None:
    return next((extra[key] for key in _KEYS if key in extra), None)
