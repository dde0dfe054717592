"""A Kafka source from properties of Apache Hudi's streamer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyhudi.errors import OptionError
from pyhudi.ingest.kafka.kafka_source import KafkaSource
from pyhudi.ingest.message_formats.message_format import MessageFormat
from pyhudi.ingest.message_formats.protobuf_messages import ProtobufFormat
from pyhudi.ingest.source import RowSource
from pyhudi.ingest.source_registry import needed

_PROTOBUF_DESERIALIZERS: Final = ("KafkaProtobufDeserializer", "ByteArrayDeserializer")
_DESCRIPTORS: Final = "pyhudi.ingest.proto.descriptors"
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
    earliest message.  `source.kafka.append.offsets` adds columns for the offset, partition and time
    of each message.  `group.id` gets the position after each commit, unless
    `source.kafka.enable.commit.offset` is false.
    """
    group = properties.get("group.id")
    config = {name: properties[name] for name in _CLIENT_SETTINGS if name in properties}
    commits = _flag(properties, "source.kafka.enable.commit.offset", str(group is not None).lower())
    if commits:
        group = needed(properties, "group.id", of="kafka that commits offsets")
    elif group is not None:
        config["group.id"], group = group, None
    with_offsets = _flag(properties, "source.kafka.append.offsets", "false")
    fails = _flag(properties, "source.kafka.enable.failOnDataLoss", "true")
    return KafkaSource(
        needed(properties, "bootstrap.servers", of="kafka"),
        needed(properties, "source.kafka.topic", of="kafka"),
        format=properties.get("envelope") or _format(properties),
        registry=properties.get("schema.registry.url"),
        start=properties.get("auto.offset.reset", "latest").lower(),
        on_data_loss="error" if fails else "earliest",
        columns=("offset", "partition", "timestamp") if with_offsets else (),
        group=group,
        checkpoint_type=properties.get("source.kafka.checkpoint.type", "string"),
        config=config,
    )


def _format(properties: Mapping[str, str]) -> str | MessageFormat:
    """As the class of the source and its deserializer imply."""
    form = properties.get("format") or "json"
    deserializer = properties.get("source.kafka.value.deserializer.class", "")
    if form == "json" and deserializer.endswith("KafkaJsonSchemaDeserializer"):
        return "json-schema"
    return _protobuf(properties) if form == "protobuf" else form


def _protobuf(properties: Mapping[str, str]) -> MessageFormat:
    """Of a descriptor set, unless the deserializer is that of a registry."""
    name = "source.kafka.proto.value.deserializer.class"
    deserializer = properties.get(name, "").rpartition(".")[2]
    if deserializer not in ("", *_PROTOBUF_DESERIALIZERS):
        raise OptionError(
            "unknown deserializer of Protobuf",
            option=f"hoodie.streamer.{name}",
            value=properties[name],
            hint="use " + " or ".join(_PROTOBUF_DESERIALIZERS),
        )
    provider, source = "schemaprovider.proto.", "kafka with Protobuf"
    message = properties.get(provider + "class.name")
    registry = descriptors = None
    if deserializer == "ByteArrayDeserializer" or _DESCRIPTORS in properties:
        message = needed(properties, provider + "class.name", of=source)
        descriptors = needed(properties, _DESCRIPTORS, of=source)
    else:
        registry = needed(properties, "schema.registry.url", of=source)
    return ProtobufFormat(
        registry,
        descriptors,
        message,
        wrappers_as_records=_flag(properties, provider + "flatten.wrappers", "false"),
        timestamps_as_records=_flag(properties, provider + "timestamps.as.records", "false"),
        recursion_max=int(properties.get(provider + "max.recursion.depth", "5")),
    )


def _flag(properties: Mapping[str, str], name: str, default: str) -> bool:
    """Raises OptionError for a value other than true or false."""
    text = properties.get(name, default).lower()
    if text not in ("true", "false"):
        raise OptionError("the value is not true or false", option=name, value=text)
    return text == "true"
