"""The table of option names: the rows of every area, and lookup by name or alias."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from pyhudi.options.names import (
    catalog,
    concurrency,
    index,
    ingest,
    merge,
    metadata,
    read,
    services,
    stream,
    table,
    write,
)
from pyhudi.options.option_row import Fate, Row


def _unsupported() -> Iterator[tuple[str, Row]]:
    """Areas with the rows of unsupported_names.tsv."""
    text = Path(__file__).with_name("unsupported_names.tsv").read_text("utf-8")
    for line in text.splitlines()[1:]:
        area, name, support, why, use, accepted, aliases = line.split("\t")
        harmless = tuple("" if value == '""' else value for value in _listed(accepted))
        also = _listed(aliases)
        yield area, Row(name, Fate(support), why, use=use, harmless=harmless, aliases=also)


def _listed(text: str) -> tuple[str, ...]:
    return tuple(text.split(",")) if text else ()


_SUPPORTED: Final[Mapping[str, tuple[Row, ...]]] = {
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
    "Machinery of the JVM": (),
}


def _areas() -> Mapping[str, tuple[Row, ...]]:
    found = {area: list(rows) for area, rows in _SUPPORTED.items()}
    for area, row in _unsupported():
        found[area].append(row)
    return {area: tuple(rows) for area, rows in found.items()}


AREAS: Final[Mapping[str, tuple[Row, ...]]] = _areas()
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
