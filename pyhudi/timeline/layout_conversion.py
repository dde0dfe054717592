"""Conversion of a timeline from one layout to another: names, contents, completion times.

```
                     layout 1                        layout 2
completed            T.<action>                      T_C.<action>
commits              JSON                            Avro container
pending clustering   T.replacecommit.requested       T.clustering.requested
```

Contents of services (plans, cleans, rollbacks, savepoints, restores, indexing) have no layout.
The functions on instants are pure; `convert_timeline` writes files and may be repeated.
Source: writer_v8_v9 16.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, tzinfo
from itertools import pairwise
from typing import Final, Protocol, runtime_checkable

from pyhudi.errors import CorruptFileError
from pyhudi.layouts.table_layout import CommitEncoding, TableLayout
from pyhudi.records import InstantTime
from pyhudi.storage.filesystem import FileInfo, FileSystem
from pyhudi.timeline.clock import following, format_instant, parse_instant
from pyhudi.timeline.commit_avro import avro_to_json, json_to_avro
from pyhudi.timeline.instant import (
    COMMITS,
    COMPLETES_AS,
    REPLACEMENTS,
    Action,
    Instant,
    State,
    parse_instant_name,
)
from pyhudi.timeline.instant_files import TimelineLog
from pyhudi.timeline.own_files import is_own
from pyhudi.timeline.state_files import state_files

InstantKey = tuple[InstantTime, Action]
"""An instant's time and the action that it completes as."""

_PROFILES: Final = frozenset({Action.COMMIT, Action.DELTA_COMMIT, *REPLACEMENTS})
"""Actions whose inflight files contain commit metadata."""


@runtime_checkable
class DatedFileSystem(Protocol):
    """A store whose files can be given a modification time."""

    def set_modified(self, path: str, seconds: float) -> None:
        """seconds: since 1970."""
        ...


def key_of(instant: Instant) -> InstantKey:
    return instant.time, COMPLETES_AS[instant.action]


def converted_name(
    instant: Instant, target: TableLayout, *, clusters: bool, done: InstantTime | None
) -> Instant:
    """The instant as named in another layout.

    clusters: it is a clustering, by its action or plan.  done: when it completed; not used by
    layouts without completion times.
    """
    action = instant.action
    if instant.is_completed:
        action = COMPLETES_AS[action]
    elif clusters:
        action = Action(target.clustering_action)
    at = done if instant.is_completed and target.has_completion_times else None
    return replace(instant, action=action, completed_at=at)


def converted_content(instant: Instant, content: bytes, target: TableLayout, *, path: str) -> bytes:
    """The content of an instant's file in another layout.

    Raises CorruptFileError for a completed commit that is empty or cannot be parsed.
    """
    is_commit = instant.action in COMMITS if instant.is_completed else _is_profile(instant)
    if not is_commit:
        return content
    if not content.strip():
        if instant.is_completed:
            raise CorruptFileError(
                "the file of a completed commit is empty",
                path=path,
                hint="run table.doctor() to list possible repairs",
            )
        return b""
    is_avro = content.startswith(b"Obj\x01")
    if is_avro == (target.commit_encoding is CommitEncoding.AVRO):
        return content
    if is_avro:
        return avro_to_json(content, path=path)
    return json_to_avro(content, replaces=instant.action in REPLACEMENTS, path=path)


def _is_profile(instant: Instant) -> bool:
    return instant.state is State.INFLIGHT and instant.action in _PROFILES


def assigned_completions(
    instants: Iterable[Instant], modified: Mapping[InstantKey, datetime], zone: tzinfo | None
) -> dict[InstantKey, InstantTime]:
    """Completion times of completed instants that have none, rising, each after its instant.

    modified: when the completed files were written.  These times are used if they are plausible:
    each is after its instant, and not all are after the last one, as in a copy of a table.
    Otherwise an instant ends one millisecond after its time, but before the next one begins; if
    that is not possible, at its time.
    """
    done = sorted({key_of(i) for i in instants if i.is_completed}, key=lambda k: (k[0], k[1].value))
    stated = _plausible(done, modified, zone)
    times = {time for time, _ in done}
    follows = dict(pairwise(sorted(times)))
    ends: dict[InstantKey, InstantTime] = {}
    last = InstantTime("")
    for key in sorted(done, key=lambda k: (stated.get(k, k[0]), k[0], k[1].value)):
        time = key[0]
        end = max(stated.get(key, time), following(time), following(last) if last else time)
        while end in times:
            end = following(end)
        if not stated and end >= follows.get(time, following(end)):
            end = time
        ends[key] = last = end
    return ends


def _plausible(
    done: list[InstantKey], modified: Mapping[InstantKey, datetime], zone: tzinfo | None
) -> dict[InstantKey, InstantTime]:
    if len(done) < 2 or any(key not in modified for key in done):
        return {}
    found = {key: format_instant(modified[key], zone) for key in done}
    if any(found[key] <= key[0] for key in done) or min(found.values()) > done[-1][0]:
        return {}
    return found


@dataclass(frozen=True, slots=True)
class ConvertedTimeline:
    """The files of a timeline in another layout.  has_times: whether modification times are set,
    or need not be."""

    files: int
    has_times: bool


def convert_timeline(
    log: TimelineLog, target: TimelineLog, *, by_modified: bool
) -> ConvertedTimeline:
    """Write every instant of a timeline, and the lists beside it, in the layout of `target`.

    Files of an earlier attempt are replaced.  by_modified: modification times may state when an
    instant completed.  Cost: reads and writes each file once.
    """
    timeline = log.load()
    known = {key_of(instant) for instant in timeline}
    late = frozenset(log.late)
    found = {
        key: [(info, instant) for info, instant in files if instant not in late]
        for key, files in state_files(log).items()
        if key in known
    }
    ends = _ends(timeline, found, log, by_modified=by_modified)
    count, has_times = 0, True
    for key, files in found.items():
        clusters = _clusters(log, files)
        for info, instant in files:
            named = converted_name(instant, target.layout, clusters=clusters, done=ends.get(key))
            content = converted_content(
                instant, log.fs.read(info.path), target.layout, path=info.path
            )
            target.fs.replace(target.path(named), content)
            count += 1
            if instant.is_completed and not target.layout.has_completion_times:
                has_times &= _set_time(target, named, ends[key])
    for name in log.fs.names(log.folder):
        if is_own(name):
            target.fs.replace(f"{target.folder}/{name}", log.fs.read(f"{log.folder}/{name}"))
    return ConvertedTimeline(count, has_times)


_Found = Mapping[InstantKey, list[tuple[FileInfo, Instant]]]


def _ends(
    timeline: Iterable[Instant], found: _Found, log: TimelineLog, *, by_modified: bool
) -> dict[InstantKey, InstantTime]:
    done = [instant for instant in timeline if instant.is_completed]
    if log.layout.has_completion_times:
        return {key_of(i): i.completed_at or following(i.time) for i in done}
    modified = {
        key: datetime.fromtimestamp(info.modified, UTC)
        for key, files in found.items()
        for info, instant in files
        if instant.is_completed and info.modified is not None
    }
    return assigned_completions(done, modified if by_modified else {}, log.zone)


def _clusters(log: TimelineLog, files: Iterable[tuple[FileInfo, Instant]]) -> bool:
    pending = (instant for _, instant in files if instant.action in REPLACEMENTS)
    return any(log.is_clustering(replace(i, state=State.REQUESTED)) for i in pending)


def _set_time(target: TimelineLog, instant: Instant, end: InstantTime) -> bool:
    """Apache Hudi 1.x takes the completion time of layout 1 from the file's modification time."""
    if not isinstance(target.fs, DatedFileSystem):
        return False
    target.fs.set_modified(target.path(instant), parse_instant(end, target.zone).timestamp())
    return True


def instant_files(fs: FileSystem, layout: TableLayout) -> Iterator[str]:
    """Paths of the files that a timeline of this layout consists of, completed instants last."""
    found: list[tuple[int, str]] = []
    for info in fs.children(layout.timeline_folder):
        instant = None if info.is_folder else parse_instant_name(info.name)
        if instant is not None:
            found.append((instant.state, info.path))
        elif not info.is_folder and is_own(info.name):
            found.append((State.COMPLETED, info.path))
    return (path for _, path in sorted(found))
