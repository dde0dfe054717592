"""A hold from the lock to the reader's hands."""

from __future__ import annotations

from pyhudi.options import Options
from pyhudi.read.table_snapshot import load_state
from pyhudi.read.time_travel import PointInTime
from pyhudi.services.snapshot_pins import Hold, place_hold
from pyhudi.storage.filesystem import FileSystem
from pyhudi.transaction.begin import check_table, table_lock


def hold(fs: FileSystem, options: Options, as_of: PointInTime | None) -> Hold:
    """Keep a snapshot from cleaning for as long as the result lives.

    Remains of dead writers are not looked after: a reader changes no row.
    """
    with table_lock(fs, options.write, "hold"):
        state = load_state(fs, options.read)
        check_table(state.config)
        return place_hold(state, as_of, options.write)
