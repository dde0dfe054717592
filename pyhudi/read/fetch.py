"""Point reads: rows of keys, located through the record index."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.engine import Engine
from pyhudi.read.file_slice import SliceSpec
from pyhudi.read.predicate import among
from pyhudi.read.scan_plan import ReadTask, ScanRequest, columns_of, plan_scan, read_task
from pyhudi.read.skipping.key_uniqueness import keys_are_unique
from pyhudi.read.skipping.partition_values import partition_values
from pyhudi.read.table_snapshot import TableState
from pyhudi.records import FileGroupId


def fetch_rows(
    state: TableState, places: pa.Table, *, columns: tuple[str, ...] | None, engine: Engine
) -> pa.Table:
    """The rows of keys that were looked up, in no particular order; absent keys have no row.

    Reads only file groups that contain one of the keys, and of those only rows with the keys.
    Where a key may have several rows, of which the index locates one, every file group is read
    that column ranges and bloom filters do not rule out.
    """
    schema = state.schema()
    names = columns_of(schema, ScanRequest(columns=columns))
    if keys_are_unique(state):
        tasks = _tasks(state, schema, names, places)
    else:
        keys = pc.unique(places.column("record_key")).drop_null()
        where = among(state.rules.key_column, keys)
        tasks = list(plan_scan(state, ScanRequest(columns=names, where=where)).tasks)
    tables = engine.run(read_task, tasks, label="fetch")
    empty = pa.schema([schema.field(name) for name in names]).empty_table()
    return pa.concat_tables([empty, *tables])


def _tasks(
    state: TableState, schema: pa.Schema, names: tuple[str, ...], places: pa.Table
) -> list[ReadTask]:
    """One task for each file group that contains keys, filtered to those keys."""
    found = places.filter(pc.field("found")).select(["partition_path", "file_id", "record_key"])
    grouped = found.group_by(["partition_path", "file_id"]).aggregate([("record_key", "distinct")])
    partitions = pc.unique(grouped.column("partition_path")).to_pylist()
    view = state.view(partitions=partitions)
    rules = state.rules
    tasks = []
    for row in range(grouped.num_rows):
        partition, file_id, of_group = (grouped.column(i)[row] for i in range(3))
        group = view.groups.get(FileGroupId(partition.as_py(), file_id.as_py()))
        newest = None if group is None else group.latest()
        if newest is None:
            continue
        spec = SliceSpec(
            table=schema,
            columns=names,
            rules=rules,
            visibility=view.visibility,
            where=among(rules.key_column, of_group.values),
        )
        values = partition_values(state.config, schema, newest.partition)
        tasks.append(ReadTask(state.fs, newest, spec, values))
    return tasks
