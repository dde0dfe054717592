"""Tables on Spark; except for this package and `pyspark_pyhudi`, pyhudi needs no PySpark.

Names are loaded on first use: each new process of a Spark worker imports this package.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from pyhudi.other_names import SPARK, unknown_name

if find_spec("pyspark") is None:
    raise ModuleNotFoundError(
        "pyhudi.spark requires PySpark: pip install 'pyhudi[spark]'", name="pyspark"
    )

if TYPE_CHECKING:
    from pyhudi.spark.engine import SparkEngine as SparkEngine
    from pyhudi.spark.job_submission import WorkerLostError as WorkerLostError
    from pyhudi.spark.job_submission import WorkerPythonError as WorkerPythonError
    from pyhudi.spark.session_format import disable as disable
    from pyhudi.spark.session_format import enable as enable
    from pyhudi.spark.sql_statements import connect as connect
    from pyhudi.spark.sql_statements import sql as sql
    from pyhudi.spark.stream_batches import foreach_batch as foreach_batch
    from pyhudi.spark.streams.spark_stream import ingest as ingest
    from pyhudi.spark.table import SparkTable as SparkTable
    from pyhudi.spark.table import create_table as create_table
    from pyhudi.spark.table import open_table as open_table
    from pyhudi.spark.table import read as read
    from pyhudi.spark.table import register_views as register_views
    from pyhudi.spark.table import upsert as upsert

_HOMES: Final = {
    "SparkEngine": "engine",
    "SparkTable": "table",
    "WorkerLostError": "job_submission",
    "WorkerPythonError": "job_submission",
    "connect": "sql_statements",
    "create_table": "table",
    "disable": "session_format",
    "enable": "session_format",
    "foreach_batch": "stream_batches",
    "ingest": "streams.spark_stream",
    "open_table": "table",
    "read": "table",
    "register_views": "table",
    "sql": "sql_statements",
    "upsert": "table",
}
"""The module of each name."""


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise unknown_name("module 'pyhudi.spark'", name, _HOMES, SPARK)
    value = getattr(import_module(f"pyhudi.spark.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(_HOMES)
