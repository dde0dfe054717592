"""MERGE INTO by key on Spark beside `hudi.upsert` of the same rows and the source query.

    python -m bench.spark_merge [--rows 5000000] [--batch 500000] [--pairs 3] [--smoke]

The statement and the upsert take turns on one table, each with a batch of its own of which 90 % are
updates; before each pair both have run once.  The source query is read alone, into nothing.  The
rows at the end are compared with those computed from the input.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.point_query import session
from bench.results import state
from bench.spark_rows import checks_of, differences, expected_table, make, newest_rows

GOAL = 1.1
SOURCE = "select id, ts, part, a + 1 - 1 as a, b, c, d, s1, s2 from batch where ts > 0"
MERGE = (
    f"merge into t using ({SOURCE}) s on t.id = s.id and t.part = s.part "
    "when matched then update set * when not matched then insert *"
)


class Turns:
    """Statement and upsert on one table; seconds by way."""

    def __init__(self, spark: Any, folder: Path, path: Path) -> None:
        import pyhudi.spark as hudi

        self.spark, self.folder, self.path = spark, folder, str(path)
        self.seconds: dict[str, list[float]] = {"merge": [], "upsert": [], "query": []}
        base = spark.read.parquet(str(folder / "base.parquet"))
        hudi.create_table(
            spark,
            path,
            base.schema,
            record_key="id",
            partition_by=["part"],
            ordering="ts",
            name="t",
        ).bulk_insert(base)

    def run(self, way: str, number: int) -> None:
        import pyhudi.spark as hudi

        batch = self.spark.read.parquet(str(self.folder / f"up{number}.parquet"))
        batch.createOrReplaceTempView("batch")
        began, report = time.monotonic(), None
        if way == "merge":
            report = hudi.sql(self.spark, MERGE, tables={"t": self.path})
        elif way == "upsert":
            report = hudi.open_table(self.spark, self.path).upsert(self.spark.sql(SOURCE))
        else:
            self.spark.sql(SOURCE).write.format("noop").mode("overwrite").save()
        self.seconds[way].append(time.monotonic() - began)
        phases = {} if report is None else report.seconds
        shown = ", ".join(f"{name} {value:.2f}" for name, value in phases.items())
        print(f"{way} {number}: {self.seconds[way][-1]:.2f} s; {shown}", flush=True)

    def stored(self) -> Any:
        import pyhudi.spark as hudi

        return hudi.open_table(self.spark, self.path).scan()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--batch", type=int, default=500_000)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--smoke", action="store_true", help="few rows")
    given = parser.parse_args()
    if given.smoke:
        given.rows, given.batch, given.pairs = 4_000, 400, 1
    batches = 2 * given.pairs + 2
    data = Path(tempfile.gettempdir()) / f"pyhudi-bench-{given.rows}-{given.batch}"
    make(data, given.rows, given.batch, batches)
    spark = session(memory="3g")
    with tempfile.TemporaryDirectory() as folder:
        turns = Turns(spark, data, Path(folder) / "t")
        for number in range(batches):
            turns.run("query", number)
            turns.run("merge" if number % 2 else "upsert", number)
        wrong = differences(expected_table(newest_rows(data, batches)), checks_of(turns.stored()))
    spark.stop()
    print(*wrong, sep="\n")
    merge, upsert, query = (
        statistics.median(turns.seconds[way][skip:])
        for way, skip in (("merge", 1), ("upsert", 1), ("query", 2))
    )
    ratio = merge / (upsert + query)
    shown = {w: f"{min(v[1:]):.2f} to {max(v[1:]):.2f}" for w, v in turns.seconds.items()}
    state(
        f"Spark: MERGE of {given.batch:,} rows by key into {given.rows:,}: at most {GOAL}x of the "
        "upsert and the source query",
        f"{merge:.2f} s ({shown['merge']}); upsert {upsert:.2f} s ({shown['upsert']}), "
        f"query {query:.2f} s ({shown['query']})",
        f"{ratio:.2f}x",
        is_held=ratio <= GOAL,
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
