"""A Kafka source from properties of Apache Hudi's streamer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyhudi.errors import OptionError
from pyhudi.ingest.kafka.kafka_source import KafkaSource
from pyhudi.ingest.source import RowSource
from pyhudi.ingest.source_registry import needed

_CLIENT_SETTINGS: Final = (
    "security.protocol", "sasl.mechanism", "sasl.mechanisms", "sasl.username", "sasl.password",
    "ssl.ca.location", "ssl.certificate.location", "ssl.key.location", "ssl.key.password",
    "client.id", "isolation.level", "fetch.min.bytes", "fetch.message.max.bytes",
)  # fmt: skip
"""Settings of the client that are passed on to librdkafka."""


def kafka_from(properties: Mapping[str, str]) -> RowSource:
    """The source `kafka`: properties `source.kafka.topic` and `bootstrap.servers`.

    `auto.offset.reset` is the start of a table without a checkpoint: `earliest` or `latest`, which
    is the default as in Apache Hudi.  `source.kafka.enable.failOnDataLoss` false continues at the
    earliest message.  `group.id` gets the position after each commit.
    """
    fails = properties.get("source.kafka.enable.failOnDataLoss", "true").lower()
    if fails not in ("true", "false"):
        raise OptionError(
            "the value is not true or false", option="source.kafka.enable.failOnDataLoss",
            value=fails,
        )  # fmt: skip
    return KafkaSource(
        needed(properties, "bootstrap.servers", of="kafka"),
        needed(properties, "source.kafka.topic", of="kafka"),
        format=properties.get("envelope") or properties.get("format") or "json",
        registry=properties.get("schema.registry.url"),
        start=properties.get("auto.offset.reset", "latest").lower(),
        on_data_loss="error" if fails == "true" else "earliest",
        group=properties.get("group.id"),
        config={name: properties[name] for name in _CLIENT_SETTINGS if name in properties},
    )
