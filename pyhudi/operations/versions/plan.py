"""Change of a table between versions 6, 8 and 9: what it needs, and what stands in its way.

```
merge-on-read: logs merged -> (to version 6: older slices with logs cleaned)
-> .hoodie/.version_change     from, to, metadata partitions and their file groups
-> timeline and archive written in the new layout, next to the old ones
-> metadata table removed -> hoodie.properties of the new version, the commit point
-> old timeline removed -> metadata table built -> .version_change removed
```

Until the commit point the table has its old version and its old timeline; files of the new one are
ignored, and replaced by the next attempt.  Afterwards it has the new version; the next attempt,
in any direction, finishes what is left.
Source: writer_v8_v9 16.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from pyhudi.errors import UserError
from pyhudi.filenames import METADATA_TABLE, LogFileName, parse_data_file
from pyhudi.layouts.known import LAYOUTS
from pyhudi.metadata.bootstrap import LISTED, joined, partitions_being_built
from pyhudi.metadata.expression_index.definition import usable_expressions
from pyhudi.metadata.payloads import (
    COLUMN_STATS,
    FILES,
    MAINTAINED_PARTITIONS,
    PARTITION_STATS,
    RECORD_INDEX,
    maintained_partitions,
)
from pyhudi.metadata.record_index.by_partition import is_partitioned_record_index
from pyhudi.metadata.secondary_index.definition import secondary_indexes
from pyhudi.operations.versions.properties import properties_at
from pyhudi.options import Heartbeats, Options
from pyhudi.read.table_snapshot import TableState
from pyhudi.recovery.rollback import failed_writes
from pyhudi.reports import Report
from pyhudi.storage.filesystem import FileSystem
from pyhudi.table.file_group_view import FileSlice
from pyhudi.table.listing import StoreListing
from pyhudi.table.properties import TableConfig
from pyhudi.table.version_record import ChangeRecord, load_record
from pyhudi.timeline.instant import Action, Instant, State
from pyhudi.transaction.begin import check_table
from pyhudi.transaction.deferred_publish import check_none_deferred

VERSIONS: Final = tuple(sorted(LAYOUTS))
_STAYS: Final = frozenset(
    {
        Action.COMPACTION,
        Action.CLUSTERING,
        Action.CLEAN,
        Action.ROLLBACK,
        Action.RESTORE,
        Action.SAVEPOINT,
    }
)
"""Pending actions that recovery finishes, that run first, or that stay as they are."""


@dataclass(frozen=True, slots=True)
class UpgradeReport(Report):
    """What an upgrade changed, or (dry_run) would change.

    properties: new values; None for removed properties.  rolled_back: instants of failed writes.
    compacted: file groups whose logs are merged first.  instants: files of the timeline that are
    converted.  rebuilt: metadata partitions built again; dropped: those that the version, or this
    package, does not have.
    """

    from_version: int
    to_version: int
    properties: Mapping[str, str | None]
    rolled_back: tuple[str, ...] = ()
    metadata_dropped: bool = False
    compacted: int = 0
    instants: int = 0
    rebuilt: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    dry_run: bool = False
    notes: tuple[str, ...] = ()


def changed_properties(before: TableConfig, after: TableConfig) -> dict[str, str | None]:
    """The new values of properties that differ; None for removed ones."""
    old, new = before.properties, after.properties
    return {key: new.get(key) for key in sorted({*old, *new}) if old.get(key) != new.get(key)}


@dataclass(frozen=True, slots=True)
class VersionChange:
    """A planned change.

    before, config: properties before and after.  failed: writes to roll back.  slices: with logs to
    merge.  record: with the metadata partitions to build.  dropped: those that are not built.
    """

    before: TableConfig
    config: TableConfig
    failed: tuple[Instant, ...]
    slices: tuple[FileSlice, ...]
    record: ChangeRecord
    dropped: tuple[str, ...]
    instants: int

    @property
    def changes_layout(self) -> bool:
        return self.before.layout.timeline_version != self.config.layout.timeline_version

    def report(self, *, dry_run: bool, notes: tuple[str, ...] = ()) -> UpgradeReport:
        return UpgradeReport(
            self.before.version,
            self.config.version,
            changed_properties(self.before, self.config),
            rolled_back=tuple(str(i.time) for i in self.failed),
            metadata_dropped=bool(self.dropped),
            compacted=len(self.slices),
            instants=self.instants if self.changes_layout else 0,
            rebuilt=tuple(sorted(self.record.partitions)),
            dropped=self.dropped,
            dry_run=dry_run,
            notes=notes,
        )


def check_direction(config: TableConfig, to: int, *, upgrades: bool) -> None:
    """Raise UserError unless a table of this version can be changed to `to` in this direction."""
    word = "upgrade" if upgrades else "downgrade"
    targets = VERSIONS if upgrades else VERSIONS[:-1]
    if isinstance(to, bool) or to not in targets:
        raise UserError(
            f"unsupported target version of {'an' if upgrades else 'a'} {word}",
            requested=repr(to)[:80],
            hint=f"{word} to {', '.join(map(str, targets))}",
        )
    if upgrades == (config.version < to) and config.version != to:
        return
    raise UserError(
        f"the table needs no {word}",
        version=config.version,
        requested=to,
        hint=f"table.{'downgrade' if upgrades else 'upgrade'}() changes it in the other direction"
        if config.version != to
        else None,
    )


def plan_change(state: TableState, options: Options, to: int) -> VersionChange:
    """Plan the change of a table of versions 6 to 9; nothing changes.

    Raises UserError for pending instants and savepoints that the other version cannot have, and
    UnsupportedTableError for tables that could not be written afterwards.
    """
    check_none_deferred(state.fs, state.timeline)
    config = properties_at(state.config, to)
    check_table(state.config.with_properties({"hoodie.table.metadata.partitions": ""}))
    check_table(config)
    failed = _failed(state, options.write.concurrency.heartbeats)
    slices = _with_logs(state)
    _check_claims(state, slices)
    if to < 8 <= state.config.version:
        _check_savepoints(state)
        _check_logs(state)
    had = _groups_of_all(state)
    built = _available(state, had, config)
    dropped = tuple(sorted(had.keys() - built))
    record = ChangeRecord(
        state.config.version,
        to,
        {name: had[name] for name in sorted(built)},
        {name: had[name] for name in dropped},
    )
    files = sum(3 if i.is_completed else 1 for i in state.timeline)
    return VersionChange(state.config, config, failed, slices, record, dropped, files)


def _groups_of_all(state: TableState) -> dict[str, int]:
    """File groups of each metadata partition, with those that an interrupted change from this
    version, to any other, has removed since.

    That change may also have added `files`, for compactions of a table without metadata table.
    """
    listed = state.config.metadata_partitions | partitions_being_built(state.config)
    known = load_record(state.fs)
    if known is None or known.before != state.config.version:
        return {name: _groups(state.fs, name) for name in listed}
    removed = {**known.dropped, **known.partitions}
    if FILES.path not in removed and listed == {FILES.path}:
        return removed
    return removed | {name: _groups(state.fs, name) or removed.get(name, 0) for name in listed}


def _failed(state: TableState, heartbeats: Heartbeats) -> tuple[Instant, ...]:
    failed = tuple(failed_writes(state.log, state.timeline, heartbeats))
    times = {instant.time for instant in failed}
    others = [
        str(instant)
        for instant in state.timeline.pending
        if instant.time not in times
        and instant.action not in _STAYS
        and not state.log.is_clustering(instant)
    ]
    if others:
        raise UserError(
            "the version of a table with these pending instants cannot be changed",
            path=state.fs.url,
            pending=", ".join(others),
            hint="wait for their writers, or complete them with the writer that started them",
        )
    return failed


def _with_logs(state: TableState) -> tuple[FileSlice, ...]:
    """The newest slices with logs, which are merged first."""
    if not state.config.is_merge_on_read:
        return ()
    return tuple(each for each in state.view().latest_slices() if each.logs)


def _check_claims(state: TableState, slices: tuple[FileSlice, ...]) -> None:
    claimed = state.view().pending.clustering
    held = [f"{each.partition}/{each.file_id}" for each in slices if each.group in claimed]
    if held:
        raise UserError(
            "a pending clustering prevents the compaction of file groups with logs",
            path=state.fs.url,
            file_groups=", ".join(held[:10]),
            hint="run table.cluster() or table.unschedule_clustering(instant)",
        )


def _check_savepoints(state: TableState) -> None:
    """Version 6 finds the logs of a slice by the slice's instant in their names."""
    for saved in state.timeline.where({Action.SAVEPOINT}, State.COMPLETED):
        parts = (state.log.record(saved).get("partitionMetadata") or {}).values()
        names = [str(name) for part in parts for name in part.get("savepointDataFile") or ()]
        logs = [name for name in names if isinstance(parse_data_file(name), LogFileName)]
        if logs:
            raise UserError(
                "a savepoint protects logs that version 6 cannot have",
                savepoint=saved.time,
                file=logs[0],
                hint="table.delete_savepoint(instant)",
            )


def _check_logs(state: TableState) -> None:
    """Version 6 would attribute a log of no commit to a slice, and read its blocks."""
    seen, pending = state.view().visibility, state.timeline.pending.times
    store = StoreListing(state.fs)
    for infos in store.files(store.partitions()).values():
        for info in infos:
            name = parse_data_file(info.name)
            if not isinstance(name, LogFileName) or name.is_cdc or name.instant in pending:
                continue
            if not seen.sees(name.instant):
                raise log_of_no_commit(state, info.path, "table.repair() moves it out of the table")


def log_of_no_commit(state: TableState, path: str, hint: str) -> UserError:
    return UserError(
        "a log file belongs to no commit, which version 6 cannot have",
        path=state.fs.url,
        file=path,
        hint=hint,
    )


def _available(state: TableState, had: Iterable[str], after: TableConfig) -> set[str]:
    """The metadata partitions that the version can have and this package builds."""
    before = state.config.with_properties({LISTED: joined(had)})
    listed, has_indexes = before.metadata_partitions, bool(after.layout.index_version)
    found = {p.path for p in MAINTAINED_PARTITIONS} & listed
    if not (has_indexes and COLUMN_STATS.path in found):
        found.discard(PARTITION_STATS.path)
    if is_partitioned_record_index(state.fs, before):
        found.discard(RECORD_INDEX.path)
    if has_indexes and RECORD_INDEX.path in found:
        found |= {index.partition.path for index in secondary_indexes(state.fs, before)}
    if has_indexes:
        found |= {index.partition.path for index in usable_expressions(state.fs, before)}
    return found


def _groups(fs: FileSystem, partition: str) -> int:
    """How many file groups a metadata partition has on the store."""
    numbers = [
        known.number(name.file_id)
        for known in maintained_partitions([partition])
        for info in fs.children(f"{METADATA_TABLE}/{known.path}")
        if (name := parse_data_file(info.name)) is not None
    ]
    return max((number for number in numbers if number is not None), default=-1) + 1
