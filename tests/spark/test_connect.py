"""The door on a client of Spark Connect, in a process of its own: one process has one kind."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NEEDS = ("pyspark", "grpc", "grpc_status", "pandas")

SCRIPT = """
import sys
from pyspark.sql import SparkSession
import pyhudi.spark as hudi
from pyhudi.errors import PyhudiError, UserError
from tests.spark import tasks

spark = SparkSession.builder.remote("local[2]").getOrCreate()
assert hudi.SparkEngine(spark).run(tasks.square, [3, 4], label="x") == [9, 16]
rows = [(f"k{n}", n, "ab"[n % 2]) for n in range(100)]
frame = spark.createDataFrame(rows, "id string, ts long, part string")
report = hudi.upsert(frame, sys.argv[1], record_key="id", partition_by="part", ordering="ts")
assert report.inserted == 100
table = hudi.open_table(spark, sys.argv[1])
assert table.upsert(frame.where("ts < 10")).updated == 10
assert table.delete(frame.where("ts = 5")).deleted == 1
assert table.scan().count() == 99
lake = hudi.connect(spark, sys.argv[1] + "-lake", tables={"news": frame.where("ts < 3")})
lake.sql("create table rides using hudi partitioned by (part) tblproperties (primaryKey = 'id') "
         "as select * from news")
lake.sql("update rides set ts = ts + :more where id in (select max(id) from rides)",
         parameters={"more": 5})
lake.sql("merge into rides t using news s on t.id = s.id when matched and s.ts = 0 then delete "
         "when matched then update set ts = t.ts * 2")
found = lake.sql("select id, '{x}' as x, ts from rides order by id")
assert [tuple(row) for row in found.collect()] == [("k1", "{x}", 2), ("k2", "{x}", 14)]
assert lake.sql("call show_commits('rides')").count() == 3
for text in ("select nosuch from rides", "delete from nosuch", "update rides set id = 'x'"):
    try:
        lake.sql(text)
    except PyhudiError:
        continue
    raise AssertionError(text)
try:
    hudi.SparkEngine(spark).run(tasks.refuse, [7], label="x")
except UserError as error:
    assert error.facts == {"row": 7}
print("all of it held")
"""

SOURCE = """
import sys
from pyspark.sql import SparkSession
import pyhudi
import pyhudi.spark as hudi

spark = SparkSession.builder.remote("local[2]").getOrCreate()
path = sys.argv[1]
options = {"hoodie.table.name": "t", "hoodie.datasource.write.recordkey.field": "id"}
frame = spark.createDataFrame([(f"k{n}", n) for n in range(10)], "id string, ts long")
frame.write.format("pyhudi").options(**options).mode("overwrite").save(path)
rows = spark.read.format("pyhudi").option("columns", "id,ts").load(path)
assert rows.where("id = 'k3'").collect()[0].ts == 3
stream = spark.readStream.format("pyhudi").option("columns", "id,ts").load(path)
writer = stream.writeStream.option("checkpointLocation", path + "-c").trigger(availableNow=True)
writer.format("pyhudi").options(**options).start(path + "-s").awaitTermination()
assert spark.read.format("pyhudi").load(path + "-s").count() == 10
writer = stream.writeStream.option("checkpointLocation", path + "-d").trigger(availableNow=True)
into = hudi.foreach_batch(path + "-f", record_key="id", query="copy")
writer.foreachBatch(into).start().awaitTermination()
assert pyhudi.open_table(path + "-f").scan().count() == 10
print("all of it held")
"""


@pytest.mark.parametrize(
    "script",
    [
        # Packages of PySpark 3.5 do not contain the server.
        pytest.param(SCRIPT, id="verbs", marks=pytest.mark.pyspark("4.0")),
        pytest.param(SOURCE, id="source", marks=[pytest.mark.pyspark("4.2"), pytest.mark.slow]),
    ],
)
def test_the_api_on_spark_connect(tmp_path: Path, script: str) -> None:
    lacking = [name for name in NEEDS if importlib.util.find_spec(name) is None]
    if lacking:
        pytest.skip(f"Spark Connect needs {', '.join(lacking)}: pip install 'pyspark[connect]'")
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip("Java is not installed")
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "t")],
        env={
            **os.environ,
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": os.pathsep.join(paths),
            "JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        },
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert "all of it held" in done.stdout, done.stderr[-3000:]
