"""Creation of snapshot pins, under the table's lock."""

from __future__ import annotations

from pyhudi.options import Options
from pyhudi.read.table_snapshot import load_state
from pyhudi.read.time_travel import PointInTime
from pyhudi.services.snapshot_pins import SnapshotPin, place_pin
from pyhudi.storage.filesystem import FileSystem
from pyhudi.transaction.begin import check_table, table_lock


def pin_snapshot(fs: FileSystem, options: Options, as_of: PointInTime | None) -> SnapshotPin:
    """Protect a snapshot from cleaning as long as the result exists.

    Does not roll back crashed writers: a reader changes no rows.
    """
    with table_lock(fs, options.write, "hold"):
        state = load_state(fs, options.read)
        check_table(state.config)
        return place_pin(state, as_of, options.write)
