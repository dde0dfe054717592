"""Errors of an object store's client, converted to errors with a hint; its retry limits;
and a warning while a request waits.

`retry_timeout` of storage_options: seconds (10), or text such as "30s", for which one request is
retried; `max_retries` (10): how often.
"""

from __future__ import annotations

import difflib
import itertools
import logging
import math
import re
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Final

from pyhudi.errors import StorageError, UserError

RETRY_SECONDS: Final = 10.0
_RETRIES: Final = 10
_WARN_SECONDS: Final = 3.0
_LOG: Final = logging.getLogger("pyhudi")
_URL: Final = re.compile(r"Error performing [A-Z]+ (\w+://[^/\s]+)")
_METADATA_SERVICE: Final = re.compile(
    r"169\.254\.169\.254|169\.254\.170\.2|metadata\.google\.internal|fd00:ec2::254"
)
_NO_ANSWER: Final = re.compile(r"error sending request|kind: (Connect|Timeout)|timed out")
_SECONDS: Final = re.compile(r"(\d+(?:\.\d+)?) ?(s|sec|seconds|ms)?")


def retry_config(given: dict[str, Any]) -> dict[str, Any]:
    """The client's `retry_config`, from storage options that are removed from `given`.

    Raises UserError.
    """
    config = dict(given.pop("retry_config", None) or {})
    timeout, retries = given.pop("retry_timeout", None), given.pop("max_retries", None)
    if timeout is not None or "retry_timeout" not in config:
        config["retry_timeout"] = timedelta(seconds=_seconds(timeout))
    if retries is not None or "max_retries" not in config:
        config["max_retries"] = _count(retries)
    return config


def _seconds(value: Any) -> float:
    if value is None:
        return RETRY_SECONDS
    text = _SECONDS.fullmatch(str(value).strip())
    found = math.nan if text is None else float(text[1]) / (1000 if text[2] == "ms" else 1)
    if not 0 < found <= 86_400:
        raise UserError(
            "retry_timeout must be a number of seconds above zero",
            retry_timeout=value,
            hint='such as 30 or "30s"',
        )
    return found


def _count(value: Any) -> int:
    if value is None:
        return _RETRIES
    if not str(value).strip().isdecimal():
        raise UserError("max_retries must be a whole number", max_retries=value)
    return int(str(value))


def failure(error: BaseException, place: str, *, retryable: bool) -> StorageError:
    """The error to raise for an error of the client."""
    text, line = str(error), _first_line(error)
    found = _URL.search(text)
    if _METADATA_SERVICE.search(line):
        return StorageError(
            "no credentials found for the object store",
            path=place,
            hint="pass access_key_id and secret_access_key (or skip_signature=True for a public"
            " bucket) in storage_options, or set them in the environment",
        )
    if found is not None and _NO_ANSWER.search(text):
        return StorageError(
            "the object store does not answer",
            path=place,
            endpoint=found[1],
            reason=line,
            retryable=retryable,
            hint="check the endpoint and the network; retry_timeout in storage_options sets how"
            " long a request is tried",
        )
    if found is not None and found[1].startswith("http://") and "builder error" in text:
        return StorageError(
            "the client refuses a store without TLS",
            path=place,
            endpoint=found[1],
            hint="set AWS_ALLOW_HTTP=true, or allow_http in storage_options",
        )
    return StorageError(f"the store failed: {line}", path=place, retryable=retryable)


def plain_scheme(scheme: str) -> str:
    """The scheme of the store that several schemes name: `s3` for `s3a` and `s3n`."""
    return _SAME_STORE.get(scheme, scheme)


_SAME_STORE: Final = {"s3a": "s3", "s3n": "s3", "gcs": "gs"}


def no_bucket(url: str) -> StorageError:
    """url: of a folder in the bucket."""
    scheme, _, rest = url.partition("://")
    return StorageError(
        "the bucket does not exist",
        path=f"{scheme}://{rest.partition('/')[0]}",
        hint="create it, or check its name, the region and the endpoint",
    )


_PERMISSIONS: Final = {
    "s3": {"get": "s3:GetObject", "put": "s3:PutObject", "delete": "s3:DeleteObject",
           "list": "s3:ListBucket"},
    "gs": {"get": "storage.objects.get", "put": "storage.objects.create",
           "delete": "storage.objects.delete", "list": "storage.objects.list"},
}  # fmt: skip
"""What a policy has to allow for a request."""


def denied(error: BaseException, place: str, *, scheme: str, request: str) -> StorageError:
    """The error for 401 and 403.  place: URL of the object, or of the folder that was listed."""
    names = _PERMISSIONS.get(plain_scheme(scheme), {})
    needed = names.get(request, request)
    hint = f"allow {needed} on this path, or check the credentials"
    if request == "get" and needed.startswith("s3:"):
        hint += "; without s3:ListBucket S3 also denies access to objects that do not exist"
    return StorageError(
        "the store denies access",
        path=place,
        operation=needed,
        reason=_first_line(error),
        hint=hint,
    )


_OPTIONS: Final = (
    "access_key_id", "secret_access_key", "session_token", "region", "endpoint", "allow_http",
    "virtual_hosted_style_request", "skip_signature", "checksum_algorithm", "request_payer",
    "conditional_put", "unsigned_payload", "s3_express", "imdsv1_fallback", "metadata_endpoint",
    "retry_timeout", "max_retries", "timeout", "connect_timeout", "proxy_url", "service_account",
    "service_account_key", "service_account_path", "application_credentials", "account_name",
    "account_key", "client_id", "client_secret", "tenant_id", "sas_key", "bearer_token",
    "use_emulator", "use_azure_cli",
)  # fmt: skip
"""Names that a misspelled one may mean; the client knows more."""
_OF_FSSPEC: Final = {
    "key": "access_key_id", "secret": "secret_access_key", "token": "session_token",
    "endpoint_url": "endpoint", "client_kwargs": "endpoint", "anon": "skip_signature",
    "region_name": "region", "profile": "access_key_id",
}  # fmt: skip
"""Names of fsspec and boto3, and what they are called here."""
_UNKNOWN: Final = re.compile(r"Configuration key: '([^']*)' is not valid")


def _hint(text: str) -> str:
    """What to do about options that do not suffice."""
    missing = re.search(r"Missing (\w+)", text)
    if missing is not None:
        name = re.sub("(?<=[a-z])(?=[A-Z])", "_", missing[1])
        return f"pass {name.lower()} in storage_options, or set AWS_{name.upper()}"
    if "URL" in text:
        return "write s3://bucket/path, with two slashes"
    if "is not an instance of 'str'" in text:
        return 'write the values of storage_options as text, such as region="us-east-1"'
    return "see the page on object stores"


def unusable(error: BaseException, bucket: str) -> UserError:
    """The error for options that the client does not take."""
    unknown = _UNKNOWN.search(str(error))
    if unknown is None:
        return UserError(
            f"the object store cannot be used: {_first_line(error)}",
            path=bucket,
            hint=_hint(str(error)),
        )
    other = _OF_FSSPEC.get(unknown[1])
    near = [other] if other else difflib.get_close_matches(unknown[1], _OPTIONS, n=1)
    return UserError(
        "unknown storage option",
        option=unknown[1],
        path=bucket,
        hint=f"did you mean {near[0]}?" if near else "see the page on object stores",
    )


def check_endpoints(endpoints: Iterable[str], bucket: str) -> None:
    """Raise UserError for an endpoint that is no URL."""
    for endpoint in endpoints:
        if not endpoint.startswith(("http://", "https://")):
            raise UserError(
                "the endpoint of the object store must be a URL",
                endpoint=endpoint,
                path=bucket,
                hint=f"write https://{endpoint}, or http:// for a server without TLS",
            )


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


class _Waiting:
    """Pending requests; a daemon thread warns once about each slow one."""

    def __init__(self) -> None:
        self.since: dict[int, tuple[float, str]] = {}
        self._numbers = itertools.count()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    @contextmanager
    def request(self, place: str) -> Iterator[None]:
        number = next(self._numbers)
        self.since[number] = (time.monotonic(), place)
        if self._thread is None or not self._thread.is_alive():
            self._start()
        try:
            yield
        finally:
            self.since.pop(number, None)

    def _start(self) -> None:
        with self._lock:
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(
                    target=self._watch, name="pyhudi-requests", daemon=True
                )
                self._thread.start()

    def _watch(self) -> None:
        warned: set[int] = set()
        while True:
            time.sleep(_WARN_SECONDS / 3)
            now, under_way = time.monotonic(), dict(self.since)
            warned &= under_way.keys()
            for number, (began, place) in under_way.items():
                if number not in warned and now - began >= _WARN_SECONDS:
                    warned.add(number)
                    _LOG.warning(
                        "the object store has not answered for %.0f s, still trying: %s",
                        now - began,
                        place,
                    )


_waiting: Final = _Waiting()


def watched(place: str) -> Any:
    """A context for a request; a slow one is logged while it waits."""
    return _waiting.request(place)
