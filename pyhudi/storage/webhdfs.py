"""The WebHDFS requests that a table needs, with typed errors.

Reads are retried when the connection fails or the name node is not ready; so are writes of
files with unique names.  A retried rename first checks whether it has succeeded.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import quote

from pyhudi.errors import CorruptFileError, FileMissingError, StorageError, UserError
from pyhudi.libraries import load_library
from pyhudi.storage.locks.monotonic_clock import seconds_allowed

_ATTEMPTS: Final = 4
_PAUSE_SECONDS: Final = 0.25  # before the second attempt; doubled before each further one
_TIMEOUT_SECONDS: Final = 60.0
_LEAST_SECONDS: Final = 0.05
_NOT_READY: Final = {"RetriableException", "SafeModeException", "StandbyException"}
_DENIED: Final = {"AccessControlException", "SecurityException", "AuthenticationException"}


class RefusedError(StorageError):
    """An error reported by the name node or a data node; exception: its class there."""

    code = "HDFS_REFUSED"

    @property
    def exception(self) -> str:
        return str(self.facts.get("exception", ""))


class NameNode:
    """One HDFS.  options: of fsspec's `webhdfs`, and `timeout`.  Paths are absolute."""

    def __init__(self, host: str, port: int, options: Mapping[str, Any]) -> None:
        given = dict(options)
        self._timeout = float(given.pop("timeout", _TIMEOUT_SECONDS))
        self._fsspec = _connection(host, port, given)
        self._failures = _failures()

    @property
    def _patience(self) -> float:
        """Seconds that a request made now may take."""
        return max(min(self._timeout, seconds_allowed() / _ATTEMPTS), _LEAST_SECONDS)

    def read(self, path: str, *, offset: int = 0, length: int | None = None) -> bytes:
        """Bytes from an offset, fewer if the file ends.  Raises FileMissingError, and
        CorruptFileError if the file ends before the offset."""
        parts: dict[str, Any] = {} if length is None else {"offset": offset, "length": length}
        try:
            found = self._again(lambda: self._request("GET", "OPEN", path, **parts))
        except RefusedError as refused:
            if "out of the range" in refused.what:
                raise CorruptFileError(
                    "read past the end of the file", path=path, offset=offset, length=length
                ) from refused
            raise
        return bytes(found.content)

    def status(self, path: str) -> dict[str, Any]:
        """Raises FileMissingError."""
        found = self._again(lambda: self._request("GET", "GETFILESTATUS", path))
        return dict(found.json()["FileStatus"])

    def listed(self, path: str) -> list[dict[str, Any]]:
        """Statuses of the entries of a folder; of a file itself, without a name.  Raises
        FileMissingError."""
        found = self._again(lambda: self._request("GET", "LISTSTATUS", path))
        return list(found.json()["FileStatuses"]["FileStatus"])

    def write(self, path: str, content: Any) -> None:
        """Write a whole file, replacing any existing one.  content: bytes, or a rewound file."""

        def put() -> Any:
            if not isinstance(content, bytes):
                content.seek(0)
            answer = self._request("PUT", "CREATE", path, follow=False, overwrite="true")
            place = self._fsspec._apply_proxy(answer.headers["Location"])
            return self._checked(
                self._fsspec.session.put(place, data=content, timeout=self._patience), path
            )

        self._again(put)

    def rename(self, path: str, to: str, *, over: bool) -> bool:
        """Rename a file of this writer; False if the name is taken, unless `over`."""
        option = "OVERWRITE" if over else "NONE"
        attempts: list[None] = []

        def move() -> bool:
            attempts.append(None)
            try:
                self._request("PUT", "RENAME", path, destination=to, renameoptions=option)
            except FileMissingError:
                if len(attempts) == 1:
                    raise
                return True  # done by an attempt whose answer was lost
            except RefusedError as refused:
                if refused.exception != "FileAlreadyExistsException":
                    raise
                return len(attempts) > 1 and not self._is_there(path)
            return True

        return bool(self._again(move))

    def _is_there(self, path: str) -> bool:
        try:
            self.status(path)
        except FileMissingError:
            return False
        return True

    def delete(self, path: str, *, recursive: bool = False) -> None:
        """Delete a file, or a folder with everything below it; a missing one is not an error."""
        flag = "true" if recursive else "false"
        self._again(lambda: self._request("DELETE", "DELETE", path, recursive=flag))

    def _request(
        self, method: str, operation: str, path: str, *, follow: bool = True, **parts: Any
    ) -> Any:
        url = self._fsspec._apply_proxy(self._fsspec.url + quote(path or "/", safe="/"))
        query = {**parts, **self._fsspec.pars, "op": operation}
        redirects = follow and not self._fsspec.proxy
        session = self._fsspec.session
        answer = session.request(
            method, url, params=query, allow_redirects=redirects, timeout=self._patience
        )
        if follow and answer.is_redirect:
            place = self._fsspec._apply_proxy(answer.headers["Location"])
            answer = session.request(method, place, timeout=self._patience)
        return self._checked(answer, path)

    def _checked(self, answer: Any, path: str) -> Any:
        """The answer, unless it is an error.  Raises FileMissingError, StorageError."""
        if answer.status_code < 400:
            return answer
        try:
            remote = answer.json()["RemoteException"]
            exception, message = str(remote["exception"]), str(remote["message"])
        except (ValueError, KeyError, TypeError):
            exception, message = f"HTTP {answer.status_code}", answer.reason or ""
        if exception == "FileNotFoundException" or exception == "HTTP 404":
            raise FileMissingError("no such file", path=path)
        first = (message.splitlines() or [exception])[0]
        if exception in _DENIED or answer.status_code == 401:
            raise StorageError(
                "the store denies access",
                path=path,
                reason=first,
                hint="give user, token or kerberos in storage_options",
            )
        raise RefusedError(
            f"HDFS rejected the request: {first}",
            path=path,
            exception=exception,
            retryable=exception in _NOT_READY or answer.status_code in (502, 503, 504),
        )

    def _again(self, act: Callable[[], Any]) -> Any:
        """The result of `act`, retried for failures that may be transient."""
        for attempt in range(_ATTEMPTS):
            last = attempt == _ATTEMPTS - 1 or not seconds_allowed()
            try:
                return act()
            except self._failures as error:
                if last:
                    raise StorageError(
                        "HDFS does not answer",
                        path=self._fsspec.url,
                        reason=str(error).splitlines()[0][:200],
                        retryable=True,
                    ) from error
            except StorageError as error:
                if last or not error.retryable:
                    raise
            time.sleep(_PAUSE_SECONDS * 2**attempt)
        raise AssertionError("unreachable")


def _connection(host: str, port: int, options: Mapping[str, Any]) -> Any:
    """fsspec's WebHDFS, for its session, its authentication and its proxies of data nodes."""
    library = load_library("fsspec.implementations.webhdfs", extra="hdfs", needed_for="hdfs://")
    try:
        return library.WebHDFS(host, port=port, skip_instance_cache=True, **options)
    except (TypeError, ValueError) as error:
        raise UserError("HDFS is not accessible", host=host, reason=str(error)) from error


def _failures() -> tuple[type[Exception], ...]:
    from requests.exceptions import RequestException

    return (RequestException,)
