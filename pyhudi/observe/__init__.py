"""Observability: events of writes, services, look-ups and requests, and what receives them.

Operations emit an event when they end.  It is logged on `pyhudi.<name>` and handed to receivers:
OpenTelemetry if its API package is installed, Prometheus, or a function.
"""

from pyhudi.observe.event import Event as Event
from pyhudi.observe.events import add_receiver as add_receiver
from pyhudi.observe.events import remove_receiver as remove_receiver
from pyhudi.observe.json_lines import JsonLines as JsonLines
from pyhudi.observe.prometheus import PrometheusEndpoint as PrometheusEndpoint
