"""Markers: empty files that a write creates before each data file.

```
.hoodie/.temp/<T>/<partition>/<data file name>.marker.CREATE   a base file of a new file group
                                                     .MERGE    a rewritten base file
              .../<fileId>_<token>_<baseInstant>.parquet.marker.APPEND   a log file (layout 1)
              .../.<fileId>_<T>.log.<version>_<token>.marker.CREATE      a log file (layout 2)
              .../.<fileId>_<T>.log.1_<token>.cdc.marker.CREATE          a CDC log (layout 2)
.hoodie/.temp/<T>/MARKERS.type, MARKERS<number>                          timeline server format
```

Markers identify the files that failed tasks and failed writes left behind: markers minus write
stats before the commit, all markers in a rollback.  The marker of a log has the name of a base
file that never exists: fileId, write token and base instant of the log, without its version.
Apache Hudi 0.15 and 1.2 use the name of the log itself; both formats are read, as are the timeline
server's text files, where each line is a marker's path.
Source: table_format 6.1, writer_conformance 7.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from pyhudi.filenames import (
    TEMP,
    BaseFileName,
    DataFileName,
    LogFileName,
    MarkerName,
    cdc_log_of,
    join,
    parse_data_file,
    parse_marker,
)
from pyhudi.records import FileGroupId, InstantTime
from pyhudi.storage.filesystem import FileSystem
from pyhudi.timeline.commit_metadata import WriteStat
from pyhudi.timeline.plans.checks import is_partition

_SERVER_PREFIX: Final = "MARKERS"
_SERVER_FILE: Final = re.compile(_SERVER_PREFIX + r"\d{1,9}")
_SERVER_FILES: Final = 10**9


class MarkerKind(Enum):
    """Kind of the data file."""

    CREATE = "CREATE"
    MERGE = "MERGE"
    APPEND = "APPEND"


@dataclass(frozen=True, slots=True)
class Marker:
    """The marker of one data file.

    `file` is the file's name; for a log (APPEND) either the log's name, or a base file name with
    the log's file id, write token and base instant.
    """

    partition: str
    file: DataFileName
    kind: MarkerKind

    @property
    def group(self) -> FileGroupId:
        return FileGroupId(self.partition, self.file.file_id)

    @property
    def path(self) -> str:
        """Path of the file from the table's root; for APPEND the file may not exist."""
        return join(self.partition, str(self.file))

    @property
    def base_instant(self) -> InstantTime:
        """Instant of the file's slice (APPEND), or of the file itself."""
        return self.file.instant


def marker_path(
    instant: InstantTime, partition: str, file: DataFileName, *, kind: MarkerKind
) -> str:
    """Path of the marker of a data file."""
    named: DataFileName = file
    if isinstance(file, LogFileName) and kind is MarkerKind.APPEND:
        named = BaseFileName(file.file_id, file.write_token or "1-0-1", file.instant)
    return f"{TEMP}/{instant}/{join(partition, str(MarkerName(str(named), kind.value)))}"


def announce(
    fs: FileSystem, instant: InstantTime, partition: str, file: DataFileName, *, kind: MarkerKind
) -> None:
    """Create the marker of a data file before writing the file.  It may already exist."""
    assert kind is not MarkerKind.APPEND or isinstance(file, LogFileName)
    fs.create(marker_path(instant, partition, file, kind=kind), b"")


def announce_task(
    fs: FileSystem, instant: InstantTime, markers: Sequence[Marker], *, together: bool
) -> list[str]:
    """Create the markers of a task's files; returns the paths of the new files, which the caller
    syncs.

    together: in one file, whose name no other task uses; `announce_type` has been called.
    """
    if not together:
        paths = [marker_path(instant, m.partition, m.file, kind=m.kind) for m in markers]
        return [path for path in paths if fs.create(path, b"", durable=False)]
    lines = "".join(f"{_line(instant, marker)}\n" for marker in markers).encode()
    path = ""
    while not path or not fs.create(path, lines, durable=False):
        path = f"{TEMP}/{instant}/{_SERVER_PREFIX}{secrets.randbelow(_SERVER_FILES)}"
    return [path]


def announce_type(fs: FileSystem, instant: InstantTime) -> None:
    """State that all markers of the instant are in files of the timeline server format.  Apache
    Hudi reads only them then, and only direct markers otherwise."""
    fs.create(f"{TEMP}/{instant}/{_SERVER_PREFIX}.type", b"TIMELINE_SERVER_BASED")


def _line(instant: InstantTime, marker: Marker) -> str:
    path = marker_path(instant, marker.partition, marker.file, kind=marker.kind)
    return path[len(f"{TEMP}/{instant}/") :]


def announce_together(fs: FileSystem, instant: InstantTime, markers: Iterable[Marker]) -> None:
    """Create markers of an instant without any, in one file of the timeline server format."""
    names = (join(m.partition, str(MarkerName(str(m.file), m.kind.value))) for m in markers)
    fs.create(f"{TEMP}/{instant}/MARKERS0", "".join(f"{name}\n" for name in names).encode())


def list_markers(fs: FileSystem, instant: InstantTime) -> list[Marker]:
    """All markers of an instant, of both formats, without duplicates, ordered by path.

    Names that are not of a data file, and paths outside the table's partitions, are ignored, so
    that they never cause deletions.  Cost: a listing per folder, a read per MARKERS file.
    """
    top = f"{TEMP}/{instant}"
    found: set[Marker] = set()
    folders = [top]
    while folders:
        folder = folders.pop()
        for info in fs.children(folder):
            if info.is_folder:
                folders.append(info.path)
            elif folder == top and _SERVER_FILE.fullmatch(info.name):
                lines = fs.read(info.path).decode("utf-8", "replace").splitlines()
                found.update(filter(None, map(_parse, lines)))
            elif (marker := _parse(info.path[len(top) + 1 :])) is not None:
                found.add(marker)
    return sorted(found, key=lambda m: (m.path, m.kind.value))


def _parse(path: str) -> Marker | None:
    """The marker represented by a path below the instant's folder."""
    partition, _, name = path.rpartition("/")
    marker = parse_marker(name)
    file = parse_data_file(marker.data_file) if marker else None
    if marker is None or file is None or not is_partition(partition):
        return None
    kind = MarkerKind(marker.kind)
    if kind is MarkerKind.MERGE and not isinstance(file, BaseFileName):
        return None
    return Marker(partition, file, kind)


def leftovers(
    fs: FileSystem, instant: InstantTime, *, stats: Sequence[WriteStat], markers: Iterable[Marker]
) -> list[str]:
    """Paths of files of failed or repeated task attempts: with a marker, but not in `stats`.

    A log's version is found by listing its partition, and only if its write token is in no stat.
    Files of other instants are never included, whatever the markers contain.
    """
    written = {path for stat in stats for path in (stat.path, *(stat.cdc_sizes or ()))}
    written_logs = {
        (stat.partition, name.file_id, name.write_token)
        for stat in stats
        if isinstance(name := parse_data_file(stat.file_name), LogFileName)
    }
    left: list[str] = []
    logs: dict[str, set[tuple[str, str, InstantTime]]] = {}
    for marker in markers:
        file = marker.file
        if marker.kind is not MarkerKind.APPEND:
            if file.instant == instant and marker.path not in written:
                left.append(marker.path)
                if isinstance(file, BaseFileName):  # it may have a CDC log
                    left.append(join(marker.partition, str(cdc_log_of(file))))
        elif (marker.partition, file.file_id, file.write_token) not in written_logs:
            attempts = logs.setdefault(marker.partition, set())
            attempts.add((file.file_id, file.write_token or "", file.instant))
    for partition, attempts in logs.items():
        for info in fs.children(partition):
            name = parse_data_file(info.name)
            if (
                isinstance(name, LogFileName)
                and (name.file_id, name.write_token or "", name.instant) in attempts
            ):
                left.append(info.path)
    return sorted(left)


def remove_leftovers(
    fs: FileSystem, instant: InstantTime, *, stats: Sequence[WriteStat]
) -> list[str]:
    """Delete files of failed attempts before the commit; returns their paths, including files
    already gone.

    Only for pyhudi's own instants, whose write tokens are unique to one write.
    """
    left = leftovers(fs, instant, stats=stats, markers=list_markers(fs, instant))
    fs.delete(left)
    return left


def remove_markers(fs: FileSystem, instant: InstantTime) -> None:
    """Delete an instant's markers: the last step of a commit and of a rollback."""
    fs.delete_folder(f"{TEMP}/{instant}")
