"""Indexes that keep entries of their own beside the table: RocksDB, HBase.

```
key -> (partition path, file id, commit)
```

An entry is believed only if its commit is completed, and only while its file group is in the
table: what was replaced, cleaned or taken back answers nothing.

How a write goes by one (see `write/write_tasks` and `operations/write`):

    opened     for the table as it is: caught up with commits of writers that do not know it
    finder     asked for each hash part of the batch
    write      the batch's changes put aside where nobody believes them yet
    publish    under the table's lock, before the commit point
    settle     after it, under the lock still
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
from pyhudi.index.contract import Finder, Located
from pyhudi.index.key_join import SpilledTable
from pyhudi.options import IndexKind
from pyhudi.records import FileGroupId, InstantTime

ENDED: Final = -1
"""Target of a key that left the table."""

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
    """What a commit changes in an index.

    tables: one for each hash part that changes some, [key: string, target: int32 (position in
    groups, or ENDED), held: bool (whether an entry of the key is believed now)]; distinct keys.
    """

    tables: Sequence[SpilledTable]
    groups: tuple[FileGroupId, ...]


class EntryStore(Protocol):
    """One such index, opened for the table as it is now."""

    @property
    def kind(self) -> IndexKind: ...

    @property
    def part_count(self) -> int | None:
        """Into how many hash parts a batch is best cut; None: as many as may be."""
        ...

    @property
    def notes(self) -> tuple[str, ...]:
        """What opening it took, for the report."""
        ...

    def finder(self, part: int, part_count: int, live: SpilledTable) -> Finder:
        """Asks for the rows of one hash part.  live: the table's file groups (`live_groups`)."""
        ...

    def write(self, changes: Changes, instant: InstantTime, engine: Engine) -> Any:
        """Put a commit's changes where they are not believed before it; what `publish` needs.

        May be given up after: then nothing has changed for anybody.
        """
        ...

    def publish(self, written: Any) -> None:
        """Make what was written count once the commit stands.  The caller holds the lock."""
        ...

    def settle(self, written: Any) -> None:
        """The commit stands: do what had to wait for it.  The caller holds the lock.  Whatever
        does not come about is made up for when the store is opened next."""
        ...

    def lookup(self, keys: pa.Array, live: SpilledTable, engine: Engine) -> pa.Table:
        """PLACES of some keys, in the order asked; null keys are not found."""
        ...


def live_groups(groups: Sequence[FileGroupId]) -> pa.Table:
    """[partition, file_id] of file groups, to be put aside for tasks."""
    names = ([g.partition for g in groups], [g.file_id for g in groups])
    return pa.table([pa.array(n, pa.string()) for n in names], ["partition", "file_id"])


def only_live(located: Located, live: SpilledTable) -> Located:
    """Of the places, those in file groups that the table has."""
    keep = are_live(located, live)
    if keep.all():
        return located
    return Located(located.rows[keep], located.homes[keep], located.groups)


def are_live(located: Located, live: SpilledTable) -> npt.NDArray[np.bool_]:
    """Which places are in file groups that the table has."""
    if not located.groups:
        return np.ones(len(located.rows), np.bool_)
    table = live.load()
    wanted = pa.array(sorted({group.file_id for group in located.groups}), pa.string())
    some = table.filter(pc.is_in(table.column("file_id"), value_set=wanted))
    there = set(zip(*(some.column(n).to_pylist() for n in some.column_names), strict=True))
    keep = np.array([(g.partition, g.file_id) in there for g in located.groups], np.bool_)
    return np.asarray(keep[located.homes], np.bool_)


def places(keys: pa.Array, located: Located, commits: Longs) -> pa.Table:
    """PLACES of keys, one row a key in their order.  commits: of each place."""
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
