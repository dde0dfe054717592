"""Formats by name."""

from __future__ import annotations

from typing import Final

from pyhudi.errors import OptionError
from pyhudi.ingest.message_formats.avro_messages import AvroFormat
from pyhudi.ingest.message_formats.debezium_messages import DebeziumFormat
from pyhudi.ingest.message_formats.dms_messages import DmsFormat
from pyhudi.ingest.message_formats.json_messages import JsonFormat
from pyhudi.ingest.message_formats.json_schema_messages import JsonSchemaFormat
from pyhudi.ingest.message_formats.message_format import MessageFormat
from pyhudi.ingest.message_formats.protobuf_messages import ProtobufFormat

MESSAGE_FORMATS: Final = ("json", "avro", "json-schema", "protobuf", "debezium", "dms")


def message_format(format: str | MessageFormat, registry: str | None = None) -> MessageFormat:
    """registry: address of a schema registry; with it, values in envelopes of Debezium are Avro.

    Raises OptionError for an unknown name, and for a format that needs a registry without one.
    """
    if not isinstance(format, str):
        return format
    match format:
        case "json":
            return JsonFormat()
        case "avro":
            return AvroFormat(registry)
        case "json-schema":
            return JsonSchemaFormat(registry)
        case "protobuf":
            return ProtobufFormat(registry)
        case "debezium":
            return DebeziumFormat() if registry is None else DebeziumFormat(AvroFormat(registry))
        case "dms":
            return DmsFormat()
        case _:
            raise OptionError(
                "unknown format of messages",
                format=format,
                hint="use " + ", ".join(MESSAGE_FORMATS),
            )


def null_values_of(form: MessageFormat) -> str:
    """What null values of the format are, unless stated: of NULL_VALUES of the topic's rows."""
    return "skip" if isinstance(form, DebeziumFormat) else "reject"
