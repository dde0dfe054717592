"""A broker whose partitions are written by tests, with everything that leaves offsets without
messages: markers of transactions, aborted messages, compaction, expiry.

It speaks the requests of a reader (ApiVersions, Metadata, ListOffsets, Fetch) and of a group that
is told a position, in early versions, for the client of librdkafka.  It answers with faults where a
test states them.
"""

from __future__ import annotations

import contextlib
import random
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from socketserver import BaseRequestHandler, ThreadingTCPServer
from typing import Any, Final

FETCH, LIST_OFFSETS, METADATA, OFFSET_COMMIT, COORDINATOR = 1, 2, 3, 8, 10
SASL, VERSIONS = 17, 18
_SUPPORTED: Final = {
    FETCH: (4, 4), LIST_OFFSETS: (2, 2), METADATA: (1, 1), OFFSET_COMMIT: (2, 2), 9: (1, 1),
    COORDINATOR: (0, 0), SASL: (1, 1), VERSIONS: (0, 0), 0: (3, 3), 11: (0, 0),
}  # fmt: skip
UNKNOWN_TOPIC, NOT_LEADER, LEADER_MISSING, OUT_OF_RANGE = 3, 6, 5, 1
TOPIC_DENIED, SASL_MECHANISM = 29, 33
_PAUSE = 0.01

Fault = Callable[[int], int | None]
"""The error of an answer to a request of this kind; -1: the connection is closed."""


@dataclass
class Record:
    offset: int
    value: bytes | None
    key: bytes | None = None


@dataclass
class Chunk:
    """Records that are sent together.  first, last: offsets, some of which may lack a record.
    writer: of a transaction, or -1.  ends: of a control record, `commit` or `abort`."""

    first: int
    last: int
    records: list[Record]
    writer: int = -1
    ends: str | None = None

    def encoded(self) -> bytes:
        body = b"".join(_record(r.offset - self.first, r.key, r.value) for r in self.records)
        count, flags = len(self.records), 0
        if self.writer >= 0:
            flags |= 0x10
        if self.ends is not None:
            key = struct.pack(">hh", 0, int(self.ends == "commit"))
            body, count, flags = _record(0, key, struct.pack(">hi", 0, 0)), 1, flags | 0x20
        now = int(time.time() * 1000)
        tail = struct.pack(
            ">hiqqqhii", flags, self.last - self.first, now, now, self.writer, 0, -1, count
        )
        tail += body
        return struct.pack(">qiibI", self.first, 9 + len(tail), 0, 2, 0) + tail


@dataclass
class Log:
    """One partition.  start: of the log; stable: where the first open transaction begins.
    aborted: transactions: writer, first offset, and offset of the marker."""

    chunks: list[Chunk] = field(default_factory=list)
    start: int = 0
    end: int = 0
    aborted: list[tuple[int, int, int]] = field(default_factory=list)
    open: dict[int, int] = field(default_factory=dict)

    @property
    def stable(self) -> int:
        return min(self.open.values(), default=self.end)

    def put(
        self, values: Sequence[bytes | None], writer: int = -1, key: bytes | None = None
    ) -> list[int]:
        """The offsets of the values."""
        first = self.end
        if writer >= 0:
            self.open.setdefault(writer, first)
        records = [Record(first + n, value, key) for n, value in enumerate(values)]
        self._add(Chunk(first, first + len(values) - 1, records, writer))
        return [record.offset for record in records]

    def finish(self, writer: int, ends: str) -> None:
        first = self.open.pop(writer, None)
        if first is None:
            return
        if ends == "abort":
            self.aborted.append((writer, first, self.end))
        self._add(Chunk(self.end, self.end, [], writer, ends))

    def _add(self, chunk: Chunk) -> None:
        self.chunks.append(chunk)
        self.end = chunk.last + 1

    def compact(self, keeps: Callable[[Record], bool], rng: random.Random) -> None:
        """Remove records; chunks without any stay or go."""
        for chunk in self.chunks:
            chunk.records = [record for record in chunk.records if keeps(record)]
        self.chunks = [c for c in self.chunks if c.records or c.ends or rng.random() < 0.3]

    def expire(self, offset: int) -> None:
        self.start = max(self.start, min(offset, self.stable))
        self.chunks = [chunk for chunk in self.chunks if chunk.last >= self.start]

    def fetched(self, offset: int, stable: bool, size: int) -> tuple[list[tuple[int, int]], bytes]:
        """Aborted transactions, and chunks from the one with the offset on."""
        bound = self.stable if stable else self.end
        found, data = [], b""
        for chunk in self.chunks:
            if chunk.last < offset or chunk.first >= bound:
                continue
            encoded = chunk.encoded()
            if data and len(data) + len(encoded) > size:
                break
            found.append(chunk)
            data += encoded
        writers = {chunk.writer for chunk in found}
        last = found[-1].last if found else -1
        aborted = [
            (writer, first)
            for writer, first, marker in self.aborted
            if writer in writers and first <= last and marker >= offset
        ]
        return aborted, data


def _varint(number: int) -> bytes:
    number = (number << 1) ^ (number >> 63)
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def _sized(value: bytes | None) -> bytes:
    return _varint(-1) if value is None else _varint(len(value)) + value


def _record(delta: int, key: bytes | None, value: bytes | None) -> bytes:
    body = b"\0" + _varint(0) + _varint(delta) + _sized(key) + _sized(value) + _varint(0)
    return _varint(len(body)) + body


class LogBroker:
    """topics: partitions by topic.  fetch_bytes: of an answer for one partition.  faults: of
    requests.  commits: offsets of groups by topic and partition.  requests: how many of a kind."""

    def __init__(self) -> None:
        self.topics: dict[str, list[Log]] = {}
        self.lock = threading.RLock()
        self.fault: Fault = lambda kind: None
        self.fetch_bytes = 1 << 20
        self.pause_seconds = 0.0
        self.commits: dict[tuple[str, str, int], int] = {}
        self.requests: dict[int, int] = {}
        self._server = ThreadingTCPServer(("127.0.0.1", 0), _handler(self), False)
        self._server.daemon_threads = True
        self._server.allow_reuse_address = True
        self._server.server_bind()
        self._server.server_activate()
        self.port: int = self._server.server_address[1]
        self.servers = f"127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))

    def topic(self, name: str, partitions: int) -> list[Log]:
        with self.lock:
            self.topics[name] = [Log() for _ in range(partitions)]
            return self.topics[name]

    def __enter__(self) -> LogBroker:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def answer(self, kind: int, version: int, data: _Reader) -> bytes:
        self.requests[kind] = self.requests.get(kind, 0) + 1
        fault = self.fault(kind)
        if fault == -1:
            raise ConnectionError("a test closes the connection")
        if kind == VERSIONS and version > 0:
            return struct.pack(">h", 35) + _versions()
        with self.lock:
            match kind:
                case 18:
                    return struct.pack(">h", 0) + _versions()
                case 3:
                    return self._metadata(data, fault or 0)
                case 2:
                    return self._offsets(data, fault or 0)
                case 10:
                    return (
                        struct.pack(">hi", 0, 1) + _text("127.0.0.1") + struct.pack(">i", self.port)
                    )
                case 8:
                    return self._commit(data, fault or 0)
                case 17:
                    return struct.pack(">hi", fault or 0, 0)
        assert kind == FETCH, kind
        return self._fetch(data, fault or 0)

    def _metadata(self, data: _Reader, fault: int) -> bytes:
        names = data.list(data.text)
        out = struct.pack(">ii", 1, 1) + _text("127.0.0.1") + struct.pack(">ih", self.port, -1)
        out += struct.pack(">i", 1)
        places = [name for name in names or self.topics if name is not None]
        out += struct.pack(">i", len(places))
        for name in places:
            logs = self.topics.get(name, [])
            error = fault or (0 if name in self.topics else UNKNOWN_TOPIC)
            out += struct.pack(">h", error) + _text(name) + struct.pack(">bi", 0, len(logs))
            for number in range(len(logs)):
                out += struct.pack(">hiiiiii", 0, number, 1, 1, 1, 1, 1)
        return out

    def _offsets(self, data: _Reader, fault: int) -> bytes:
        data.take(4)
        stable = data.number("b") == 1
        answers = []
        for _ in data.each():
            name, parts = data.text() or "", []
            for _ in data.each():
                number, at = data.number("i"), data.number("q")
                if name not in self.topics or number >= len(self.topics[name]):
                    parts.append(struct.pack(">ihqq", number, fault or UNKNOWN_TOPIC, -1, -1))
                    continue
                log = self.topics[name][number]
                end = log.stable if stable else log.end
                offset = log.start if at == -2 else end
                parts.append(struct.pack(">ihqq", number, fault, -1, -1 if fault else offset))
            answers.append(_text(name) + _array(parts))
        return struct.pack(">i", 0) + _array(answers)

    def _fetch(self, data: _Reader, fault: int) -> bytes:
        data.take(4)
        wait = data.number("i") / 1000
        data.take(8)
        stable = data.number("b") == 1
        places = []
        for _ in data.each():
            name = data.text() or ""
            places.append((name, [data.unpack(">iqi")[:2] for _ in data.each()]))
        time.sleep(self.pause_seconds)
        until = time.monotonic() + min(wait, 0.1)
        while not fault and not self._has_news(places, stable) and time.monotonic() < until:
            time.sleep(_PAUSE)
        with self.lock:
            return struct.pack(">i", 0) + _array(
                [
                    _text(name) + _array([self._part(name, *each, stable, fault) for each in parts])
                    for name, parts in places
                ]
            )

    def _has_news(self, places: Any, stable: bool) -> bool:
        with self.lock:
            for name, parts in places:
                for number, offset in parts:
                    if name not in self.topics or number >= len(self.topics[name]):
                        return True
                    log = self.topics[name][number]
                    if offset < (log.stable if stable else log.end) or offset < log.start:
                        return True
        return False

    def _part(self, name: str, number: int, offset: int, stable: bool, fault: int) -> bytes:
        def empty(error: int) -> bytes:
            return struct.pack(">ihqqii", number, error, -1, -1, 0, 0)

        if fault or name not in self.topics or number >= len(self.topics[name]):
            return empty(fault or UNKNOWN_TOPIC)
        log = self.topics[name][number]
        if not log.start <= offset <= log.end:
            return empty(OUT_OF_RANGE)
        aborted, chunks = log.fetched(offset, stable, self.fetch_bytes)
        out = struct.pack(">ihqq", number, 0, log.end, log.stable)
        out += _array([struct.pack(">qq", *each) for each in aborted if stable])
        return out + struct.pack(">i", len(chunks)) + chunks

    def _commit(self, data: _Reader, fault: int) -> bytes:
        group = data.text() or ""
        data.take(4)
        data.text()
        data.take(8)
        answers = []
        for _ in data.each():
            name, parts = data.text() or "", []
            for _ in data.each():
                number, offset = data.number("i"), data.number("q")
                data.text()
                if not fault:
                    self.commits[group, name, number] = offset
                parts.append(struct.pack(">ih", number, fault))
            answers.append(_text(name) + _array(parts))
        return _array(answers)


def _versions() -> bytes:
    return _array([struct.pack(">hhh", kind, *range_) for kind, range_ in _SUPPORTED.items()])


def _text(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


def _array(parts: Sequence[bytes]) -> bytes:
    return struct.pack(">i", len(parts)) + b"".join(parts)


class _Reader:
    """The fields of a request, one after another."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def take(self, count: int) -> bytes:
        found = self._data[self._at : self._at + count]
        self._at += count
        return found

    def unpack(self, form: str) -> tuple[Any, ...]:
        return struct.unpack(form, self.take(struct.calcsize(form)))

    def number(self, kind: str) -> int:
        return int(self.unpack(">" + kind)[0])

    def text(self) -> str | None:
        count = self.number("h")
        return None if count < 0 else self.take(count).decode()

    def each(self) -> range:
        return range(max(0, self.number("i")))

    def list(self, read: Callable[[], Any]) -> list[Any]:
        return [read() for _ in self.each()]


def _handler(broker: LogBroker) -> type[BaseRequestHandler]:
    class Connection(BaseRequestHandler):
        def handle(self) -> None:
            self.request.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with contextlib.suppress(ConnectionError, OSError):
                while header := self._exactly(4):
                    data = _Reader(self._exactly(struct.unpack(">i", header)[0]))
                    kind, version, name = data.unpack(">hhi")
                    data.text()
                    answer = struct.pack(">i", name) + broker.answer(kind, version, data)
                    self.request.sendall(struct.pack(">i", len(answer)) + answer)

        def _exactly(self, count: int) -> bytes:
            found = b""
            while len(found) < count:
                more = self.request.recv(count - len(found))
                if not more:
                    return b""
                found += more
            return found

    return Connection


@contextmanager
def log_broker() -> Iterator[LogBroker]:
    with LogBroker() as broker:
        yield broker
