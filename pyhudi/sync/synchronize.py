"""One sync: compare the entries of a table with a catalog, and write the difference.

The last synced instant is written last, so that a sync that stops midway is repeated by the next
one.  Nothing below the table's folder is changed.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib import import_module
from typing import Final

from pyhudi.errors import CatalogError, UserError
from pyhudi.formats.avro_schema import avro_to_arrow
from pyhudi.formats.logical_types import with_logical_types
from pyhudi.options.catalogs import CatalogKind, CatalogOptions
from pyhudi.read.table_schema import full_schema, schema_text
from pyhudi.read.table_snapshot import TableState
from pyhudi.sync.catalog import Catalog
from pyhudi.sync.catalog_entry import CatalogColumn, CatalogPartition, CatalogTable, same_location
from pyhudi.sync.partition_values import catalog_values
from pyhudi.sync.sync_report import EntryChange, SyncReport
from pyhudi.sync.table_entries import (
    INPUT_FORMATS,
    PROVIDER,
    EntryFacts,
    as_url,
    entry_database,
    table_entries,
)
from pyhudi.timeline.clock import format_instant
from pyhudi.timeline.instant import COMMITS, Action, Instant
from pyhudi.timeline.timeline import Timeline

LAST_SYNCED: Final = "last_commit_time_sync"
LAST_COMPLETED: Final = "last_commit_completion_time_sync"
WRITER: Final = "hudi_writer_version"


@dataclass(frozen=True, slots=True)
class _Sync:
    """One sync of one state of a table.  partitions: those that have file groups."""

    state: TableState
    catalog: Catalog
    options: CatalogOptions
    watermark: Watermark | None
    partitions: tuple[CatalogPartition, ...]
    dry_run: bool


def synchronize(
    state: TableState,
    catalog: Catalog,
    options: CatalogOptions,
    kind: CatalogKind,
    *,
    dry_run: bool = False,
) -> SyncReport:
    """Bring the entries of a table up to date.

    Raises CatalogError if the catalog fails; UserError, SchemaError before anything is written.
    """
    started = time.perf_counter()
    entries = table_entries(entry_facts(state, options), options)
    keys = tuple(key.name for key in entries[0].partition_keys)
    partitions = tuple(_partitions(state, options, keys)) if keys else ()
    sync = _Sync(state, catalog, options, newest_watermark(state), partitions, dry_run)
    database = entry_database(state.config, options)
    created = _create_database(sync, database)
    changes = tuple(_sync_entry(sync, entry, new=created) for entry in entries)
    seconds = time.perf_counter() - started
    return SyncReport(kind.value, catalog.url, database, created, changes, seconds, dry_run)


def entry_facts(state: TableState, options: CatalogOptions) -> EntryFacts:
    """What the entries of a table depend on.  Raises UserError for a table in memory."""
    location = options.location or state.fs.url
    if location.startswith("memory:"):
        raise UserError(
            "a table in the memory of this process cannot be registered in a catalog",
            path=location,
        )
    text = schema_text(state.log, state.timeline, state.archive, state.config)
    if text is None:
        return EntryFacts(state.config, state.schema(), location)
    schema = with_logical_types(avro_to_arrow(text), text)
    fields = json.loads(text)["fields"]
    comments = {field["name"]: field["doc"] for field in fields if field.get("doc")}
    return EntryFacts(state.config, full_schema(schema, state.config), location, comments, text)


def _create_database(sync: _Sync, database: str) -> bool:
    """Whether the database did not exist."""
    if sync.catalog.has_database(database):
        return False
    if not sync.options.creates_database:
        raise CatalogError(
            "the database does not exist",
            catalog=sync.catalog.url,
            database=database,
            hint="create it, or set hoodie.datasource.hive_sync.auto_create_database=true",
        )
    if not sync.dry_run:
        sync.catalog.create_database(database)
    return True


def _sync_entry(sync: _Sync, entry: CatalogTable, *, new: bool) -> EntryChange:
    """Create or change one entry, then its partitions, then its last synced instant."""
    stored = None if new else sync.catalog.table(entry.database, entry.name)
    why = _must_recreate(entry, stored)
    if stored is not None and why:
        if not sync.dry_run:
            sync.catalog.drop_table(entry.database, entry.name)
        stored = None
    if stored is None:
        if not sync.dry_run and not _create(sync, entry):
            return _sync_entry(sync, entry, new=False)
        change = EntryChange(entry.name, created=not why, recreated=why)
        current: CatalogTable = entry
    else:
        current, change = _change_entry(sync, stored, entry)
    change = _sync_partitions(sync, current, change, stored)
    return _finish(sync, current, change)


def _create(sync: _Sync, entry: CatalogTable) -> bool:
    """False if a concurrent sync has created the entry since it was looked for."""
    try:
        sync.catalog.create_table(entry)
    except CatalogError:
        if sync.catalog.table(entry.database, entry.name) is None:
            raise
        return False
    return True


def _must_recreate(entry: CatalogTable, stored: CatalogTable | None) -> str:
    """Why an entry cannot be changed to what it should be; empty if it can."""
    if stored is None:
        return ""
    if stored.input_format not in INPUT_FORMATS and stored.properties.get(PROVIDER) != "hudi":
        raise UserError(
            "the catalog has a table of another format under this name",
            database=entry.database,
            table=entry.name,
            input_format=stored.input_format,
            hint="pass another table= or database=, or drop it from the catalog",
        )
    if not same_location(stored.location, entry.location):
        return f"its location was {stored.location}"
    if _shapes(stored.partition_keys) != _shapes(entry.partition_keys):
        return "its partition columns have changed"
    return ""


def _shapes(columns: Sequence[CatalogColumn]) -> list[tuple[str, str]]:
    return [(column.name, column.type) for column in columns]


def _change_entry(
    sync: _Sync, stored: CatalogTable, entry: CatalogTable
) -> tuple[CatalogTable, EntryChange]:
    """The entry as it is after the change, and what changed.  Properties of others stay."""
    before, after = dict(_shapes(stored.columns)), dict(_shapes(entry.columns))
    changed = replace(
        entry,
        columns=_with_comments(entry, stored),
        location=stored.location,
        properties=_merged(stored.properties, entry.properties),
        serde_properties={**stored.serde_properties, **entry.serde_properties},
        managed=stored.managed,
    )
    columns_differ = _shapes(stored.columns) != _shapes(entry.columns)
    change = EntryChange(
        entry.name,
        columns_added=tuple(name for name in after if name not in before),
        columns_changed=tuple(n for n, kind in after.items() if before.get(n, kind) != kind),
        columns_dropped=tuple(name for name in before if name not in after),
        properties_changed=_details(changed) != _details(stored),
    )
    if (columns_differ or change.properties_changed) and not sync.dry_run:
        sync.catalog.change_table(changed, cascade=columns_differ and bool(entry.partition_keys))
    return changed, change


def _with_comments(entry: CatalogTable, stored: CatalogTable) -> tuple[CatalogColumn, ...]:
    """The columns, with comments that are only in the catalog."""
    known = {column.name: column.comment for column in stored.columns}
    return tuple(
        c if c.comment else replace(c, comment=known.get(c.name, "")) for c in entry.columns
    )


def _merged(stored: Mapping[str, str], entry: Mapping[str, str]) -> dict[str, str]:
    """Stored properties, with those of the entry; an older schema of Spark is removed."""
    old = "spark.sql.sources.schema."
    others = {k: v for k, v in stored.items() if not k.startswith(old) or PROVIDER not in entry}
    return {**others, **entry}


def _details(table: CatalogTable) -> tuple[object, ...]:
    """What is compared beside columns' names and types."""
    return (
        [column.comment for column in table.columns], dict(table.properties),
        dict(table.serde_properties), table.input_format, table.output_format, table.serde,
    )  # fmt: skip


def _sync_partitions(
    sync: _Sync, entry: CatalogTable, change: EntryChange, stored: CatalogTable | None
) -> EntryChange:
    """Add, move and drop partitions: those that changed since the last sync, or all."""
    if not entry.partition_keys:
        return change
    keys = tuple(key.name for key in entry.partition_keys)
    touched = changed_since(sync.state, _stored_watermark(sync, stored))
    current = {p.values: p for p in sync.partitions}
    if stored is None:
        known: list[CatalogPartition] = []
    elif touched is None:
        known = sync.catalog.partitions(entry)
    else:
        values = [_values(sync.options, path, keys) for path in sorted(touched)]
        current = {v: current[v] for v in values if v in current}
        known = sync.catalog.find_partitions(entry, values) if values else []
    places = {p.values: p.location for p in known}
    added = [p for values, p in current.items() if values not in places]
    moved = [
        p
        for values, p in current.items()
        if values in places and not same_location(places[values], p.location)
    ]
    dropped = [values for values in places if values not in current]
    if not sync.dry_run:
        _write_partitions(sync, entry, added, moved, dropped)
    return replace(
        change,
        partitions_added=len(added),
        partitions_moved=len(moved),
        partitions_dropped=len(dropped),
    )


def _write_partitions(
    sync: _Sync,
    entry: CatalogTable,
    added: list[CatalogPartition],
    moved: list[CatalogPartition],
    dropped: list[tuple[str, ...]],
) -> None:
    """In batches: a catalog's messages and transactions are limited."""
    size = sync.options.batch
    for at in range(0, len(added), size):
        sync.catalog.add_partitions(entry, added[at : at + size])
    for at in range(0, len(moved), size):
        sync.catalog.move_partitions(entry, moved[at : at + size])
    for at in range(0, len(dropped), size):
        sync.catalog.drop_partitions(entry, dropped[at : at + size])


def _partitions(
    state: TableState, options: CatalogOptions, keys: tuple[str, ...]
) -> Iterator[CatalogPartition]:
    """The partitions of the table that have file groups, as entries."""
    base = as_url(options.location or state.fs.url).rstrip("/")
    for path in state.partitions():
        yield CatalogPartition(_values(options, path, keys), f"{base}/{path}")


def _values(options: CatalogOptions, path: str, keys: tuple[str, ...]) -> tuple[str, ...]:
    return catalog_values(path, keys, extractor=options.extractor, decode=options.decodes)


def _stored_watermark(sync: _Sync, stored: CatalogTable | None) -> Watermark | None:
    """What the catalog records as last synced; None: compare all partitions."""
    if stored is None or not sync.options.incremental:
        return None
    time_ = stored.properties.get(LAST_SYNCED)
    return Watermark(time_, stored.properties.get(LAST_COMPLETED)) if time_ else None


def _finish(sync: _Sync, entry: CatalogTable, change: EntryChange) -> EntryChange:
    """Record the last synced instant, if it has changed."""
    mark = sync.watermark
    if mark is None or (sync.options.only_changes and change.is_empty):
        return replace(change, synced_instant=entry.properties.get(LAST_SYNCED))
    facts = {LAST_SYNCED: mark.time, WRITER: f"pyhudi {_version()}"}
    if mark.completed_at is not None:
        facts[LAST_COMPLETED] = mark.completed_at
    is_recorded = all(entry.properties.get(name) == value for name, value in facts.items())
    if not is_recorded and not sync.dry_run:
        properties = {**entry.properties, **facts}
        sync.catalog.change_table(replace(entry, properties=properties), cascade=False)
    return replace(change, synced_instant=mark.time)


def _version() -> str:
    return str(import_module("pyhudi").__version__)


@dataclass(frozen=True, slots=True)
class Watermark:
    """How far a catalog has been synced.  completed_at: None where the store does not say."""

    time: str
    completed_at: str | None = None


def changed_since(state: TableState, synced: Watermark | None) -> frozenset[str] | None:
    """Partitions that commits after `synced` wrote or replaced; None: any may have changed.

    That is so if the instant is no longer on the active timeline: it was archived, rolled back or
    restored, or the table was created again.
    """
    commits = state.timeline.commits
    if synced is None or synced.time not in commits.times:
        return None
    found: set[str] = set()
    for instant in commits:
        if _is_newer(instant, synced):
            commit = state.log.commit(instant)
            found |= {group.partition for group in commit.groups | commit.replaced_groups}
    return frozenset(found)


def _is_newer(instant: Instant, synced: Watermark) -> bool:
    if instant.completed_at is not None and synced.completed_at is not None:
        return instant.completed_at > synced.completed_at
    return instant.time > synced.time


def newest_watermark(state: TableState) -> Watermark | None:
    """How far a sync of this state brings the catalog; None for a table without commits.

    Without completion times (layout 1), commits after the first pending write do not count: that
    write completes with an instant before theirs.
    """
    commits = state.timeline.commits
    if state.log.layout.has_completion_times:
        completions = [i.completed_at for i in commits if i.completed_at is not None]
        last = commits.last
        return Watermark(last.time, max(completions, default=None)) if last else None
    first = min((i.time for i in _pending_writes(state)), default=None)
    done = [i for i in commits if first is None or i.time < first]
    return Watermark(done[-1].time, _stored_at(state, done)) if done else None


def _pending_writes(state: TableState) -> Iterator[Instant]:
    """Pending instants that may add partitions: table services do not."""
    pending: Timeline = state.timeline.pending
    for instant in pending.where(COMMITS):
        if instant.action is Action.REPLACE_COMMIT and state.log.is_clustering(instant):
            continue
        yield instant


def _stored_at(state: TableState, commits: list[Instant]) -> str | None:
    """When the newest of the commits was stored, which Apache Hudi 1.x takes as its completion."""
    folder = state.log.path(commits[-1]).rpartition("/")[0]
    names = {state.log.path(i).rpartition("/")[2] for i in commits}
    times = [f.modified for f in state.fs.children(folder) if f.name in names and f.modified]
    if not times:
        return None
    return format_instant(datetime.fromtimestamp(max(times), UTC), state.zone)
