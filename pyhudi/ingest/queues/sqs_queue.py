"""A queue of Amazon SQS, by boto3."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from importlib import import_module
from typing import Any, Final, NamedTuple

from pyhudi.errors import StorageError, UserError
from pyhudi.libraries import load_library

REQUEST_MAX: Final = 10
"""Messages of one request, at most."""
_REGION: Final = re.compile(r"//(?:sqs\.)?([a-z]{2}(?:-[a-z]+)+-\d)\.")
_COUNTS: Final = ("ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible")
_ABSENT: Final = frozenset({"AWS.SimpleQueueService.NonExistentQueue", "QueueDoesNotExist"})
_PASSING: Final = re.compile(
    r"Thrott|TooManyRequests|RequestTimeout|RequestLimitExceeded|OverLimit"
)
"""Errors of a request that may pass, beside those of the service (status 500 and above)."""


class QueuedMessage(NamedTuple):
    """receipt: with which the message is deleted; each delivery has another one."""

    name: str
    receipt: str
    body: str


class SqsQueue:
    """region: None for that of the URL, or what boto3 finds.  endpoint: URL of another service that
    speaks SQS.  credentials: `access_key_id`, `secret_access_key`, `session_token`; without them,
    what boto3 finds.

    Raises StorageError for errors of the service, with `retryable` for those that may pass, and
    UserError if the queue does not exist.
    """

    def __init__(
        self,
        url: str,
        region: str | None = None,
        endpoint: str | None = None,
        credentials: Mapping[str, Any] | None = None,
    ) -> None:
        found = _REGION.search(url)
        self._url, self._endpoint = url, endpoint
        self._region = region or (found[1] if found else None)
        self._credentials = dict(credentials or {})

    def __repr__(self) -> str:
        return repr(self._url)

    def receive(
        self, count: int, wait_seconds: int, visibility_seconds: int | None
    ) -> list[QueuedMessage]:
        """Up to `count` messages, at most REQUEST_MAX, which other requests do not get for
        `visibility_seconds` (None: as the queue says).  wait_seconds: for the first one."""
        hidden = {} if visibility_seconds is None else {"VisibilityTimeout": visibility_seconds}
        client = self._client
        with self._answering():
            answer = client.receive_message(
                QueueUrl=self._url,
                MaxNumberOfMessages=min(count, REQUEST_MAX),
                WaitTimeSeconds=wait_seconds,
                **hidden,
            )
        found = answer.get("Messages", ())
        return [QueuedMessage(m["MessageId"], m["ReceiptHandle"], m["Body"]) for m in found]

    def delete(self, messages: Sequence[QueuedMessage]) -> None:
        """Delete messages.  One that the queue does not delete, because it was delivered again,
        stays in it."""
        client = self._client
        for at in range(0, len(messages), REQUEST_MAX):
            some = messages[at : at + REQUEST_MAX]
            entries = [{"Id": str(n), "ReceiptHandle": m.receipt} for n, m in enumerate(some)]
            with self._answering():
                client.delete_message_batch(QueueUrl=self._url, Entries=entries)

    def count(self) -> int:
        """Messages in the queue, approximately, with those that are being read."""
        client = self._client
        with self._answering():
            answer = client.get_queue_attributes(QueueUrl=self._url, AttributeNames=_COUNTS)
        return sum(int(number) for number in answer["Attributes"].values())

    @cached_property
    def _client(self) -> Any:
        boto3 = load_library("boto3", extra="sqs", needed_for="queues of Amazon SQS")
        given = self._credentials
        with self._answering():
            return boto3.client(
                "sqs",
                region_name=self._region,
                endpoint_url=self._endpoint,
                aws_access_key_id=given.get("access_key_id"),
                aws_secret_access_key=given.get("secret_access_key"),
                aws_session_token=given.get("session_token"),
            )

    @contextmanager
    def _answering(self) -> Iterator[None]:
        known = import_module("botocore.exceptions")
        try:
            yield
        except known.ClientError as error:
            code: str = error.response["Error"]["Code"]
            if code in _ABSENT:
                raise UserError(
                    "the queue does not exist",
                    queue=self._url,
                    hint="create it, or correct its URL",
                ) from error
            status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 500)
            may_pass = status >= 500 or status == 429 or _PASSING.search(code) is not None
            raise self._failure(error, retryable=may_pass) from error
        except (known.NoCredentialsError, known.NoRegionError) as error:
            raise self._failure(error, retryable=False) from error
        except known.BotoCoreError as error:
            raise self._failure(error, retryable=True) from error

    def _failure(self, error: Exception, *, retryable: bool) -> StorageError:
        return StorageError(
            "the queue of messages failed",
            retryable=retryable,
            queue=self._url,
            reason=str(error),
            hint=None if retryable else "correct the credentials, the permissions or the queue",
        )
