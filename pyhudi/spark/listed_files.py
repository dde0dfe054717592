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
    spark: SparkSession,
    sizes: Mapping[str, int],
    schema: StructType,
    options: Mapping[str, str],
    *,
    has_locations: bool = False,
) -> DataFrame:
    """The rows of Parquet files: `spark.read.schema(schema).options(**options).parquet(*sizes)`.

    sizes: URL to bytes; the files must exist with these sizes, as in the table's listing.
    options: must contain recursiveFileLookup, as folders have no meaning here.  has_locations: ask
    the store for the machines that have the bytes, one request for each file.  Not for Connect.
    Files that Spark's cache of listings has no room for are listed by Spark.
    """
    java: Any = spark._jvm
    session: Any = spark._jsparkSession
    sources = java.org.apache.spark.sql.execution.datasources
    paths = java.java.util.ArrayList()
    cache = sources.FileStatusCache.getOrCreate(session)
    _list(spark, cache, paths, sizes, has_locations=has_locations)
    columns = session.parseDataType(schema.json())
    given = java.PythonUtils.toScalaMap(dict(options))
    none = java.scala.Option.empty()
    index = sources.InMemoryFileIndex(
        session,
        java.PythonUtils.toSeq(paths),
        given,
        java.scala.Option.apply(columns),
        cache,
        none,
        none,
    )
    relation = sources.HadoopFsRelation(
        index,
        java.org.apache.spark.sql.types.StructType(),
        columns,
        none,
        sources.parquet.ParquetFileFormat(),
        given,
        session,
    )
    return DataFrame(session.baseRelationToDataFrame(relation), spark)


def _list(
    spark: SparkSession, cache: Any, paths: Any, sizes: Mapping[str, int], *, has_locations: bool
) -> None:
    """Add files to a list of paths and to a cache of listings.  A class of Java is found once: each
    look-up is several messages to the JVM."""
    java: Any = spark._jvm
    new_path = java.org.apache.hadoop.fs.Path
    new_status = java.org.apache.hadoop.fs.FileStatus
    new_located = java.org.apache.hadoop.fs.LocatedFileStatus
    new_place = java.org.apache.hadoop.fs.BlockLocation
    gateway: Any = spark.sparkContext._gateway
    properties = hadoop_properties(spark) if has_locations else None
    for url, size in sizes.items():
        path = new_path(url)
        status = new_status(size, False, 1, _BLOCK_BYTES, 0, path)
        if has_locations:
            found = path.getFileSystem(properties).getFileBlockLocations(status, 0, size)
            places = gateway.new_array(new_place, len(found))
            for number, place in enumerate(found):
                places[number] = place  # a constructor accepts no array of a subclass
            status = new_located(status, places)
        entries = gateway.new_array(new_status, 1)
        entries[0] = status
        cache.putLeafFiles(path, entries)
        paths.append(path)


def hadoop_path(spark: SparkSession, url: str) -> Any:
    """A URL as a path of Hadoop.  Not for Connect."""
    java: Any = spark._jvm
    return java.org.apache.hadoop.fs.Path(url)


def hadoop_properties(spark: SparkSession) -> Any:
    """The properties of Hadoop in a session.  Not for Connect."""
    session: Any = spark._jsparkSession
    return session.sessionState().newHadoopConf()
