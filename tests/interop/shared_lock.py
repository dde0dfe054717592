"""Apache Hudi and pyhudi write one table at the same time, under a lock that both know.

    python -m tests.interop.shared_lock [--lock file|zookeeper] [--rounds N]

Each writes its own keys, to its own partition and to one that both share, in optimistic mode.
One line of totals; exit code 3 if a row is lost or doubled, or if Apache Hudi reads other rows.
A write of Apache Hudi that met a conflict, or whose instant another had taken meanwhile, is done
again, as a user of it would (docs/transactions.md, "Duplicate instants").
Needs what `apache_hudi.py` needs, and for zookeeper what `tests/support/zookeeper.py` does.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import pyhudi
from pyhudi.errors import WriteConflictError
from pyhudi.storage.local import LocalFileSystem
from pyhudi.storage.locks.table_lock import TableLock
from tests.interop import apache_hudi
from tests.support import zookeeper

SCHEMA = pa.schema({"id": pa.string(), "city": pa.string(), "ts": pa.int64(), "v": pa.int64()})
_PACKAGE = "org.apache.hudi.client.transaction.lock."

WRITER = """
import json, sys
from pyspark.sql import SparkSession
jar, path, rounds, conf = sys.argv[1], sys.argv[2], int(sys.argv[3]), json.loads(sys.argv[4])
spark = (SparkSession.builder.master("local[1]").config("spark.jars", jar)
    .config("spark.driver.extraClassPath", jar).config("spark.ui.enabled", "false")
    .config("spark.sql.shuffle.partitions", "1")
    .config("spark.driver.extraJavaOptions", "-Duser.timezone=UTC")
    .config("spark.serializer", "org.apache.spark.serializer.KryoSerializer")
    .config("spark.sql.extensions", "org.apache.spark.sql.hudi.HoodieSparkSessionExtension")
    .config("spark.kryo.registrator", "org.apache.spark.HoodieSparkKryoRegistrar").getOrCreate())
spark.sparkContext.setLogLevel("ERROR")
print("up", flush=True)
for line in sys.stdin:
    n = int(line)
    rows = [(f"j{n}-{c}", c, n, n) for c in ("java", "both")]
    rows = spark.createDataFrame(rows, "id string, city string, ts long, v long")
    try:
        rows.write.format("hudi").options(**conf).mode("append").save(path)
        print("done", flush=True)
    except Exception as error:
        text = str(error)
        taken = "Failed to create file" in text and "commit.requested" in text
        conflict = "ConcurrentModification" in text or "Conflict" in text
        kind = "taken" if taken else "conflict" if conflict else "failed"
        causes = [line for line in text.splitlines() if not line[:1].isspace()]
        print(kind + " " + " ".join(causes)[:1500], flush=True)
"""


class ApacheHudi:
    """A process that writes a round when told to."""

    def __init__(self, path: Path, conf: dict[str, str], folder: Path) -> None:
        python, jar = apache_hudi.prepare()
        script = folder / "writer.py"
        script.write_text(WRITER)
        environment = os.environ | {"PYSPARK_PYTHON": str(python), "PYTHONPATH": ""}
        self.process = subprocess.Popen(
            [python, script, jar, path, "0", json.dumps(conf)], text=True, env=environment,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        self.heard("up")

    def heard(self, word: str = "") -> str:
        """The next line it says of its own, less what the JVM prints between."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith(("up", "done", "conflict", "failed", "taken")):
                assert line.startswith(word), line
                return line.strip()
        raise AssertionError("Apache Hudi's process has ended")

    def tell(self, number: int) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{number}\n")
        self.process.stdin.flush()

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


def lock_options(kind: str, stack: ExitStack) -> dict[str, str]:
    lock = "hoodie.write.lock."
    if kind == "file":
        return {lock + "provider": _PACKAGE + "FileSystemBasedLockProvider"}
    if lacks := zookeeper.missing():
        sys.exit(f"no ZooKeeper here: {lacks}")
    url = stack.enter_context(zookeeper.zookeeper())
    return {
        lock + "provider": _PACKAGE + "ZookeeperBasedLockProvider", lock + "zookeeper.url": url,
        lock + "zookeeper.port": url.rpartition(":")[2], lock + "zookeeper.base_path": "/hudi",
        lock + "zookeeper.lock_key": "shared",
    }  # fmt: skip


def java_options(shared: dict[str, str]) -> dict[str, str]:
    write = "hoodie.datasource.write."
    return {
        **shared, "hoodie.table.name": "shared", write + "recordkey.field": "id",
        write + "partitionpath.field": "city", write + "precombine.field": "ts",
        write + "operation": "upsert", "hoodie.metadata.enable": "true",
        "hoodie.metadata.record.index.enable": "true", "hoodie.index.type": "RECORD_INDEX",
        "hoodie.write.lock.wait_time_ms_between_retry": "500",
        "hoodie.write.lock.client.wait_time_ms_between_retry": "500",
        "hoodie.cleaner.policy.failed.writes": "LAZY", "hoodie.upsert.shuffle.parallelism": "1",
    }  # fmt: skip


def excluded(table: Path, java: ApacheHudi, rules: pyhudi.Table) -> bool:
    """Whether Apache Hudi waits while pyhudi holds the lock, and goes on after."""
    fs = LocalFileSystem(table)
    lock = TableLock(fs, purpose="hold", rules=rules._options.write.lock)
    answered = threading.Event()

    def listen() -> None:
        java.heard("done")
        answered.set()

    with lock:
        java.tell(0)
        listener = threading.Thread(target=listen)
        listener.start()
        waited = not answered.wait(20)
    listener.join(120)
    return waited and answered.is_set()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lock", choices=("file", "zookeeper"), default="file")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    if lacks := apache_hudi.missing():
        print(f"Apache Hudi cannot be asked: {lacks}")
        return 0
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="shared-lock-")))
        shared = {
            **lock_options(arguments.lock, stack),
            "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
            "hoodie.write.lock.wait_time_ms": "60000",
        }
        path = folder / "shared"
        pyhudi.create_table(path, SCHEMA, record_key="id", partition_by="city", ordering="ts")
        table = pyhudi.open_table(path, options=shared)
        table.upsert(_round("p", 0))
        java = ApacheHudi(path, java_options(shared), folder)
        stack.callback(java.end)
        waited = excluded(path, java, table)
        stored = {f"p0-{c}" for c in ("pyhudi", "both")} | {f"j0-{c}" for c in ("java", "both")}
        conflicts, taken = 0, 0
        for number in range(1, arguments.rounds + 1):
            java.tell(number)
            for own in range(3):
                try:
                    table.upsert(_round("p", number * 10 + own))
                    stored |= {f"p{number * 10 + own}-{c}" for c in ("pyhudi", "both")}
                except WriteConflictError:
                    conflicts += 1
            output = java.heard()
            while output.startswith(("conflict", "taken")):
                taken += output.startswith("taken")
                conflicts += output.startswith("conflict")
                java.tell(number)
                output = java.heard()
            assert output == "done", output
            stored |= {f"j{number}-{c}" for c in ("java", "both")}
        met = f"{conflicts} conflicts, {taken} instants taken"
        return _verdict(arguments.lock, path, stored, waited=waited, met=met)


def _round(who: str, number: int) -> pa.Table:
    cities = ("pyhudi", "both")
    found = [{"id": f"{who}{number}-{c}", "city": c, "ts": number, "v": number} for c in cities]
    return pa.Table.from_pylist(found, SCHEMA)


def _verdict(kind: str, path: Path, stored: set[str], *, waited: bool, met: str) -> int:
    found = pyhudi.open_table(path).scan(["id"]).to_arrow()["id"].to_pylist()
    wrong = sorted(stored ^ set(found)) + [key for key in set(found) if found.count(key) > 1]
    for (_, metadata), out in apache_hudi.read([path]).items():
        theirs = pq.read_table(out)["id"].to_pylist()
        if sorted(theirs) != sorted(found):
            listing = "with" if metadata else "without"
            wrong.append(f"Apache Hudi {listing} the metadata table reads {len(theirs)} rows")
    index = pyhudi.open_table(path).lookup(sorted(stored))["found"].to_pylist()
    wrong += ["record index"] * index.count(False)
    print(
        f"{kind} lock: {len(stored)} rows of both writers, {met}, "
        f"Apache Hudi {'waited' if waited else 'DID NOT WAIT'} for the lock, "
        f"{len(wrong)} problems {wrong[:5] if wrong else ''}"
    )
    return 3 if wrong or not waited else 0


if __name__ == "__main__":
    sys.exit(main())
