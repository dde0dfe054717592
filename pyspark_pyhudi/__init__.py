"""Registration of `format("pyhudi")`.

PySpark 4 looks for `DefaultSource` in top-level modules named `pyspark_*`.  Every session that
uses any Python data source imports this module, so it imports the implementation only when a
table is read or written.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

from pyspark.sql import datasource
from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from pyhudi.errors import UserError
from pyhudi.spark.error_lines import line_first


class DefaultSource(DataSource):
    """Batch and streaming reads and writes of Apache Hudi tables."""

    _pin: Any = None
    """The snapshot of the DataFrame, once Spark has requested the schema."""

    @classmethod
    def name(cls) -> str:
        return "pyhudi"

    @line_first()
    def schema(self) -> StructType:
        schema: StructType
        schema, self._pin = _module("batch_reader").open_snapshot(self.options)
        return schema

    @line_first()
    def reader(self, schema: StructType) -> Any:
        return _module("batch_reader").reader(self.options, schema, self._pin)

    @line_first()
    def writer(self, schema: StructType, overwrite: bool) -> Any:
        return _module("batch_writer").writer(self.options, schema, overwrite=overwrite)

    @line_first()
    def streamWriter(self, schema: StructType, overwrite: bool) -> Any:
        if not hasattr(datasource, "DataSourceStreamArrowWriter"):
            raise UserError(
                'writeStream.format("pyhudi") requires PySpark 4.1 or newer',
                hint="use writeStream.foreachBatch(pyhudi.spark.foreach_batch(path, ...))",
            )
        return _module("stream_writer").sink(self.options, schema, overwrite=overwrite)

    @line_first()
    def streamReader(self, schema: StructType) -> Any:
        return _module("version_compat").stream(self.options, schema)


def _module(name: str) -> Any:
    """A module of the implementation.  Raises UserError where this Python lacks a library."""
    try:
        return import_module(f"pyhudi.spark.source.{name}")
    except ModuleNotFoundError as error:
        raise UserError(
            "the Python that Spark started lacks a library",
            library=error.name,
            python=sys.executable,
            hint="set PYSPARK_PYTHON to the Python of your program before the session starts",
        ) from error
