"""Methods for table services, rollback, restore and upgrade, on one machine and on Spark."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, overload

from pyhudi.api.input_conversion import (
    check_partition_names,
    names_of,
    required_text,
    text_of,
    with_clustering_arguments,
)
from pyhudi.engine import Engine
from pyhudi.operations import rollback_restore, table_services
from pyhudi.operations.rollback_restore import RollbackReport
from pyhudi.operations.ttl import ExpiryReport, expire
from pyhudi.operations.versions.execute import change_version, upgrade
from pyhudi.operations.versions.old_versions import KeyColumns
from pyhudi.operations.versions.plan import UpgradeReport
from pyhudi.options import DEFAULT_TABLE_VERSION, Options
from pyhudi.read.table_snapshot import TableState, read_current
from pyhudi.read.time_travel import PointInTime
from pyhudi.records import InstantTime
from pyhudi.recovery.restore import RestoreReport
from pyhudi.services.archival import ArchiveReport, plan_archival
from pyhudi.services.cancel_plan import UnscheduleReport
from pyhudi.services.cleaning import CleanReport
from pyhudi.services.clustering import ClusteringReport
from pyhudi.services.compaction import CompactionReport
from pyhudi.services.log_compaction import LogCompactionReport, plan_log_compaction
from pyhudi.services.savepoint import Savepoint, plan_savepoint, savepoints
from pyhudi.services.snapshot_pins import PinnedSnapshot, SnapshotPin, pinned_snapshots
from pyhudi.storage.filesystem import FileSystem
from pyhudi.timeline.instant import REPLACEMENTS, Action
from pyhudi.timeline.timeline import Timeline


class ServiceVerbs:
    """Service methods of a table; they run under its lock and on its engine."""

    _fs: FileSystem
    _options: Options
    _engine: Engine

    def _state(self) -> TableState:
        raise NotImplementedError

    def compact(self, *, dry_run: bool = False) -> CompactionReport:
        """Merge the logs of a merge-on-read table into base files.

        Runs a pending compaction plan if there is one; otherwise compacts all file slices with
        logs, those with the most log bytes first, up to `hoodie.compaction.target.io`.
        dry_run: report only.  Raises UserError for a copy-on-write table; LockError,
        WriteConflictError, after which the table is unchanged.
        """
        if dry_run:
            return table_services.plan_compaction(self._state(), self._options)
        return table_services.compact(self._fs, self._options, self._engine)

    def compact_logs(self, *, dry_run: bool = False) -> LogCompactionReport:
        """Merge the log blocks of each file slice that has at least
        `hoodie.log.compaction.blocks.threshold` of them into one log file.

        Base files are neither read nor written, so this is cheaper than `compact` and speeds up
        reads until the next compaction.  File slices of a pending plan are skipped.
        dry_run: report only.  Raises UserError for a copy-on-write table; LockError,
        WriteConflictError, after which the table is unchanged.
        """
        if dry_run:
            return plan_log_compaction(self._state(), self._options)
        return table_services.compact_logs(self._fs, self._options, self._engine)

    @overload
    def schedule_compaction(self, *, dry_run: Literal[False] = False) -> str | None: ...
    @overload
    def schedule_compaction(self, *, dry_run: Literal[True]) -> CompactionReport: ...
    @overload
    def schedule_compaction(self, *, dry_run: bool) -> str | CompactionReport | None: ...
    def schedule_compaction(self, *, dry_run: bool = False) -> str | CompactionReport | None:
        """Plan a compaction to be run by `compact` or by Apache Hudi.  Returns its instant, or
        None if there are no logs.  Writers continue concurrently.  dry_run: report what would be
        planned.  Raises UserError for a copy-on-write table."""
        if dry_run:
            return table_services.plan_compaction(self._state(), self._options)
        return table_services.schedule_compaction(self._fs, self._options, self._engine)

    def unschedule_compaction(self, instant: str, *, dry_run: bool = False) -> UnscheduleReport:
        """Cancel a pending compaction plan, and remove files written by a crashed attempt.

        Raises UserError if no compaction is pending at `instant`, or if later writes have appended
        logs to it, so that it must be run; WriteConflictError while another process runs it, or
        while a write that began after the plan is pending.
        """
        return table_services.unschedule_plan(
            self._fs,
            self._options,
            self._engine,
            instant,
            frozenset({Action.COMPACTION}),
            dry_run=dry_run,
        )

    def unschedule_clustering(self, instant: str, *, dry_run: bool = False) -> UnscheduleReport:
        """Cancel a pending clustering plan, so that its file groups accept updates again.

        Raises UserError if no clustering is pending at `instant`, WriteConflictError while another
        process runs it.
        """
        actions = REPLACEMENTS
        return table_services.unschedule_plan(
            self._fs, self._options, self._engine, instant, actions, dry_run=dry_run
        )

    def cluster(
        self,
        sort_by: str | Sequence[str] | None = None,
        *,
        layout: str | None = None,
        partitions: str | Sequence[str] | None = None,
        dry_run: bool = False,
    ) -> ClusteringReport:
        """Rewrite small file groups into fewer files, with rows sorted by columns.

        sort_by: columns.  layout: "linear" (by the first, then the second, ...), "zorder" or
        "hilbert" (rows with similar values in all columns are stored close together).
        partitions: restrict clustering to these.  Arguments that are None are taken from the
        `hoodie.clustering.*` options.  A pending clustering runs as planned; the arguments then
        apply to the other file groups.  dry_run: report only.  Raises OptionError for unknown
        columns and UserError for unknown partitions; LockError, WriteConflictError, after which
        the table is unchanged.
        """
        requested = with_clustering_arguments(
            self._options, sort_by=sort_by, layout=layout, partitions=partitions
        )
        check_partition_names(partitions, lambda: self._state().partitions())
        if dry_run:
            return table_services.plan_clustering(self._state(), requested)
        also_plans = requested is not self._options
        return table_services.cluster(self._fs, requested, self._engine, also_plans=also_plans)

    @overload
    def schedule_clustering(
        self,
        sort_by: str | Sequence[str] | None = None,
        *,
        layout: str | None = None,
        partitions: str | Sequence[str] | None = None,
        dry_run: Literal[False] = False,
    ) -> str | None: ...
    @overload
    def schedule_clustering(
        self,
        sort_by: str | Sequence[str] | None = None,
        *,
        layout: str | None = None,
        partitions: str | Sequence[str] | None = None,
        dry_run: Literal[True],
    ) -> ClusteringReport: ...
    @overload
    def schedule_clustering(
        self,
        sort_by: str | Sequence[str] | None = None,
        *,
        layout: str | None = None,
        partitions: str | Sequence[str] | None = None,
        dry_run: bool,
    ) -> str | ClusteringReport | None: ...
    def schedule_clustering(
        self,
        sort_by: str | Sequence[str] | None = None,
        *,
        layout: str | None = None,
        partitions: str | Sequence[str] | None = None,
        dry_run: bool = False,
    ) -> str | ClusteringReport | None:
        """Plan a clustering to be run by `cluster` or by Apache Hudi.  Returns its instant, or
        None if no file group qualifies.  Until it completes, its file groups accept no updates,
        unless `hoodie.clustering.updates.strategy` permits them.  dry_run: report what would be
        planned."""
        requested = with_clustering_arguments(
            self._options, sort_by=sort_by, layout=layout, partitions=partitions
        )
        check_partition_names(partitions, lambda: self._state().partitions())
        if dry_run:
            return table_services.plan_clustering(self._state(), requested)
        return table_services.schedule_clustering(self._fs, requested, self._engine)

    def expire_partitions(self, *, dry_run: bool = False) -> ExpiryReport:
        """Delete the partitions that were last written (or created:
        `hoodie.partition.ttl.management.strategy.type`) more than
        `hoodie.partition.ttl.strategy.days.retain` days ago.

        dry_run: report only.  Raises OptionError if no number of days is set; LockError,
        WriteConflictError, after which the table is unchanged.
        """
        return expire(self._fs, self._options, self._engine, dry_run=dry_run)

    def clean(self, *, dry_run: bool = False) -> CleanReport:
        """Delete files that no reader needs any more, according to `hoodie.clean.policy`.

        Retains at least the newest file slice of each file group, and all files needed by
        savepoints, pending compactions and pinned snapshots.  dry_run: report only.
        """
        if dry_run:
            return table_services.plan_clean(self._state(), self._options)
        return table_services.clean(self._fs, self._options, self._engine)

    def pin_snapshot(self, as_of: PointInTime | None = None) -> SnapshotPin:
        """Pin the snapshot at a point in time (None: now), so that `clean` retains it.

        `with table.pin_snapshot() as pin: table.scan(as_of=pin.instant)`.  The pin ends with the
        block, with `release()`, or with this process: a heartbeat file below `.hoodie` shows that
        the reader is alive.  Rollback, restore and Apache Hudi's cleaner ignore pins.  Raises
        SnapshotExpiredError if files of the snapshot have been cleaned, UserError if a pending
        clean deletes some of them, LockError.
        """
        return rollback_restore.pin_snapshot(self._fs, self._options, as_of)

    def pinned_snapshots(self) -> list[PinnedSnapshot]:
        """The pinned snapshots and their readers, including dead readers until the next clean."""
        return pinned_snapshots(self._fs, self._options.write.concurrency.heartbeats)

    def archive(self, *, dry_run: bool = False) -> ArchiveReport:
        """Move old instants from the timeline to the archive, where they count as completed.

        If there are more than `hoodie.keep.max.commits` commits, the oldest are archived until
        `hoodie.keep.min.commits` are left; the same applies to cleans, to rollbacks and to the
        timeline of the metadata table.  Instants needed by a pending instant, a savepoint or the
        next clean or compaction are retained.  dry_run: report only.
        """
        if dry_run:
            return plan_archival(self._state(), self._options)
        return table_services.archive(self._fs, self._options, self._engine)

    @property
    def archived_timeline(self) -> Timeline:
        """The archived instants.  Cost: reads the whole archive."""
        return self._state().archive.timeline

    def rollback(self, instant: str, *, dry_run: bool = False) -> RollbackReport:
        """Permanently undo the newest completed commit, also in the metadata table and the record
        index.  dry_run: only report which files would be deleted.

        Raises UserError, before any change, if a later commit, a savepoint, a pending service or a
        compaction of the metadata table depends on it.
        """
        if dry_run:
            return rollback_restore.plan_rollback(self._state(), required_text(instant, "instant"))
        return rollback_restore.rollback(
            self._fs, self._options, self._engine, required_text(instant, "instant")
        )

    def savepoint(
        self, comment: str = "", instant: str | None = None, *, dry_run: bool = False
    ) -> Savepoint:
        """Protect the snapshot at a commit (None: the newest) from cleaning and archival.

        dry_run: report what would be protected; nothing changes.
        Raises UserError if `instant` is not a completed commit or already has a savepoint,
        SnapshotExpiredError if files of the snapshot have been cleaned.
        """
        required_text(comment, "comment")
        instant = text_of(instant, "instant")
        if dry_run:
            return plan_savepoint(
                self._state(), comment, None if instant is None else InstantTime(instant)
            )
        return rollback_restore.savepoint(self._fs, self._options, self._engine, comment, instant)

    def savepoints(self) -> list[Savepoint]:
        """The table's savepoints, oldest first."""
        return read_current(self._state, savepoints)

    def delete_savepoint(self, instant: str, *, dry_run: bool = False) -> Savepoint:
        """Delete the savepoint at `instant` and return it.

        dry_run: only return it.  Raises UserError if there is none."""
        if dry_run:
            return rollback_restore.plan_savepoint_deletion(
                self._state(), required_text(instant, "instant")
            )
        return rollback_restore.delete_savepoint(
            self._fs, self._options, self._engine, required_text(instant, "instant")
        )

    def restore(self, instant: str, *, dry_run: bool = False) -> RestoreReport:
        """Restore the table to its state at a commit, usually one with a savepoint.  Later writes
        are permanently lost.  dry_run: report the instants and files that would be removed.

        Readers see the table either before or after the restore.  The metadata table and the
        record index are restored too.  Raises UserError, before any change, if `instant` is not a
        completed commit or a later commit has a savepoint; SnapshotExpiredError if files of the
        snapshot have been cleaned.
        """
        if dry_run:
            return rollback_restore.plan_restore(self._state(), required_text(instant, "instant"))
        return rollback_restore.restore(
            self._fs, self._options, self._engine, required_text(instant, "instant")
        )

    def upgrade(
        self,
        to: int = DEFAULT_TABLE_VERSION,
        *,
        record_key: str | Sequence[str] | None = None,
        partition_by: str | Sequence[str] | None = None,
        ordering: str | Sequence[str] | None = None,
        dry_run: bool = False,
    ) -> UpgradeReport:
        """Upgrade the table; versions before 6 can only be read.

        to: 9, the version of new tables, 8 or 6, the newest that Apache Hudi 0.x reads.
        Failed writes are rolled back and the logs of a merge-on-read table are merged; timeline,
        archive and properties are converted, and the metadata table is built again, without the
        partitions in `dropped` of the report.  An upgrade that was interrupted is finished by
        another call.  record_key, partition_by, ordering: columns that the properties of a table of
        versions 0 to 5 do not state.  dry_run: report the changes only.
        Raises UserError, before any change, for a version that is not higher, while services or
        live writers are pending, and for columns that are missing or do not produce the keys of the
        rows; UnsupportedTableError for features that could not be written afterwards; LockError.
        """
        given = KeyColumns(names_of(record_key), names_of(partition_by), names_of(ordering))
        return upgrade(self._fs, self._options, self._engine, to, given, dry_run=dry_run)

    def downgrade(self, to: int, *, dry_run: bool = False) -> UpgradeReport:
        """Change the table to a lower version, 8 or 6, as `upgrade` does to a higher one.

        To version 6, older file slices with logs are cleaned: its readers could not find the logs.
        Indexes that the version does not have are dropped; the report names them.
        dry_run: report the changes only.  Raises UserError, before any change, for a version that
        is not lower, while services or live writers are pending, and for savepoints that protect
        logs; UnsupportedTableError for a merge rule that the version cannot state; LockError.
        """
        return change_version(
            self._fs, self._options, self._engine, to, upgrades=False, dry_run=dry_run
        )
