"""Standalone reader of the record index: `pyhudi.open_index`, for tools that only look up keys.

It does not load the write and scan code of the package.  An opened index follows its table: each
call checks whether the timeline has changed, and opens new index files.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from pyhudi.engine import LOCAL, Engine
from pyhudi.errors import IndexNotReadyError, UserError
from pyhudi.keygen.generators import KeyRule
from pyhudi.keygen.key_generator_config import is_encoding_open, key_rule
from pyhudi.keygen.key_values import key_texts
from pyhudi.metadata.record_index.lookup import RecordIndex
from pyhudi.options import Options
from pyhudi.read.metadata_freshness import trusted_metadata
from pyhudi.read.table_schema import full_schema, stated_schema
from pyhudi.records import InstantTime, RecordLocation
from pyhudi.storage.filesystem import FileSystem
from pyhudi.storage.url_resolver import locate
from pyhudi.table.properties import TableConfig, load_config
from pyhudi.timeline.archive import Archive
from pyhudi.timeline.clock import zone_of
from pyhudi.timeline.instant_files import TimelineLog
from pyhudi.timeline.timeline import Timeline


def open_index(
    path: str | os.PathLike[str],
    *,
    storage_options: Mapping[str, Any] | None = None,
    max_age_seconds: float = 0.0,
    engine: Engine = LOCAL,
) -> OpenIndex:
    """The record index of the table at a path or URL.

    max_age_seconds: the maximum staleness of results; 0 checks at each call whether the table has
    changed, which costs a listing of its timeline.
    Raises TableNotFoundError, IndexNotReadyError where the table has no record index.
    """
    is_number = isinstance(max_age_seconds, int | float) and max_age_seconds is not True
    if not is_number or not max_age_seconds >= 0:
        raise UserError(
            "max_age_seconds must be a non-negative number", max_age_seconds=max_age_seconds
        )
    fs = locate(path, storage_options=storage_options)
    return OpenIndex(fs, max_age_seconds=max_age_seconds, engine=engine)


@dataclass(frozen=True, slots=True)
class _Seen:
    config: TableConfig
    log: TimelineLog
    timeline: Timeline
    index: RecordIndex

    def schema(self) -> pa.Schema:
        """Columns as stated in the newest commit; none where no commit states them."""
        archive = Archive(self.log.fs, layout=self.config.layout, folder=self.config.archive_folder)
        found = stated_schema(self.log, self.timeline, archive, self.config)
        return full_schema(found or pa.schema([]), self.config)

    def rule(self) -> KeyRule:
        """The rule that makes record keys from values.  Raises UserError, UnsupportedTableError."""
        if is_encoding_open(self.config):
            raise UserError(
                "the table's properties do not determine the text of its keys",
                path=self.log.fs.url,
                hint="pass record keys as they are stored, or use table.lookup",
            )
        return key_rule(self.config, Options(), with_paths=False)


def _texts(seen: _Seen, keys: Any) -> Any:
    """Record keys as text.  Reads the table's schema only for keys that are not text already."""
    column = keys
    if isinstance(keys, list):
        with suppress(pa.ArrowException, TypeError, ValueError):  # tuples, values of several types
            column = pa.array(keys)
    if isinstance(column, str | bytes):
        return column
    if isinstance(column, pa.Array | pa.ChunkedArray) and (
        pt.is_string(column.type) or pt.is_null(column.type)
    ):
        return column
    fields = seen.config.record_key_fields
    return key_texts(keys, fields=fields, schema=seen.schema(), rule=seen.rule)


class OpenIndex:
    """Locations of record keys as of the newest commit.  Safe to use from several threads.

    Picklable: the state is its file system and options; unpickling opens the table again, and
    raises as `open_index` does.
    """

    def __init__(self, fs: FileSystem, *, max_age_seconds: float, engine: Engine) -> None:
        self._fs = fs
        self._age = max_age_seconds
        self._engine = engine
        self._lock = threading.Lock()
        self._begun = 0  # number of the refresh that began last
        self._current = 0  # number of the refresh whose result is in use
        self._seen = self._load(None)
        self._refreshed = time.monotonic()

    def get(self, key: Any) -> RecordLocation | None:
        """The location of one key, passed as to `locations`; None if it is not in the table."""
        found = self.locations([key])
        if not found.column("found")[0].as_py():
            return None
        partition, file_id, instant = (found.column(n)[0].as_py() for n in found.column_names[1:4])
        return RecordLocation(partition, file_id, InstantTime(instant))

    def contains(self, keys: Any) -> pa.BooleanArray:
        """Whether each key is in the table, in input order; false for null keys."""
        column = self.locations(keys).column("found")
        return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()

    def locations(self, keys: Any) -> pa.Table:
        """[record_key, partition_path, file_id, instant_time, found], one row a key in input order;
        the location is null where the key is absent.

        keys: one or several, as for `Table.lookup`.  A string is a record key as it is stored;
        other values are formatted by the key generator in the table's properties: values of the key
        column, tuples and dicts with a value for each key column, or a table of these columns.
        Raises UserError for keys that do not match the key columns, and for values of a table whose
        properties do not determine the text of its keys.
        """
        seen = self._now()
        return seen.index.lookup(_texts(seen, keys), engine=self._engine)

    @property
    def instant(self) -> InstantTime | None:
        """The newest commit that results include."""
        newest = self._seen.timeline.commits.last
        return newest.time if newest else None

    @property
    def bucket_count(self) -> int:
        """Number of buckets of the index."""
        return self._seen.index.bucket_count

    def refresh(self) -> None:
        """Check for changes now, regardless of `max_age_seconds`."""
        with self._lock:
            self._begun += 1
            self._use(self._load(self._seen), self._begun)

    def warm(self) -> None:
        """Check for changes now, and open every bucket's files before they are used: for a
        background thread, so that concurrent requests do not open files."""
        with self._lock:
            self._begun += 1
            number, before = self._begun, self._seen
        seen = self._load(before)
        if seen is not before:
            for bucket in (*seen.index.older, *seen.index.buckets):
                bucket.layers(self._fs)
        with self._lock:
            self._use(seen, number)

    def _use(self, seen: _Seen, number: int) -> None:
        """Use the result of a refresh, unless one that began later has already finished."""
        if number > self._current:
            self._seen, self._current, self._refreshed = seen, number, time.monotonic()

    def _now(self) -> _Seen:
        if self._age == 0.0 or time.monotonic() - self._refreshed >= self._age:
            self.refresh()
        return self._seen

    def _load(self, before: _Seen | None) -> _Seen:
        config = load_config(self._fs)
        if before is not None and before.config == config:
            log = before.log
            timeline = log.load()
            if timeline == before.timeline:
                return before
        else:
            log = TimelineLog(self._fs, layout=config.layout, zone=zone_of(config.timezone))
            timeline = log.load()
        metadata = trusted_metadata(self._fs, config, log, timeline)
        if metadata is None:
            raise IndexNotReadyError("the table has no valid record index", path=self._fs.url)
        return _Seen(config, log, timeline, metadata.record_index())

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopened, (self._fs, self._age, self._engine)

    def __repr__(self) -> str:
        return f"OpenIndex({self._fs.url!r})"


def _reopened(fs: FileSystem, max_age_seconds: float, engine: Engine) -> OpenIndex:
    return OpenIndex(fs, max_age_seconds=max_age_seconds, engine=engine)
