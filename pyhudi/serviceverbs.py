"""Table services: the verbs of every door, on one machine and on Spark."""

from __future__ import annotations

from pyhudi import upkeep
from pyhudi.engine import Engine
from pyhudi.options import Options
from pyhudi.read.state import TableState
from pyhudi.services.cleaning import CleanReport
from pyhudi.services.compaction import CompactionReport
from pyhudi.storage.filesystem import FileSystem


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
            return upkeep.compaction_plan(self._state(), self._options)
        return upkeep.compact(self._fs, self._options, self._engine)

    def schedule_compaction(self) -> str | None:
        """Plan a compaction for `compact`, or for Apache Hudi, to carry out: its instant, or None
        if there are no logs.  Writers go on beside it."""
        return upkeep.schedule_compaction(self._fs, self._options)

    def clean(self, *, dry_run: bool = False) -> CleanReport:
        """Delete files that no reader needs any more, as `hoodie.clean.policy` says.

        Of each file group at least the newest slice stays, and what savepoints and planned
        compactions hold.  dry_run: tell only.
        """
        if dry_run:
            return upkeep.clean_plan(self._state(), self._options)
        return upkeep.clean(self._fs, self._options, self._engine)
