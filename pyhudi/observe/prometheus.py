"""Metrics of this process for Prometheus, by the library prometheus-client."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from importlib import import_module
from typing import Any, Final, Protocol

from pyhudi.errors import PyhudiError, UserError
from pyhudi.libraries import load_library
from pyhudi.observe.event import COUNTERS, SECONDS, Event, labels_of, measured
from pyhudi.observe.events import add_receiver, remove_receiver
from pyhudi.observe.gauge import TABLE_GAUGES, Gauge

_LOG: Final = logging.getLogger("pyhudi")


class Watched(Protocol):
    """A table, as far as its gauges are concerned."""

    @property
    def path(self) -> str: ...

    def gauges(self) -> tuple[Gauge, ...]: ...


class PrometheusEndpoint:
    """An HTTP server of this process with its metrics at /metrics; a context manager.

    registry: the prometheus-client registry that the metrics are in.  port: where it listens.
    """

    def __init__(self, port: int = 9090, *, address: str = "127.0.0.1") -> None:
        """port: 0 selects a free one; the default is that of `hoodie.metrics.prometheus.port`.

        Raises UserError if prometheus-client is not installed or the port is taken.
        """
        library = load_library(
            "prometheus_client", extra="prometheus", needed_for="metrics for Prometheus"
        )
        self.registry = library.CollectorRegistry()
        self._counters = {
            name: library.Counter(name, text, labels, registry=self.registry)
            for name, (text, labels) in COUNTERS.items()
        }
        self._seconds = library.Histogram(*SECONDS, registry=self.registry)
        self._tables = _TableCollector(library)
        self.registry.register(self._tables)
        try:
            self._server, self._thread = library.start_http_server(
                port, addr=address, registry=self.registry
            )
        except OSError as refused:
            raise UserError(
                "the metrics endpoint cannot listen",
                port=port,
                address=address,
                why=refused.strerror,
                hint="choose another port, or 0 for any",
            ) from None
        self.port: int = self._server.server_port
        add_receiver(self._receive)

    def _receive(self, event: Event) -> None:
        for name, value, labels in measured(event):
            self._counters[name].labels(**labels).inc(value)
        self._seconds.labels(**labels_of(event)).observe(event.seconds)

    def watch(self, table: Watched, *, every_seconds: float = 60.0) -> None:
        """Serve the gauges of a table too.  They are read when the metrics are requested, at most
        once in `every_seconds`; if they cannot be read, `pyhudi_table_up` is 0."""
        self._tables.add(table, every_seconds)

    def close(self) -> None:
        """Stop the server."""
        remove_receiver(self._receive)
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> PrometheusEndpoint:
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()


class _TableCollector:
    """The gauges of the watched tables, for a registry of prometheus-client."""

    def __init__(self, library: Any) -> None:
        self._family = import_module(f"{library.__name__}.core").GaugeMetricFamily
        self._lock = threading.Lock()
        self._tables: dict[str, tuple[Watched, float]] = {}
        self._read: dict[str, tuple[float, tuple[Gauge, ...]]] = {}

    def add(self, table: Watched, every_seconds: float) -> None:
        with self._lock:
            self._tables[table.path] = (table, every_seconds)
            self._read.pop(table.path, None)

    def describe(self) -> list[Any]:
        """Called at registration, instead of `collect`."""
        return []

    def collect(self) -> Iterator[Any]:
        with self._lock:
            found = [gauge for path in self._tables for gauge in self._gauges(path)]
        for name, (text, labels) in TABLE_GAUGES.items():
            family = self._family(name, text, labels=["table", *labels])
            for gauge in found:
                if gauge.name == name:
                    family.add_metric([gauge.labels[n] for n in ("table", *labels)], gauge.value)
            if family.samples:
                yield family

    def _gauges(self, path: str) -> tuple[Gauge, ...]:
        table, every_seconds = self._tables[path]
        at, found = self._read.get(path, (0.0, ()))
        if found and time.monotonic() - at < every_seconds:
            return found
        up = 1.0
        try:
            found = table.gauges()
        except (PyhudiError, OSError) as error:
            _LOG.warning("the gauges of a table cannot be read; path=%s: %s", path, error)
            found, up = (), 0.0
        found = (Gauge("pyhudi_table_up", {"table": path}, up), *found)
        self._read[path] = (time.monotonic(), found)
        return found
