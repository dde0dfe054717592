"""What is installed: releases, extras, the native core, Java and PySpark.

Imports nothing of the package, so that it also answers where a part is missing.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

EXTRAS: Final[Mapping[str, tuple[str, str]]] = {
    "cli": ("rich", "the command pyhudi"),
    "connect": ("grpcio", "sessions of Spark Connect"),
    "daft": ("daft", "pyhudi.daft.read()"),
    "dask": ("dask", "scan.to_dask()"),
    "databases": ("sqlalchemy", "ingest from databases"),
    "datafusion": ("datafusion", "pyhudi.datafusion.register()"),
    "duckdb": ("duckdb", "queries of DuckDB"),
    "glue": ("boto3", "the AWS Glue catalog"),
    "hbase": ("happybase", "the HBase index"),
    "hdfs": ("requests", "tables on HDFS"),
    "hive": ("thriftpy2", "the Hive Metastore"),
    "ingest": ("duckdb", "SQL over the batches of an ingest"),
    "kafka": ("confluent-kafka", "ingest from Kafka"),
    "object": ("obstore", "tables on S3, Google Cloud Storage and Azure"),
    "opentelemetry": ("opentelemetry-api", "traces and metrics by OpenTelemetry"),
    "pandas": ("pandas", "scan.to_pandas()"),
    "polars": ("polars", "scan.to_polars()"),
    "prometheus": ("prometheus-client", "metrics for Prometheus"),
    "protobuf": ("grpcio-tools", "ingest of messages in Protobuf"),
    "ray": ("ray", "scan.to_ray()"),
    "rocksdb": ("rocksdict", "the RocksDB index"),
    "server": ("grpcio", "the Flight SQL server"),
    "shell": ("prompt-toolkit", "the shell of pyhudi sql"),
    "spark": ("pyspark", "pyhudi.spark and format('pyhudi')"),
    "sqs": ("boto3", "ingest from queues of S3 events"),
    "zookeeper": ("kazoo", "the ZooKeeper lock of Apache Hudi"),
}
"""Extra -> the distribution that shows that it is installed, and what needs it."""

LIBRARIES: Final = ("pyarrow", "numpy", "fastavro", "fsspec", "filelock", "isal", "sqlglot")
_JAVA_NEEDED: Final = 17
_JAVA_SECONDS: Final = 20


@dataclass(frozen=True)
class Environment:
    """What is installed here.  None: missing.

    extras: extra -> version of its library, or None.  java: the version that Spark would start.
    pyspark_python: the interpreter of Spark's workers.  problems: what does not work, and why.
    """

    pyhudi: str
    python: str
    platform: str
    native_core: str | None
    libraries: Mapping[str, str | None]
    extras: Mapping[str, str | None]
    java: str | None
    java_home: str | None
    pyspark_python: str | None
    pyspark_supports: tuple[str, ...]
    problems: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain values that JSON can represent."""
        return asdict(self) | {
            "pyspark_supports": list(self.pyspark_supports),
            "problems": list(self.problems),
        }

    def __str__(self) -> str:
        lines = [
            f"pyhudi {self.pyhudi}, Python {self.python}, {self.platform}",
            f"native core: {self.native_core or 'missing'}",
            "libraries: " + ", ".join(f"{n} {v or 'missing'}" for n, v in self.libraries.items()),
        ]
        for extra, found in self.extras.items():
            library, purpose = EXTRAS[extra]
            state = f"{library} {found}" if found else f"missing: pip install 'pyhudi[{extra}]'"
            lines.append(f"extra {extra:<10} {state} ({purpose})")
        lines.append(f"Java: {self.java or 'missing'} (JAVA_HOME {self.java_home or 'not set'})")
        lines.append(f"PYSPARK_PYTHON: {self.pyspark_python or 'not set'}")
        if self.pyspark_supports:
            lines.append("PySpark supports: " + "; ".join(self.pyspark_supports))
        lines += [f"problem: {problem}" for problem in self.problems]
        return "\n".join([*lines, *([] if self.problems else ["no problem found"])])


def examine_environment() -> Environment:
    """What is installed in this process's environment.  Starts Java for its version."""
    extras = {extra: _version(library) for extra, (library, _) in EXTRAS.items()}
    libraries = {name: _version(name) for name in LIBRARIES}
    java, core = _java(), _native_core()
    workers = os.environ.get("PYSPARK_PYTHON")
    spark = extras["spark"]
    problems = [f"{name} is missing: pip install pyhudi" for name, v in libraries.items() if not v]
    if core is None:
        problems.append("the native core is missing: install a wheel, or build it with a compiler")
    if spark is not None:
        problems += _spark_problems(java, workers)
    return Environment(
        _version("pyhudi") or "0+unknown",
        platform.python_version(),
        f"{platform.system()} {platform.machine()}",
        core,
        libraries,
        extras,
        java,
        os.environ.get("JAVA_HOME"),
        workers,
        _supported(spark) if spark else (),
        tuple(problems),
    )


def _version(distribution: str) -> str | None:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


def _native_core() -> str | None:
    """File name of a compiled module; None if there is none."""
    package = find_spec("pyhudi")
    folders = package.submodule_search_locations if package is not None else None
    suffixes = (".so", ".pyd")
    compiled = [p for f in folders or () for p in (Path(f) / "_native").glob("hashing.*")]
    return next((p.name for p in compiled if p.suffix in suffixes), None)


def _java() -> str | None:
    """The version of the Java that Spark starts."""
    home = os.environ.get("JAVA_HOME")
    program = shutil.which("java", path=f"{home}/bin" if home else None)
    if program is None:
        return None
    try:
        done = subprocess.run(
            [program, "-version"], capture_output=True, text=True, timeout=_JAVA_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r'version "([^"]+)"', done.stderr + done.stdout)
    return found[1] if found else None


def _spark_problems(java: str | None, workers: str | None) -> list[str]:
    found = []
    if java is None:
        found.append("PySpark is installed, but Java is not: install Java 17, or set JAVA_HOME")
    elif int(java.removeprefix("1.").partition(".")[0]) < _JAVA_NEEDED:
        found.append(f"Java {java} is too old for Spark 4: install Java {_JAVA_NEEDED}")
    name, program = ("PYSPARK_PYTHON", workers) if workers else ("python3 on the PATH", "python3")
    release = _output(program, "import sys; print('%d.%d' % sys.version_info[:2])")
    mine = f"{sys.version_info.major}.{sys.version_info.minor}"
    if release is None:
        found.append(f"{name} is no Python interpreter: {program}")
    elif release != mine:
        found.append(f"{name} is Python {release}, this process is Python {mine}")
    elif (lacks := _output(program, _LACKS_OF_WORKERS)) != "":
        found.append(
            f"{name}, which Spark starts, cannot import {lacks or 'pyhudi'}: "
            f"set PYSPARK_PYTHON={sys.executable}"
        )
    return found


_LACKS_OF_WORKERS: Final = """
from importlib import import_module
from importlib.util import find_spec
def lacks(name):
    try:
        import_module(name)
    except ImportError as error:
        return error.name or name
found = [lacks("pyarrow"), lacks("pyhudi")]
found += [] if find_spec("pyspark_pyhudi") else ["pyspark_pyhudi"]
print(next(filter(None, found), ""))
"""
"""Prints the first module that workers need and cannot import; PySpark is on their path."""


def _output(program: str, code: str) -> str | None:
    """What a Python prints.  None: it failed."""
    try:
        done = subprocess.run(
            [program, "-c", code], capture_output=True, text=True, timeout=_JAVA_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _supported(release: str) -> tuple[str, ...]:
    """What this PySpark release supports; docs/start/install.md."""
    numbers = tuple(int(number) for number in re.findall(r"\d+", release)[:2])
    found = ["pyhudi.spark", "hudi.enable(spark)"]
    if numbers >= (4, 0):
        found.append("format('pyhudi')")
    if numbers >= (4, 1):
        found.append("writeStream.format('pyhudi') and filters")
    return tuple(found)
