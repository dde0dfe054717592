"""Contract of external indexes, which store their entries outside the table: RocksDB, HBase.

```
key -> (partition path, file id, commit)
```

An entry is valid only if its commit is completed, and only while its file group is in the table:
entries of replaced, cleaned or rolled-back file groups are ignored.

Steps of a write (see `write/write_tasks` and `operations/commit`):

    open       for the table as it is: catches up with commits of writers that do not know it
    finder     looks up each hash part of the batch
    write      stages the batch's changes where they are not visible yet
    publish    under the table's lock, before the commit point
    settle     after the commit point, still under the lock
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.arrays import Longs
from pyhudi.engine import Engine
from pyhudi.errors import Overtaken
from pyhudi.index.contract import Finder, Located
from pyhudi.index.key_join import SpilledTable
from pyhudi.options import IndexKind
from pyhudi.records import FileGroupId, InstantTime

ENDED: Final = -1
"""Target of a key that was deleted from the table."""

PLACES: Final = pa.schema(
    {
        "record_key": pa.string(),
        "partition_path": pa.string(),
        "file_id": pa.string(),
        "instant_time": pa.string(),
        "found": pa.bool_(),
    }
)


@dataclass(frozen=True, slots=True)
class Changes:
    """The changes of a commit to an index.

    tables: one for each hash part with changes, [key: string, target: int32 (position in groups,
    or ENDED), has_entry: bool (whether the key has a valid entry now)]; distinct keys.
    """

    tables: Sequence[SpilledTable]
    groups: tuple[FileGroupId, ...]


class EntryStore(Protocol):
    """An external index, opened for the table as it is now."""

    @property
    def kind(self) -> IndexKind: ...

    @property
    def part_count(self) -> int | None:
        """The preferred number of hash parts of a batch; None: any number."""
        ...

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes for the report about work done when the index was opened."""
        ...

    def finder(self, part: int, part_count: int, live: SpilledTable) -> Finder:
        """The finder for one hash part.  live: the table's file groups (`live_groups`)."""
        ...

    def write(self, changes: Changes, instant: InstantTime, engine: Engine) -> Any:
        """Stage a commit's changes; returns the argument of `publish`.

        Staged changes are not visible.  If the write is abandoned they have no effect.
        """
        ...

    def publish(self, written: Any) -> Overtaken | None:
        """Make staged changes take effect once the commit completes, or return why concurrent
        changes of the index prevent it.  The caller holds the lock."""
        ...

    def apply_deferred(self, written: Any) -> None:
        """Apply what had to wait for the commit, after it has completed.  The caller holds the
        lock.  Work that fails here is done when the store is opened next."""
        ...

    def lookup(self, keys: pa.Array, live: SpilledTable, engine: Engine) -> pa.Table:
        """PLACES of some keys, in input order; null keys are not found."""
        ...


def live_groups(groups: Sequence[FileGroupId]) -> pa.Table:
    """[partition, file_id] of file groups, to be spilled for tasks."""
    names = ([g.partition for g in groups], [g.file_id for g in groups])
    return pa.table([pa.array(n, pa.string()) for n in names], ["partition", "file_id"])


def only_live(located: Located, live: SpilledTable) -> Located:
    """The places in file groups that the table has."""
    keep = are_live(located, live)
    if keep.all():
        return located
    return Located(located.rows[keep], located.homes[keep], located.groups)


def are_live(located: Located, live: SpilledTable) -> npt.NDArray[np.bool_]:
    """Which places are in file groups that the table has."""
    if not located.groups:
        return np.ones(len(located.rows), np.bool_)
    table = live.load()
    file_ids = pa.array(sorted({group.file_id for group in located.groups}), pa.string())
    some = table.filter(pc.is_in(table.column("file_id"), value_set=file_ids))
    there = set(zip(*(some.column(n).to_pylist() for n in some.column_names), strict=True))
    keep = np.array([(g.partition, g.file_id) in there for g in located.groups], np.bool_)
    return np.asarray(keep[located.homes], np.bool_)


def places(keys: pa.Array, located: Located, commits: Longs) -> pa.Table:
    """PLACES of keys, one row a key in input order.  commits: of each place."""
    home = np.full(len(keys), -1, np.int64)
    time = np.zeros(len(keys), np.int64)
    home[located.rows] = located.homes
    time[located.rows] = commits
    absent = home < 0
    at = pa.array(home, mask=absent)
    columns = [
        keys,
        pa.array([g.partition for g in located.groups], pa.string()).take(at),
        pa.array([g.file_id for g in located.groups], pa.string()).take(at),
        pa.array(time, mask=absent).cast(pa.string()),
        pa.array(~absent),
    ]
    return pa.Table.from_arrays(columns, schema=PLACES)
