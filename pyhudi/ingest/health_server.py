"""`/health` and `/metrics` of an ingest over HTTP."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from pyhudi.errors import OptionError, UserError
from pyhudi.ingest.status import IngestStatus

_GAUGES: Final = {
    "pyhudi_ingest_healthy": "1 unless the last attempt failed",
    "pyhudi_ingest_batches": "Batches since the start",
    "pyhudi_ingest_rows": "Rows written since the start",
    "pyhudi_ingest_rejected_rows": "Bad rows since the start",
    "pyhudi_ingest_rows_per_second": "Of the last batch",
    "pyhudi_ingest_commit_seconds": "Of the last batch",
    "pyhudi_ingest_last_commit_timestamp_seconds": "Unix time of the last batch",
    "pyhudi_ingest_lag_rows": "Rows of the source after the checkpoint",
    "pyhudi_ingest_lag_bytes": "Bytes of the source after the checkpoint",
    "pyhudi_ingest_lag_files": "Files of the source after the checkpoint",
    "pyhudi_ingest_lag_seconds": "Age of the oldest row that has not been read",
    "pyhudi_ingest_service_runs": "Concurrent table services that changed the table",
    "pyhudi_ingest_service_failures": "Rounds of services that failed since the last success",
}
"""Gauges at /metrics, each with the label table."""


def address_of(text: str) -> tuple[str, int]:
    """Address and port of `[ADDRESS:]PORT`; loopback without an address.  Raises OptionError."""
    address, _, port = text.rpartition(":")
    if not port.isdecimal() or int(port) > 65535:
        raise OptionError("not an address to listen on", http=text, hint="[ADDRESS:]PORT")
    return address.strip("[]") or "127.0.0.1", int(port)


class HealthServer:
    """Serves the states of ingests; a context manager.

    `/health`: JSON of all tables, status 200, or 503 if one of them is not healthy or none has
    reported.  `/metrics`: gauges for Prometheus, if prometheus-client is installed, and the
    counters of `PrometheusEndpoint`.  port: 0 selects a free one; `self.port` is the actual one.
    """

    def __init__(self, address: str = "127.0.0.1", port: int = 0) -> None:
        """Raises UserError if the address cannot be listened on."""
        self._states: dict[str, IngestStatus] = {}
        self._lock = threading.Lock()
        try:
            self._server = ThreadingHTTPServer((address, port), _handler(self))
        except OSError as refused:
            raise UserError(
                "the health server cannot listen",
                address=address,
                port=port,
                why=refused.strerror,
                hint="choose another port, or 0 for any",
            ) from None
        self._server.daemon_threads = True
        self.port: int = self._server.server_port
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def receive(self, status: IngestStatus) -> None:
        """Serve this state of its table from now on."""
        with self._lock:
            self._states[status.table] = status

    @property
    def states(self) -> Mapping[str, IngestStatus]:
        with self._lock:
            return dict(self._states)

    def health(self) -> tuple[int, dict[str, Any]]:
        """Status code and body of /health."""
        states = self.states
        healthy = bool(states) and all(state.is_healthy for state in states.values())
        tables = {name: state.to_dict() for name, state in states.items()}
        return 200 if healthy else 503, {"healthy": healthy, "tables": tables}

    def metrics(self) -> tuple[int, str]:
        """Status code and body of /metrics."""
        try:
            import prometheus_client as library
        except ImportError:
            return 501, "metrics need prometheus-client: pip install 'pyhudi[prometheus]'\n"
        registry = library.CollectorRegistry()
        gauges = {
            name: library.Gauge(name, text, ["table"], registry=registry)
            for name, text in _GAUGES.items()
        }
        for table, state in self.states.items():
            for name, value in _values(state).items():
                gauges[name].labels(table).set(value)
        return 200, library.generate_latest(registry).decode()

    def __enter__(self) -> HealthServer:
        self._thread.start()
        return self

    def __exit__(self, *error: Any) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _values(state: IngestStatus) -> dict[str, float]:
    """Gauges of one table; without those that are not known."""
    prefix = "pyhudi_ingest_"
    found: dict[str, float | None] = {
        "healthy": float(state.is_healthy),
        "batches": state.batches,
        "rows": state.rows,
        "rejected_rows": state.rejected,
        "rows_per_second": state.rows_per_second,
        "commit_seconds": state.commit_seconds,
        "last_commit_timestamp_seconds": state.last_commit_at,
    }
    if state.lag is not None:
        lag = state.lag
        found |= {"lag_rows": lag.rows, "lag_bytes": lag.bytes, "lag_files": lag.files}
        found["lag_seconds"] = lag.seconds
    if state.services is not None:
        found["service_runs"] = sum(state.services.runs.values())
        found["service_failures"] = state.services.failures
    return {prefix + name: value for name, value in found.items() if value is not None}


def _handler(server: HealthServer) -> type[BaseHTTPRequestHandler]:
    class Requests(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            match self.path.partition("?")[0]:
                case "/health":
                    code, body = server.health()
                    self._send(code, json.dumps(body), "application/json")
                case "/metrics":
                    code, text = server.metrics()
                    self._send(code, text, "text/plain; version=0.0.4; charset=utf-8")
                case _:
                    self._send(404, "use /health or /metrics\n", "text/plain; charset=utf-8")

        def _send(self, code: int, text: str, kind: str) -> None:
            body = text.encode()
            self.send_response(code)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Requests are not logged."""

    return Requests
