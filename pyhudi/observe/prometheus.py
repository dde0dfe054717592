"""Metrics of this process for Prometheus, by the library prometheus-client."""

from __future__ import annotations

from typing import Any

from pyhudi.errors import UserError
from pyhudi.libraries import load_library
from pyhudi.observe.event import COUNTERS, SECONDS, Event, labels_of, measured
from pyhudi.observe.events import add_receiver, remove_receiver


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
        try:
            self._server, self._thread = library.start_http_server(
                port, addr=address, registry=self.registry
            )
        except OSError as refused:
            raise UserError(
                "the metrics endpoint cannot listen", port=port, address=address,
                why=refused.strerror, hint="choose another port, or 0 for any",
            ) from None  # fmt: skip
        self.port: int = self._server.server_port
        add_receiver(self._receive)

    def _receive(self, event: Event) -> None:
        for name, value, labels in measured(event):
            self._counters[name].labels(**labels).inc(value)
        self._seconds.labels(**labels_of(event)).observe(event.seconds)

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
