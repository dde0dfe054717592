"""Reads of file slices without logs by Spark's own Parquet reader.

Such slices need no merge, so Python would only add the cost of transfer, and Spark pushes its
columns and filters down to its own reader.  Used only where that reader is certain to return the
same rows: the file's commit has the current column types of the table, the scan has no filter,
and the file is local with a name that is not a glob pattern.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.types as pt
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from pyhudi.filenames import BaseFileName
from pyhudi.formats.avro_schema import avro_to_arrow
from pyhudi.formats.base_file import footer
from pyhudi.formats.logical_types import HUDI_TYPE
from pyhudi.formats.timestamp_repair import may_be_mislabelled, relabelled_type
from pyhudi.read.scan_plan import ReadTask, ScanPlan
from pyhudi.read.table_schema import user_columns
from pyhudi.read.table_snapshot import TableState
from pyhudi.records import META_COLUMNS, PARTITION_PATH, InstantTime
from pyhudi.spark.types import to_spark
from pyhudi.storage.filesystem import FileSystem

_PATTERN: Final = re.compile(r"[\\{}\[\]*?]")
_PARTITIONS_MAX: Final = 1000
"""With more partition values than this, the Spark plan becomes slow."""

_OPTIONS: Final[Mapping[str, str]] = {
    "recursiveFileLookup": "true",  # otherwise folders named `a=b` become columns
    "datetimeRebaseMode": "CORRECTED",
    "int96RebaseMode": "CORRECTED",
    "ignoreMissingFiles": "false",
    "ignoreCorruptFiles": "false",
}


def native_tasks(state: TableState, plan: ScanPlan) -> frozenset[int]:
    """Positions of the tasks of the plan that Spark's reader can read."""
    if plan.where is not None or not plan.tasks or not _is_plain(plan):
        return frozenset()
    if not state.config.has_meta_columns or not state.fs.url.startswith("/"):
        return frozenset()
    known = {instant.time: instant for instant in state.timeline.commits}
    alike: dict[InstantTime, bool] = {}
    found = set()
    for position, task in enumerate(plan.tasks):
        base = task.slice.base
        if base is None or not task.is_one_file or not isinstance(base.name, BaseFileName):
            continue
        if base.name.extension != ".parquet" or _PATTERN.search(task.fs.url + base.path):
            continue
        time = base.name.instant
        if time not in alike:
            commit = known.get(time)
            text = None if commit is None else state.log.commit(commit).extra.get("schema")
            stated = bool(text) and _states(str(text), plan.schema)
            alike[time] = stated and _is_labelled(state.fs, base.path, plan.schema)
        if alike[time]:
            found.add(position)
    return frozenset(found)


def _is_plain(plan: ScanPlan) -> bool:
    """Whether Spark's reader supports the column names, types and partition values of the plan."""
    folded = {name.lower() for name in plan.tasks[0].spec.table.names}
    if len(folded) != len(plan.tasks[0].spec.table.names) or not plan.schema.names:
        return False
    partition_columns = {frozenset(task.partition_values) for task in plan.tasks}
    if len(partition_columns) > 1 or len({t.slice.partition for t in plan.tasks}) > _PARTITIONS_MAX:
        return False
    return not any(pt.is_time(f.type) or HUDI_TYPE in (f.metadata or {}) for f in plan.schema)


def _is_labelled(fs: FileSystem, path: str, schema: pa.Schema) -> bool:
    """Whether the timestamp columns of a file have the logical types of the table.

    Cost: the footer of one file per commit, as one writer wrote all files of a commit; and only
    for types that older writers may have mislabelled.
    """
    names = [f.name for f in schema if may_be_mislabelled(f.type)]
    if not names:
        return True
    stored = footer(fs, path).schema
    return all(
        name not in stored.names
        or relabelled_type(stored.field(name).type, schema.field(name).type)
        == stored.field(name).type
        for name in names
    )


def _states(avro: str, schema: pa.Schema) -> bool:
    """Whether the columns in a commit's schema have the same types in `schema`."""
    stated = user_columns(avro_to_arrow(avro))
    return all(
        field.name in META_COLUMNS
        or field.name not in stated.names
        or stated.field(field.name).type == field.type
        for field in schema
    )


def native_frame(spark: SparkSession, plan: ScanPlan, tasks: Sequence[ReadTask]) -> DataFrame:
    """The rows of tasks selected by `native_tasks`, with the columns of the plan."""
    by_partition = tasks[0].partition_values
    fields = [field for field in plan.schema if field.name not in by_partition]
    names = [field.name for field in fields]
    by_path = any(name in by_partition for name in plan.schema.names)
    if by_path and PARTITION_PATH not in names:
        fields.append(pa.field(PARTITION_PATH, pa.string()))
    paths = [f"file://{task.fs.url}/{task.slice.base.path}" for task in tasks if task.slice.base]
    reader = spark.read.schema(to_spark(pa.schema(fields))).options(**_OPTIONS)
    frame = reader.parquet(*paths)
    columns = []
    for field, spark_field in zip(plan.schema, to_spark(plan.schema).fields, strict=True):
        if field.name in by_partition:
            columns.append(_partition_value(field.name, spark_field, tasks).alias(field.name))
        else:
            columns.append(frame["`" + field.name.replace("`", "``") + "`"])
    return frame.select(*columns)


def _partition_value(name: str, spark_field: Any, tasks: Sequence[ReadTask]) -> Column:
    """The value of a partition column, from the row's partition path."""
    values = {task.slice.partition: task.partition_values[name].as_py() for task in tasks}
    pairs = []
    for path, value in values.items():
        pairs += [F.lit(path), F.lit(value).cast(spark_field.dataType)]
    return F.create_map(*pairs)[F.col(PARTITION_PATH)]
