"""Conversion of a table between versions 6, 8 and 9: logs, timeline, archive, metadata table.

The order of the steps and what an interruption leaves: see `plan`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from pyhudi.engine import Engine
from pyhudi.errors import UserError, WriteConflictError
from pyhudi.filenames import LogFileName, parse_data_file
from pyhudi.index.maintenance.rebuild import build_now, silent
from pyhudi.index.secondary.build import recreate_indexes
from pyhudi.layouts.known import LAYOUTS
from pyhudi.layouts.table_layout import ArchiveKind, TableLayout
from pyhudi.metadata.bootstrap import create_metadata, drop_metadata
from pyhudi.metadata.definitions import (
    add_definition,
    define_column_stats,
    read_definitions,
    remove_definition,
)
from pyhudi.metadata.file_stats.build import create_facts
from pyhudi.metadata.file_stats.value_types import has_ranges
from pyhudi.metadata.payloads import (
    BLOOM_FILTERS,
    COLUMN_STATS,
    FILES,
    INDEX_PREFIXES,
    PARTITION_STATS,
    RECORD_INDEX,
    maintained_partitions,
)
from pyhudi.metadata.reader import open_metadata
from pyhudi.metadata.record_index.by_partition import is_partitioned_record_index
from pyhudi.operations.table_services import clean, compact
from pyhudi.operations.versions.plan import VersionChange, log_of_no_commit
from pyhudi.options import CleaningPolicy, CompactionStrategy, Options, ReadOptions
from pyhudi.read.table_snapshot import TableState, load_state
from pyhudi.services.compaction import pending_compactions, propose_compaction
from pyhudi.storage.filesystem import FileSystem
from pyhudi.table.listing import StoreListing
from pyhudi.table.log import create_timeline_folder, timeline_log
from pyhudi.table.properties import TableConfig, load_config
from pyhudi.table.version_record import RECORD, ChangeRecord
from pyhudi.timeline.archive_conversion import archive_from_history, history_from_archive
from pyhudi.timeline.clock import zone_of
from pyhudi.timeline.instant_files import TimelineLog
from pyhudi.timeline.layout_conversion import convert_timeline, instant_files

_COMPACTIONS_MAX: Final = 100
_FACTS: Final = (COLUMN_STATS, PARTITION_STATS, BLOOM_FILTERS)


def has_logs(fs: FileSystem) -> bool:
    """Whether a newest slice has logs on the store, those included that the metadata table does not
    list: a task can write one after the rollback of its write."""
    state = load_state(fs, ReadOptions(metadata_enabled=False))
    if not state.config.is_merge_on_read:
        return False
    return any(each.logs for each in state.view().latest_slices())


def has_plans(fs: FileSystem) -> bool:
    """Whether a compaction is pending; one of overwritten file groups keeps their logs."""
    config = load_config(fs)
    return config.is_merge_on_read and bool(pending_compactions(timeline_log(fs, config).load()))


def merge_logs(fs: FileSystem, options: Options, engine: Engine) -> None:
    """Compact every file group, by the merge rule of the present version.

    Logs that no commit wrote stay: they are deleted, as the new layout would show their blocks.
    Raises WriteConflictError while another process runs a compaction, which reads its logs.
    """
    _ensure_files(fs, options)
    rules = replace(options.services.compaction, strategy=CompactionStrategy.UNBOUNDED)
    unbounded = replace(options, services=replace(options.services, compaction=rules))
    for _ in range(_COMPACTIONS_MAX):
        if not compact(fs, unbounded, engine).instants:
            break
    state = load_state(fs, ReadOptions(metadata_enabled=False))
    if pending_compactions(state.timeline) or propose_compaction(state, unbounded):
        raise WriteConflictError(
            "another process compacts the table", path=fs.url, hint="retry when it has ended"
        )
    fs.delete(log.path for each in state.view().latest_slices() for log in each.logs)


def _ensure_files(fs: FileSystem, options: Options) -> None:
    """Give the table a metadata table that compactions maintain; it is rebuilt later anyway."""
    state = load_state(fs, options.read)
    listed = state.config.metadata_partitions
    own = {partition.path for partition in maintained_partitions(listed)}
    metadata = open_metadata(fs, state.config, state.log, state.timeline)
    is_maintained = listed <= own and not is_partitioned_record_index(fs, state.config)
    if metadata is not None and FILES.path in listed and is_maintained:
        return
    config = drop_metadata(fs, state.config)
    create_metadata(fs, config, state.log, records=None)


def remove_older_logs(fs: FileSystem, options: Options, engine: Engine) -> None:
    """Clean slices whose logs the layout of version 6 would attribute to no base file.

    Raises UserError where a reader or a savepoint needs one.
    """
    if not _older_logs(fs):
        return
    _ensure_files(fs, options)
    rules = replace(
        options.services,
        cleaning=CleaningPolicy.KEEP_LATEST_FILE_VERSIONS,
        versions_retained=1,
        cleans_incrementally=False,
        clean_partitions=(),
        clean_pattern=None,
    )
    clean(fs, replace(options, services=rules), engine)
    if left := _older_logs(fs):
        state = load_state(fs, options.read)
        name = parse_data_file(left[0].rpartition("/")[2])
        known = {i.time for timeline in (state.timeline, state.archive.timeline) for i in timeline}
        if name is not None and name.instant not in known:
            raise log_of_no_commit(state, left[0], "move it out of the table's folder")
        raise UserError(
            "logs of older file slices are in use, which version 6 cannot have",
            path=fs.url,
            file=left[0],
            hint="end the readers and delete the savepoints that need them",
        )


def _older_logs(fs: FileSystem) -> list[str]:
    store = StoreListing(fs)
    names = [info for infos in store.files(store.partitions()).values() for info in infos]
    logs = ((info.path, parse_data_file(info.name)) for info in names)
    return [path for path, name in logs if isinstance(name, LogFileName) and not name.is_cdc]


def convert_table(state: TableState, plan: VersionChange) -> tuple[str, ...]:
    """Write timeline and archive in the new layout; returns notes."""
    fs, target = state.fs, plan.config.layout
    _remove_timeline(fs, target)
    create_timeline_folder(fs, target)
    log = TimelineLog(fs, layout=target, zone=zone_of(plan.config.timezone))
    folder = plan.before.archive_folder
    if target.archive is ArchiveKind.LSM_TREE:
        history_from_archive(fs, folder)
    else:
        archive_from_history(log, folder)
    done = convert_timeline(state.log, log, by_modified=not plan.before.is_merge_on_read)
    if done.has_times:
        return ()
    return (
        "the store cannot set modification times, from which Apache Hudi 1.x takes the "
        "completion times of version 6",
    )


def _remove_timeline(fs: FileSystem, layout: TableLayout) -> None:
    """Remove a timeline that is not in use."""
    for path in instant_files(fs, layout):
        fs.delete([path])
    if layout.archive is ArchiveKind.LSM_TREE:
        fs.delete_folder(layout.timeline_folder)


def finish_change(fs: FileSystem, options: Options, engine: Engine, record: ChangeRecord) -> None:
    """The steps after the commit point; may be repeated."""
    before, config = LAYOUTS[record.before], load_config(fs)
    if before.timeline_version != config.layout.timeline_version:
        _remove_timeline(fs, before)
    config = _convert_definitions(fs, config, record)
    if FILES.path in record.partitions:
        _build_metadata(fs, config, options, engine, record)
    fs.delete([RECORD])


def _convert_definitions(fs: FileSystem, config: TableConfig, record: ChangeRecord) -> TableConfig:
    """Remove definitions of indexes that are not built, and state the version of the others."""
    for name, definition in read_definitions(fs, config).items():
        if name not in config.metadata_partitions and name not in record.partitions:
            config = remove_definition(fs, config, name)
        elif name.startswith(INDEX_PREFIXES) and name not in config.metadata_partitions:
            version = f"V{config.layout.index_version}"
            config = add_definition(fs, config, {**definition, "version": version})
    return config


def _define_column_stats(fs: FileSystem, config: TableConfig) -> TableConfig:
    """The definition for the table's version, with the former columns that it can index."""
    schema = load_state(fs, ReadOptions(metadata_enabled=False)).schema()
    known = read_definitions(fs, config).get(COLUMN_STATS.path)
    version = config.layout.index_version
    if known is not None and version:
        types = {field.name: field.type for field in schema}
        fields = [str(name) for name in known.get("sourceFields") or ()]
        left = [name for name in fields if name not in types or has_ranges(types[name], version)]
        known = {**known, "sourceFields": left, "version": f"V{version}"}
        config = add_definition(fs, config, known)
    return define_column_stats(fs, config, schema)


def _build_metadata(
    fs: FileSystem, config: TableConfig, options: Options, engine: Engine, record: ChangeRecord
) -> None:
    log, groups = timeline_log(fs, config), record.partitions
    if groups.keys() <= config.metadata_partitions:
        return
    config = drop_metadata(fs, config)  # what an interrupted attempt has built
    config = create_metadata(fs, config, log, records=None)
    facts = {p: groups[p.path] or 1 for p in _FACTS if p.path in groups}
    if COLUMN_STATS in facts:
        config = _define_column_stats(fs, config)
    create_facts(fs, config, log, group_counts=facts, engine=engine)
    if RECORD_INDEX.path in groups:
        state = load_state(fs, options.read)
        if RECORD_INDEX.path not in state.config.metadata_partitions:
            count = groups[RECORD_INDEX.path] or options.write.bucket_count
            build_now(state, count, engine, silent)
    recreate_indexes(fs, groups, engine)
