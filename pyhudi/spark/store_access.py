"""How Spark opens the files of a table: by the table's URL, or by the session's name for its store.

Spark reads a store with the configuration of its session, not with `storage_options`.  Whether
the session can open a table's files is found by opening one, once per session and store.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any, Final

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from pyhudi.spark.frames import is_connect
from pyhudi.spark.listed_files import hadoop_path, hadoop_properties
from pyhudi.storage.filesystem import FileSystem

STORES: Final = "spark.pyhudi.read.store."
"""Properties of the session: `<STORES><store>`, where the store is as `s3://bucket`, is the URL by
which Spark opens the store, or `none`, with the reason after a colon."""

_NONE: Final = "none"
_LOG: Final = logging.getLogger("pyhudi")
_SCHEMES: Final = {"s3": ("s3", "s3a"), "s3n": ("s3n", "s3a"), "s3a": ("s3a", "s3"), "gcs": ("gs",)}
"""The schemes under which sessions have the store of a scheme, in the order in which they are
tried.  Other schemes have no alternatives."""


@dataclass(frozen=True, slots=True)
class StoreAccess:
    """The URL of a store in the session.

    store: as it starts the URLs of file systems; "" for the local disk.  url: "" if Spark cannot
    open it, for `reason`.
    """

    store: str = ""
    url: str = "file://"
    reason: str = ""

    @property
    def is_listed_by_spark(self) -> bool:
        """Whether Spark may list its files: they are on the local disk."""
        return self.url.startswith("file:")

    @property
    def has_locations(self) -> bool:
        """Whether it states the machines that have the bytes of a file."""
        return self.url.startswith(("hdfs:", "webhdfs:"))

    def of(self, fs: FileSystem, path: str) -> str:
        """The URL of a file for Spark."""
        return f"{self.url}{fs.url.removeprefix(self.store)}/{path}"


def store_access(spark: SparkSession, fs: FileSystem, path: str) -> StoreAccess:
    """How the session opens the store of a file system, found with an existing Parquet file.

    The result is a property of the session.  A store that it cannot open is reported by a warning.
    """
    if fs.url.startswith("/"):
        return StoreAccess()
    scheme, _, rest = fs.url.partition("://")
    store = f"{scheme}://{rest.partition('/')[0]}"
    name = STORES + store
    known = spark.conf.get(name, None)
    if known is None:
        known = _tried(spark, store, fs.url, path)
        spark.conf.set(name, known)
    url, separator, reason = known.partition(":")
    if url == _NONE:
        return StoreAccess(store, "", reason.strip() if separator else f"{name} is {_NONE}")
    return StoreAccess(store, known)


def _tried(spark: SparkSession, store: str, root: str, path: str) -> str:
    """The value of the property of a store."""
    scheme, _, place = store.partition("://")
    reasons = []
    for tried in _SCHEMES.get(scheme, (scheme,)):
        url = f"{tried}://{place}"
        reason = _failure(spark, f"{url}{root.removeprefix(store)}/{path}")
        if not reason:
            return url
        reasons.append(f"{tried}: {reason}")
    text = "; ".join(reasons)
    _LOG.warning(
        "Spark cannot open %s, so pyhudi reads its files in Python: %s; configure the store in "
        "the session, then unset %s%s",
        store,
        text,
        STORES,
        store,
    )
    return f"{_NONE}: {text}"


def _failure(spark: SparkSession, url: str) -> str:
    """Why the session cannot open a file; "" if it can.  Reads no data; one request to the store,
    over Connect some more."""
    try:
        if is_connect(spark):
            _ = spark.read.schema("_pyhudi long").parquet(url).schema
        else:
            path = hadoop_path(spark, url)
            path.getFileSystem(hadoop_properties(spark)).getFileStatus(path)
    except _errors(spark) as error:
        return _first_line(error)
    return ""


def _errors(spark: SparkSession) -> tuple[type[Exception], ...]:
    if is_connect(spark):
        return (PySparkException,)
    from py4j.protocol import Py4JJavaError

    return PySparkException, Py4JJavaError


def _first_line(error: Exception) -> str:
    """The first line of the message of an error; for an exception of Java, of that one."""
    java: Any = getattr(error, "java_exception", None)
    return str(error if java is None else java.toString()).strip().partition("\n")[0]
