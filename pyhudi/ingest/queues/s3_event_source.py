"""New objects of S3, named by messages of a queue, as a source.

Apache Hudi's streamer needs two ingests for this: S3EventsSource writes the messages to a table,
and S3EventsHoodieIncrSource reads the objects that the rows of this table name.  Here one ingest
reads the messages and the objects.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from typing import Any, Final, NamedTuple

import pyarrow as pa

from pyhudi.errors import FileMissingError, OptionError, SourceDataLostError
from pyhudi.ingest.files.csv_rows import CsvDialect
from pyhudi.ingest.files.formats import FORMATS, FileContent, FileFormat, content_of
from pyhudi.ingest.files.listing import FileSelection
from pyhudi.ingest.files.splits import FileSplit, chained_rows, common_schema, stated_columns
from pyhudi.ingest.queues.object_events import (
    EventPosition,
    ObjectEvent,
    event_position,
    object_events,
)
from pyhudi.ingest.queues.sqs_queue import REQUEST_MAX, QueuedMessage, SqsQueue
from pyhudi.ingest.source import RejectedRows, RowPlaces, SourceBatch, SourceLag, SourceLimits
from pyhudi.storage.filesystem import FileSystem
from pyhudi.storage.url_resolver import locate

REMEMBERED: Final = 2_000
"""Events that a checkpoint lists, if a batch has fewer: 26 kB."""
_LOG: Final = logging.getLogger("pyhudi.ingest.queues")


class _Held(NamedTuple):
    """A message that was received and is not deleted.  events: of objects of the source."""

    message: QueuedMessage
    events: list[ObjectEvent]


@dataclass(frozen=True, slots=True)
class _Unit:
    """An object, and all events that name it."""

    bucket: str
    key: str
    events: tuple[ObjectEvent, ...]

    @property
    def path(self) -> str:
        return f"s3://{self.bucket}/{self.key}"


class S3EventSource:
    """Objects that event notifications of S3 name, in a queue of Amazon SQS (extra `sqs`).

    queue_url: of the queue that gets the notifications, from S3 or through SNS; one ingest reads
    it.  Only `ObjectCreated` events count; other events and test events are deleted.  A message
    that is no notification of S3 is left in the queue, for its dead-letter queue, with a warning.
    format, delimiter, header, csv: as of FileSource.  prefix: of the keys.  pattern: a glob of
    names, or of keys if it has a `/`.  ignored: prefixes of names of objects and of folders.
    excluded: globs of keys, where `*` also matches `/`.
    max_messages: of a batch.  wait_seconds: for the first message, 0 to 20.  visibility_seconds:
    how long a message is hidden once it was received; None: as the queue says.  It should be
    longer than a batch takes, and after a crash it passes until the messages are read again.
    skip_missing: objects that no longer exist are left out with a warning; otherwise they are an
    error.
    region, endpoint: of the queue; None: from its URL, or as boto3 finds them.  storage_options: of
    the objects; their `access_key_id`, `secret_access_key` and `session_token` are for the queue
    too.

    Messages are deleted once the commit with their rows is complete.  The checkpoint lists the
    events that were read last, at least 2,000 and all of the batch, so a message that is delivered
    again, as after a crash between the commit and the deletion, adds no rows.  One that is
    delivered again later adds them again: write with `upsert`.  An object that is overwritten has a
    new event and is read again.
    """

    def __init__(
        self,
        queue_url: str,
        *,
        format: str | None = None,
        prefix: str = "",
        pattern: str = "*",
        ignored: Sequence[str] = (".", "_"),
        excluded: Sequence[str] = (),
        delimiter: str = ",",
        header: bool = True,
        csv: CsvDialect | None = None,
        max_messages: int = 1_000,
        wait_seconds: int = 1,
        visibility_seconds: int | None = None,
        skip_missing: bool = False,
        region: str | None = None,
        endpoint: str | None = None,
        storage_options: Mapping[str, Any] | None = None,
    ) -> None:
        if format is not None and format not in FORMATS:
            raise OptionError("unknown format of objects", value=format, hint=", ".join(FORMATS))
        if max_messages < 1 or not 0 <= wait_seconds <= 20:
            raise OptionError(
                "a batch has at least 1 message, and waits 0 to 20 seconds for it",
                max_messages=max_messages,
                wait_seconds=wait_seconds,
            )
        self._queue = SqsQueue(queue_url, region, endpoint, storage_options)
        self._format = FileFormat(format, csv or CsvDialect(delimiter, header))
        self._prefix, self._excluded = prefix, tuple(excluded)
        self._selection = FileSelection(pattern, ignored_prefixes=tuple(ignored))
        self._max_messages, self._wait_seconds = max_messages, wait_seconds
        self._visibility_seconds, self._skip_missing = visibility_seconds, skip_missing
        self._options = storage_options
        self._held: dict[str, _Held] = {}
        self._stores: dict[str, FileSystem] = {}

    def __repr__(self) -> str:
        return f"S3EventSource({self._queue!r})"

    def read(
        self, checkpoint: str | None, limits: SourceLimits, schema: pa.Schema
    ) -> SourceBatch | None:
        """Receives messages, opens each object of the batch for its columns, and opens it again
        when its rows are read.  Messages beyond the limits are read by the next batch.

        Memory: the messages of a batch; of the rows, a row group or a block of text.
        limits: bytes as the messages state them; of rows, for Avro and CSV reads objects once more
        to count.
        Rows and objects that cannot be read are rejected, as by `FileSource`.
        Raises SourceDataLostError for an object that no longer exists, and UserError for a
        checkpoint of another source.
        """
        position = event_position(checkpoint)
        is_over = limits.timer()
        self._receive(position, is_over)
        units, facts = self._sized(self._units(position), limits, is_over, schema)
        read = position.after((e for unit in units for e in unit.events), REMEMBERED)
        if not facts:
            self._delete(EventPosition().after((e for u in units for e in u.events), 0))
            return None
        common = common_schema(list(facts.values()), schema)
        splits = [
            FileSplit(self._store(unit.bucket), unit.key, self._format, common, unit.path)
            for unit in units
            if unit.path in facts
        ]
        rejected, places = RejectedRows(), RowPlaces()
        return SourceBatch(
            pa.RecordBatchReader.from_batches(common, chained_rows(splits, rejected, places)),
            read.text(),
            rejected=rejected,
            committed=partial(self._delete, read),
            splits=splits,
            places=places,
            columns=stated_columns(facts.items()),
        )

    def lag(self, checkpoint: str | None) -> SourceLag:
        """Messages in the queue, approximately, as files."""
        return SourceLag(files=self._queue.count())

    def _receive(self, position: EventPosition, is_over: Callable[[], bool]) -> None:
        """Hold the messages of the next batch, as far as the queue has them."""
        read = frozenset(position.read)
        wait = self._wait_seconds
        while True:
            unread = sum(_is_unread(held, read) for held in self._held.values())
            lacking = min(REQUEST_MAX, self._max_messages - unread)
            if lacking <= 0 or (unread and is_over()):
                return
            found = self._queue.receive(lacking, 0 if unread else wait, self._visibility_seconds)
            before = len(self._held)
            without_objects = [message for message in found if not self._hold(message)]
            self._queue.delete(without_objects)
            if len(self._held) == before and not without_objects:
                return
            wait = 0

    def _hold(self, message: QueuedMessage) -> bool:
        """Whether a message is to stay in the queue until its objects are committed."""
        found = object_events(message.body)
        if found is None:
            _LOG.warning("%r: message %s is no event of S3", self._queue, message.name)
            return True
        events = [event for event in found if self._is_selected(event.key)]
        if events:
            self._held[message.name] = _Held(message, events)
        return bool(events)

    def _is_selected(self, key: str) -> bool:
        names = key.split("/")
        return (
            names[-1] != ""
            and key.startswith(self._prefix)
            and all(map(self._selection.has_name, names))
            and self._selection.has_path(key)
            and not any(fnmatchcase(key, each) for each in self._excluded)
        )

    def _units(self, position: EventPosition) -> list[_Unit]:
        """The objects of messages that have not been read, in the order of their first events."""
        read = frozenset(position.read)
        events = {e for held in self._held.values() for e in held.events if e.digest not in read}
        found: dict[tuple[str, str], list[ObjectEvent]] = {}
        for event in sorted(events, key=lambda e: (e.millis, e.bucket, e.key, e.digest)):
            found.setdefault((event.bucket, event.key), []).append(event)
        return [_Unit(bucket, key, tuple(named)) for (bucket, key), named in found.items()]

    def _sized(
        self,
        units: Sequence[_Unit],
        limits: SourceLimits,
        is_over: Callable[[], bool],
        schema: pa.Schema,
    ) -> tuple[Sequence[_Unit], dict[str, FileContent]]:
        """The first objects up to the limits, and what is known of each that exists, by path."""
        facts: dict[str, FileContent] = {}
        rows = size = 0
        for number, unit in enumerate(units):
            size += unit.events[-1].size_bytes
            is_full = limits.bytes is not None and size > limits.bytes
            if facts and (is_full or is_over()):
                return units[:number], facts
            fact = self._facts(unit, schema, count=limits.rows is not None)
            if fact is None:
                continue
            rows += fact.rows or 0
            if facts and limits.rows is not None and rows > limits.rows:
                return units[:number], facts
            facts[unit.path] = fact
        return units, facts

    def _facts(self, unit: _Unit, schema: pa.Schema, *, count: bool) -> FileContent | None:
        """None for an object that no longer exists and is left out."""
        opened = partial(self._store(unit.bucket).arrow_file, unit.key)
        try:
            return content_of(opened, unit.path, self._format, schema, count=count)
        except FileMissingError as error:
            if not self._skip_missing:
                raise SourceDataLostError(
                    "an object that a message names no longer exists",
                    path=unit.path,
                    hint="skip_missing=True leaves such objects out",
                ) from error
            _LOG.warning("%r: %s no longer exists and is left out", self._queue, unit.path)
            return None

    def _store(self, bucket: str) -> FileSystem:
        if bucket not in self._stores:
            self._stores[bucket] = locate(f"s3://{bucket}", storage_options=self._options)
        return self._stores[bucket]

    def _delete(self, position: EventPosition) -> None:
        """Delete the messages whose events have all been read."""
        read = frozenset(position.read)
        done = [held.message for held in self._held.values() if not _is_unread(held, read)]
        self._queue.delete(done)
        for message in done:
            del self._held[message.name]


def _is_unread(held: _Held, read: frozenset[str]) -> bool:
    return any(event.digest not in read for event in held.events)
