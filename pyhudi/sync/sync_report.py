"""Report of a sync."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from pyhudi.markup import card_html, facts_html, facts_text


@dataclass(frozen=True, slots=True)
class EntryChange:
    """What a sync changed in one entry of a catalog.

    recreated: why the entry was dropped and created again, or empty.  columns_added,
    columns_changed: names.  properties_changed: whether formats or properties of the entry
    differed.  events_sent: events of lineage, or aspects of a dataset of DataHub.
    synced_instant: the instant that the catalog now records as last synced, or that the event
    describes.
    """

    table: str
    created: bool = False
    recreated: str = ""
    columns_added: tuple[str, ...] = ()
    columns_changed: tuple[str, ...] = ()
    columns_dropped: tuple[str, ...] = ()
    properties_changed: bool = False
    partitions_added: int = 0
    partitions_moved: int = 0
    partitions_dropped: int = 0
    events_sent: int = 0
    synced_instant: str | None = None

    @property
    def is_empty(self) -> bool:
        """Whether the entry was as it should be."""
        columns = self.columns_added or self.columns_changed or self.columns_dropped
        partitions = self.partitions_added or self.partitions_moved or self.partitions_dropped
        details = columns or self.properties_changed or partitions or self.events_sent
        return not (self.created or self.recreated or details)


@dataclass(frozen=True, slots=True)
class SyncReport:
    """What a sync did in one catalog.  entries: one a table of the catalog, in order of names.

    dry_run: whether the changes were only planned.
    """

    catalog: str
    url: str
    database: str
    created_database: bool
    entries: tuple[EntryChange, ...]
    seconds: float = 0.0
    dry_run: bool = False

    @property
    def synced_instant(self) -> str | None:
        """The last synced instant of the entries; None for a table without commits."""
        return max((e.synced_instant for e in self.entries if e.synced_instant), default=None)

    @property
    def is_empty(self) -> bool:
        """Whether the catalog was up to date."""
        return not self.created_database and all(entry.is_empty for entry in self.entries)

    def to_dict(self) -> dict[str, Any]:
        """Plain values that JSON can represent."""
        return {
            **asdict(self),
            "entries": [
                {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(e).items()}
                for e in self.entries
            ],
            "synced_instant": self.synced_instant,
        }

    def __repr__(self) -> str:
        title = f"Sync with {self.catalog}: {self.url}"
        return facts_text(title, {e.table: _text(e) for e in self.entries})

    def _repr_html_(self) -> str:
        shown: Mapping[str, str] = {e.table: _text(e) for e in self.entries}
        return card_html(f"Sync with {self.catalog}: {self.url}", facts_html(dict(shown)))


def _text(entry: EntryChange) -> str:
    """One line for an entry."""
    counts = {
        "partitions added": entry.partitions_added,
        "moved": entry.partitions_moved,
        "dropped": entry.partitions_dropped,
        "columns added": len(entry.columns_added),
        "changed": len(entry.columns_changed),
        "events sent": entry.events_sent,
    }
    parts = ["created"] if entry.created else []
    parts += [f"{name}: {count}" for name, count in counts.items() if count]
    return ", ".join(parts) or ("properties changed" if entry.properties_changed else "up to date")
