"""The table of option names: the rows of every area, and where a name or alias is found."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyhudi.options import (
    names_concurrency,
    names_index,
    names_machinery,
    names_merge,
    names_metadata,
    names_read,
    names_services,
    names_stream,
    names_table,
    names_write,
)
from pyhudi.options.row import Row

AREAS: Final[Mapping[str, tuple[Row, ...]]] = {
    "Tables and keys": names_table.ROWS,
    "Reading": names_read.ROWS,
    "Writing": names_write.ROWS,
    "Merging and schemas": names_merge.ROWS,
    "Indexes": names_index.ROWS,
    "The metadata table": names_metadata.ROWS,
    "Table services": names_services.ROWS,
    "Several writers": names_concurrency.ROWS,
    "Streams, SQL and hooks": names_stream.ROWS,
    "Machinery of the JVM": names_machinery.ROWS,
}
"""Rows by the heading they stand under in docs/options.md."""


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
