"""What a write did: returned by every writing verb."""

from __future__ import annotations

import html
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any


@dataclass(frozen=True, slots=True)
class WriteReport:
    """Counts of records, files and bytes; seconds per phase.

    instant is None for a dry run, and for a write that found nothing to do.
    matched: incoming rows whose key is in the table.  unchanged: rows that lost to a stored
    record with a greater ordering value, or (skip_unchanged) equal it; a merge-on-read table logs
    rows that lose, as Apache Hudi does, and counts them as updated: readers decide which lose.
    missing_keys: deletes that matched nothing.
    duplicates: incoming rows dropped because another row of the batch has the same key.
    deleted: records deleted; of an overwrite, the rows of the file groups that it replaced.
    published: False for a write that `table.publish(instant)` is to complete.
    conflicts: attempts given up because another writer came between; the report is of the last.
    index: the path the look-up took, and why.  lookup: of a record index, files asked by method,
    what seeking or scanning them was expected to take, and what it took (`LookupCost`).
    notes: what a reader of the log should know.
    """

    operation: str
    instant: str | None = None
    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    unchanged: int = 0
    missing_keys: int = 0
    duplicates: int = 0
    files: int = 0
    bytes_written: int = 0
    file_groups: int = 0
    replaced_file_groups: int = 0
    seconds: Mapping[str, float] = field(default_factory=dict)
    index: str = ""
    lookup: Mapping[str, float] = field(default_factory=dict)
    dry_run: bool = False
    matched: int = 0
    new: int = 0
    rolled_back: tuple[str, ...] = ()
    added_columns: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    published: bool = True
    conflicts: int = 0

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> WriteReport:
        """The inverse of `to_dict`; values of other releases are left out."""
        names = {f.name for f in fields(cls)}
        known: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in values.items()
            if name in names
        }
        return cls(**known)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as JSON takes them."""
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in asdict(self).items()
        }

    def _repr_html_(self) -> str:
        cells = "".join(
            f"<tr><td>{html.escape(name)}</td><td>{html.escape(str(value))}</td></tr>"
            for name, value in self.to_dict().items()
            if value not in (None, 0, "", [], {})
        )
        return f"<table>{cells}</table>"
