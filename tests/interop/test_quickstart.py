"""The steps of Apache Hudi's Spark quick start through `format("pyhudi")`, COW and MOR; after each
one Apache Hudi reads the same rows, and it answers time travel and incremental queries alike.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark.sql.datasource", reason="needs PySpark 4")

import pyhudi
from tests.support.apache_hudi import ApacheHudi, newest_table_version

pytestmark = [pytest.mark.interop, pytest.mark.spark]

COLUMNS = ["ts", "uuid", "rider", "driver", "fare", "city"]
TRIPS = [
    (1695159649087, "334e26e9-8355-45cc-97c6-c31daf0df330", "rider-A", "driver-K", 19.10, "sf"),
    (1695091554788, "e96c4396-3fad-413a-a942-4cb36106d721", "rider-C", "driver-M", 27.70, "sf"),
    (1695046462179, "9909a8b1-2d15-4d3d-8ec9-efc48c536a00", "rider-D", "driver-L", 33.90, "sf"),
    (1695516137016, "e3cf430c-889d-4015-bc98-59bdce1e530c", "rider-F", "driver-P", 34.15, "sao"),
    (1695376420876, "7a84095f-737f-40bc-b62f-6b69664712d2", "rider-G", "driver-Q", 43.40, "sao"),
    (1695173887231, "3eeb61f7-c2b0-4636-99bd-5d7a5a1d2c04", "rider-I", "driver-S", 41.06, "che"),
    (1695115999911, "c8abbe79-8d89-47ea-b4ce-4d224bae5bfa", "rider-J", "driver-T", 17.85, "che"),
]
OPERATION = "hoodie.datasource.write.operation"


class Guide:
    """A table, written and read by our source, and read by Apache Hudi."""

    def __init__(self, spark: Any, apache: ApacheHudi, path: Path, kind: str) -> None:
        self.spark, self.apache, self.path = spark, apache, path
        self.options = {
            "hoodie.table.name": "trips",
            "hoodie.datasource.write.recordkey.field": "uuid",
            "hoodie.datasource.write.partitionpath.field": "city",
            "hoodie.datasource.write.table.type": kind,
            "hoodie.datasource.write.precombine.field": "ts",
            "hoodie.write.table.version": str(newest_table_version([apache])),
        }

    def load(self, **options: str) -> Any:
        return self.spark.read.format("pyhudi").options(**options).load(f"file://{self.path}")

    def save(self, frame: Any, mode: str = "append", **options: str) -> list[str]:
        """The rows after it."""
        writer = frame.write.format("pyhudi").options(**{**self.options, **options})
        writer.mode(mode).save(f"file://{self.path}")
        return self.agree()

    def agree(self, **query: str) -> list[str]:
        """The rows, which both must give."""
        named = {
            "as_of": "as.of.instant",
            "begin": "hoodie.datasource.read.begin.instanttime",
            "end": "hoodie.datasource.read.end.instanttime",
            "query": "hoodie.datasource.query.type",
        }
        ours = self.load(**{named[name]: value for name, value in query.items()})
        found = sorted(str(row.asDict()) for row in ours.select(*COLUMNS).collect())
        out = self.path.parent / "rows.parquet"
        out.unlink(missing_ok=True)
        self.apache.call("read", path=str(self.path), out=str(out), **query)
        theirs = pq.ParquetFile(out).read().select(COLUMNS).to_pylist()
        assert found == sorted(map(str, theirs)), f"{self.path.name}, {query}"
        return found

    def users(self) -> Any:
        return self.load().select(*COLUMNS)


@pytest.mark.slow
@pytest.mark.parametrize("apache", ["0.15.0"], indirect=True)
@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_apache_hudi_reads_what_the_guide_wrote(
    spark: Any, apache: ApacheHudi, tmp_path: Path, kind: str
) -> None:
    from pyspark.sql.functions import col, lit

    guide = Guide(spark, apache, tmp_path / "trips", kind)
    guide.save(spark.createDataFrame(TRIPS, COLUMNS), "overwrite")
    first = pyhudi.open_table(guide.path).timeline.commits.instants[0].time

    update = guide.users().where("rider = 'rider-D'")
    guide.save(update.withColumn("fare", col("fare") * 10).withColumn("ts", col("ts") + 1))
    assert len(guide.agree(as_of=first)) == 7
    assert len(guide.agree(query="incremental", begin=first)) == 1
    assert len(guide.agree(query="incremental", begin="000", end=first)) == 7
    guide.agree(query="read_optimized")

    soft = guide.users().where("city = 'che'")
    soft = soft.withColumn("rider", lit(None).cast("string"))
    guide.save(soft.withColumn("fare", lit(None).cast("double")))
    hard = guide.users().where("city = 'che'").select("uuid", "city").withColumn("ts", lit(0))
    assert len(guide.save(hard, **{OPERATION: "delete"})) == 5

    new = spark.createDataFrame([(1, "new-1", "r", "d", 1.5, "sao")], COLUMNS)
    assert len(guide.save(new, **{OPERATION: "insert_overwrite"})) == 4
    guide.save(new.withColumn("uuid", lit("new-2")), **{OPERATION: "insert"})
    guide.save(new.withColumn("uuid", lit("new-3")), **{OPERATION: "bulk_insert"})
    assert len(guide.save(new, **{OPERATION: "insert_overwrite_table"})) == 1
    answer = apache.call("validate", path=str(guide.path))
    assert not answer.get("problems")
