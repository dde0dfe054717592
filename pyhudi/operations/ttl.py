"""Partition TTL: deletion of expired partitions, selected under the lock of the deletion."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, field

from pyhudi.engine import Engine
from pyhudi.errors import OptionError
from pyhudi.filenames import PARTITION_METAFILE, join
from pyhudi.formats.log_file import read_blocks
from pyhudi.operations.commit import commit
from pyhudi.options import ExpiryOptions, ExpiryRule, Options
from pyhudi.planning.ttl import expired, last_written
from pyhudi.read.table_snapshot import TableState
from pyhudi.records import InstantTime
from pyhudi.reports import Report
from pyhudi.storage.filesystem import FileSystem
from pyhudi.timeline.clock import days_before, format_instant, system_clock
from pyhudi.write.input.batch import NoRows
from pyhudi.write.write_context import Operation, WriteRequest


@dataclass(frozen=True, slots=True)
class ExpiryReport(Report):
    """Partitions that were deleted, or (dry_run) would be.  rows: the rows in them."""

    instant: str | None = None
    partitions: tuple[str, ...] = ()
    file_groups: int = 0
    rows: int = 0
    dry_run: bool = False
    notes: tuple[str, ...] = field(default=())


class _Choice:
    """Selection of expired partitions, repeated each time the write is planned."""

    def __init__(self, options: ExpiryOptions) -> None:
        self._options = options
        self.partitions: tuple[str, ...] = ()
        self.notes: tuple[str, ...] = ()

    def __call__(self, state: TableState) -> tuple[str, ...]:
        limit = format_instant(days_before(system_clock(), self._options.days), state.zone)
        if self._options.rule is ExpiryRule.KEEP_BY_CREATION_TIME:
            since = _created(state)
        else:
            since = _written(state, limit)
        view = state.view(partitions=[])
        claimed = {group.partition for group in view.pending.claimed}
        busy = [path for path in expired(since, self._options, limit=limit) if path in claimed]
        for path in busy:
            since.pop(path)
        self.partitions = expired(since, self._options, limit=limit)
        self.notes = (
            *(f"skipped, because a pending service covers it: {path}" for path in busy),
            *(() if self.partitions else ("no partition has expired",)),
        )
        return self.partitions


def _written(state: TableState, limit: InstantTime) -> dict[str, InstantTime]:
    """Partition -> the newest commit that wrote to it, exactly where that is not before `limit`.

    Cost at version 6: one read of block headers per log file of partitions that look expired, whose
    commits the timeline may no longer have.
    """
    slices = state.view().latest_slices()
    since = last_written(slices, _commits(state, limit))
    if state.log.layout.logs_name_slices:
        sees = state.visibility().sees
        for slice_ in slices:
            for log in slice_.logs if since[slice_.partition] < limit else ():
                with closing(state.fs.open(log.path)) as file:
                    times = {InstantTime(b.instant or "") for b in read_blocks(file, path=log.path)}
                since[slice_.partition] = max([since[slice_.partition], *filter(sees, times)])
    return since


def _commits(state: TableState, limit: InstantTime) -> dict[str, InstantTime]:
    """Partition -> the newest commit of the timeline, not before `limit`, that wrote to it."""
    newest: dict[str, InstantTime] = {}
    for instant in state.timeline.commits:
        if instant.time >= limit:
            newest |= {stat.partition: instant.time for stat in state.log.commit(instant).stats}
    return newest


def _created(state: TableState) -> dict[str, InstantTime]:
    """Partition -> the instant in its metafile.  Cost: one read per partition."""
    found: dict[str, InstantTime] = {}
    for partition in state.partitions():
        for line in state.fs.read(join(partition, PARTITION_METAFILE)).decode().splitlines():
            name, _, value = line.partition("=")
            if name.strip() == "commitTime" and value.strip().isdigit():
                found[partition] = InstantTime(value.strip())
    return found


def expire(fs: FileSystem, options: Options, engine: Engine, *, dry_run: bool) -> ExpiryReport:
    """Delete the expired partitions in one replace commit.

    Raises OptionError if no number of days is set.
    """
    if options.services.expiry.days <= 0:
        raise OptionError(
            "the retention time of partitions is not set",
            value=options.services.expiry.days,
            option="hoodie.partition.ttl.strategy.days.retain",
        )
    choice = _Choice(options.services.expiry)
    request = WriteRequest(
        Operation.DELETE_PARTITION, NoRows(), options, engine, dry_run, chooses=choice
    )
    report = commit(fs, request)
    return ExpiryReport(
        report.instant,
        choice.partitions,
        report.replaced_file_groups,
        report.deleted,
        dry_run,
        choice.notes,
    )


def expired_now(state: TableState, options: Options) -> tuple[str, ...]:
    """Partitions that `expire` would delete now, by the retention time in the options."""
    return _Choice(options.services.expiry)(state)
