"""The contract of every index: the locations of the records of one hash part of a batch.

```
record  looks up keys in the metadata table                  one step, a task a part
bucket  computes the group from the key                      one step, a task a part
simple  joins the keys with those of the stored records      two steps: a task for some
bloom   likewise, in files whose range and filter match      slices, then a task a part
```

A hash part is the rows whose keys have the same hash, so all rows of a key are in one part.  In a
global index a key is one record, independent of its partition; in the others the same key in two
partitions is two records.  A key that is stored several times has several places.
Source: table_format 8.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pyhudi.arrays import Ints, Longs
from pyhudi.metadata.record_index.lookup_costs import LookupCost
from pyhudi.records import PARTITION_PATH, FileGroupId
from pyhudi.storage.filesystem import FileSystem

UNKNOWN: Final = -1
"""The position of a record whose row in the base file is not known."""


@dataclass(frozen=True, slots=True)
class Located:
    """Places of rows: rows[i], a row number, has a record in groups[homes[i]].

    rows: int64, ascending; rows without a record are absent, rows with several repeat.
    ended: which places have a record that a log deletes and the base file still contains (None:
    none).  The key is not in the table, but a new record with it must go there: indexes of other
    writers read base files only, and would find the key there and in its new place.
    cost: of the lookup, where the index reports it.
    positions: the row of each record in its group's base file, UNKNOWN if the record is only in
    logs or stored several times; None if the index does not know rows.
    """

    rows: Longs
    homes: Ints
    groups: tuple[FileGroupId, ...]
    ended: npt.NDArray[np.bool_] | None = None
    cost: LookupCost | None = None
    positions: Ints | None = None

    @classmethod
    def nothing(cls) -> Located:
        return cls(np.zeros(0, np.int64), np.zeros(0, np.int32), ())

    @property
    def found(self) -> Longs:
        """Rows whose records are in the table."""
        return self.rows if self.ended is None else self.rows[~self.ended]

    def only_ended(self) -> Located:
        """The places of ended records."""
        if self.ended is None:
            return Located.nothing()
        positions = None if self.positions is None else self.positions[self.ended]
        return Located(
            self.rows[self.ended], self.homes[self.ended], self.groups, positions=positions
        )


class Finder(Protocol):
    """Looks up the rows of one hash part; picklable, runs on a worker."""

    def locate(self, fs: FileSystem, rows: pa.Table) -> Located:
        """Places of the rows of a gathered part: [_hoodie_record_key: string,
        _hoodie_partition_path: dictionary, deleted: bool, ...]; fs: rooted at the data table."""
        ...


def one_array(column: pa.ChunkedArray) -> pa.Array:
    """The column as one array; concatenated if it is in chunks."""
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def indices(column: pa.DictionaryArray) -> Ints:
    """Codes of a dictionary column, 0 for nulls."""
    return np.asarray(column.indices.cast(pa.int32()).fill_null(0).to_numpy(), np.int32)


def pair_groups(
    partition: Ints, partitions: Sequence[str], file: Ints, files: Sequence[str]
) -> tuple[Ints, tuple[FileGroupId, ...]]:
    """(position in groups of each row, groups), of rows coded by partition path and by file id.

    Groups are in the order of the codes.
    """
    width = max(1, len(files))
    pairs = partition.astype(np.int64) * width + file
    used = np.zeros(max(1, len(partitions)) * width, np.bool_)
    used[pairs] = True
    groups = tuple(
        FileGroupId(partitions[pair // width], files[pair % width])
        for pair in np.flatnonzero(used).tolist()
    )
    return (np.cumsum(used, dtype=np.int64) - 1).astype(np.int32)[pairs], groups


def path_codes(column: pa.ChunkedArray) -> tuple[Ints, tuple[str, ...]]:
    """(position in values of each row, values); values are made distinct, as several partition
    values may have one path."""
    if column.num_chunks == 0:
        return np.zeros(0, np.int32), ()
    array = one_array(column)
    values = array.dictionary.to_pylist()
    numbers = {value: number for number, value in enumerate(dict.fromkeys(values))}
    codes = indices(array)
    if len(numbers) < len(values):
        codes = np.array([numbers[value] for value in values], np.int32)[codes]
    return codes, tuple(numbers)


@dataclass(frozen=True, slots=True)
class StatedFinder:
    """Returns the file group stated in each row.  column: of file ids."""

    column: str

    def locate(self, fs: FileSystem, rows: pa.Table) -> Located:
        path, paths = path_codes(rows.column(PARTITION_PATH))
        file, files = path_codes(rows.column(self.column))
        return Located(np.arange(rows.num_rows), *pair_groups(path, paths, file, files))
