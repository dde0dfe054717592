"""Access to the rows of Apache Hudi's HBase index through HBase's Thrift gateway.

```
row key                record key, UTF-8
_s:commit_ts           instant of the commit that put the key there
_s:file_name           file id
_s:partition_path      all three as UTF-8 text
```

The client is happybase, which uses the Thrift 1 protocol.  HBase's REST gateway would also need a
request a batch, and encodes byte strings as base64 in XML or JSON.  Either makes a few Python
objects a row; expect about 4,000 rows a second and connection.
Source: table_format 8; SparkHoodieHBaseIndex of Apache Hudi 0.15.0.

Needs `pip install "pyhudi[hbase]"`; nothing here is imported by `import pyhudi`.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from itertools import islice
from typing import Any, Final, TypeVar

from pyhudi.errors import IndexNotReadyError, OptionError, StorageError
from pyhudi.libraries import load_library
from pyhudi.options import HBaseRules

_COMMIT: Final = b"_s:commit_ts"
_FILE: Final = b"_s:file_name"
_PARTITION: Final = b"_s:partition_path"
_COLUMNS: Final = (_COMMIT, _FILE, _PARTITION)
_PORT: Final = 9090
_SCANNED: Final = 1000
"""Rows in one answer of a scan."""

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Entry:
    """A row's value, as its bytes."""

    commit: bytes
    file_id: bytes
    partition: bytes


@dataclass(frozen=True, slots=True)
class HBasePlace:
    """A table behind a gateway, with rate limits.  share: number of tasks that write concurrently
    and share the limit.  Picklable; each thread has a separate connection."""

    host: str
    port: int
    table: str
    rules: HBaseRules
    share: int = 1

    @classmethod
    def of(cls, rules: HBaseRules, share: int) -> HBasePlace:
        """The place set by options.  Raises OptionError where the table or gateway is missing."""
        if not rules.table:
            raise OptionError(
                "the HBase index requires the name of its table", option="hoodie.index.hbase.table"
            )
        quorum = (rules.quorum or "").split(",")[0].split(":")[0].strip()
        gateway = rules.gateway or quorum
        if not gateway:
            raise OptionError(
                "the HBase index requires a Thrift gateway",
                option="pyhudi.index.hbase.gateway",
                hint="set it to host:port; or set hoodie.index.hbase.zkquorum, if the gateway runs "
                "there on port 9090",
            )
        host, _, port = gateway.partition(":")
        if port and not port.isdecimal():
            raise OptionError(
                "the gateway must be host:port", option="pyhudi.index.hbase.gateway", value=gateway
            )
        return cls(host, int(port or _PORT), rules.table, rules, max(1, share))

    def check(self) -> None:
        """Raise IndexNotReadyError if the table is missing or has no column family `_s`,
        StorageError if the gateway does not answer."""
        with self._failing():
            if self.table.encode() not in self._request(lambda connection: connection.tables()):
                raise IndexNotReadyError(
                    "the HBase table does not exist",
                    table=self.table,
                    gateway=self.gateway,
                    hint=f"create it in the HBase shell: create '{self.table}', '_s'",
                )
            families = self._request(lambda connection: connection.table(self.table).families())
        if b"_s" not in {bytes(name).rstrip(b":") for name in families}:
            raise IndexNotReadyError(
                "the HBase table has no column family _s", table=self.table, gateway=self.gateway
            )

    @property
    def gateway(self) -> str:
        return f"{self.host}:{self.port}"

    def get(self, keys: Sequence[bytes]) -> dict[bytes, Entry]:
        """Entries of the keys that have one."""
        found: dict[bytes, Entry] = {}
        pace = Pace(None, self.rules.gets_wait_ms)
        with self._failing():
            for some in _batches(keys, self.rules.get_batch):
                for key, cells in self._request(partial(self._rows, some)):
                    if len(cells) == len(_COLUMNS):
                        found[key] = Entry(cells[_COMMIT], cells[_FILE], cells[_PARTITION])
                pace.after(len(some))
        return found

    def _rows(self, keys: Sequence[bytes], connection: Any) -> Any:
        return connection.table(self.table).rows(keys, columns=_COLUMNS)

    def pages(self, rows: int) -> Iterator[list[tuple[bytes, Entry]]]:
        """Every entry, in the byte order of keys, `rows` at a time.  A page is one scan, which is
        retried if its connection is closed."""
        start = b""
        while True:
            with self._failing():
                page = self._request(partial(self._scanned, start, rows))
            if not page:
                return
            yield [
                (key, Entry(cells[_COMMIT], cells[_FILE], cells[_PARTITION]))
                for key, cells in page
                if len(cells) == len(_COLUMNS)
            ]
            start = page[-1][0] + b"\0"

    def _scanned(self, start: bytes, rows: int, connection: Any) -> list[tuple[bytes, Any]]:
        scan = connection.table(self.table).scan(
            row_start=start, columns=_COLUMNS, batch_size=min(rows, _SCANNED), limit=rows
        )
        return [(bytes(key), cells) for key, cells in scan]

    def put(self, entries: Iterable[tuple[bytes, Entry | None]]) -> None:
        """Write entries, and delete those of keys with None."""
        pace = Pace(self.rows_per_second, self.rules.puts_wait_ms)
        with self._failing():
            for some in _batches(entries, self.rules.put_batch):
                self._request(partial(self._mutate, some))
                pace.after(len(some))

    def _mutate(self, entries: Sequence[tuple[bytes, Entry | None]], connection: Any) -> None:
        with connection.table(self.table).batch() as batch:
            for key, entry in entries:
                if entry is None:
                    batch.delete(key, _COLUMNS)
                else:
                    cells = (entry.commit, entry.file_id, entry.partition)
                    batch.put(key, dict(zip(_COLUMNS, cells, strict=True)))

    def _request(self, request: Callable[[Any], _T]) -> _T:
        """The result of one request, retried on a new connection if this thread's was closed.  The
        gateway closes connections that are idle for a minute; requests are idempotent."""
        try:
            return request(_connection(self))
        except _cut():
            _forget(self)
            return request(_connection(self))

    @property
    def rows_per_second(self) -> float | None:
        """The rate limit of the writes of one task; None: no limit."""
        rules = self.rules
        if rules.qps_per_server is None:
            return None
        return rules.qps_per_server * rules.server_count * rules.qps_fraction / self.share

    @contextmanager
    def _failing(self) -> Iterator[None]:
        """Raise the client's errors as StorageError; the connection is not used again."""
        try:
            yield
        except _failures() as error:
            _forget(self)
            raise StorageError(
                "the request to HBase failed",
                table=self.table,
                gateway=self.gateway,
                why=getattr(error, "message", None) or str(error),
                retryable=True,
                hint="start its Thrift gateway, or set pyhudi.index.hbase.gateway",
            ) from error


class Pace:
    """A limit of rows a second over batches; waits after each batch."""

    def __init__(
        self,
        rows_per_second: float | None,
        wait_ms: int,
        *,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._rate = rows_per_second
        self._wait = wait_ms / 1000
        self._sleep, self._clock = sleep, clock
        self._began = clock()
        self._rows = 0

    def after(self, rows: int) -> None:
        self._rows += rows
        wait = self._wait
        if self._rate is not None:
            wait = max(wait, self._began + self._rows / self._rate - self._clock())
        if wait > 0:
            self._sleep(wait)


def _batches(items: Iterable[_T], size: int) -> Iterator[list[_T]]:
    source = iter(items)
    while some := list(islice(source, size)):
        yield some


_connections = threading.local()


def _connection(place: HBasePlace) -> Any:
    """This thread's connection to the gateway."""
    by_gateway: dict[str, Any] = _connections.__dict__
    found = by_gateway.get(place.gateway)
    if found is None:
        millis = int(place.rules.connect_seconds * 1000)
        found = _library().Connection(place.host, place.port, timeout=millis)
        by_gateway[place.gateway] = found
    return found


def _forget(place: HBasePlace) -> None:
    found = _connections.__dict__.pop(place.gateway, None)
    if found is not None:
        found.close()


@cache
def _library() -> Any:
    return load_library("happybase", extra="hbase", needed_for="the HBase index")


@cache
def _cut() -> tuple[type[Exception], ...]:
    """Errors that the client raises when the connection is closed."""
    _library()
    from thriftpy2.transport import TTransportException

    return (TTransportException, ConnectionError)


@cache
def _failures() -> tuple[type[Exception], ...]:
    """Errors that the client raises when the gateway refuses, is unreachable or does not answer."""
    _library()
    from thriftpy2.thrift import TException

    return (TException, OSError, socket.timeout)
