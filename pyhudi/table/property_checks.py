"""Properties that a table must state to be read or written.

```
                                  read                                  written
timeline.layout.version           refused without 2                     as read
timeline.path, history.path       refused if not the default            as read
table.format                      refused if not native                 as read
table.version                     implied by layout 2                   refused
record.merge.mode (9)             implied by payload class, ordering    refused
partition.fields (simple, time)   all rows                              refused
```

Apache Hudi 1.2.0 does not find a table without the layout, fails to write one of version 9 without
the merge mode, and reads no rows without the partition fields.  The table shows versions 8 and 9.
Source: writer_v8_v9 2, 20.2.
"""

from __future__ import annotations

from typing import Final

from pyhudi.errors import UnsupportedTableError
from pyhudi.filenames import PROPERTIES
from pyhudi.table.properties import KeyGeneratorKind, TableConfig

_LAYOUT: Final = "hoodie.timeline.layout.version"
_FIXED: Final = {
    "hoodie.timeline.path": "timeline",
    "hoodie.timeline.history.path": "history",
    "hoodie.table.format": "native",
}
_PARTITIONED: Final = (KeyGeneratorKind.SIMPLE, KeyGeneratorKind.TIMESTAMP)


def check_layout(config: TableConfig) -> None:
    """Raise UnsupportedTableError unless the timeline layout is that of the table version, and its
    folders are the default ones."""
    expected = 2 if config.version >= 8 else 1
    stated = config.properties.get(_LAYOUT) or ("" if expected == 2 else "1")
    if stated.strip() in (("2",) if expected == 2 else ("0", "1")):
        _check_defaults(config)
        return
    raise UnsupportedTableError(
        "the timeline layout of the properties contradicts the table version",
        property=_LAYOUT,
        found=stated or "(missing)",
        version=config.version,
        hint=f"restore {_LAYOUT}={expected} in {PROPERTIES} if the timeline has this layout",
    )


def _check_defaults(config: TableConfig) -> None:
    for name, default in _FIXED.items():
        found = config.properties.get(name) or default
        if found.strip().lower() != default:
            raise UnsupportedTableError(
                "the table has a property with a value that is not supported",
                property=name,
                found=found,
                supported=default,
                hint="read it with Apache Hudi",
            )


def check_stated(config: TableConfig) -> None:
    """Raise UnsupportedTableError for a table of version 8 or 9 without properties that a writer
    must not guess."""
    if config.version < 8:
        return
    missing = None
    if not config.properties.get("hoodie.table.version"):
        missing = "hoodie.table.version"
    elif config.version >= 9 and not config.properties.get("hoodie.record.merge.mode"):
        missing = "hoodie.record.merge.mode"
    elif config.key_generator in _PARTITIONED and not config.partition_fields:
        missing = "hoodie.table.partition.fields"
    if missing:
        raise UnsupportedTableError(
            "the table's properties lack one that a writer needs",
            property=missing,
            version=config.version,
            key_generator=config.key_generator.value,
            hint=f"restore it in {PROPERTIES} as the table was created",
        )
