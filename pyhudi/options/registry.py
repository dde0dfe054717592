"""The table of option names: the rows of every area, and lookup by name or alias."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyhudi.options.names import (
    catalog,
    concurrency,
    index,
    ingest,
    machinery,
    merge,
    metadata,
    read,
    services,
    stream,
    table,
    write,
)
from pyhudi.options.option_row import Row

AREAS: Final[Mapping[str, tuple[Row, ...]]] = {
    "Tables and keys": table.ROWS,
    "Reading": read.ROWS,
    "Writing": write.ROWS,
    "Merging and schemas": merge.ROWS,
    "Indexes": index.ROWS,
    "The metadata table": metadata.ROWS,
    "Table services": services.ROWS,
    "Several writers": concurrency.ROWS,
    "Streams, SQL and hooks": stream.ROWS,
    "Catalogs": catalog.ROWS,
    "Ingest": ingest.ROWS,
    "Machinery of the JVM": machinery.ROWS,
}
"""Rows by their heading in docs/options.md."""


def _by_name() -> dict[str, Row]:
    found: dict[str, Row] = {}
    for rows in AREAS.values():
        for row in rows:
            for name in (row.name, *row.aliases):
                assert name not in found, name
                found[name] = row
    return found


BY_NAME: Final[Mapping[str, Row]] = _by_name()
"""The row of every name and alias.  Invariant: no name has two rows."""
