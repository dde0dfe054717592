"""Checkpoints of sources: each commit of an ingest records how far the source has been read.

```
extraMetadata: {"deltastreamer.checkpoint.key": "<text>"}    table version 6
               {"streamer.checkpoint.key.v2": "<text>"}      table versions 8 and 9
```

Keys and texts are those of Apache Hudi's streamer, so that either program continues the other.  The
checkpoint of a table is that of its newest commit with one.  Rows and checkpoint are one commit: a
write whose table has left the checkpoint that its rows follow is refused, so no row is written
twice, whatever process read it.

A commit also repeats the texts of `--checkpoint` (reset key) and `--ignore-checkpoint` (ignore key)
of the run that wrote it: each takes effect once, in the first run that has another text than the
newest commit.
Source: StreamerCheckpointV1, StreamerCheckpointV2 and CheckpointUtils of Apache Hudi 1.2.0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from pyhudi.errors import CheckpointMovedError
from pyhudi.layouts.table_layout import TableLayout
from pyhudi.records import InstantTime
from pyhudi.timeline.archive import Archive, commits_newest_first
from pyhudi.timeline.instant import Instant
from pyhudi.timeline.instant_files import TimelineLog

_RESET_KEYS: Final = {
    "streamer.checkpoint.key.v2": "streamer.checkpoint.reset.key.v2",
    "deltastreamer.checkpoint.key": "deltastreamer.checkpoint.reset_key",
}
"""Key of the checkpoint -> key of the text that reset it; the newer form first."""
_IGNORE_KEY: Final = "deltastreamer.checkpoint.ignore_key"


@dataclass(frozen=True, slots=True)
class SourcePosition:
    """How far a source has been read, as a commit records it.

    instant: of the commit.  checkpoint: None if it has a reset key only.  reset_key, ignore_key:
    texts of `--checkpoint` and `--ignore-checkpoint` of the run that wrote it.
    """

    instant: InstantTime
    checkpoint: str | None
    reset_key: str | None = None
    ignore_key: str | None = None

    def start(self, override: str | None, ignore: str | None) -> str | None:
        """Where a run begins to read.  override, ignore: texts that it was started with, which
        take effect if this commit does not have them; None continues."""
        if ignore is not None and ignore != self.ignore_key:
            return override
        if override is not None and override != self.reset_key:
            return override
        return self.checkpoint


@dataclass(frozen=True, slots=True)
class SourceAdvance:
    """The rows of a write lead from one checkpoint of their source to the next.

    before: the checkpoint that the table must have; None: it must have none.  after: None leaves
    the checkpoint.  reset_key, ignore_key: texts that the run was started with.
    """

    before: str | None
    after: str | None
    reset_key: str | None = None
    ignore_key: str | None = None

    def metadata(self, layout: TableLayout) -> dict[str, str]:
        """The extra metadata of the commit."""
        key = layout.checkpoint_key
        texts = {
            key: self.after,
            _RESET_KEYS[key]: self.reset_key,
            _IGNORE_KEY: self.ignore_key,
        }
        return {name: text for name, text in texts.items() if text is not None}

    def check(self, log: TimelineLog, archive: Archive) -> None:
        """Raises CheckpointMovedError if the table has another checkpoint than `before`."""
        newest = newest_position(log, archive)
        found = None if newest is None else newest.checkpoint
        if found != self.before:
            raise CheckpointMovedError(
                "another write has moved the checkpoint of the source",
                expected=self.before,
                found=found,
                instant=None if newest is None else newest.instant,
                hint="read the table's checkpoint and continue from it; run one ingest a table",
            )


def newest_position(log: TimelineLog, archive: Archive) -> SourcePosition | None:
    """That of the newest commit with a checkpoint or a reset key; None if no commit has one.

    Reads commits back to it: all, including archived ones, if there is none.
    """
    for time, metadata in commits_newest_first(log, log.load(), archive):
        found = _position(time, metadata.extra)
        if found is not None:
            return found
    return None


def moved_by(log: TimelineLog, commits: Iterable[Instant]) -> Instant | None:
    """The first commit among `commits` that has a checkpoint."""
    return next((i for i in commits if _position(i.time, log.commit(i).extra) is not None), None)


def _position(time: InstantTime, extra: Mapping[str, str]) -> SourcePosition | None:
    """Empty texts count as absent."""
    for key, reset_key in _RESET_KEYS.items():
        checkpoint, reset = extra.get(key) or None, extra.get(reset_key) or None
        if checkpoint or reset:
            return SourcePosition(time, checkpoint, reset, extra.get(_IGNORE_KEY))
    return None
