"""Methods for checks, repair and maintenance: `doctor`, `repair`, `metadata`, `services`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from copy import copy
from dataclasses import replace
from threading import TIMEOUT_MAX
from typing import Any, Self

from pyhudi.api.other_arguments import methods_lead_on
from pyhudi.engine import Engine
from pyhudi.errors import UserError
from pyhudi.health.doctor import examine
from pyhudi.health.findings import Diagnosis, in_order
from pyhudi.health.inventory import TableInventory
from pyhudi.health.metadata_rebuild import check_rebuildable, rebuild_metadata
from pyhudi.health.metadata_verify import check_metadata
from pyhudi.health.repair import RepairReport, execute_repair
from pyhudi.health.table_copy import CopyReport, copy_table
from pyhudi.observe.gauge import Gauge
from pyhudi.operations.service_runs import (
    BackgroundServices,
    PendingServices,
    ServiceRun,
    ServicesReport,
    count_pending,
    run_due,
    run_enabled,
)
from pyhudi.options import Options
from pyhudi.read.time_travel import PointInTime
from pyhudi.report.gauges import table_gauges
from pyhudi.report.table_report import TableReport, table_report
from pyhudi.storage.filesystem import FileSystem
from pyhudi.storage.url_resolver import locate
from pyhudi.table.properties import load_config
from pyhudi.transaction.begin import table_lock
from pyhudi.transaction.deferred_publish import check_none_deferred


class CareVerbs:
    """Methods of a table that detect and repair damage."""

    _fs: FileSystem
    _options: Options
    _engine: Engine

    def doctor(self, *, quick: bool = False) -> Diagnosis:
        """Check the table.  Each finding states the problem, its location, cause and remedy.

        quick: skip the check of the record index against the keys, which reads one column of the
        table, and the search for NaN that statistics of files of earlier releases hide.  Takes no
        lock and changes nothing; a concurrent write is reported as pending.
        """
        return examine(self._fs, quick=quick, engine=self._engine)

    def repair(self, *, dry_run: bool = False, allow_loss: bool = False) -> RepairReport:
        """Repair the problems that `doctor` finds.

        dry_run: report only.  allow_loss: include repairs that lose rows or history: the newest
        commit is rolled back if its files are damaged; otherwise damaged files are removed and
        their file groups return to their previous contents.  Removed files are moved to
        `.hoodie/.set_aside`.  Raises LockError.
        """
        return execute_repair(
            self._fs,
            options=self._options,
            engine=self._engine,
            dry_run=dry_run,
            allow_loss=allow_loss,
        )

    def copy(
        self,
        path: str | os.PathLike[str],
        *,
        as_of: PointInTime | None = None,
        dry_run: bool = False,
        storage_options: Mapping[str, Any] | None = None,
    ) -> CopyReport:
        """Copy a snapshot of the table with its timeline to an empty place, on any store.

        as_of: as for `scan`; None: the newest.  storage_options: of the copy.  Writers go on:
        the snapshot is pinned, and the lock is held only while the timeline is read.  A copy that
        was stopped is continued by the same call.  The copy has the snapshot's files, not those
        of older ones: reads before it raise SnapshotExpiredError.  Savepoints are not copied.
        Raises UserError for a place that is not empty, UnsupportedTableError for bootstrapped
        tables and those with an external index, SnapshotExpiredError.

        >>> copy = trips.copy("memory://copy-of-trips")
        >>> pyhudi.open_table("memory://copy-of-trips").count()
        2
        """
        target = locate(path, storage_options=storage_options)
        return copy_table(
            self._fs, target, self._options, self._engine, as_of=as_of, dry_run=dry_run
        )

    def gauges(self) -> tuple[Gauge, ...]:
        """The state of the table for monitoring: age of the newest commit, pending instants, logs,
        small files, services that are due, findings; docs/observability.md lists them.

        Cost as for `report`.  Takes no lock and changes nothing.
        """
        return table_gauges(self._fs, self._options, self._engine)

    def report(self) -> TableReport:
        """The state of the table as one self-contained HTML page: timeline, writes, file sizes,
        logs, index, overlap, findings, services that are due, cleaning.

        Notebooks show it; `save(path)` writes the page, `to_html()` returns it.  Cost: one listing,
        the newest commits, the trailers of the index, and the checks of `doctor(quick=True)` for a
        table of moderate size, which list again.  Takes no lock and changes nothing.
        """
        return table_report(self._fs, self._options, self._engine)

    @property
    def metadata(self) -> MetadataCare:
        """The metadata table: verification and rebuild."""
        return MetadataCare(self._fs, self._options, self._engine)

    def without_inline_services(self) -> Self:
        """The same table, but its writes run no table services, whatever its options say."""
        other = copy(self)
        services = replace(self._options.services, enabled=False)
        other._options = replace(self._options, services=services)
        return other

    @property
    def services(self) -> TableServices:
        """The table services, run by one call or in the background."""
        return TableServices(self._fs, self._options, self._engine)


@methods_lead_on
class TableServices:
    """The services of one table."""

    def __init__(self, fs: FileSystem, options: Options, engine: Engine) -> None:
        self._fs, self._options, self._engine = fs, options, engine

    def run_enabled(
        self, *, compaction: bool, clustering_commits: int | None = None
    ) -> Iterator[ServiceRun]:
        """Run, concurrent with writers, the services that the table's options enable after a write
        and that are due by the timeline; yields each that has notes or failed.

        compaction: of a merge-on-read table, whatever `hoodie.compact.inline` says.
        clustering_commits: cluster after this many commits; None: as the options say.
        """
        rules = self._options.services
        if not rules.enabled:
            return
        is_mor = load_config(self._fs).is_merge_on_read
        rules = replace(rules, compacts_inline=compaction and is_mor)
        if clustering_commits is not None:
            clustering = replace(rules.clustering, inline=True, after_commits=clustering_commits)
            rules = replace(rules, clustering=clustering)
        options = replace(self._options, services=rules)
        yield from run_enabled(self._fs, options, self._engine)

    def pending(self) -> PendingServices:
        """The numbers of planned compactions and clusterings that are not completed."""
        return count_pending(self._fs)

    def run(
        self, *, dry_run: bool = False, stop: Callable[[], bool] | None = None
    ) -> ServicesReport:
        """Run the services that are due: rollback of failed writes, partition TTL, compaction, log
        compaction, clustering, cleaning, archival, removal of leftover files.

        The report states for each service what it did or why it was skipped.  An error in one
        service does not prevent the others from running.  dry_run: report only.  stop: called
        before each service; True ends the run, and the report has the services before it.
        """
        return run_due(self._fs, self._options, self._engine, dry_run=dry_run, stop=stop)

    def start(self, *, every_seconds: float = 30.0) -> BackgroundServices:
        """Call `run` periodically in a thread, concurrent with other work of this process:

        with table.services.start(every_seconds=60):
            stream_into(table)
        """
        is_number = isinstance(every_seconds, int | float) and every_seconds is not True
        if not is_number or not 0 < every_seconds <= TIMEOUT_MAX:
            raise UserError(
                f"every_seconds must be a number above 0 and at most {TIMEOUT_MAX:.0f}",
                every_seconds=every_seconds,
            )
        return BackgroundServices(self.run, every_seconds=every_seconds)

    def __repr__(self) -> str:
        return f"TableServices({self._fs.url!r})"


class MetadataCare:
    """Maintenance of the metadata table of one table."""

    def __init__(self, fs: FileSystem, options: Options, engine: Engine) -> None:
        self._fs, self._options, self._engine = fs, options, engine

    def verify(self, *, keys: bool = True) -> Diagnosis:
        """Verify the metadata table against the table: `files` against a listing, statistics and
        bloom filters against footers and (keys) the record index and secondary indexes against
        every row.  The files of the metadata table are checked too."""
        inventory = TableInventory.of(self._fs, load_config(self._fs))
        found = check_metadata(inventory, with_keys=keys, engine=self._engine)
        return Diagnosis(
            self._fs.url, in_order(found), (("data files", len(inventory.data_files)),)
        )

    def rebuild(self, *, dry_run: bool = False) -> Diagnosis:
        """Rebuild the metadata table and replace the old one.  Returns the result of `verify`.

        dry_run: check that a rebuild is possible now and verify the current metadata table;
        nothing changes.

        Readers are not blocked.  A crash leaves the old metadata table, or a table that lists its
        storage until the next write completes the replacement.  Cost: the key column of the table,
        and footers for statistics.  Raises LockError, IndexNotReadyError while a write is pending.
        """
        if dry_run:
            check_rebuildable(self._fs)
            return self.verify()
        with table_lock(self._fs, self._options.write, "rebuild metadata"):
            inventory = TableInventory.of(self._fs, load_config(self._fs))
            check_none_deferred(self._fs, inventory.timeline)
            rebuild_metadata(self._fs, self._options, self._engine)
        return self.verify()

    def __repr__(self) -> str:
        return f"MetadataCare({self._fs.url!r})"
