"""Apache Hudi itself, as a reader: what it sees in a table that pyhudi wrote.

    python tests/interop/apache_hudi.py FOLDER    compares FOLDER/<t> with FOLDER/<t>.parquet

Needs Java 17 and Maven.  PySpark 3.5 and the Hudi bundle are kept in a cache of their own
(PYHUDI_CACHE, default ~/.cache/pyhudi), apart from what pyhudi is installed with.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

VERSION = os.environ.get("PYHUDI_APACHE_HUDI", "0.15.0")
CACHE = Path(os.environ.get("PYHUDI_CACHE", Path.home() / ".cache" / "pyhudi"))
PACKAGES = ("pyspark==3.5.6", "pyarrow", "setuptools")
BUNDLE = "hudi-spark3.5-bundle_2.12"

READ = """
import json, sys
from pyspark.sql import SparkSession
jar, work = sys.argv[1], json.load(open(sys.argv[2]))
spark = (SparkSession.builder.master("local[2]").config("spark.jars", jar)
    .config("spark.driver.extraClassPath", jar).config("spark.ui.enabled", "false")
    .config("spark.sql.session.timeZone", "UTC")
    .config("spark.driver.extraJavaOptions", "-Duser.timezone=UTC")
    .config("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
    .config("spark.serializer", "org.apache.spark.serializer.KryoSerializer")
    .config("spark.sql.extensions", "org.apache.spark.sql.hudi.HoodieSparkSessionExtension")
    .config("spark.kryo.registrator", "org.apache.spark.HoodieSparkKryoRegistrar").getOrCreate())
spark.sparkContext.setLogLevel("ERROR")
for path, metadata, out in work:
    rows = spark.read.format("hudi").option("hoodie.metadata.enable", metadata).load(path)
    rows.coalesce(1).write.parquet(out)
"""


def missing() -> str | None:
    """What Apache Hudi needs and this machine lacks, or None."""
    for tool in ("java", "mvn"):
        if shutil.which(tool) is None:
            return f"{tool} is not installed"
    return None


def prepare() -> tuple[Path, Path]:
    """(python with PySpark 3.5, the bundle); fetched once."""
    home = CACHE / "spark35"
    python = home / "bin" / "python"
    if not (home / ".ready").exists():
        venv.create(home, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "-q", *PACKAGES], check=True)
        (home / ".ready").touch()
    jar = CACHE / f"{BUNDLE}-{VERSION}.jar"
    if not jar.exists():
        copy = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy"
        artifact = f"-Dartifact=org.apache.hudi:{BUNDLE}:{VERSION}"
        with tempfile.TemporaryDirectory(dir=CACHE) as folder:
            subprocess.run(
                ["mvn", "-q", "-B", copy, artifact, f"-DoutputDirectory={folder}"], check=True
            )
            (Path(folder) / jar.name).replace(jar)
    return python, jar


def read(paths: list[Path]) -> dict[tuple[Path, bool], Path]:
    """Each table read by Apache Hudi, with its metadata table on and off; as Parquet folders."""
    CACHE.mkdir(parents=True, exist_ok=True)
    python, jar = prepare()
    out = Path(tempfile.mkdtemp(prefix="apache-hudi-"))
    results = {
        (path, metadata): out / f"{path.name}-{metadata}"
        for path in paths
        for metadata in (True, False)
    }
    work = out / "work.json"
    work.write_text(json.dumps([[str(p), str(m).lower(), str(f)] for (p, m), f in results.items()]))
    script = out / "read.py"
    script.write_text(READ)
    environment = os.environ | {"PYSPARK_PYTHON": str(python), "PYTHONPATH": ""}
    subprocess.run(
        [python, script, jar, work], check=True, env=environment, stderr=subprocess.DEVNULL
    )
    return results


def compare(folder: Path) -> int:
    """Compare every table of a folder with the rows pyhudi reported; number of differences."""
    import pyarrow.parquet as pq

    tables = [p for p in sorted(folder.iterdir()) if (p / ".hoodie").is_dir()]
    wrong = 0
    for (path, metadata), found in read(tables).items():
        want = pq.read_table(path.with_suffix(".parquet"))
        got = pq.read_table(found).select(want.column_names)
        key = lambda row: json.dumps(row, default=str, sort_keys=True)  # noqa: E731
        same = sorted(map(key, got.to_pylist())) == sorted(map(key, want.to_pylist()))
        wrong += not same
        listing = "on" if metadata else "off"
        verdict = "equal to" if same else "DIFFERENT from"
        print(
            f"Apache Hudi {VERSION} reads {path.name} (metadata table {listing}): "
            f"{got.num_rows} rows, {verdict} what pyhudi reports"
        )
    return wrong


if __name__ == "__main__":
    if lacks := missing():
        print(f"Apache Hudi cannot be asked: {lacks}")
        sys.exit(0)
    sys.exit(min(1, compare(Path(sys.argv[1]).absolute())))
