"""Object stores to test on: one in memory, and a local server that speaks S3."""

from __future__ import annotations

import atexit
import itertools
import logging
import os
import re
import threading
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import pytest

from pyhudi.storage.object_store import ObjectStoreFileSystem


def object_store_in_memory() -> ObjectStoreFileSystem:
    """An object store of this process, empty."""
    from obstore.store import MemoryStore

    return ObjectStoreFileSystem("memory://bucket/root", bucket=MemoryStore())


@dataclass
class S3Server:
    """A server of this machine with one bucket.  requests: `METHOD path?query` of each one."""

    options: dict[str, str]
    requests: list[str] = field(default_factory=list)

    def fs(self, folder: str) -> ObjectStoreFileSystem:
        return ObjectStoreFileSystem(f"s3://bucket/{folder}", self.options)


_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
"""Of requests that the server does not answer with status 200, as those of a part of a file."""


class _Requests(logging.Handler):
    def __init__(self, found: list[str]) -> None:
        super().__init__()
        self._found = found

    def emit(self, record: logging.LogRecord) -> None:
        text = _COLOURS.sub("", record.getMessage()).partition('"')[2]
        if " HTTP/" in text:
            self._found.append(text.partition(" HTTP/")[0])


def _one_put_at_a_time(app: Callable[..., Any]) -> Callable[..., Any]:
    """moto looks whether a name is taken and stores the object in two steps, so of two puts that
    must create it both may win; S3 lets one win."""
    lock = threading.Lock()

    def answer(environ: dict[str, Any], start: Any) -> Any:
        if environ["REQUEST_METHOD"] != "PUT":
            return app(environ, start)
        with lock:
            return app(environ, start)

    return answer


@contextmanager
def s3_server() -> Iterator[S3Server]:
    """Skips the test where moto or obstore are not installed."""
    pytest.importorskip("obstore", reason="obstore is not installed")
    server_of = pytest.importorskip("moto.server", reason="moto is not installed")
    os.environ.setdefault("AWS_EC2_METADATA_DISABLED", "true")
    server: Any = server_of.ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    server._server.app = _one_put_at_a_time(server._server.app)
    host, port = server.get_host_and_port()
    options = {
        "endpoint": f"http://{host}:{port}", "region": "us-east-1",
        "access_key_id": "test", "secret_access_key": "test",
    }  # fmt: skip
    found = S3Server(options)
    handler = _Requests(found.requests)
    log = logging.getLogger("werkzeug")
    level = log.level
    log.setLevel(logging.INFO)
    log.addHandler(handler)
    try:
        request = urllib.request.Request(f"http://{host}:{port}/bucket", method="PUT")
        urllib.request.urlopen(request).read()
        yield found
    finally:
        log.removeHandler(handler)
        log.setLevel(level)
        server.stop()


_FOLDERS = itertools.count()


def environment_of(server: S3Server) -> dict[str, str]:
    """The environment variables with which programs reach a server."""
    named = {"endpoint": "ENDPOINT_URL"}
    found = {f"AWS_{named.get(n, n.upper())}": value for n, value in server.options.items()}
    return found | {"AWS_ALLOW_HTTP": "true", "AWS_EC2_METADATA_DISABLED": "true"}


@cache
def shared_s3() -> S3Server:
    """One server for the tests of this process, ended with it."""
    running = s3_server()
    atexit.register(lambda: running.__exit__(None, None, None))
    return running.__enter__()


def fresh_s3() -> ObjectStoreFileSystem:
    """A folder of the shared server that no other test has."""
    return shared_s3().fs(f"tests/{next(_FOLDERS)}")
