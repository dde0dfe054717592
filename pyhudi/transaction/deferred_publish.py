"""Kept writes: written in full, seen by nobody until they are published or discarded.

A kept write T stops one step before its commit point: data files, index entries and the delta
commit of the metadata table are there, `T.inflight` is the newest state of its instant.

```
.hoodie/.temp/<T>/kept.json   {"known": [<files of the timeline it was planned on>],
                               "report": {...}, "content": <what T.commit will hold>}
```

The file is what tells a kept write from a failed one.  It stands among T's markers, so whoever
rolls T back, Apache Hudi too, removes it with them: a kept write is never half forgotten.  While
there is one, no other write of this package begins: a commit completed past a pending instant
would be a hole for incremental readers, and stops a writer of Apache Hudi that wants to roll the
older one back.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

from pyhudi.errors import CorruptFileError, WriteConflictError
from pyhudi.filenames import TEMP
from pyhudi.records import InstantTime
from pyhudi.storage.filesystem import FileSystem
from pyhudi.timeline.instant import WRITES, Instant, State, parse_instant_name
from pyhudi.timeline.timeline import Timeline

_NAME: Final = "kept.json"


@dataclass(frozen=True, slots=True)
class Kept:
    """What publishing needs.  known: the timeline that the write was planned on."""

    known: Timeline
    content: bytes
    report: dict[str, Any]


def _path(time: InstantTime) -> str:
    return f"{TEMP}/{time}/{_NAME}"


def is_kept(fs: FileSystem, instant: Instant) -> bool:
    return instant.state is State.INFLIGHT and fs.exists(_path(instant.time))


def store_kept(fs: FileSystem, instant: Instant, kept: Kept) -> None:
    """Make a pending write a kept one; the last thing it does."""
    known = [str(instant) for instant in kept.known]
    body = {"known": known, "report": kept.report, "content": kept.content.decode()}
    fs.create(_path(instant.time), json.dumps(body).encode())


def load_kept(fs: FileSystem, instant: Instant) -> Kept:
    """Raises FileMissingError, CorruptFileError."""
    path = _path(instant.time)
    try:
        body = json.loads(fs.read(path))
        known = Timeline.of(
            i for name in body["known"] if (i := parse_instant_name(name)) is not None
        )
        return Kept(known, body["content"].encode(), dict(body["report"]))
    except (ValueError, KeyError, TypeError, AttributeError) as broken:
        raise CorruptFileError("not the file of a kept write", path=path) from broken


def forget_kept(fs: FileSystem, instant: Instant) -> None:
    """From here on the write is a failed one."""
    fs.delete([_path(instant.time)])


def kept_writes(fs: FileSystem, timeline: Timeline) -> list[Instant]:
    """Pending writes that wait to be published, oldest first.  Cost: a question a pending write."""
    pending = timeline.where(WRITES, State.INFLIGHT)
    return [instant for instant in pending if is_kept(fs, instant)]


def check_none_kept(fs: FileSystem, timeline: Timeline) -> None:
    """Raise WriteConflictError, naming it, while a write waits to be published."""
    for instant in kept_writes(fs, timeline):
        raise WriteConflictError(
            "a write waits to be published",
            instant=instant.time,
            action=instant.action.value,
            hint=f"table.publish('{instant.time}') or table.discard('{instant.time}') first",
        )
