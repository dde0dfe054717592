"""Join of the keys of a batch with the keys of stored records, for the simple and bloom index.

```
gathered part -> KeyRun      its keys, sorted by partition path and key (one task a part)
KeyRuns x some slices        -> hits (one task for some slices; each file is opened once)
hits of one part             -> places of its rows
```

Keys of a slice are those that a reader sees.  A record that a log deletes has ended: it is not
found, but an index that is not global reports its former place.
Spilled columns: a run `key: string, row: int32, wide: bool`, with the start of each path in the
schema's metadata; hits `row: int32, slice: int32, ended: bool, position: int32` (the record's row
in the base file, or UNKNOWN), with the start of each run.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi._native import KeyTable, argsort
from pyhudi.arrays import Longs
from pyhudi.formats.base_file import read_base
from pyhudi.index.contract import UNKNOWN, Located, one_array, path_codes
from pyhudi.metadata.hfile_slices import MapSlice
from pyhudi.read.file_slice import SliceSpec, read_slice
from pyhudi.read.skipping.key_row_groups import KeyRowGroups
from pyhudi.records import PARTITION_PATH, RECORD_KEY, FileGroupId
from pyhudi.storage.filesystem import FileSystem
from pyhudi.table.file_group_view import FileSlice

_STARTS: Final = b"starts"
_PATHS: Final = b"paths"
_ABSENT: Final = -2
_FIRST_WIDE: Final = 0xEE
_WIDE: Final = r"[\x{E000}-\x{10FFFF}]"


class SpilledTable(Protocol):
    """A table that was spilled."""

    def load(self) -> pa.Table: ...


def key_run(rows: pa.Table, *, everywhere: bool) -> pa.Table:
    """The sorted keys of a gathered part.  everywhere: ignore partition paths.

    wide: the key has characters whose order in Java differs from byte order, so it must not be
    compared with bounds.
    """
    keys = one_array(rows.column(RECORD_KEY)) if rows.num_rows else pa.array([], pa.string())
    order = np.asarray(argsort(keys), np.int64)
    paths: tuple[str, ...] = ("",)
    starts = np.array([0, len(keys)], np.int64)
    if not everywhere:
        codes, paths = path_codes(rows.column(PARTITION_PATH))
        order = order[np.argsort(codes[order].astype(np.int64), kind="stable")]
        starts = np.searchsorted(codes[order], np.arange(len(paths) + 1))
    keys = keys.take(pa.array(order))
    table = pa.table({"key": keys, "row": order.astype(np.int32), "wide": _wide(keys)})
    facts = {_STARTS: starts.astype(np.int64).tobytes(), _PATHS: json.dumps(paths).encode()}
    return table.replace_schema_metadata(facts)


def _wide(keys: pa.Array) -> pa.Array:
    data = keys.buffers()[2]
    if data is None or not (np.frombuffer(data, np.uint8) >= _FIRST_WIDE).any():
        return pa.repeat(pa.scalar(False), len(keys))
    return pc.match_substring_regex(keys, _WIDE)


@dataclass(frozen=True, slots=True)
class Probes:
    """Keys of one partition (or of all) in one run, ascending in byte order; rows: their rows."""

    run: int
    keys: pa.Array
    rows: npt.NDArray[np.int32]
    wide: npt.NDArray[np.bool_]


def probes_of(runs: Sequence[SpilledTable], partition: str, *, everywhere: bool) -> list[Probes]:
    """The keys that may be stored in a partition, for each run that has any."""
    found = []
    for number, run in enumerate(runs):
        table = run.load()
        facts = table.schema.metadata
        starts = np.frombuffer(facts[_STARTS], np.int64)
        paths = json.loads(facts[_PATHS])
        if everywhere:
            low, high = 0, table.num_rows
        elif partition in paths:
            low, high = starts[paths.index(partition) :][:2].tolist()
        else:
            continue
        if low < high:
            some = table.slice(low, high - low)
            keys, rows, wide = (one_array(column) for column in some.columns)
            flags = wide.to_numpy(zero_copy_only=False)
            found.append(Probes(number, keys, rows.to_numpy(), np.asarray(flags, np.bool_)))
    return found


@dataclass(frozen=True, slots=True)
class FileStats:
    """Key ranges of base files by path, and where their bloom filters are."""

    bounds: Mapping[str, tuple[str, str]]
    filters: tuple[MapSlice, ...]


@dataclass(frozen=True, slots=True)
class ProbeWork:
    """The input of a task that searches some slices.  slices: by number, ordered by partition.

    spec: reads the record key of the table's slices.  file_stats: statistics of their base files
    from the metadata table; None: footers are read.  unpruned: file groups whose logs may contain
    keys that their base files do not.  has_positions: also find the row of each record in the base
    file, which may cost a read of its keys.
    """

    fs: FileSystem
    spec: SliceSpec
    slices: tuple[tuple[int, FileSlice], ...]
    runs: tuple[SpilledTable, ...]
    everywhere: bool
    file_stats: FileStats | None = None
    unpruned: frozenset[FileGroupId] = frozenset()
    has_positions: bool = False


def by_partition(work: ProbeWork) -> Iterator[tuple[list[Probes], list[tuple[int, FileSlice]]]]:
    """(candidate keys, slices) of each partition that may contain keys of the runs."""
    for partition, slices in groupby(
        work.slices, key=lambda item: "" if work.everywhere else item[1].partition
    ):
        probes = probes_of(work.runs, partition, everywhere=work.everywhere)
        if probes:
            yield probes, list(slices)


class Joined:
    """The concatenated keys of several runs, with the run and row of each key."""

    def __init__(self, probes: Sequence[Probes]) -> None:
        arrays = self.runs_of_keys = [p.keys for p in probes]
        self.keys: pa.Array = arrays[0] if len(arrays) == 1 else pa.concat_arrays(arrays)
        counts = [len(p.keys) for p in probes]
        self.runs = np.repeat(np.array([p.run for p in probes], np.int32), counts)
        self.rows = np.concatenate([p.rows for p in probes])

    @cached_property
    def table(self) -> KeyTable:
        return KeyTable(self.keys)


class KeyMatches:
    """Rows found, slice by slice."""

    def __init__(self, run_count: int) -> None:
        self._run_count = run_count
        self._found: list[pa.Table] = []

    def add(
        self,
        keys: Joined,
        at: Longs,
        number: int,
        *,
        stored: Longs | None = None,
        ended: bool = False,
    ) -> None:
        """The keys at some positions are (or were) stored in slice `number`.

        stored: the row of each key in the base file (`_stored_rows`).
        """
        if not len(at):
            return
        rows = np.full(len(at), UNKNOWN) if stored is None else np.maximum(stored[at], UNKNOWN)
        columns = {
            "run": keys.runs[at],
            "row": keys.rows[at],
            "slice": np.full(len(at), number, np.int32),
            "ended": np.full(len(at), ended, np.bool_),
            "position": rows.astype(np.int32),
        }
        self._found.append(pa.table(columns))

    def table(self) -> pa.Table:
        found = pa.concat_tables([_no_hits(), *self._found])
        runs = found.column("run").to_numpy()
        order = np.argsort(runs, kind="stable")
        starts = np.searchsorted(runs[order], np.arange(self._run_count + 1)).astype(np.int64)
        table = found.drop_columns(["run"]).take(pa.array(order))
        return table.replace_schema_metadata({_STARTS: starts.tobytes()})


def _no_hits() -> pa.Table:
    return pa.table(
        {
            name: np.zeros(0, np.bool_ if name == "ended" else np.int32)
            for name in ("run", "row", "slice", "ended", "position")
        }
    )


def match_slice(
    work: ProbeWork, slice_: FileSlice, keys: Joined, hits: KeyMatches, number: int
) -> None:
    """Add to `hits` which of some distinct keys a slice contains.

    Cost: one column of the base file, of the row groups whose key range contains a key; and the
    logs.
    """
    base = slice_.base
    stored = None
    if base is not None and not (slice_.logs and work.everywhere and not work.has_positions):
        stored = _stored_rows(keys, work.fs, base.path)
    if not slice_.logs and stored is not None:
        hits.add(keys, np.flatnonzero(stored != _ABSENT), number, stored=stored)
        return
    live = _matches(keys, read_slice(work.fs, slice_, spec=work.spec).column(RECORD_KEY))
    hits.add(keys, live, number, stored=stored)
    if stored is not None and not work.everywhere:
        ended = np.setdiff1d(np.flatnonzero(stored != _ABSENT), live, assume_unique=True)
        hits.add(keys, ended, number, stored=stored, ended=True)


def _matches(keys: Joined, stored: pa.ChunkedArray) -> Longs:
    """Positions of the keys that are stored, ascending."""
    at = np.asarray(keys.table.first(stored))
    is_stored = np.zeros(len(keys.keys), np.bool_)
    is_stored[at[at >= 0]] = True
    return np.flatnonzero(is_stored)


def _stored_rows(keys: Joined, fs: FileSystem, path: str) -> Longs:
    """The row of each key in a base file: UNKNOWN for several rows, _ABSENT for none."""
    chosen = KeyRowGroups(keys.runs_of_keys)
    stored = read_base(fs, path, columns=[RECORD_KEY], row_groups=chosen).column(0)
    at = np.asarray(keys.table.first(stored))
    hits = np.flatnonzero(at >= 0)
    rows = chosen.file_rows(hits)
    found = np.full(len(keys.keys), _ABSENT, np.int64)
    found[at[hits]] = rows
    again = at[hits][found[at[hits]] != rows]
    found[again] = UNKNOWN
    return found


@dataclass(frozen=True, slots=True)
class HitsFinder:
    """Places of the rows of one part, from the hits of the probes.  slices: group of each slice.
    has_positions: whether to return positions."""

    part: int
    hits: tuple[SpilledTable, ...]
    slices: tuple[FileGroupId, ...]
    has_positions: bool = False

    def locate(self, fs: FileSystem, rows: pa.Table) -> Located:
        tables = [self._mine(stored.load()) for stored in self.hits]
        if not tables:
            return Located.nothing()
        hits = pa.concat_tables(tables)
        row, number = (hits.column(name).to_numpy() for name in ("row", "slice"))
        ended = np.asarray(hits.column("ended").to_numpy(), np.bool_)
        order = np.lexsort((number, ended, row))
        if ended.any():
            order = order[_returned_hits(row[order], ended[order], rows)]
        used, homes = np.unique(number[order], return_inverse=True)
        groups = tuple(self.slices[n] for n in used.tolist())
        rest = ended[order] if ended.any() else None
        positions = None
        if self.has_positions:
            positions = np.asarray(hits.column("position").to_numpy()[order], np.int32)
        return Located(
            row[order].astype(np.int64), homes.astype(np.int32), groups, rest, positions=positions
        )

    def _mine(self, hits: pa.Table) -> pa.Table:
        starts = np.frombuffer(hits.schema.metadata[_STARTS], np.int64)
        low, high = starts[self.part : self.part + 2].tolist()
        return hits.slice(low, high - low).replace_schema_metadata()


def _returned_hits(
    row: npt.NDArray[np.int32], ended: npt.NDArray[np.bool_], rows: pa.Table
) -> npt.NDArray[np.bool_]:
    """Which hits to return, for hits in order of (row, ended): those of live records, and one ended
    place of each row that has no live record and is not a delete."""
    first = np.ones(len(row), np.bool_)
    first[1:] = row[1:] != row[:-1]
    deleted = np.asarray(rows.column("deleted").to_numpy(), np.bool_)
    return np.asarray(~ended | (first & ~deleted[row]), np.bool_)


def dealt(slices: Sequence[FileSlice], hands: int) -> list[tuple[tuple[int, FileSlice], ...]]:
    """Numbered slices in at most `hands` ranges of about equal size, in their order."""
    total = sum(s.size_bytes for s in slices)
    share = max(1, -(-total // max(1, hands)))
    found: list[list[tuple[int, FileSlice]]] = [[]]
    size = 0
    for number, slice_ in enumerate(slices):
        if found[-1] and size + slice_.size_bytes // 2 > share * len(found):
            found.append([])
        found[-1].append((number, slice_))
        size += slice_.size_bytes
    return [tuple(some) for some in found if some]
