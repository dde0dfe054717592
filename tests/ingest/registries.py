"""A schema registry for tests, with the answers of Confluent's."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote


@dataclass
class Registry:
    """schemas: by their paths.  requests: the paths that were requested."""

    port: int = 0
    schemas: dict[str, dict[str, Any]] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def add(self, number: int, schema: str, kind: str = "AVRO", *references: str) -> int:
        """references: names of subjects, which are also the names in the text."""
        found = {"schema": schema} if kind == "AVRO" else {"schema": schema, "schemaType": kind}
        named = [{"name": name, "subject": name, "version": 1} for name in references]
        self.schemas[f"/schemas/ids/{number}"] = {
            **found,
            **({"references": named} if named else {}),
        }
        return number

    def add_subject(self, name: str, schema: str, kind: str, *references: str) -> None:
        self.add(0, schema, kind, *references)
        self.schemas[f"/subjects/{name}/versions/1"] = self.schemas.pop("/schemas/ids/0")

    @contextmanager
    def running(self) -> Iterator[Registry]:
        """At the same port as before."""
        registry = self

        class Answers(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                registry.requests.append(self.path)
                known = registry.schemas.get(unquote(self.path))
                self.send_response(200 if known else 404)
                self.end_headers()
                self.wfile.write(json.dumps(known or {"error_code": 40403}).encode())

            def log_message(self, *facts: Any) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", self.port), Answers)
        self.port = server.server_port
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        try:
            yield self
        finally:
            server.shutdown()
            server.server_close()
