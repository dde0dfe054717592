"""Apache Hudi and Delta Lake for bench.spark_upsert: PySpark 3.5 and the published jars.

The environment and the Hudi bundle are those of tests/interop/apache_hudi; Delta's jars are fetched
by Maven into the same cache.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from bench import machine
from tests.interop.apache_hudi import install

DELTA = ("io.delta:delta-spark_2.12:3.3.2", "io.delta:delta-storage:3.3.2")


@dataclass(frozen=True, slots=True)
class Peers:
    """The interpreter with PySpark 3.5 and a comma list of jars for each engine."""

    python: Path
    hudi_jars: str
    delta_jars: str

    def jars(self, engine: str) -> str:
        return self.delta_jars if engine == "delta" else self.hudi_jars


def peers(hudi: str) -> Peers | str:
    """The peers, fetched where they are missing; or why they cannot run on this machine."""
    reason = install.missing(hudi)
    if reason is not None:
        return reason
    try:
        install.setup(hudi)
        delta = [_delta_jar(artifact) for artifact in DELTA]
    except (install.CommandFailed, subprocess.CalledProcessError, OSError) as error:
        return f"fetching them failed: {error}"
    return Peers(install.python(), str(install.bundle(hudi)), ",".join(map(str, delta)))


def session_environment(python: str, delta_jars: str = "") -> dict[str, str]:
    """The environment of a process with a Spark session; Delta's Python package lies in a jar."""
    parts = [str(machine.ROOT), *filter(None, delta_jars.split(","))]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(parts), "PYSPARK_PYTHON": python}


def _delta_jar(artifact: str) -> Path:
    _, name, version = artifact.split(":")
    path = install.cache() / "jars" / f"{name}-{version}.jar"
    if path.exists():
        return path
    if shutil.which("mvn") is None:
        raise install.CommandFailed("Maven is not installed")
    with tempfile.TemporaryDirectory(dir=install.cache()) as folder:
        command = ["mvn", "-q", "-B", install.COPY, f"-Dartifact={artifact}"]
        subprocess.run(
            [*command, f"-DoutputDirectory={folder}"], check=True, stdout=subprocess.DEVNULL
        )
        (Path(folder) / path.name).replace(path)
    return path
