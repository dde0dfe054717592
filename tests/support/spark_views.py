"""Temporary views of the session that all tests share."""

from __future__ import annotations

from typing import Any


def drop_views(spark: Any) -> None:
    """Drop every temporary view, so that the next test may use its name."""
    for table in spark.catalog.listTables():
        if table.isTemporary:
            spark.catalog.dropTempView(table.name)
