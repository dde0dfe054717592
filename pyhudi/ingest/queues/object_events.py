"""Messages that name new objects of S3, and the checkpoint after them.

Source: "Event message structure" in the manual of Amazon S3; "Fanout to Amazon SQS queues" in that
of Amazon SNS.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple
from urllib.parse import unquote_plus

from pyhudi.errors import UserError


class ObjectEvent(NamedTuple):
    """A new object.  millis: time of the event, since 1970.  digest: of what names the event; the
    same if S3 or the queue delivers it twice."""

    bucket: str
    key: str
    millis: int
    size_bytes: int
    digest: str


def object_events(body: str) -> list[ObjectEvent] | None:
    """The new objects that a message names; None if it is not a notification of S3.

    body: of S3, or of S3 in an envelope of SNS.  Test events and other events than `ObjectCreated`
    name none.
    """
    try:
        return _events(json.loads(body))
    except (KeyError, TypeError, ValueError, AttributeError):
        return None


def _events(message: Any) -> list[ObjectEvent]:
    if message.get("Type") == "Notification":
        message = json.loads(message["Message"])
    if message.get("Event") == "s3:TestEvent":
        return []
    return [_event(each) for each in message["Records"] if _is_created(each)]


def _is_created(record: Any) -> bool:
    name: str = record["eventName"]
    return name.removeprefix("s3:").startswith("ObjectCreated:")


def _event(record: Any) -> ObjectEvent:
    bucket: str = record["s3"]["bucket"]["name"]
    found = record["s3"]["object"]
    key = unquote_plus(found["key"])
    millis = round(datetime.fromisoformat(record["eventTime"]).timestamp() * 1000)
    identity = [bucket, key, millis, found.get("sequencer"), found.get("versionId")]
    digest = hashlib.blake2b(json.dumps(identity).encode(), digest_size=9).digest()
    name = base64.urlsafe_b64encode(digest).decode()
    return ObjectEvent(bucket, key, millis, int(found.get("size") or 0), name)


@dataclass(frozen=True, slots=True)
class EventPosition:
    """newest: time of the newest event that was read, in milliseconds.  read: digests of the events
    that were read last, in order."""

    newest: int = 0
    read: tuple[str, ...] = ()

    def after(self, events: Iterable[ObjectEvent], remembered: int) -> EventPosition:
        """The position after further events.  remembered: digests at most; those of `events` are
        always included."""
        new = list(events)
        newest = max([self.newest, *(event.millis for event in new)])
        digests = [event.digest for event in new]
        first = max(0, len(self.read) + len(digests) - max(remembered, len(digests)))
        return EventPosition(newest, (*self.read[first:], *digests))

    def text(self) -> str:
        return f"{self.newest};{','.join(self.read)}"


def event_position(checkpoint: str | None) -> EventPosition:
    """checkpoint: as of `text`, or a time alone as Apache Hudi's S3EventsSource stores it.  Raises
    UserError for a checkpoint of another source."""
    if checkpoint is None:
        return EventPosition()
    newest, _, digests = checkpoint.partition(";")
    try:
        return EventPosition(int(newest), tuple(filter(None, digests.split(","))))
    except ValueError:
        raise UserError(
            "the table's checkpoint is not one of a queue of events",
            checkpoint=checkpoint,
            hint="the newest commit was written from another source",
        ) from None
