"""A server of this machine that takes commit callbacks."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlparse


@dataclass
class Taken:
    """One request."""

    path: str
    headers: Any
    message: dict[str, Any]


_taken: list[Taken] = []


class _Handler(BaseHTTPRequestHandler):
    """Answers 200; 500 for /failing; after `wait` seconds if the query says so."""

    def do_POST(self) -> None:
        content = self.rfile.read(int(self.headers["Content-Length"]))
        _taken.append(Taken(urlparse(self.path).path, self.headers, json.loads(content)))
        time.sleep(float(parse_qs(urlparse(self.path).query).get("wait", ["0"])[0]))
        self.send_response(500 if self.path == "/failing" else 200)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        pass


@cache
def server() -> str:
    """The URL of the server of this process."""
    running = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    threading.Thread(target=running.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{running.server_port}"


@contextmanager
def taking() -> Iterator[list[Taken]]:
    """The requests that come within the block."""
    _taken.clear()
    yield _taken
