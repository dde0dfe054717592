"""Formats by name."""

from __future__ import annotations

from typing import Final

from pyhudi.errors import OptionError
from pyhudi.ingest.message_formats.avro_messages import AvroFormat
from pyhudi.ingest.message_formats.json_messages import JsonFormat
from pyhudi.ingest.message_formats.message_format import MessageFormat

MESSAGE_FORMATS: Final = ("json", "avro")


def message_format(format: str | MessageFormat, registry: str | None = None) -> MessageFormat:
    """registry: address of a schema registry.  Raises OptionError for an unknown name."""
    if not isinstance(format, str):
        return format
    match format:
        case "json":
            return JsonFormat()
        case "avro":
            return AvroFormat(registry)
        case _:
            raise OptionError(
                "unknown format of messages",
                format=format,
                hint="use " + ", ".join(MESSAGE_FORMATS),
            )
