"""A server that answers the requests a table makes of Google Cloud Storage, written from its docs.

Not Google's: it shows that our requests are well formed and what we make of answers that follow the
documents (XML API: objects put with `x-goog-if-generation-match`, ranges, lists of version 2).
"""

from __future__ import annotations

import atexit
import itertools
import json
import threading
from dataclasses import dataclass, field
from email.utils import formatdate
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

import pytest

from pyhudi.storage.object_store import ObjectStoreFileSystem


@dataclass
class _Stored:
    data: bytes
    generation: int
    metadata: dict[str, str]
    at: str = field(default_factory=lambda: formatdate(usegmt=True))


class _Bucket:
    def __init__(self) -> None:
        self.objects: dict[str, _Stored] = {}
        self.lock = threading.Lock()
        self._generations = itertools.count(1)

    def put(self, name: str, data: bytes, metadata: dict[str, str], match: str | None) -> int:
        """The generation, or 0 where another was there."""
        with self.lock:
            there = self.objects.get(name)
            if match is not None and int(match) != (there.generation if there else 0):
                return 0
            made = _Stored(data, next(self._generations), metadata)
            self.objects[name] = made
            return made.generation


def _listed(bucket: _Bucket, requested: dict[str, list[str]]) -> bytes:
    prefix, delimiter = requested.get("prefix", [""])[0], requested.get("delimiter", [""])[0]
    contents, folders = [], dict[str, None]()
    with bucket.lock:
        for name in sorted(bucket.objects, key=str.encode):
            if not name.startswith(prefix):
                continue
            rest = name[len(prefix) :]
            if delimiter and delimiter in rest:
                folders[prefix + rest.split(delimiter)[0] + delimiter] = None
                continue
            one = bucket.objects[name]
            contents.append(
                f"<Contents><Key>{escape(name)}</Key><Size>{len(one.data)}</Size>"
                f'<LastModified>2024-01-01T00:00:00.000Z</LastModified><ETag>"{one.generation}"'
                "</ETag></Contents>"
            )
    heads = (f"<CommonPrefixes><Prefix>{escape(f)}</Prefix></CommonPrefixes>" for f in folders)
    text = f"<ListBucketResult>{''.join(contents)}{''.join(heads)}</ListBucketResult>"
    return text.encode()


class _Requests(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    bucket: _Bucket

    def _name(self) -> str:
        return unquote(urlsplit(self.path).path).partition("/bucket/")[2]

    def _say(self, status: int, body: bytes = b"", headers: dict[str, str] | None = None) -> None:
        self.send_response_only(status)
        found = {"Content-Length": str(len(body)), **(headers or {})}
        for name, value in found.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_PUT(self) -> None:
        data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        metadata = {k: v for k, v in self.headers.items() if k.lower().startswith("x-goog-meta-")}
        match = self.headers.get("x-goog-if-generation-match")
        made = self.bucket.put(self._name(), data, metadata, match)
        if not made:
            self._say(412, b"<Error><Code>PreconditionFailed</Code></Error>")
            return
        self._say(200, headers={"ETag": f'"{made}"', "x-goog-generation": str(made)})

    def do_GET(self) -> None:
        name = self._name()
        if not name:
            self._say(200, _listed(self.bucket, parse_qs(urlsplit(self.path).query)))
            return
        found = self.bucket.objects.get(name)
        if found is None:
            self._say(404, b"<Error><Code>NoSuchKey</Code></Error>")
            return
        size = len(found.data)
        headers = {
            "ETag": f'"{found.generation}"', "x-goog-generation": str(found.generation),
            "Last-Modified": found.at, **found.metadata,
        }  # fmt: skip
        if self.command == "HEAD":
            self._say(200, headers={**headers, "Content-Length": str(size)})
            return
        requested = self.headers.get("Range")
        if requested is None:
            self._say(200, found.data, headers)
            return
        first, last = requested.removeprefix("bytes=").split("-")
        start = int(first) if first else max(size - int(last), 0)
        end = min(int(last), size - 1) if first and last else size - 1
        if start >= size:
            self._say(416)
            return
        headers["Content-Range"] = f"bytes {start}-{end}/{size}"
        self._say(206, found.data[start : end + 1], headers)

    do_HEAD = do_GET

    def do_DELETE(self) -> None:
        with self.bucket.lock:
            gone = self.bucket.objects.pop(self._name(), None)
        self._say(404 if gone is None else 204)

    def log_message(self, *_: Any) -> None:
        pass


@cache
def _options() -> dict[str, Any]:
    pytest.importorskip("obstore", reason="obstore is not installed")
    handler = type("Requests", (_Requests,), {"bucket": _Bucket()})
    listener = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    listener.daemon_threads = True
    threading.Thread(target=listener.serve_forever, daemon=True).start()
    atexit.register(listener.shutdown)
    account = {
        "gcs_base_url": f"http://127.0.0.1:{listener.server_port}", "disable_oauth": True,
        "client_email": "", "private_key": "", "private_key_id": "",
    }  # fmt: skip
    return {"service_account_key": json.dumps(account), "allow_http": True}


_FOLDERS = itertools.count()


def fresh_gcs() -> ObjectStoreFileSystem:
    """A folder of the process's server that no other test has."""
    return ObjectStoreFileSystem(f"gs://bucket/tests/{next(_FOLDERS)}", _options())
