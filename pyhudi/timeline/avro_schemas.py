"""Building blocks of the timeline's Avro schemas."""

from __future__ import annotations

from typing import Any, Final

NAMESPACE: Final = "org.apache.hudi.avro.model"
STRING: Final = {"type": "string", "avro.java.string": "String"}


def optional(kind: Any) -> list[Any]:
    return ["null", kind]


def array(items: Any) -> dict[str, Any]:
    return {"type": "array", "items": items}


def map_of(values: Any) -> dict[str, Any]:
    return {"type": "map", "values": values, "avro.java.string": "String"}


def record(name: str, *fields: tuple[Any, ...]) -> dict[str, Any]:
    """A record schema; a field is (name, type) or (name, type, default)."""
    return {
        "type": "record",
        "name": name,
        "namespace": NAMESPACE,
        "fields": [
            {"name": f[0], "type": f[1], **({"default": f[2]} if len(f) > 2 else {})}
            for f in fields
        ],
    }


def version(number: int = 1) -> tuple[str, Any, int]:
    return ("version", ["int", "null"], number)


INSTANT_INFO: Final = record("HoodieInstantInfo", ("commitTime", STRING), ("action", STRING))
