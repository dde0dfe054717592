"""Frames over Parquet files whose sizes are known, so that Spark does not ask the store for them.

`spark.read.parquet` requests each file three times before it reads it: whether it exists, its
folder's listing, and its size.  On an object store these requests cost more than small files.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

_BLOCK_BYTES: Final = 128 << 20


def listed_frame(
    spark: SparkSession, sizes: Mapping[str, int], schema: StructType, options: Mapping[str, str]
) -> DataFrame:
    """The rows of Parquet files: `spark.read.schema(schema).options(**options).parquet(*sizes)`.

    sizes: URL to bytes; the files must exist with these sizes, as in the table's listing.
    options: must contain recursiveFileLookup, as folders have no meaning here.  Not for Connect.
    Files that Spark's cache of listings has no room for are listed by Spark.
    """
    java: Any = spark._jvm
    session: Any = spark._jsparkSession
    sources = java.org.apache.spark.sql.execution.datasources
    paths = java.java.util.ArrayList()
    cache = sources.FileStatusCache.getOrCreate(session)
    for url, size in sizes.items():
        paths.append(_listed(spark, cache, url, size))
    columns = session.parseDataType(schema.json())
    given = java.PythonUtils.toScalaMap(dict(options))
    none = java.scala.Option.empty()
    index = sources.InMemoryFileIndex(
        session, java.PythonUtils.toSeq(paths), given, java.scala.Option.apply(columns), cache,
        none, none,
    )  # fmt: skip
    relation = sources.HadoopFsRelation(
        index, java.org.apache.spark.sql.types.StructType(), columns, none,
        sources.parquet.ParquetFileFormat(), given, session,
    )  # fmt: skip
    return DataFrame(session.baseRelationToDataFrame(relation), spark)


def _listed(spark: SparkSession, cache: Any, url: str, size: int) -> Any:
    """The path of a file, entered into a cache of listings."""
    java: Any = spark._jvm
    path = java.org.apache.hadoop.fs.Path(url)
    status = java.org.apache.hadoop.fs.FileStatus
    gateway: Any = spark.sparkContext._gateway
    entries = gateway.new_array(status, 1)
    entries[0] = status(size, False, 1, _BLOCK_BYTES, 0, path)
    cache.putLeafFiles(path, entries)
    return path
