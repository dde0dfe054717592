"""Collection of the facts of a report: the table is read once, and a part that is damaged does not
prevent the others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC
from typing import Final, TypeVar

from pyhudi.engine import Engine
from pyhudi.errors import (
    CorruptFileError,
    FileMissingError,
    PyhudiError,
    TableNotFoundError,
    UnsupportedTableError,
)
from pyhudi.filenames import HOODIE
from pyhudi.health.doctor import examine, examine_inventory
from pyhudi.health.findings import Diagnosis, RepairAction
from pyhudi.health.inventory import FixedListing, TableInventory
from pyhudi.operations.service_runs import Service, services_due
from pyhudi.options import Options
from pyhudi.read.row_count import cheap_row_count
from pyhudi.read.table_snapshot import TableState, load_state
from pyhudi.records import without_meta
from pyhudi.report.facts import (
    COLUMNS_MAX,
    Part,
    ReportFacts,
    TableFacts,
    Unavailable,
)
from pyhudi.report.index_parts import index_facts, overlap_facts
from pyhudi.report.storage_parts import Files, cleaning_facts, log_facts, size_facts
from pyhudi.report.timeline_parts import newest_commits, timeline_facts, write_facts
from pyhudi.storage.filesystem import FileSystem
from pyhudi.table.file_group_view import FileSlice
from pyhudi.table.properties import TableConfig, load_config
from pyhudi.timeline.clock import Clock, system_clock, zone_of

CHECKED_INSTANTS_MAX: Final = 2_000
CHECKED_PARTITIONS_MAX: Final = 500
CHECKED_FILES_MAX: Final = 5_000
"""The doctor reads every instant, lists every partition and opens every file: a report includes its
findings up to these numbers."""

_COUNTED: Final = 64
"""Files whose footers are read for the number of rows."""

_T = TypeVar("_T")


def collect_facts(
    fs: FileSystem, options: Options, engine: Engine, *, clock: Clock = system_clock
) -> ReportFacts:
    """The facts of the table at `fs`.

    Cost: one listing of the timeline and of the files, the newest commits, trailers of the index;
    for a table of moderate size also the checks of the doctor, which lists the timeline and the
    partitions again.  Memory: an entry for each file of the table.  Takes no lock and changes
    nothing.
    Raises TableNotFoundError, UnsupportedTableError, and StorageError where the store fails.
    """
    made_at = clock().astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    try:
        config = load_config(fs)
        state = load_state(fs, options.read, for_reading=True)
    except TableNotFoundError as broken:
        if not fs.children(HOODIE):
            raise
        return _unreadable(fs, made_at, broken, engine)
    except (CorruptFileError, FileMissingError) as broken:
        return _unreadable(fs, made_at, broken, engine)
    facts = ReportFacts(_table_facts(fs, config), made_at)
    facts = replace(facts, table=_with_columns(facts.table, state))
    return _with_parts(facts, state, options, engine)


def _with_columns(table: TableFacts, state: TableState) -> TableFacts:
    """The table with its columns and rows; as it is where they cannot be read, and for a long
    timeline, of which every commit may have to be read."""
    if len(state.timeline) > CHECKED_INSTANTS_MAX:
        return table
    try:
        schema = without_meta(state.schema())
        rows = cheap_row_count(state, files_max=_COUNTED)
    except (PyhudiError, OSError):  # the findings say why
        return table
    columns = tuple((field.name, str(field.type)) for field in schema)
    return replace(table, columns=columns[:COLUMNS_MAX], column_count=len(columns), rows=rows)


def _with_parts(
    facts: ReportFacts, state: TableState, options: Options, engine: Engine
) -> ReportFacts:
    """The facts with all parts; one that cannot be read has the reason instead."""
    diagnosis, inventory = _diagnosis(state, engine)
    facts = replace(
        facts,
        diagnosis=diagnosis,
        index=_part(lambda: index_facts(state, options, engine)),
    )
    commits, unreadable = newest_commits(state.log, state.timeline)
    facts = replace(
        facts,
        timeline=_part(lambda: timeline_facts(state.log, state.timeline, commits, options)),
        writes=_part(lambda: write_facts(state.timeline, commits, unreadable)),
    )
    try:
        state, files, slices = _files(state, inventory)
    except (CorruptFileError, FileMissingError) as broken:
        why = Unavailable(str(broken))
        return replace(facts, files=why, logs=why, overlap=why, services=why, cleaning=why)
    sizing, is_small = options.write.sizing, inventory is not None
    return replace(
        facts,
        files=_part(lambda: size_facts(slices, sizing.small_file_bytes)),
        logs=_part(lambda: log_facts(state, slices)),
        overlap=_part(lambda: overlap_facts(state, options, slices)),
        services=_part(lambda: _services(state, options, facts.diagnosis, quick=not is_small)),
        cleaning=_part(
            lambda: cleaning_facts(state, options, slices, files, commits, plans=is_small)
        ),
    )


def _diagnosis(state: TableState, engine: Engine) -> tuple[Part[Diagnosis], TableInventory | None]:
    """(what the doctor found, the inventory that it read), for a table of moderate size."""
    counts = (
        (len(state.timeline), CHECKED_INSTANTS_MAX, "instants"),
        (len(state.listing.partitions()), CHECKED_PARTITIONS_MAX, "partitions"),
    )
    for count, most, what in counts:
        if count > most:
            return _too_large(count, most, what), None
    try:
        inventory = TableInventory.of(state.fs, state.config, log=state.log)
        files = sum(map(len, inventory.files.values()))
        if files > CHECKED_FILES_MAX:
            return _too_large(files, CHECKED_FILES_MAX, "data files"), None
        return examine_inventory(inventory, quick=True, engine=engine), inventory
    except UnsupportedTableError as unchecked:
        return Unavailable(str(unchecked)), None


def _too_large(count: int, most: int, what: str) -> Unavailable:
    return Unavailable(
        f"not checked: the table has {count:,} {what}, and reports include the checks of up to "
        f"{most:,}; run `pyhudi doctor PATH`"
    )


def _files(
    state: TableState, inventory: TableInventory | None
) -> tuple[TableState, Files, Sequence[FileSlice]]:
    """(the table with the listing in memory, its files, its newest slices); listed once."""
    files: Files
    if inventory is not None:
        files = inventory.files
    else:
        files = state.listing.files(state.listing.partitions())
    listed = replace(state, listing=FixedListing(files))
    return listed, files, listed.slices()


def _services(
    state: TableState, options: Options, diagnosis: Part[Diagnosis], *, quick: bool
) -> tuple[Service, ...]:
    found = diagnosis.findings if isinstance(diagnosis, Diagnosis) else None
    swept = None if found is None else sum(f.repair is RepairAction.SWEEP for f in found)
    return services_due(state, options, leftovers=swept, quick=quick)


def _part(read: Callable[[], Part[_T]]) -> Part[_T]:
    """A part of the report; where the table cannot be read in this part, the reason."""
    try:
        return read()
    except PyhudiError as broken:
        return Unavailable(str(broken))


def _unreadable(fs: FileSystem, made_at: str, broken: PyhudiError, engine: Engine) -> ReportFacts:
    """The findings about a table whose properties or timeline cannot be read."""
    reason = Unavailable(str(broken))
    table = TableFacts(fs.url.rstrip("/").rsplit("/", 1)[-1], fs.url, "unknown", 0)
    diagnosis = _part(lambda: examine(fs, quick=True, engine=engine))
    return ReportFacts(
        table, made_at, reason, reason, reason, reason, reason, reason, diagnosis, reason, reason
    )


def _table_facts(fs: FileSystem, config: TableConfig) -> TableFacts:
    return TableFacts(
        config.name,
        fs.url,
        config.table_type.value,
        config.version,
        tuple(config.record_key_fields),
        tuple(config.partition_fields),
        tuple(config.ordering_fields),
        config.merge_mode.value,
        "UTC" if zone_of(config.timezone) is UTC else "local time of the writers",
    )
