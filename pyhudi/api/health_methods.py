"""What is done when something may be wrong: `table.doctor`, `table.repair`, `table.metadata`."""

from __future__ import annotations

from threading import TIMEOUT_MAX

from pyhudi.engine import Engine
from pyhudi.errors import UserError
from pyhudi.health.doctor import examine
from pyhudi.health.findings import Diagnosis, in_order
from pyhudi.health.inventory import TableInventory
from pyhudi.health.metadata_rebuild import check_rebuildable, rebuild_metadata
from pyhudi.health.metadata_verify import check_metadata
from pyhudi.health.repair import RepairReport, execute_repair
from pyhudi.health.service_scheduler import ServicesReport, run_due
from pyhudi.health.service_thread import BackgroundServices
from pyhudi.options import Options
from pyhudi.storage.filesystem import FileSystem
from pyhudi.table.properties import load_config
from pyhudi.transaction.begin import table_lock
from pyhudi.transaction.deferred_publish import check_none_kept


class CareVerbs:
    """The part of a table that finds damage and mends it."""

    _fs: FileSystem
    _options: Options
    _engine: Engine

    def doctor(self, *, quick: bool = False) -> Diagnosis:
        """What is wrong with the table: findings with what, where, why and what to do.

        quick: leave out the record index against the keys, which reads one column of the table.
        No lock is taken, nothing changes; a write that goes on meanwhile is reported as pending.
        """
        return examine(self._fs, quick=quick, engine=self._engine)

    def repair(self, *, dry_run: bool = False, allow_loss: bool = False) -> RepairReport:
        """Mend what the doctor finds.

        dry_run: tell only.  allow_loss: also what costs rows or history: the newest commit is
        taken back if its files are damaged, else damaged files go and their file groups show what
        they held before.  Files that go are moved to `.hoodie/.set_aside`.  Raises LockError.
        """
        return execute_repair(
            self._fs, options=self._options, engine=self._engine, dry_run=dry_run,
            allow_loss=allow_loss,
        )  # fmt: skip

    @property
    def metadata(self) -> MetadataCare:
        """The table's metadata table: checks and rebuilding."""
        return MetadataCare(self._fs, self._options, self._engine)

    @property
    def services(self) -> TableServices:
        """What keeps the table in shape, as one call and in the background."""
        return TableServices(self._fs, self._options, self._engine)


class TableServices:
    """The services of one table."""

    def __init__(self, fs: FileSystem, options: Options, engine: Engine) -> None:
        self._fs, self._options, self._engine = fs, options, engine

    def run(self, *, dry_run: bool = False) -> ServicesReport:
        """Run what is due: rollback of failed writes, partition TTL, compaction, log compaction,
        clustering, cleaning, archival, leftovers.

        The report says of each service what it did, or why it was not due; one that meets an
        error does not keep the others from running.  dry_run: tell only.
        """
        return run_due(self._fs, self._options, self._engine, dry_run=dry_run)

    def start(self, *, every_seconds: float = 30.0) -> BackgroundServices:
        """`run` now and then in a thread, beside whatever this process does with the table:

        with table.services.start(every_seconds=60):
            stream_into(table)
        """
        is_number = isinstance(every_seconds, int | float)
        if not is_number or not 0 < every_seconds <= TIMEOUT_MAX:
            raise UserError("the pause between looks must be positive", every_seconds=every_seconds)
        return BackgroundServices(self.run, every_seconds=every_seconds)

    def __repr__(self) -> str:
        return f"TableServices({self._fs.url!r})"


class MetadataCare:
    """The metadata table of one table, as a thing to be kept whole."""

    def __init__(self, fs: FileSystem, options: Options, engine: Engine) -> None:
        self._fs, self._options, self._engine = fs, options, engine

    def verify(self, *, keys: bool = True) -> Diagnosis:
        """Hold it against the table: listing against `files`, statistics and blooms against
        footers, and (keys) the record index against every key; its own files too."""
        ground = TableInventory.of(self._fs, load_config(self._fs))
        found = check_metadata(ground, with_keys=keys, engine=self._engine)
        return Diagnosis(self._fs.url, in_order(found), (("data files", len(ground.data_files)),))

    def rebuild(self, *, dry_run: bool = False) -> Diagnosis:
        """Build it again, then swap; returns what `verify` then says.

        dry_run: check that it could be built now, and verify what is there; nothing changes.

        Readers go on; a crash leaves the old one, or a table that lists its store until the next
        write ends the swap.  Cost: the key column of the table, footers for statistics.
        Raises LockError, IndexNotReadyError while a write is pending.
        """
        if dry_run:
            check_rebuildable(self._fs)
            return self.verify()
        with table_lock(self._fs, self._options.write, "rebuild metadata"):
            ground = TableInventory.of(self._fs, load_config(self._fs))
            check_none_kept(self._fs, ground.timeline)
            rebuild_metadata(self._fs, self._options, self._engine)
        return self.verify()

    def __repr__(self) -> str:
        return f"MetadataCare({self._fs.url!r})"
