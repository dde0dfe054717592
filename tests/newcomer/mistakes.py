"""Mistakes of a first day, and what pyhudi answers.

    python -m tests.newcomer.mistakes > tests/golden/mistakes.txt

Each call is made in an empty folder with a table `trips` (merge-on-read, key `id`, partitions
`city`, ordering `ts`) of one commit.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import pyhudi
from pyhudi.errors import PyhudiError

ROWS = pa.table({"id": ["a", "b"], "city": ["sf", "la"], "fare": [1.5, 2.5], "ts": [1, 1]})
SCHEMA = ROWS.schema
Call = Callable[[Any], Any]


def new(**arguments: Any) -> pyhudi.Table:
    return pyhudi.create_table(
        "new", **({"schema": SCHEMA, "record_key": "id", "version": 6} | arguments)
    )


def with_options(**options: str) -> pyhudi.Table:
    return pyhudi.open_table("trips", options={k.replace("__", "."): v for k, v in options.items()})


MISTAKES: dict[str, Call] = {
    "a path without a table": lambda _: pyhudi.open_table("nowhere"),
    "a Parquet file instead of a table": lambda _: pyhudi.open_table("rows.parquet"),
    "the partition of a table": lambda _: pyhudi.open_table("trips/sf"),
    "create a table that exists": lambda _: pyhudi.create_table("trips", SCHEMA, record_key="id"),
    "a record key that is no column": lambda _: new(record_key="uuid"),
    "a partition column that is no column": lambda _: new(partition_by="day"),
    "an ordering column that is no column": lambda _: new(ordering="updated_at"),
    "an ordering column without an order": lambda _: new(
        schema=SCHEMA.append(pa.field("tags", pa.list_(pa.string()))), ordering="tags"
    ),
    "an unknown table type": lambda _: new(table_type="mro"),
    "an unknown index": lambda _: new(index="btree"),
    "rows instead of a schema": lambda _: new(schema=[{"id": "a"}]),
    "None instead of rows": lambda table: table.upsert(None),
    "a list of dicts": lambda table: table.upsert(ROWS.to_pylist()),
    "a dict of columns": lambda table: table.upsert(ROWS.to_pydict()),
    "the path of a file instead of rows": lambda table: table.upsert("rows.parquet"),
    "a path object instead of rows": lambda table: table.upsert(Path("rows.parquet")),
    "a condition instead of rows": lambda table: table.delete("id = 'a'"),
    "rows without the key column": lambda table: table.upsert(ROWS.drop_columns(["id"])),
    "rows without the partition column": lambda table: table.upsert(ROWS.drop_columns(["city"])),
    "a null key": lambda table: table.upsert(
        ROWS.set_column(0, "id", pa.array(["a", None], pa.string()))
    ),
    "a column of another type": lambda table: table.upsert(
        ROWS.set_column(2, "fare", pa.array(["cheap", "dear"]))
    ),
    "an ordering value of another type": lambda table: table.upsert(
        ROWS.set_column(3, "ts", pa.array(["1", "2"]))
    ),
    "a null ordering value": lambda table: table.upsert(
        ROWS.set_column(3, "ts", pa.array([1, None], pa.int64()))
    ),
    "an unknown column in columns": lambda table: table.scan(["fair"]).to_arrow(),
    "an unknown column in where": lambda table: table.scan(where="fair > 1").to_arrow(),
    "where that is no SQL": lambda table: table.scan(where="fare >").to_arrow(),
    "where as a Python condition": lambda table: table.scan(
        where="fare == 1 && ts == 1"
    ).to_arrow(),
    "a comparison with another type": lambda table: table.scan(where="fare > 'high'").to_arrow(),
    "a number for a text": lambda table: table.scan(where="id = 5").to_arrow(),
    "a list of numbers for a text": lambda table: table.scan(where="id in (5, 6)").to_arrow(),
    "text in double quotes": lambda table: table.scan(where='city = "DE"').to_arrow(),
    "text without quotes": lambda table: table.scan(where="city = DE").to_arrow(),
    "a name that is no condition": lambda table: table.scan(where="city").to_arrow(),
    "an Arrow expression of another type": lambda table: table.scan(
        where=pc.field("id") == 5
    ).to_arrow(),
    "an Arrow expression with an unknown column": lambda table: table.scan(
        where=pc.field("cities") == "sf"
    ).to_arrow(),
    "columns in one text": lambda table: table.scan("id, fare").to_arrow(),
    "columns in one text, one unknown": lambda table: table.scan("id, fair").to_arrow(),
    "a column in another case": lambda table: table.scan(["FARE"]).to_arrow(),
    "a column that the table lacks": lambda table: table.upsert(
        ROWS.append_column("fares", ROWS["fare"])
    ),
    "a wider type": lambda _: new(
        schema=pa.schema([("id", pa.string()), ("n", pa.int32())])
    ).upsert(pa.table({"id": ["a"], "n": [1 << 40]})),
    "rows without a column": lambda table: table.upsert(ROWS.drop_columns(["fare"])),
    "an unknown schema mode": lambda table: table.upsert(ROWS, schema_mode="merge"),
    "a folder of other files": lambda _: pyhudi.create_table(".", ROWS, record_key="id"),
    "an upsert into nothing": lambda _: pyhudi.upsert("nowhere", ROWS),
    "a list of dicts into nothing": lambda _: pyhudi.upsert(
        "nowhere", ROWS.to_pylist(), record_key="id"
    ),
    "a name of Delta Lake": lambda table: table.vacuum(),
    "a clause of Delta Lake": lambda table: table.merge(ROWS).when_matched_update_all(),
    "a name of Iceberg": lambda table: table.expire_snapshots(),
    "a name of pandas": lambda table: table.columns,
    "a name in camel case": lambda table: table.bulkInsert(ROWS),
    "a method of DuckDB on a scan": lambda table: table.scan().limit(5),
    "a method of polars on a scan": lambda table: table.scan().filter("fare > 1"),
    "a place under another name": lambda table: table.location,
    "a table that is dropped": lambda table: table.drop(),
    "a question whether a table exists": lambda _: pyhudi.table_exists("trips"),
    "a class of Delta Lake": lambda _: pyhudi.DeltaTable("trips"),
    "a function of Delta Lake": lambda _: pyhudi.write_deltalake("trips", ROWS),
    "an argument of pandas": lambda _: new(partition_cols=["city"]),
    "an argument of Delta Lake": lambda table: table.delete(predicate="fare > 1"),
    "new values of Delta Lake": lambda table: table.update(new_values={"fare": 1}),
    "a source of Delta Lake": lambda table: table.merge(source=ROWS),
    "a table that may exist": lambda _: new(if_exists="replace"),
    "an argument of Spark": lambda _: pyhudi.upsert("new", ROWS, record_key="id", mode="append"),
    "a misspelled argument": lambda table: table.upsert(ROWS, dryrun=True),
    "a misspelled column of a merge": lambda table: (
        table.merge(ROWS).when_matched_update(set={"fair": "source.fare"}).execute()
    ),
    "a condition of a merge": lambda table: table.merge(ROWS, on="source.id = target.id"),
    "partitions with their values": lambda _: new(partition_by={"city": "sf"}),
    "keys instead of rows of a delete": lambda table: table.delete(["a"]),
    "SQL text instead of new values": lambda table: table.update("fare = 2"),
    "a table as a data frame": lambda table: table["fare"],
    "a table as a list of rows": lambda table: list(table),
    "a text as the number of rows": lambda table: table.head("5"),
    "storage options of fsspec": lambda _: pyhudi.open_table(
        "s3://bucket/trips", storage_options={"key": "k", "secret": "s"}
    ),
    "half of the credentials": lambda _: pyhudi.open_table(
        "s3://bucket/trips", storage_options={"access_key_id": "k"}
    ),
    "one slash in a URL": lambda _: pyhudi.open_table("s3:/bucket/trips"),
    "another package's export": lambda table: table.to_parquet("rows.parquet"),
    "as_of before the first commit": lambda table: table.scan(as_of="2001-01-01").to_arrow(),
    "as_of that is no time": lambda table: table.scan(as_of="yesterday").to_arrow(),
    "a copy-on-write service": lambda _: new().compact(),
    "changes since nothing": lambda table: table.changes(None),
    "a key of another type": lambda table: table.lookup([{"uuid": "a"}]),
    "delete without a condition": lambda table: table.delete(),
    "no partitions to delete": lambda table: table.delete_partitions([]),
    "update of a key": lambda table: table.update({"id": "'c'"}),
    "update of an unknown column": lambda table: table.update({"fair": 1}),
    "a misspelled option": lambda _: with_options(hoodie__clean__commit__retained="5"),
    "an option with a wrong value": lambda _: with_options(hoodie__clean__commits__retained="many"),
    "an option that only Apache Hudi has": lambda _: with_options(
        hoodie__datasource__write__drop__partition__columns="true"
    ),
    "a key option that contradicts the table": lambda _: with_options(
        hoodie__datasource__write__recordkey__field="city"
    ),
    "options of the store as options": lambda _: pyhudi.open_table(
        "trips", options={"region": "us-east-1"}
    ),
    "a payload class in Java": lambda _: new(
        options={"hoodie.datasource.write.payload.class": "com.example.MyPayload"}
    ),
    "rollback of an unknown instant": lambda table: table.rollback("20200101000000000"),
    "restore to a number": lambda table: table.restore(0),
    "restore to a time": lambda table: table.restore("2026-11-21"),
    "publish of a published write": lambda table: table.publish(
        table.timeline.commits.last.time  # type: ignore[union-attr]
    ),
    "capture without change logging": lambda table: table.capture("000"),
    "a secondary index on version 6": lambda table: table.index.create("secondary", "fare"),
    "an unknown store": lambda _: pyhudi.open_table("ftp://host/trips"),
}


def render() -> str:
    """The answer to each mistake, without what changes between runs."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            return "\n".join(f"# {name}\n{_answer(MISTAKES[name])}\n" for name in MISTAKES)
        finally:
            os.chdir(before)


def _answer(call: Call) -> str:
    folder = tempfile.mkdtemp(dir=".")
    os.chdir(folder)
    try:
        table = pyhudi.create_table(
            "trips", SCHEMA, record_key="id", partition_by="city", ordering="ts", table_type="mor",
            version=6,
        )  # fmt: skip
        table.insert(ROWS)
        pq.write_table(ROWS, "rows.parquet")
        try:
            return f"no error: {call(table)!r}"
        except (PyhudiError, AttributeError, TypeError) as error:
            return _stable(f"{type(error).__name__}: {error}")
    finally:
        os.chdir("..")


def _stable(text: str) -> str:
    text = re.sub(r"\b20\d{15}\b", "INSTANT", text)
    return text.replace(os.getcwd(), "FOLDER")


if __name__ == "__main__":
    print(render(), end="")
