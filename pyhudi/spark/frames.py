"""Helpers for DataFrames and sessions that hide the differences of classic and Connect."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import pyarrow as pa
from pyspark import __version__ as spark_version
from pyspark.sql import Column, DataFrame, SparkSession, functions
from pyspark.sql.types import DataType, StructType

MapArrow = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]

_LOCAL: Final = re.compile(r"local(?:\[(\d+|\*)(?:,\s*\d+)?\])?")
_DESCRIPTION: Final = "spark.job.description"
_MAP_IN_ARROW: Final = 207
"""PySpark's code for a function over an iterator of Arrow batches (`SQL_MAP_ARROW_ITER_UDF`)."""


def is_connect(of: DataFrame | SparkSession) -> bool:
    """Whether a session, or the session of a DataFrame, is a Spark Connect client."""
    return type(of).__module__.startswith("pyspark.sql.connect")


def is_frame(value: Any) -> bool:
    """Whether a value is a DataFrame, classic or Connect."""
    return isinstance(value, DataFrame) or type(value).__module__.startswith(
        "pyspark.sql.connect.dataframe"
    )


def collected(frame: DataFrame) -> pa.Table:
    """The rows of a DataFrame, collected on the driver."""
    known: Any = frame
    if hasattr(DataFrame, "toArrow"):
        whole: pa.Table = known.toArrow()
        return whole
    batches = known._collect_as_arrow()
    if batches:
        return pa.Table.from_batches(batches)
    return pa.table({name: pa.nulls(0) for name in frame.columns})


def quoted(name: str) -> str:
    """A column name as Spark parses it, whatever characters it has."""
    return "`" + name.replace("`", "``") + "`"


def column_at(frame: DataFrame, name: str) -> Column:
    """A column, or the field of a struct by its path."""
    return frame[_quoted_path(name)]


def in_structs(values: Column, name: str) -> Column:
    """The values as a column, or as the field at a path of new structs."""
    root, *inner = name.split(".")
    for part in reversed(inner):
        values = functions.struct(values.alias(part))
    return values.alias(root)


def with_type(frame: DataFrame, name: str, data_type: DataType) -> DataFrame:
    """The frame with one column, or one field of a struct, in another type."""
    root, _, inner = name.partition(".")
    values = column_at(frame, name).cast(data_type)
    if inner:
        values = frame[quoted(root)].withField(_quoted_path(inner), values)
    return frame.withColumn(root, values)


def _quoted_path(name: str) -> str:
    return ".".join(map(quoted, name.split(".")))


def with_values(frame: DataFrame, values: Mapping[str, Any]) -> DataFrame:
    """The frame with new values in some columns, in the types of these columns.

    A str is SQL text over the columns of the frame; other values are columns or literals.
    """
    columns = []
    for field in frame.schema.fields:
        old = frame[quoted(field.name)]
        if field.name in values:
            value = values[field.name]
            new = functions.expr(value) if isinstance(value, str) else functions.lit(value)
            old = new.cast(field.dataType).alias(field.name)
        columns.append(old)
    return frame.select(*columns)


def map_arrow(frame: DataFrame, function: MapArrow, schema: StructType) -> DataFrame:
    """`frame.mapInArrow(function, schema)`.

    PySpark requires pandas on the driver for this call but does not use it; without pandas, this
    function builds the same plan itself.
    """
    if is_connect(frame) or importlib.util.find_spec("pandas") is not None:
        return frame.mapInArrow(function, schema)
    from pyspark.sql.udf import UserDefinedFunction

    udf = UserDefinedFunction(function, returnType=schema, evalType=_MAP_IN_ARROW)
    columns = [frame[quoted(name)] for name in frame.columns]
    column: Any = udf(*columns)
    java: Any = frame._jdf
    if spark_version.startswith("3."):
        return DataFrame(java.pythonMapInArrow(column._jc.expr(), False), frame.sparkSession)
    return DataFrame(java.mapInArrow(column._jc, False, None), frame.sparkSession)


def numbers(spark: SparkSession, count: int, *, slices: int) -> DataFrame:
    """A column of the numbers below `count`, in order, in `slices` partitions."""
    return spark.range(0, count, 1, slices)


def default_parallelism(spark: SparkSession) -> int:
    """Number of tasks that the session is configured to run concurrently.

    On one machine (`local[n]`), n; on a cluster, whose executors may come later,
    `spark.default.parallelism`.
    """
    if not is_connect(spark):
        context: Any = spark.sparkContext
        found = _LOCAL.fullmatch(context.master)
        if found is None:
            return max(1, int(context.defaultParallelism))
        cores = found.group(1) or "1"
        if cores == "*":
            cores = context._jvm.java.lang.Runtime.getRuntime().availableProcessors()
        return max(1, int(cores) // int(spark.conf.get("spark.task.cpus", "1") or 1))
    for name in ("spark.default.parallelism", "spark.sql.shuffle.partitions"):
        text = spark.conf.get(name, None)
        if text:
            return max(1, int(text))
    return 8


def is_on_one_machine(spark: SparkSession) -> bool:
    """Whether the driver runs the tasks itself.  Not for Connect."""
    return _LOCAL.fullmatch(str(spark.sparkContext.master)) is not None


def in_tasks_at_once(frame: DataFrame) -> DataFrame:
    """The frame with at most as many partitions as one machine runs at once, for functions over
    Arrow batches: a task in Python has a fixed cost.  Unchanged on a cluster, over Connect and
    after a repartition."""
    spark = frame.sparkSession
    if is_connect(frame) or not is_on_one_machine(spark):
        return frame
    java: Any = frame._jdf
    if "Repartition" in java.queryExecution().logical().nodeName():
        return frame  # Spark would replace the partitions that the caller chose
    return frame.coalesce(default_parallelism(spark))


@contextmanager
def with_job_description(spark: SparkSession, text: str) -> Iterator[None]:
    """Set the description of jobs started in the block, if the session supports it."""
    if is_connect(spark):
        yield
        return
    context = spark.sparkContext
    before = context.getLocalProperty(_DESCRIPTION)
    context.setLocalProperty(_DESCRIPTION, text)
    try:
        yield
    finally:
        context.setLocalProperty(_DESCRIPTION, before)  # type: ignore[arg-type]
