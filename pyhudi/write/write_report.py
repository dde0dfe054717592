"""Report of a write, returned by every write operation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Final

from pyhudi.markup import card_html, facts_html, facts_text, shown_facts

SCHEMA_CHANGES: Final = ("column added to the table", "column type widened in the table")
"""How the notes about changes of the table's columns begin."""

FAILED_SYNC: Final = "catalog sync with"
"""How the note about a catalog that could not be synced after the commit begins."""


@dataclass(frozen=True, slots=True)
class WriteReport:
    """Counts of records, files and bytes; seconds per phase.  `repr` shows what is not empty.

    instant: None for a dry run, and for a write with nothing to do.
    dry_run: the counts are those that the write would have, except that rows which lose to a stored
    record count as updated where only the write itself reads that record.
    completed_at: the completion time, which ranges of changes compare in versions 8 and 9; None in
    version 6, and for a write that is not published.
    matched: incoming rows whose key is in the table.  unchanged: rows that lost to a stored
    record with a greater ordering value, or (skip_unchanged) equal it; a merge-on-read table logs
    rows that lose, as Apache Hudi does, and counts them as updated: readers decide which lose.
    missing_keys: deletes that matched no record.
    duplicates: incoming rows dropped because another row of the batch has the same key.
    deleted: records deleted; for an overwrite, the rows of the replaced file groups.
    published: False for a write that `table.publish(instant)` has yet to complete.
    conflicts: attempts abandoned because of a concurrent writer; the report is of the last attempt.
    index: the index used for the lookup, and why.  lookup: for a record index, files read by
    method, and the estimated and actual cost of seeking or scanning them (`LookupCost`).
    rejected: rows of the source of an ingest that were skipped or written to an error table.
    notes: additional information about the write.
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
    completed_at: str | None = None
    rejected: int = 0

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> WriteReport:
        """The inverse of `to_dict`; ignores fields of other releases."""
        names = {f.name for f in fields(cls)}
        known: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in values.items()
            if name in names
        }
        return cls(**known)

    def to_dict(self) -> dict[str, Any]:
        """Plain values that JSON can represent."""
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in asdict(self).items()
        }

    def __repr__(self) -> str:
        return facts_text(f"WriteReport: {self.operation}", self._shown())

    def _repr_html_(self) -> str:
        return card_html(f"Write report: {self.operation}", facts_html(self._shown()))

    def _shown(self) -> dict[str, str]:
        """What is not empty; details of the look-up are in `lookup`."""
        values = {**self.to_dict(), "seconds": sum(self.seconds.values())}
        if self.published:
            del values["published"]
        return shown_facts(
            {n: v for n, v in values.items() if n not in ("operation", "lookup")},
            always=("published",),
        )
