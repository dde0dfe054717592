"""Table services: the verbs of every door, on one machine and on Spark."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, overload

from pyhudi.api.input_conversion import (
    check_partition_names,
    clustering_as_asked,
    names_of,
    required_text,
    text_of,
)
from pyhudi.engine import Engine
from pyhudi.operations import rollback_restore, table_services
from pyhudi.operations.rollback_restore import RollbackReport
from pyhudi.operations.snapshot_pins import hold
from pyhudi.operations.ttl import ExpiryReport, expire
from pyhudi.operations.upgrade import upgrade
from pyhudi.operations.write import commit
from pyhudi.options import Options
from pyhudi.read.table_snapshot import TableState
from pyhudi.read.time_travel import PointInTime
from pyhudi.services.archival import ArchiveReport, describe_archival
from pyhudi.services.cancel_plan import UnscheduleReport
from pyhudi.services.cleaning import CleanReport
from pyhudi.services.clustering import ClusteringReport
from pyhudi.services.compaction import CompactionReport
from pyhudi.services.log_compaction import LogCompactionReport
from pyhudi.services.log_compaction import would_do as log_compaction_plan
from pyhudi.services.savepoint import Savepoint, savepoints
from pyhudi.services.snapshot_pins import HeldSnapshot, Hold, held_snapshots
from pyhudi.services.upgrade import KeyColumns, UpgradeReport
from pyhudi.storage.filesystem import FileSystem
from pyhudi.timeline.instant import Action
from pyhudi.timeline.timeline import Timeline
from pyhudi.transaction.restore import RestoreReport


class ServiceVerbs:
    """The part of a table that keeps it in shape: under its lock, on its engine."""

    _fs: FileSystem
    _options: Options
    _engine: Engine

    def _state(self) -> TableState:
        raise NotImplementedError

    def compact(self, *, dry_run: bool = False) -> CompactionReport:
        """Merge the logs of a merge-on-read table into base files.

        A compaction that is planned already is carried out; else all slices with logs are, those
        with most log bytes first, up to `hoodie.compaction.target.io`.  dry_run: tell only.
        Raises UserError for a copy-on-write table; LockError, WriteConflictError with the table
        as it was.
        """
        if dry_run:
            return table_services.preview_compaction(self._state(), self._options)
        return table_services.compact(self._fs, self._options, self._engine)

    def compact_logs(self, *, dry_run: bool = False) -> LogCompactionReport:
        """Merge the log blocks of each file slice that has at least
        `hoodie.log.compaction.blocks.threshold` of them into those of one log file.

        Base files are neither read nor written, so it is cheaper than `compact`, and makes reads
        faster until that runs.  Slices that a plan has claimed are left.  dry_run: tell only.
        Raises UserError for a copy-on-write table; LockError, WriteConflictError with the table
        as it was.
        """
        if dry_run:
            return log_compaction_plan(self._state(), self._options)
        return table_services.compact_logs(self._fs, self._options, self._engine)

    @overload
    def schedule_compaction(self, *, dry_run: Literal[False] = False) -> str | None: ...
    @overload
    def schedule_compaction(self, *, dry_run: Literal[True]) -> CompactionReport: ...
    @overload
    def schedule_compaction(self, *, dry_run: bool) -> str | CompactionReport | None: ...
    def schedule_compaction(self, *, dry_run: bool = False) -> str | CompactionReport | None:
        """Plan a compaction for `compact`, or for Apache Hudi, to run: its instant, or None if
        there are no logs.  Writers continue concurrently.  dry_run: report what would be planned.
        Raises UserError for a copy-on-write table."""
        if dry_run:
            return table_services.preview_compaction(self._state(), self._options)
        return table_services.schedule_compaction(self._fs, self._options)

    def unschedule_compaction(self, instant: str, *, dry_run: bool = False) -> UnscheduleReport:
        """Take a planned compaction off the timeline again, with what an attempt that died wrote.

        Raises UserError if none is planned at `instant`, or if logs of later writes lie on it: it
        has to be carried out then; WriteConflictError while somebody works on it or beside it.
        """
        return table_services.unschedule_plan(
            self._fs, self._options, instant, frozenset({Action.COMPACTION}), dry_run=dry_run
        )

    def unschedule_clustering(self, instant: str, *, dry_run: bool = False) -> UnscheduleReport:
        """Take a planned clustering off the timeline again; its file groups take updates then.

        Raises UserError if none is planned at `instant`, WriteConflictError while somebody
        carries it out.
        """
        actions = frozenset({Action.REPLACE_COMMIT})
        return table_services.unschedule_plan(
            self._fs, self._options, instant, actions, dry_run=dry_run
        )

    def cluster(
        self,
        sort_by: str | Sequence[str] | None = None,
        *,
        layout: str | None = None,
        partitions: str | Sequence[str] | None = None,
        dry_run: bool = False,
    ) -> ClusteringReport:
        """Write small file groups anew, in fewer files and with their rows laid out by columns.

        sort_by: columns; layout: "linear" (by the first, then the second, ...), "zorder" or
        "hilbert" (rows near in every column come near); partitions: only those.  What is not
        given is as the `hoodie.clustering.*` options say.  A clustering that is planned already
        is carried out as it was planned; what is asked for then takes the other file groups.
        dry_run: tell only.  Raises OptionError for columns and UserError for partitions that are
        not there; LockError, WriteConflictError with the table as it was.
        """
        asked = clustering_as_asked(
            self._options, sort_by=sort_by, layout=layout, partitions=partitions
        )
        check_partition_names(partitions, lambda: self._state().partitions())
        if dry_run:
            return table_services.preview_clustering(self._state(), asked)
        also_plans = asked is not self._options
        return table_services.cluster(self._fs, asked, self._engine, also_plans=also_plans)

    @overload
    def schedule_clustering(
        self, sort_by: str | Sequence[str] | None = None, *, layout: str | None = None,
        partitions: str | Sequence[str] | None = None, dry_run: Literal[False] = False,
    ) -> str | None: ...  # fmt: skip
    @overload
    def schedule_clustering(
        self, sort_by: str | Sequence[str] | None = None, *, layout: str | None = None,
        partitions: str | Sequence[str] | None = None, dry_run: Literal[True],
    ) -> ClusteringReport: ...  # fmt: skip
    @overload
    def schedule_clustering(
        self, sort_by: str | Sequence[str] | None = None, *, layout: str | None = None,
        partitions: str | Sequence[str] | None = None, dry_run: bool,
    ) -> str | ClusteringReport | None: ...  # fmt: skip
    def schedule_clustering(
        self,
        sort_by: str | Sequence[str] | None = None,
        *,
        layout: str | None = None,
        partitions: str | Sequence[str] | None = None,
        dry_run: bool = False,
    ) -> str | ClusteringReport | None:
        """Plan a clustering for `cluster`, or for Apache Hudi, to carry out: its instant, or None
        if no file group qualifies.  Until it is done its groups take no updates, unless
        `hoodie.clustering.updates.strategy` says otherwise.  dry_run: report what would be
        planned."""
        asked = clustering_as_asked(
            self._options, sort_by=sort_by, layout=layout, partitions=partitions
        )
        check_partition_names(partitions, lambda: self._state().partitions())
        if dry_run:
            return table_services.preview_clustering(self._state(), asked)
        return table_services.schedule_clustering(self._fs, asked)

    def expire_partitions(self, *, dry_run: bool = False) -> ExpiryReport:
        """Delete the partitions that were last written (or made:
        `hoodie.partition.ttl.management.strategy.type`) more than
        `hoodie.partition.ttl.strategy.days.retain` days ago.

        Raises OptionError where no number of days is set; LockError, WriteConflictError with the
        table as it was.
        """
        return expire(self._fs, self._options, self._engine, commit, dry_run=dry_run)

    def clean(self, *, dry_run: bool = False) -> CleanReport:
        """Delete files that no reader needs any more, as `hoodie.clean.policy` says.

        Of each file group at least the newest slice stays, and what savepoints, planned
        compactions and readers (`hold`) need.  dry_run: tell only.
        """
        if dry_run:
            return table_services.clean_plan(self._state(), self._options)
        return table_services.clean(self._fs, self._options, self._engine)

    def hold(self, as_of: PointInTime | None = None) -> Hold:
        """Keep the snapshot at a point in time (None: now) from `clean` while it is read.

        `with table.hold() as held: table.scan(as_of=held.instant)`.  It ends with the block, with
        `release()`, or with this process: a file below `.hoodie` shows that the reader lives.
        Rollback, restore and Apache Hudi's cleaner do not ask for it.  Raises
        SnapshotExpiredError where files of the snapshot have been cleaned, UserError where a
        planned clean deletes some, LockError.
        """
        return hold(self._fs, self._options, as_of)

    def holds(self) -> list[HeldSnapshot]:
        """Who holds which snapshot, readers that are gone too until a clean drops them."""
        return held_snapshots(self._fs, self._options.write.concurrency.heartbeats)

    def archive(self, *, dry_run: bool = False) -> ArchiveReport:
        """Move old instants from the timeline to the archive, where they count as completed.

        Once there are more than `hoodie.keep.max.commits` commits, the oldest go until
        `hoodie.keep.min.commits` are left; cleans and rollbacks likewise, and the metadata
        table's own.  What a pending instant, a savepoint, the next clean or compaction asks for
        stays.  dry_run: tell only.
        """
        if dry_run:
            return describe_archival(self._state(), self._options)
        return table_services.archive(self._fs, self._options)

    @property
    def archived_timeline(self) -> Timeline:
        """What has left the timeline for the archive.  Cost: reading the whole archive."""
        return self._state().archive.timeline

    def rollback(self, instant: str, *, dry_run: bool = False) -> RollbackReport:
        """Undo the newest completed commit, for good; the metadata table and the record index
        follow.  dry_run: tell only, which files would go.

        Raises UserError, before anything changes, where a later commit, a savepoint, a pending
        service or a compaction of the metadata table stands on it.
        """
        if dry_run:
            return rollback_restore.rollback_plan(self._state(), required_text(instant, "instant"))
        return rollback_restore.rollback(self._fs, self._options, required_text(instant, "instant"))

    def savepoint(
        self, comment: str = "", instant: str | None = None, *, dry_run: bool = False
    ) -> Savepoint:
        """Protect the snapshot at a commit (None: the newest) from cleaning and archival.

        dry_run: report what would be protected; nothing changes.
        Raises UserError for what is no completed commit or has a savepoint already,
        SnapshotExpiredError where files of the snapshot have been cleaned.
        """
        text_of(comment, "comment")
        instant = text_of(instant, "instant")
        if dry_run:
            return rollback_restore.savepoint_plan(self._state(), comment, instant)
        return rollback_restore.savepoint(self._fs, self._options, comment, instant)

    def savepoints(self) -> list[Savepoint]:
        """The table's savepoints, oldest first."""
        return savepoints(self._state())

    def delete_savepoint(self, instant: str, *, dry_run: bool = False) -> Savepoint:
        """Remove the savepoint at `instant`, and return what it protected.

        dry_run: only return it.  Raises UserError if there is none."""
        if dry_run:
            return rollback_restore.saved_at(self._state(), required_text(instant, "instant"))
        return rollback_restore.delete_savepoint(
            self._fs, self._options, required_text(instant, "instant")
        )

    def restore(self, instant: str, *, dry_run: bool = False) -> RestoreReport:
        """Make the table what it was at a commit, mostly one with a savepoint; what was written
        after it is gone for good.  dry_run: tell the instants and files that would go.

        Readers see the table as before or as restored, nothing between.  Metadata table and
        record index follow.  Raises UserError, before anything changes, for what is no completed
        commit or where a savepoint stands on a later one; SnapshotExpiredError where files of
        the snapshot have been cleaned.
        """
        if dry_run:
            return rollback_restore.restore_plan(self._state(), required_text(instant, "instant"))
        return rollback_restore.restore(self._fs, self._options, required_text(instant, "instant"))

    def upgrade(
        self,
        to: int = 6,
        *,
        record_key: str | Sequence[str] | None = None,
        partition_by: str | Sequence[str] | None = None,
        ordering: str | Sequence[str] | None = None,
        dry_run: bool = False,
    ) -> UpgradeReport:
        """Upgrade a table of versions 0 to 5 to version 6, in which it can be written.

        Failed writes are rolled back and the metadata table is dropped; data files and timeline
        stay.  record_key, partition_by, ordering: columns that the table's properties do not
        state.  There is no way back.  dry_run: report the changes only.
        Raises UserError, before anything changes, for any other version, while services or living
        writers are pending, and for columns that are missing or do not give the keys of the rows;
        UnsupportedTableError for what cannot be written in version 6 either; LockError.
        """
        given = KeyColumns(names_of(record_key), names_of(partition_by), names_of(ordering))
        return upgrade(self._fs, self._options, to, given, dry_run=dry_run)
