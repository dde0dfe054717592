"""The files of one task: announced together before the first, durable together at the end.

```
announce   partition metafiles and markers, then one sync of both
open_sink  data files, visible when closed, not durable yet
sync       one sync of all data files and their folders, before the task returns
```

Nothing is committed before the tasks of a write have returned, so a power loss earlier leaves only
files that their markers name.  Markers are one file each, or one file for all of the task in the
format of Apache Hudi's timeline server.  Writers without a batch (table services) announce and sync
each file by itself.
"""

from __future__ import annotations

from collections.abc import Iterable

from pyhudi.records import InstantTime
from pyhudi.storage.filesystem import FileSystem, Sink
from pyhudi.table.listing import ensure_partition
from pyhudi.transaction.markers import Marker, announce_task


class FileBatch:
    """The files of one task.  together: whether its markers are in one file; the write has created
    `MARKERS.type` then."""

    def __init__(self, fs: FileSystem, instant: InstantTime, *, together: bool) -> None:
        self._fs = fs
        self._instant = instant
        self._together = together
        self._announced: set[Marker] = set()
        self._partitions: set[str] = set()
        self._written: list[str] = []

    def announce(self, markers: Iterable[Marker]) -> None:
        """Create the markers of files to be written, and the metafiles of their partitions."""
        fresh = [marker for marker in dict.fromkeys(markers) if marker not in self._announced]
        if not fresh:
            return
        created = self._metafiles(marker.partition for marker in fresh)
        created += announce_task(self._fs, self._instant, fresh, together=self._together)
        self._fs.sync(created)
        self._announced.update(fresh)

    def _metafiles(self, partitions: Iterable[str]) -> list[str]:
        fresh = sorted(set(partitions) - self._partitions)
        self._partitions.update(fresh)
        found = (ensure_partition(self._fs, p, self._instant, durable=False) for p in fresh)
        return [path for path in found if path is not None]

    def open_sink(self, path: str) -> Sink:
        self._written.append(path)
        return self._fs.open_scratch(path)

    def sync(self) -> None:
        """Make the data files written so far durable."""
        self._fs.sync(self._written)
        self._written = []
