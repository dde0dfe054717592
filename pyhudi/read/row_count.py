"""The number of rows of a table where it costs little."""

from __future__ import annotations

from pyhudi.read.scan_plan import ScanRequest, count_task, plan_scan
from pyhudi.read.table_snapshot import TableState


def cheap_row_count(state: TableState, *, files_max: int) -> int | None:
    """The rows of the newest snapshot, by the footers of its files.

    None where logs must be merged, or where the snapshot has more than `files_max` files.
    """
    if len(state.slices()) > files_max:
        return None
    tasks = plan_scan(state, ScanRequest()).tasks
    if not all(task.is_one_file for task in tasks):
        return None
    return sum(map(count_task, tasks))
