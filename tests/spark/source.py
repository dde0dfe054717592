"""`format("pyhudi")` as PySpark's runners call it, without a JVM: everything crosses by pickle."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import CaseInsensitiveDict, DataSourceReader

from pyhudi.spark.types import to_spark
from pyspark_pyhudi import DefaultSource

TABLE = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "part",
    "hoodie.datasource.write.precombine.field": "ts",
}


def again(value: Any) -> Any:
    """As it is on the other side of a process border."""
    return pickle.loads(pickle.dumps(value))


def source(path: Path, options: dict[str, str] | None = None) -> DefaultSource:
    given = CaseInsensitiveDict({"path": str(path), **(options or {})})
    return again(DefaultSource(given))


def writer(path: Path, schema: pa.Schema, mode: str = "append", **options: str) -> Any:
    """The writer that runners get; options with `__` for dots come on top of `TABLE`."""
    named = TABLE | {name.replace("__", "."): value for name, value in options.items()}
    return again(source(path, named).writer(to_spark(schema), mode == "overwrite"))


def save(path: Path, rows: pa.Table, mode: str = "append", tasks: int = 2, **options: str) -> None:
    """`df.write.format("pyhudi").mode(mode).save(path)` of rows in some tasks."""
    mine = writer(path, rows.schema, mode, **options)
    step = max(1, -(-rows.num_rows // tasks))
    cuts = [rows.slice(at, step) for at in range(0, max(1, rows.num_rows), step)]
    messages = [again(again(mine).write(iter(cut.to_batches()))) for cut in cuts]
    mine.commit(messages)


def reader(path: Path, **options: str) -> DataSourceReader:
    found = source(path, {name.replace("__", "."): value for name, value in options.items()})
    schema = found.schema()
    return again(again(found).reader(schema))


def load(path: Path, **options: str) -> list[dict[str, Any]]:
    """The rows of `spark.read.format("pyhudi").load(path)`."""
    mine = reader(path, **options)
    rows: list[dict[str, Any]] = []
    for partition in mine.partitions():
        for batch in again(mine).read(again(partition)):
            rows += batch.to_pylist()
    return rows
