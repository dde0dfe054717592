"""One engine of bench.shapes on Spark, in a process of its own: pyhudi or Delta Lake.

    python -m bench.shape_engine ENGINE --data DIR --table DIR [--jars ...]

DIR of --data: base.parquet, changes.parquet and facts.json, written by the caller.  Runs in the
peers' interpreter too, which has neither pyarrow nor NumPy.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.process_tree import measured
from bench.spark_engine import session

ENGINES = ("delta", "pyhudi-cow", "pyhudi-mor")


def _pyhudi(engine: str, spark: Any, path: str, by: list[str]) -> dict[str, Callable[..., Any]]:
    import pyhudi.spark as hudi

    def load(rows: Any) -> Any:
        kind = engine.split("-")[1]
        table = hudi.create_table(
            spark,
            path,
            rows.schema,
            record_key="id",
            partition_by=by,
            ordering="ts",
            table_type=kind,
            name="t",
        )
        return table.bulk_insert(rows)

    return {
        "load": load,
        "upsert": lambda rows: hudi.open_table(spark, path).upsert(rows),
        "rows": lambda: hudi.open_table(spark, path).scan(),
        "point": lambda condition: hudi.open_table(spark, path).scan(["a"], condition),
    }


def _delta(engine: str, spark: Any, path: str, by: list[str]) -> dict[str, Callable[..., Any]]:
    from delta.tables import DeltaTable

    same = " and ".join(f"t.{name} = s.{name}" for name in (*by, "id"))

    def upsert(rows: Any) -> None:
        merge = DeltaTable.forPath(spark, path).alias("t").merge(rows.alias("s"), same)
        merge.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()

    return {
        "load": lambda rows: rows.write.format("delta").partitionBy(*by).save(path),
        "upsert": upsert,
        "rows": lambda: spark.read.format("delta").load(path),
        "point": lambda condition: spark.read.format("delta").load(path).where(condition),
    }


def run(engine: str, spark: Any, data: Path, table: str) -> None:
    """Load, upsert, point query and snapshot; each result is compared with `facts.json`."""
    facts = json.loads((data / "facts.json").read_text())
    by = [facts["partition"]] if facts["partition"] else []
    base, changes = (
        spark.read.parquet(str(data / f"{name}.parquet")) for name in ("base", "changes")
    )
    steps = (_delta if engine == "delta" else _pyhudi)(engine, spark, table, by)
    measured("load", lambda: steps["load"](base))
    measured("upsert", lambda: steps["upsert"](changes))

    def point() -> list[Any]:
        return [row["a"] for row in steps["point"](f"id = '{facts['key']}'").collect()]

    found = measured("point", point)
    if found != [facts["value"]]:
        raise SystemExit(f"wrong result: {facts['key']} has {found}, expected {facts['value']}")
    columns = ["count(*)", "sum(a)", *(f"count({name})" for name in base.columns)]
    rows = measured("snapshot", lambda: steps["rows"]().selectExpr(*columns).collect())
    if list(rows[0])[:2] != facts["expected"]:
        raise SystemExit(f"wrong result: {list(rows[0])[:2]}, expected {facts['expected']}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("engine", choices=ENGINES)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--table", required=True)
    parser.add_argument("--jars", default="")
    given = parser.parse_args()
    spark = session(given.engine, given.jars)
    spark.range(10).count()
    try:
        run(given.engine, spark, given.data, given.table)
    finally:
        spark.stop()


if __name__ == "__main__":
    main()
