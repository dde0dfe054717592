"""What dead processes left is brought to an end before anybody else begins.

savepoints that never were -> restores cut short are finished -> failed writes rolled back

The caller holds the table's lock.  A second run right after changes nothing.
"""

from __future__ import annotations

from pyhudi.metadata.rollback import rollback_metadata
from pyhudi.options import Heartbeats
from pyhudi.services.rollback import roll_back_failed
from pyhudi.services.rollback_plan import RolledBack
from pyhudi.services.savepoint import forget_unfinished
from pyhudi.storage.filesystem import FileSystem
from pyhudi.table.config import TableConfig
from pyhudi.timeline.log import TimelineLog


def recover(
    fs: FileSystem, config: TableConfig, log: TimelineLog, heartbeats: Heartbeats | None = None
) -> list[RolledBack]:
    """Roll back every failed write, after finishing what stands before it.

    heartbeats: how those that are alive are told, which are left alone.

    The timeline must be loaded anew after it.  Cost where nothing is left over: three listings.
    """
    forget_unfinished(log, log.load())
    return roll_back_failed(
        fs, config, log, metadata_rollback=rollback_metadata, heartbeats=heartbeats
    )
