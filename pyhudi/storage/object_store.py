"""Object stores (`s3://`, `gs://`, `abfs://`), by the library obstore.

There is no rename and no append: an object appears completely by one put.  create is a put that
fails if the name is taken; it carries a unique token, which distinguishes a put that was sent
again after a late answer from one of another writer.  A folder is the part of names
before a slash.

Small files need one request: opening a file reads its first or last bytes and gets its size
from the answer.  Needs `pip install "pyhudi[object]"`; nothing here is imported by `import pyhudi`.
"""

from __future__ import annotations

import os
import re
import secrets
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache, partial
from typing import Any, Final, Self

from pyhudi.errors import (
    FileMissingError,
    PyhudiError,
    StorageError,
    UserError,
)
from pyhudi.libraries import load_library
from pyhudi.observe.events import observed
from pyhudi.storage.bounded_client import Buckets
from pyhudi.storage.filesystem import Bytes, FileInfo, checked, checked_file
from pyhudi.storage.locks.lease import LeaseMutex
from pyhudi.storage.locks.monotonic_clock import seconds_allowed
from pyhudi.storage.locks.table_lock import check_fence
from pyhudi.storage.range_reader import (
    AHEAD_BYTES,
    RangedFile,
    UploadedSink,
    arrow_file,
    name_taken,
)
from pyhudi.storage.store_failures import (
    check_endpoints,
    denied,
    failure,
    no_bucket,
    plain_scheme,
    retry_config,
    unusable,
    watched,
)

OBJECT_STORE_SCHEMES: Final = ("s3", "s3a", "s3n", "gs", "gcs", "abfs", "abfss", "az", "adl")

_ATTEMPT: Final = "pyhudiattempt"
"""Metadata of an object: the token of its put.  Azure allows no hyphen in the name."""

_ONE_PUT_BYTES: Final = 1 << 30  # larger files are uploaded in parts, unconditionally
_ATTEMPTS: Final = 4  # at a put whose outcome is unknown
_PAUSE_SECONDS: Final = 0.05  # before the second attempt; doubled before each further one
_DELETES: Final = {"s3": 1000, "s3a": 1000}
"""Names that one request of a store deletes, at most."""
_DELETES_AT_ONCE: Final = 10  # requests of other stores that run together
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
PAGE: Final = 1000  # names in one answer


@cache
def _library() -> Any:
    """The module obstore, loaded when first needed."""
    return load_library("obstore", extra="object", needed_for="tables on object stores")


class ObjectStoreFileSystem:
    """FileSystem over one folder of a bucket.

    url: `scheme://bucket/folder`.  options: those of obstore's stores (`endpoint`, `region`,
    `access_key_id`, ...); without credentials, those of the environment are used.
    Pickles as url and options.  bucket: a client of obstore, or those of another file system.
    """

    def __init__(
        self, url: str, options: Mapping[str, Any] | None = None, *, bucket: Any = None
    ) -> None:
        self._url = url.rstrip("/")
        self.options = dict(options or {})
        scheme, _, rest = self._url.partition("://")
        name, _, folder = rest.partition("/")
        self._root, self._scheme = folder, scheme
        if not isinstance(bucket, Buckets):
            made = bucket is not None
            bucket = Buckets.of(bucket) if made else _buckets(scheme, name, self.options)
        self._buckets = bucket
        self._parent: ObjectStoreFileSystem | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return ObjectStoreFileSystem, (self._url, self.options)

    def __repr__(self) -> str:
        return f"ObjectStoreFileSystem({self._url!r})"

    @property
    def url(self) -> str:
        return self._url

    def sub(self, folder: str) -> ObjectStoreFileSystem:
        self._name(folder)
        url = f"{self._url}/{folder}" if folder else self._url
        return ObjectStoreFileSystem(url, self.options, bucket=self._buckets).below_lock_of(self)

    def below_lock_of(self, parent: ObjectStoreFileSystem) -> Self:
        """Itself, for files that the lock of the parent's table protects."""
        self._parent = parent._parent or parent
        return self

    def _fence(self, path: str) -> None:
        check_fence(self._parent or self, path)

    @property
    def bucket(self) -> Any:
        """obstore's client for a request made now."""
        return self._buckets.now

    def _name(self, path: str) -> str:
        checked(path)
        if _CONTROL.search(path):
            raise UserError(
                "names in object stores must not contain control characters",
                path=path,
                hint="set hoodie.datasource.write.partitionpath.urlencode when creating the table",
            )
        return f"{self._root}/{path}" if self._root and path else path or self._root

    def _file(self, path: str) -> str:
        return self._name(checked_file(path))

    def read(self, path: str) -> bytes:
        with self._typed(path) as facts:
            content = bytes(_library().get(self.bucket, self._file(path)).bytes())
            facts["bytes"] = len(content)
            return content

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        return self._opened(path, {"range": (offset, offset + max(length, 1))}).read_at(
            offset, length
        )

    def open(self, path: str) -> RangedFile:
        return self._opened(path, {"range": (0, AHEAD_BYTES)})

    def _opened(self, path: str, request: Mapping[str, Any]) -> RangedFile:
        name = self._file(path)
        with self._typed(path) as facts:
            try:
                answer = _library().get(self.bucket, name, options=dict(request))
            except _library().exceptions.BaseError:  # an empty object has no valid range
                size = int(_library().head(self.bucket, name)["size"])
                return RangedFile(self, path, size, 0, b"")
            first, last = answer.range
            size, facts["bytes"] = int(answer.meta["size"]), last - first
            return RangedFile(self, path, size, first, bytes(answer.bytes())[: last - first])

    def arrow_file(self, path: str) -> Any:
        opened = self._opened(path, {"range": {"suffix": AHEAD_BYTES}})
        return arrow_file(opened)

    def get_range(self, path: str, offset: int, length: int) -> bytes:
        """Bytes of an object known to be long enough: one request."""
        with self._typed(path, length):
            name = self._file(path)
            return bytes(_library().get_range(self.bucket, name, start=offset, length=length))

    def size(self, path: str) -> int:
        with self._typed(path):
            return int(_library().head(self.bucket, self._file(path))["size"])

    def exists(self, path: str) -> bool:
        name = self._name(path)
        try:
            with self._typed(path):
                _library().head(self.bucket, name)
        except FileMissingError:
            return bool(self.children(path))
        return True

    def children(self, folder: str = "") -> list[FileInfo]:
        name = self._name(folder)
        skip = len(name) + 1 if name else 0
        prefix = f"{folder}/" if folder else ""
        with self._typed(folder, request="list"):
            found = _library().list_with_delimiter(self.bucket, name or None)
        folders = {path.rstrip("/")[skip:] for path in found["common_prefixes"]}
        entries = [FileInfo(prefix + n, 0, True) for n in folders if n]
        for one in found["objects"]:
            relative = one["path"][skip:]
            if relative and relative not in folders and "/" not in relative:
                at = one["last_modified"].timestamp()
                entries.append(FileInfo(prefix + relative, int(one["size"]), modified=at))
        return sorted(entries, key=lambda info: info.path)

    def names(self, folder: str = "") -> list[str]:
        return [info.name for info in self.children(folder) if not info.is_folder]

    def below(self, folder: str = "") -> list[FileInfo]:
        """Every file below a folder, in name order: one request per thousand."""
        found = [info for page in self.pages(folder) for info in page]
        return sorted(found, key=lambda info: info.path)

    def pages(self, folder: str = "") -> Iterator[list[FileInfo]]:
        """The files of `below` by request, in the order of the store (for most, of names).

        A first answer that is cut off is requested again; a later page that fails is an error, and
        so is a store that does not answer within the time for retries.
        """
        name = self._name(folder)
        for attempt in range(_ATTEMPTS):
            begun = False
            try:
                with self._typed(folder, request="list"):
                    answers = iter(_library().list(self.bucket, name or None, chunk_size=PAGE))
                    page = next(answers, None)
                while page is not None:
                    begun = True
                    yield [self._info(found) for found in page]
                    with self._typed(folder, request="list"):
                        page = next(answers, None)
                return
            except StorageError as error:
                gave_up = attempt == _ATTEMPTS - 1 or "endpoint" in error.facts
                if begun or gave_up or not error.retryable:
                    raise
            time.sleep(_PAUSE_SECONDS * 2**attempt)

    def _info(self, found: Mapping[str, Any]) -> FileInfo:
        skip = len(self._root) + 1 if self._root else 0
        at = found["last_modified"].timestamp()
        size = int(found["size"])
        return FileInfo(found["path"][skip:], size, tag=found.get("e_tag"), modified=at)

    def create(self, path: str, data: Bytes, *, durable: bool = True) -> bool:
        """A put with unknown outcome (no answer, or 409: a concurrent put) is looked up and, if
        there is no object, sent again; the token shows who created the object."""
        name, token = self._file(path), secrets.token_hex(8)
        for attempt in range(_ATTEMPTS):
            self._fence(path)
            try:
                with self._typed(path, memoryview(data).nbytes, request="put"):
                    _library().put(
                        self.bucket,
                        name,
                        bytes(data),
                        mode="create",
                        attributes={_ATTEMPT: token},
                        use_multipart=False,
                    )
                return True
            except StorageError as error:
                taken = isinstance(error.__cause__, _library().exceptions.AlreadyExistsError)
                last = attempt == _ATTEMPTS - 1 or not seconds_allowed()
                if not taken and (last or not error.retryable):
                    raise
            found = self._attempt_at(path, name)
            if found is not None:
                return found == token
            time.sleep(_PAUSE_SECONDS * 2**attempt)
        raise StorageError(
            "the store does not report who created an object",
            path=f"{self._url}/{path}",
            retryable=True,
        )

    def _attempt_at(self, path: str, name: str) -> str | None:
        """The token of the put that made an object; empty without token, None without object."""
        with suppress(FileMissingError), self._typed(path):
            return str(_library().get(self.bucket, name).attributes.get(_ATTEMPT, ""))
        return None

    def replace(self, path: str, data: Bytes) -> None:
        self._fence(path)
        with self._typed(path, memoryview(data).nbytes, request="put"):
            _library().put(self.bucket, self._file(path), bytes(data))

    def open_sink(self, path: str) -> UploadedSink:
        name = self._file(path)
        with suppress(FileMissingError), self._typed(path):
            _library().head(self.bucket, name)
            raise name_taken(f"{self._url}/{path}")
        return self.open_scratch(path)

    def open_scratch(self, path: str) -> UploadedSink:
        self._file(path)
        return UploadedSink(f"{self._url}/{path}", partial(self._upload, path))

    def sync(self, paths: Iterable[str]) -> None:
        """Every file is durable when it is published."""

    def _upload(self, path: str, content: Any, size_bytes: int) -> bool:
        """Create a file: a small one by one conditional put, a large one in parts, which no store
        does conditionally: its name is visible after the last part."""
        if size_bytes <= _ONE_PUT_BYTES:
            return self.create(path, content.read())
        self._fence(path)
        with self._typed(path, size_bytes, request="put"):
            _library().put(self.bucket, self._file(path), content, use_multipart=True)
        return True

    def delete(self, paths: Iterable[str]) -> None:
        paths = list(paths)
        names = [self._file(path) for path in paths]
        size = _DELETES.get(self._scheme, _DELETES_AT_ONCE)
        for start in range(0, len(names), size):
            self._fence(paths[start])  # once the lock is lost, no more requests begin
            self._delete(names[start : start + size])

    def _delete(self, names: list[str]) -> None:
        shown = names[0][len(self._root) :].lstrip("/") if names else ""
        with self._typed(shown, request="delete"):
            try:
                _library().delete(self.bucket, names)
            except FileNotFoundError:
                for name in names:
                    with suppress(FileNotFoundError):
                        _library().delete(self.bucket, name)

    def delete_folder(self, folder: str) -> None:
        checked_file(folder)
        self.delete([info.path for info in self.below(folder)])

    def mutex(self, path: str) -> LeaseMutex:
        return LeaseMutex(_Lease(self, path), f"{self._url}/{path}")

    @contextmanager
    def _typed(
        self, path: str, bytes_sent: int = 0, *, request: str = "get"
    ) -> Iterator[dict[str, Any]]:
        """Convert errors of the store to those of this package; an event for each request, whose
        facts are yielded.  request: "get", "put", "delete" or "list"."""
        place = f"{self._url}/{path}" if path else self._url
        try:
            with (
                observed("request", operation=self._scheme, bytes=bytes_sent) as facts,
                watched(place),
            ):
                yield facts
        except PyhudiError:
            raise
        except FileNotFoundError:
            if request == "put":
                raise no_bucket(self._url) from None
            raise FileMissingError("no such object", path=place) from None
        except (
            _library().exceptions.PermissionDeniedError,
            _library().exceptions.UnauthenticatedError,
        ) as error:
            raise denied(error, place, scheme=self._scheme, request=request) from error
        except (_library().exceptions.BaseError, ValueError, OSError) as error:
            if request == "list" and "404 Not Found" in str(error):
                raise no_bucket(self._url) from error
            retryable = isinstance(error, _library().exceptions.GenericError)
            raise failure(error, place, retryable=retryable) from error


_CLIENT: Final = frozenset({
    "allow_http", "allow_invalid_certificates", "connect_timeout", "default_content_type",
    "default_headers", "http1_only", "http2_only", "pool_idle_timeout", "pool_max_idle_per_host",
    "proxy_url", "proxy_ca_certificate", "proxy_excludes", "timeout", "user_agent",
})  # fmt: skip
"""Options of the connection, which the library separates from those of the store."""


def _buckets(scheme: str, name: str, options: Mapping[str, Any]) -> Buckets:
    """The clients of a bucket.  Raises UserError for unknown options."""
    plain = plain_scheme(scheme)
    given = {key.lower(): value for key, value in options.items()}
    client = _client_environment(plain) | dict(given.pop("client_options", None) or {})
    client.update({key: given.pop(key) for key in _CLIENT & given.keys()})
    retry = retry_config(given)
    endpoints = [str(given[name]) for name in given if name.endswith(("endpoint", "endpoint_url"))]
    if plain == "s3" and not endpoints:
        endpoints = [os.environ[name] for name in _S3_ENDPOINTS if os.environ.get(name)]
    check_endpoints(endpoints, f"{scheme}://{name}")
    if any(endpoint.startswith("http://") for endpoint in endpoints):
        client.setdefault("allow_http", True)

    def make(client: Mapping[str, Any], retry: Mapping[str, Any]) -> Any:
        try:
            return _library().store.from_url(
                f"{plain}://{name}",
                client_options=dict(client) or None,
                retry_config=dict(retry) or None,
                **given,
            )
        except (_library().exceptions.BaseError, ValueError, TypeError) as error:
            raise unusable(error, f"{scheme}://{name}") from error

    return Buckets(make, client, retry)


_S3_ENDPOINTS: Final = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
_ENVIRONMENT: Final = {"s3": "AWS_", "gs": "GOOGLE_"}
"""Prefix of the environment variables of a scheme; of all others: `AZURE_`."""


def _client_environment(scheme: str) -> dict[str, Any]:
    """Options of the connection from the environment, such as `AWS_ALLOW_HTTP`.

    The library ignores them as soon as a client is given any option of the connection, as those
    with a time limit are.
    """
    prefix = _ENVIRONMENT.get(scheme, "AZURE_")
    names = {name: prefix + name.upper() for name in _CLIENT}
    return {
        name: os.environ[variable] for name, variable in names.items() if variable in os.environ
    }


class _Lease:
    """The object of a lease mutex, with its versions."""

    def __init__(self, fs: ObjectStoreFileSystem, path: str) -> None:
        self._fs, self._path = fs, path
        self._name = fs._file(path)

    def read(self) -> tuple[bytes, Any] | None:
        """Content and version; None if there is none."""
        try:
            with self._fs._typed(self._path):
                found = _library().get(self._fs.bucket, self._name)
                return bytes(found.bytes()), _version(found.meta)
        except FileMissingError:
            return None

    def modified(self) -> float | None:
        with self._fs._typed(self._path):
            found = _library().head(self._fs.bucket, self._name)
            return float(found["last_modified"].timestamp())

    def write(self, content: bytes, version: Any) -> Any | None:
        """Replace that version (None: create); the new version, or None
        if another was there."""
        mode = "create" if version is None else version
        with self._fs._typed(self._path, request="put"):
            try:
                return _version(_library().put(self._fs.bucket, self._name, content, mode=mode))
            except (
                _library().exceptions.AlreadyExistsError,
                _library().exceptions.PreconditionError,
            ):
                return None
            except FileNotFoundError:
                if version is None:  # of a new object: there is no bucket
                    raise
                return None


def _version(meta: Mapping[str, Any]) -> dict[str, str]:
    return {name: meta[name] for name in ("e_tag", "version") if meta.get(name)}
