"""What needs an extra says so where it is missing: the extra, in a typed error or in one line.

Each call runs in a process of its own in which the extra's modules cannot be imported: a copy of
one that has imported pyhudi.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Final

import pyarrow as pa
import pytest

import pyhudi
from pyhudi.environment import EXTRAS

HIDDEN: Final[dict[str, tuple[str, ...]]] = {
    "cli": ("click", "rich"),
    "daft": ("daft",),
    "dask": ("dask",),
    "databases": ("sqlalchemy", "adbc_driver_postgresql", "adbc_driver_sqlite", "psycopg"),
    "glue": ("boto3", "botocore"),
    "hbase": ("happybase", "thriftpy2"),
    "hdfs": ("requests",),
    "hive": ("thriftpy2",),
    "kafka": ("confluent_kafka",),
    "object": ("obstore",),
    "pandas": ("pandas",),
    "polars": ("polars",),
    "prometheus": ("prometheus_client",),
    "protobuf": ("google.protobuf", "grpc_tools"),
    "ray": ("ray",),
    "rocksdb": ("rocksdict",),
    "server": ("grpc",),
    "shell": ("prompt_toolkit",),
    "spark": ("pyspark",),
    "zookeeper": ("kazoo",),
}
"""Extra -> the modules that are missing without it."""

HBASE = '{"hoodie.index.type": "HBASE", "hoodie.index.hbase.zkquorum": "127.0.0.1", '
HBASE += '"hoodie.index.hbase.zkport": "2181", "hoodie.index.hbase.table": "t"}'
ZOOKEEPER = '{"hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.'
ZOOKEEPER += 'ZookeeperBasedLockProvider", "hoodie.write.lock.zookeeper.url": "127.0.0.1", '
ZOOKEEPER += '"hoodie.write.lock.zookeeper.port": "2181", '
ZOOKEEPER += '"hoodie.write.lock.zookeeper.base_path": "/l", '
ZOOKEEPER += '"hoodie.write.lock.zookeeper.lock_key": "k"}'
CALLS: Final[tuple[tuple[str, str], ...]] = (
    ("cli", "from pyhudi.cli import main; main()"),
    ("daft", "import pyhudi.daft as d; d.read(PATH)"),
    ("dask", "pyhudi.open_table(PATH).scan().to_dask()"),
    ("databases", "from pyhudi.ingest import QuerySource as q; "
     "Stream(q('sqlite:///x.db', 'select 1 as id'), pyhudi.open_table(PATH)).run_once()"),
    ("glue", "run(['sync', PATH, '--catalog', 'glue', '--database', 'd'])"),
    ("glue", "pyhudi.open_table(PATH).sync('glue', database='d')"),
    ("hbase", f"pyhudi.open_table(PATH, options={HBASE}).upsert(ROWS)"),
    ("hdfs", "pyhudi.open_table('hdfs://localhost:9870/t')"),
    ("hdfs", "run(['table', 'info', 'hdfs://localhost:9870/t'])"),
    ("hive", "pyhudi.open_table(PATH).sync('hive', uri='thrift://127.0.0.1:1', database='d')"),
    ("shell", "from pyhudi.cli.shell import run_shell; run_shell(pyhudi.connect('.'), print)"),
    ("hive", "run(['sync', PATH, '--uri', 'thrift://127.0.0.1:1', '--database', 'd'])"),
    ("hive", "pyhudi.open_table('hive://127.0.0.1:1/d.t')"),
    ("hive", "run(['table', 'info', 'hive://127.0.0.1:1/d.t'])"),
    ("kafka", "Stream(KafkaSource('127.0.0.1:1', 't', format='json'), "
     "pyhudi.open_table(PATH)).run_once()"),
    ("object", "pyhudi.open_table('s3://bucket/t')"),
    ("object", "run(['table', 'info', 's3://bucket/t'])"),
    ("object", "run(['doctor', 'gs://bucket/t'])"),
    ("pandas", "pyhudi.open_table(PATH).to_pandas()"),
    ("pandas", "pyhudi.open_table(PATH).scan().to_pandas()"),
    ("polars", "pyhudi.open_table(PATH).to_polars()"),
    ("polars", "import pyhudi.polars as p; p.scan(PATH)"),
    ("prometheus", "from pyhudi.observe import prometheus as p; p.PrometheusEndpoint()"),
    ("protobuf", "from pyhudi.ingest.message_formats.protobuf_schemas import files_of; "
     "files_of(PATH)"),
    ("ray", "pyhudi.open_table(PATH).scan().to_ray()"),
    ("rocksdb", "pyhudi.open_table(PATH, "
     "options={'pyhudi.index.shadow': 'rocksdb'}).upsert(ROWS)"),
    ("server", "run(['serve', PATH])"),
    ("spark", "import pyhudi.spark as s; s.open_table"),
    ("zookeeper", f"pyhudi.open_table(PATH, options={ZOOKEEPER}).upsert(ROWS)"),
)  # fmt: skip

PROGRAM = """
import json
import os
import sys
CALLS = json.load(sys.stdin)
HIDDEN = []
class Hiding:
    def __init__(self, finder):
        self.finder = finder
    def find_spec(self, name, *more):
        if any(name == one or name.startswith(one + ".") for one in HIDDEN):
            return None
        return self.finder.find_spec(name, *more)
sys.meta_path[:] = [Hiding(finder) for finder in sys.meta_path]
import pyarrow as pa
import pyhudi
from pyhudi.errors import PyhudiError
def run(words):
    from pyhudi.cli.app import run as command
    command(words)
for number in sorted(range(len(CALLS)), key=lambda number: "pandas" not in CALLS[number][0]):
    hidden, call = CALLS[number]
    if "pandas" not in hidden:  # once for all that follow: pyarrow imports pandas here
        ROWS = pa.table({"id": ["a"], "n": [1]})
        pyhudi.open_table(PATH)
    if child := os.fork():
        os.waitpid(child, 0)
        continue
    out = os.open(f"{number}.txt", os.O_WRONLY | os.O_CREAT)
    os.dup2(out, 1)
    os.dup2(out, 2)
    HIDDEN += hidden
    try:
        exec(call)
    except (PyhudiError, ImportError) as error:
        print(type(error).__name__, error)
    break
"""


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What the process of each call prints."""
    folder = tmp_path_factory.mktemp("extras")
    rows = pa.table({"id": ["a"], "n": [1]})
    pyhudi.create_table(folder / "t", rows.schema, record_key="id").insert(rows)
    head = "from pyhudi.ingest import KafkaSource, Stream; "
    calls = [(HIDDEN[e], head * ("Stream(" in call) + call) for e, call in CALLS]
    done = subprocess.run(
        [sys.executable, "-c", f"PATH = {str(folder / 't')!r}\n{PROGRAM}"],
        input=json.dumps(calls), cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert not done.returncode and not done.stderr, done.stderr
    return [(folder / f"{number}.txt").read_text() for number in range(len(CALLS))]


# Extras of other libraries, and those whose functions take an object of the library.
ELSEWHERE = {"connect", "datafusion", "ingest", "opentelemetry", "sqs", "duckdb"}


def test_each_extra_has_a_call() -> None:
    assert {extra for extra, _ in CALLS} == set(EXTRAS) - ELSEWHERE


@pytest.mark.parametrize(
    ("number", "extra"), list(enumerate(e for e, _ in CALLS)), ids=[call for _, call in CALLS]
)
def test_what_needs_a_missing_extra_names_it(answers: list[str], number: int, extra: str) -> None:
    said = answers[number]
    assert f"pip install 'pyhudi[{extra}]'" in said, said
    assert "Traceback" not in said and "INTERNAL" not in said, said
