"""Reads of base files by Spark's own Parquet reader.

Python would only add the cost of transfer for rows that need no merge, and Spark pushes its
columns and filters down to its own reader.  Used only where that reader is certain to return the
same rows: the file has the current column types of the table, the filter of the scan has an
equivalent in Spark, and the session can open the file, whose name is not a glob pattern.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

import pyarrow as pa
import pyarrow.types as pt
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, DoubleType, FloatType, StructType

from pyhudi.filenames import BaseFileName
from pyhudi.formats.avro_schema import avro_to_arrow
from pyhudi.formats.base_file import footer
from pyhudi.formats.logical_types import HUDI_TYPE
from pyhudi.formats.nan_statistics import bounds_cover_nan, has_floats
from pyhudi.formats.timestamp_repair import may_be_mislabelled, relabelled_type
from pyhudi.read.scan_plan import ScanPlan
from pyhudi.read.scan_tasks import ReadTask
from pyhudi.read.table_schema import user_columns
from pyhudi.read.table_snapshot import TableState
from pyhudi.records import DEFAULT_PARTITION, META_COLUMNS, PARTITION_PATH, InstantTime
from pyhudi.spark.frames import is_connect, quoted
from pyhudi.spark.listed_files import listed_frame
from pyhudi.spark.merged_reader import RESERVED, place_columns, salt_for, without_replaced
from pyhudi.spark.row_filter import NoConditionError, condition
from pyhudi.spark.store_access import StoreAccess
from pyhudi.spark.types import to_spark
from pyhudi.storage.filesystem import FileSystem

_PATTERN: Final = re.compile(r"[\\{}\[\]*?]")
_PARTITIONS_MAX: Final = 1000
"""With more partition values than this in a plan, Spark becomes slow."""

_TEXT_MAX: Final = 2**31 - 1

_LISTED_MAX: Final = 32
"""Spark lists more files in a job (`spark.sql.sources.parallelPartitionDiscovery.threshold`), which
costs more than stating their sizes."""

_LOCATED_MAX: Final = 1000
"""With more files, tasks do not prefer the machines that have the bytes: finding these takes a
request for each file, one after another."""

_OPTIONS: Final[Mapping[str, str]] = {
    "recursiveFileLookup": "true",  # otherwise folders named `a=b` become columns
    "datetimeRebaseMode": "CORRECTED",
    "int96RebaseMode": "CORRECTED",
    "ignoreMissingFiles": "false",
    "ignoreCorruptFiles": "false",
}

_NO_DICTIONARIES: Final[Mapping[str, str]] = {"parquet.filter.dictionary.enabled": "false"}
"""Spark would skip row groups whose dictionary has -0.0 and not 0.0 for `x = 0` and `x in (0, 1)`,
which select both."""


_LOCAL: Final = StoreAccess()


class Reader(Enum):
    """What reads a file slice."""

    SPARK = "Spark"
    SPARK_AND_LOGS = "Spark, with the rows of logs from pyhudi"
    PYHUDI = "pyhudi"


@dataclass(frozen=True, slots=True)
class SliceReader:
    """The reader of a slice.  reason: why Spark does not read it; "" where it does."""

    reader: Reader
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Readers:
    """The readers of the tasks of a plan, in order.  salt: of `merged_reader.place_columns`."""

    slices: tuple[SliceReader, ...]
    salt: str = ""

    def tasks(self, plan: ScanPlan, reader: Reader) -> list[ReadTask]:
        """The tasks of the plan with this reader."""
        found = zip(plan.tasks, self.slices, strict=True)
        return [task for task, chosen in found if chosen.reader is reader]


def choose_readers(
    state: TableState,
    plan: ScanPlan,
    *,
    bytes_min: int,
    access: StoreAccess = _LOCAL,
    stores_logs: bool = False,
) -> Readers:
    """The reader of each slice of a plan.

    bytes_min: with fewer bytes in the base files of slices with logs, pyhudi reads these slices:
    Spark's reader would need another job.  stores_logs: their merged logs may be files for Spark,
    so the bytes of logs count too.
    """
    reason = _reason_of_plan(state, plan) or access.reason
    types = _FileTypes(state, read_schema(plan))
    found = [SliceReader(Reader.PYHUDI, reason)] * len(plan.tasks)
    if reason:
        return Readers(tuple(found))
    for number, task in enumerate(plan.tasks):
        reason = _reason_of_task(task) or types.reason(task)
        reader = Reader.SPARK_AND_LOGS if task.slice.logs else Reader.SPARK
        found[number] = SliceReader(Reader.PYHUDI, reason) if reason else SliceReader(reader)
    chosen = Readers(tuple(found))
    logged = [task.slice for task in chosen.tasks(plan, Reader.SPARK_AND_LOGS)]
    salt = salt_for([s.base.path.rpartition("/")[2] for s in logged if s.base])
    size = sum(s.size_bytes if stores_logs else s.size_bytes - s.log_bytes for s in logged)
    what = "slices with logs" if stores_logs else "the base files of slices with logs"
    reason = ""
    if logged and size < bytes_min:
        reason = f"{what} have fewer than {bytes_min} bytes"
    elif RESERVED & {name.lower() for name in plan.tasks[0].spec.table.names}:
        reason = "the table has a column whose name the plan uses"
    elif salt is None:
        reason = "the names of base files are not distinct"
    if not reason:
        return Readers(chosen.slices, salt or "")
    instead = SliceReader(Reader.PYHUDI, reason)
    return Readers(
        tuple(instead if s.reader is Reader.SPARK_AND_LOGS else s for s in chosen.slices)
    )


def _reason_of_plan(state: TableState, plan: ScanPlan) -> str:
    """Why Spark's reader reads no slice of a plan; "" if it can."""
    if not plan.tasks or not plan.schema.names:
        return "the scan has no columns or slices"
    if plan.tasks[0].spec.keys is not None:
        return "an index found the record keys, so pyhudi reads few row groups"
    if not state.config.has_meta_columns:
        return "the table has no meta columns"
    names = plan.tasks[0].spec.table.names
    if len({name.lower() for name in names}) != len(names):
        return "the names of two columns differ only in case"
    if len({frozenset(task.partition_values) for task in plan.tasks}) > 1:
        return "partition paths contain different columns"
    schema = read_schema(plan)
    if len({t.slice.partition for t in plan.tasks}) > _PARTITIONS_MAX:
        by_partition = plan.tasks[0].partition_values
        listed = [
            f.name for f in schema if f.name in by_partition and not _is_in_path(f.name, plan)
        ]
        if listed:
            return f"more than {_PARTITIONS_MAX} partitions with values of {', '.join(listed)}"
    other = [f.name for f in schema if pt.is_time(f.type) or HUDI_TYPE in (f.metadata or {})]
    if other:
        return f"types of columns: {', '.join(other)}"
    if plan.where is None:
        return ""
    try:
        condition(plan.where.tree, schema, lambda name: F.col(quoted(name)))
    except NoConditionError as error:
        return str(error)
    return ""


def read_schema(plan: ScanPlan) -> pa.Schema:
    """The columns of the plan, then those that only its filter uses."""
    if not plan.tasks:
        return plan.schema
    spec = plan.tasks[0].spec
    names = dict.fromkeys((*plan.schema.names, *spec.filter_columns))
    return pa.schema([spec.table.field(name) for name in names])


def _reason_of_task(task: ReadTask) -> str:
    """Why Spark's reader does not read the base file of a task; "" if it can."""
    base = task.slice.base
    if base is None:
        return "no base file"
    if task.older is not None:
        return "unchanged rows are left out"
    if task.logged_only:
        return "only the logs have rows of the range"
    if task.spec.visibility.columns is not None:
        return "columns were renamed or dropped"
    if task.slice.source is not None:
        return "bootstrapped file"
    if not isinstance(base.name, BaseFileName) or base.name.extension != ".parquet":
        return "not a Parquet file"
    if _PATTERN.search(task.fs.url + base.path):
        return "the path is a glob pattern"
    return ""


class _FileTypes:
    """Whether base files have the column types of the table, by their commits."""

    def __init__(self, state: TableState, schema: pa.Schema) -> None:
        self._state, self._schema = state, schema
        self._commits = {instant.time: instant for instant in state.timeline.commits}
        self._known: dict[InstantTime, str] = {}

    def reason(self, task: ReadTask) -> str:
        """How the types differ; "" where they are equal."""
        base = task.slice.base
        assert base is not None
        time = base.name.instant
        if time not in self._known:
            self._known[time] = self._compared(time, base.path)
        return self._known[time]

    def _compared(self, time: InstantTime, path: str) -> str:
        """Cost: the footer of a file of the commit, if the commit is archived or states no schema,
        or for types that older writers may have mislabelled, and floating ones, whose NaN their
        statistics may hide; one writer wrote all its files."""
        commit = self._commits.get(time)
        text = None if commit is None else self._state.log.commit(commit).extra.get("schema")
        if text:
            stated = user_columns(avro_to_arrow(str(text)))
        else:
            stated = footer(self._state.fs, path).schema
        for field in self._schema:
            if field.name in META_COLUMNS or field.name not in stated.names:
                continue
            if stated.field(field.name).type != field.type:
                return f"column {field.name} has another type in the file"
        floats = any(has_floats(field.type) for field in self._schema)
        if floats and not bounds_cover_nan(footer(self._state.fs, path).metadata):
            return "statistics of the file may leave NaN out"
        if not _is_labelled(self._state.fs, path, self._schema):
            return "timestamps of the file have a wrong label"
        return ""


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


@dataclass(frozen=True)
class AddedFiles:
    """Files with rows of other origin that are read beside base files: columns of `file_schema`.

    sizes: URL to bytes.  note: is given the frame of the files.
    """

    sizes: Mapping[str, int]
    note: Callable[[DataFrame], None]


def native_frame(
    spark: SparkSession,
    plan: ScanPlan,
    tasks: Sequence[ReadTask],
    access: StoreAccess,
    added: AddedFiles | None = None,
) -> DataFrame:
    """The rows of the base files of tasks, and of added ones, with the columns of the plan."""
    frame, columns = _files(spark, plan, tasks, access, added)
    return frame.select(*(columns[name] for name in plan.schema.names))


def merged_frame(
    spark: SparkSession,
    plan: ScanPlan,
    tasks: Sequence[ReadTask],
    access: StoreAccess,
    replaced: DataFrame,
    salt: str,
    *,
    added: AddedFiles | None = None,
) -> DataFrame:
    """As `native_frame`, less the rows whose bitmaps are in `replaced`."""
    frame, columns = _files(spark, plan, tasks, access, added)
    placed = frame.select("*", *place_columns(salt))
    rows = without_replaced(placed, replaced)
    return rows.select(*(columns[name] for name in plan.schema.names))


def file_schema(plan: ScanPlan) -> pa.Schema:
    """The columns that are read from files: of the plan and of its filter, without those whose
    values are in partition paths, but then with the path."""
    by_partition = plan.tasks[0].partition_values
    schema = read_schema(plan)
    fields = [field for field in schema if field.name not in by_partition]
    by_path = any(name in by_partition for name in schema.names)
    if by_path and PARTITION_PATH not in (field.name for field in fields):
        fields.append(pa.field(PARTITION_PATH, pa.string()))
    return pa.schema(fields)


def _files(
    spark: SparkSession,
    plan: ScanPlan,
    tasks: Sequence[ReadTask],
    access: StoreAccess,
    added: AddedFiles | None,
) -> tuple[DataFrame, dict[str, Column]]:
    """The rows of files for which the filter is true, as a frame, and the columns of the plan and
    of the filter as expressions over it."""
    by_partition = plan.tasks[0].partition_values
    schema = read_schema(plan)
    frame = _read_files(spark, tasks, to_spark(file_schema(plan)), access, added)
    columns = {}
    for field, spark_field in zip(schema, to_spark(schema).fields, strict=True):
        if field.name in by_partition:
            value = _partition_value(field.name, spark_field, plan.tasks if added else tasks)
        else:
            value = F.col(quoted(field.name))
        columns[field.name] = value.alias(field.name)
    if plan.where is not None:
        frame = frame.where(condition(plan.where.tree, schema, columns.__getitem__))
    return frame, columns


def _read_files(
    spark: SparkSession,
    tasks: Sequence[ReadTask],
    schema: StructType,
    access: StoreAccess,
    added: AddedFiles | None,
) -> DataFrame:
    bases = {access.of(t.fs, t.slice.base.path): t.slice.base for t in tasks if t.slice.base}
    sizes = {url: base.size_bytes for url, base in bases.items()}
    sizes.update(added.sizes if added else {})
    located = access.has_locations and len(sizes) <= _LOCATED_MAX
    frame = read_listed(
        spark, sizes, schema, has_locations=located, is_local=access.is_listed_by_spark
    )
    if added is not None:
        added.note(frame)
    return frame


def read_listed(
    spark: SparkSession,
    sizes: Mapping[str, int],
    schema: StructType,
    *,
    has_locations: bool = False,
    is_local: bool = True,
) -> DataFrame:
    """The rows of Parquet files of known sizes, by URL.  is_local: on this machine's disk."""
    options = {**_OPTIONS, **(_NO_DICTIONARIES if _has_floats(schema) else {})}
    if is_connect(spark) or (is_local and len(sizes) <= _LISTED_MAX):
        return spark.read.schema(schema).options(**options).parquet(*sizes)
    return listed_frame(spark, sizes, schema, options, has_locations=has_locations)


def _has_floats(kind: DataType) -> bool:
    if isinstance(kind, StructType):
        return any(_has_floats(field.dataType) for field in kind)
    return isinstance(kind, FloatType | DoubleType)


def _is_in_path(name: str, plan: ScanPlan) -> bool:
    return place_in_path(name, _values_by_path(name, plan.tasks)) is not None


def _values_by_path(name: str, tasks: Sequence[ReadTask]) -> dict[str, pa.Scalar]:
    """The values of a partition column by partition path."""
    return {task.slice.partition: task.partition_values[name] for task in tasks}


def _partition_value(name: str, spark_field: Any, tasks: Sequence[ReadTask]) -> Column:
    """The value of a partition column, from the row's partition path: a part of it, or by a map of
    all paths."""
    scalars = _values_by_path(name, tasks)
    place = place_in_path(name, scalars)
    if place is not None:
        return place.value(F.col(PARTITION_PATH), spark_field.dataType)
    values = {path: scalar.as_py() for path, scalar in scalars.items()}
    pairs = []
    for path, value in values.items():
        pairs += [F.lit(path), F.lit(value).cast(spark_field.dataType)]
    return F.create_map(*pairs)[F.col(PARTITION_PATH)]


@dataclass(frozen=True, slots=True)
class PlaceInPath:
    """Where a path has the text of a value.

    level: of the path, from 0; None if the path has one level.  skipped: characters before the
    value, as in `name=value`.
    """

    level: int | None
    skipped: int
    has_nulls: bool

    def value(self, path: Column, data_type: Any) -> Column:
        """The value as a column of a Spark type."""
        text = path if self.level is None else F.element_at(F.split(path, "/"), self.level + 1)
        if self.skipped:
            text = text.substr(self.skipped + 1, _TEXT_MAX)
        if self.has_nulls:
            text = F.when(text != DEFAULT_PARTITION, text)
        return text.cast(data_type)


def place_in_path(name: str, values: Mapping[str, pa.Scalar]) -> PlaceInPath | None:
    """Where the paths have the values of a partition column as Spark's cast reads them.

    values: of strings or whole numbers, by path; null in the default partition.  None if a value
    differs from the text of its path, as escaped text does, and for other types.
    """
    depths = {path.count("/") for path in values}
    prefix = f"{name}="
    texts = {path: _text(value) for path, value in values.items()}
    if len(depths) != 1 or None in texts.values():
        return None
    has_nulls = any(not value.is_valid for value in values.values())
    levels = {path: path.split("/") for path in values}
    depth = depths.pop()
    for level in range(depth + 1):
        for before in ("", prefix):
            if all(levels[path][level] == f"{before}{text}" for path, text in texts.items()):
                return PlaceInPath(level if depth else None, len(before), has_nulls)
    return None


def _text(value: pa.Scalar) -> str | None:
    """The text of a value in a path; None for types whose text differs."""
    if not (pt.is_string(value.type) or pt.is_integer(value.type)):
        return None
    return str(value.as_py()) if value.is_valid else DEFAULT_PARTITION
