"""A proxy before a server that answers wrongly, late, or not at all.

A fault says which requests it is for and what becomes of them:

    Fault("PUT", "commit", status=503)                    refused, the server hears nothing
    Fault("PUT", "commit", status=500, done=True)         done by the server, answered with an error
    Fault("PUT", "commit", status=None, done=True)        done, and the connection is cut
    Fault("GET", "parquet", cut=10)                       answered short by ten bytes, then cut
    Fault("PUT", "commit", held_seconds=5)                done by the server five seconds later,
                                                          whether its client still waits or not
"""

from __future__ import annotations

import http.client
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit


@dataclass
class Fault:
    """What happens to `times` requests of a method (empty: any) whose target holds `part`.

    at: the number of the only request it is for, counted from `Proxy.arm`; None for any.
    status: the answer, None for none.  done: whether the server is asked before.  delay_seconds:
    what the answer waits.  cut: bytes that the server's own answer lacks.  held_seconds: what
    the request waits.  ends: the target ends with `part`.
    """

    method: str
    part: str
    status: int | None = None
    done: bool = False
    times: int = 1
    delay_seconds: float = 0.0
    cut: int = 0
    held_seconds: float = 0.0
    ends: bool = False
    at: int | None = None

    def fits(self, method: str, target: str, number: int) -> bool:
        """Whether it is for a request; number: of requests before it since `Proxy.arm`."""
        found = target.endswith(self.part) if self.ends else self.part in target
        mine = self.method in ("", method) and self.at in (None, number)
        return self.times > 0 and mine and found


@dataclass
class Proxy:
    """endpoint: where it listens.  faults: those to come.  seen: `METHOD target` of requests.
    faulted: the last of them that met a fault.  held: requests that wait before the server."""

    endpoint: str
    faults: list[Fault] = field(default_factory=list)
    seen: list[str] = field(default_factory=list)
    faulted: str = ""

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self.ended = threading.Event()
        self.held = 0

    @contextmanager
    def holding(self) -> Iterator[None]:
        with self._lock:
            self.held += 1
        yield
        with self._lock:
            self.held -= 1

    def arm(self, faults: list[Fault]) -> None:
        """Forget what was seen, and have these faults to come."""
        with self._lock:
            self.faults[:], self.seen[:], self.faulted = faults, [], ""

    def take(self, method: str, target: str) -> Fault | None:
        with self._lock:
            number = len(self.seen)
            self.seen.append(f"{method} {target}")
            for fault in self.faults:
                if fault.fits(method, target, number):
                    fault.times -= 1
                    self.faulted = self.seen[-1]
                    return fault
        return None


_CODES = {409: "ConditionalRequestConflict", 412: "PreconditionFailed", 503: "SlowDown"}


@contextmanager
def faulty(server: str) -> Iterator[Proxy]:
    """A proxy before the server at this URL."""
    place = urlsplit(server)

    class Between(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _forward(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
            link = http.client.HTTPConnection(str(place.hostname), place.port)
            try:
                link.request(self.command, self.path, body, dict(self.headers.items()))
                answer = link.getresponse()
                return answer.status, answer.getheaders(), answer.read()
            finally:
                link.close()

        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            fault = proxy.take(self.command, self.path)
            if fault is None:
                self._send(*self._forward(body))
                return
            if fault.held_seconds:
                with proxy.holding():
                    proxy.ended.wait(fault.held_seconds)
                    found = self._forward(body)
            elif fault.done or fault.cut:
                found = self._forward(body)
            if fault.delay_seconds:
                proxy.ended.wait(fault.delay_seconds)
            if fault.cut or fault.held_seconds:
                with suppress(ConnectionError):  # who asked may have gone
                    self._send(*found, cut=fault.cut)
            elif fault.status is None:
                self.close_connection = True
            else:
                code = _CODES.get(fault.status, "InternalError")
                text = f"<Error><Code>{code}</Code></Error>".encode()
                self._send(fault.status, [("Content-Type", "application/xml")], text)

        def _send(
            self, status: int, headers: list[tuple[str, str]], body: bytes, *, cut: int = 0
        ) -> None:
            self.send_response_only(status)
            length = None
            for name, value in headers:
                if name.lower() == "content-length":
                    length = value  # of a HEAD it speaks of what is not sent
                elif name.lower() not in ("transfer-encoding", "connection"):
                    self.send_header(name, value)
            head = self.command == "HEAD"
            self.send_header("Content-Length", str(length if head and length else len(body)))
            self.end_headers()
            if not head:
                self.wfile.write(body[: len(body) - cut])
            if cut:
                self.close_connection = True

        do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _answer

        def log_message(self, *_: Any) -> None:
            pass

    listener = ThreadingHTTPServer(("127.0.0.1", 0), Between)
    listener.daemon_threads = True
    proxy = Proxy(f"http://127.0.0.1:{listener.server_port}")
    serving = threading.Thread(target=listener.serve_forever, daemon=True)
    serving.start()
    try:
        yield proxy
    finally:
        proxy.ended.set()
        listener.shutdown()
        listener.server_close()
