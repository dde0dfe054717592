"""Real catalogs and query engines of this machine, each started by a script of services/.

python -m tests.support.query_engines    says what is missing, and fetches nothing

Needs Java 17 (Trino: 24) and Maven; the first start of each fetches its jars, which stay in
PYHUDI_CACHE (default ~/.cache/pyhudi).  Everything listens on the loopback address.
"""

from __future__ import annotations

import atexit
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TypeVar

import pytest

T = TypeVar("T")
SCRIPTS = Path(__file__).parent / "services"
CACHE = Path(os.environ.get("PYHUDI_CACHE", Path.home() / ".cache" / "pyhudi")) / "engines"
FETCHED = ("lib", "hudi", "server")
"""What a script fetches into its folder; the rest of the folder is one run's."""
MINUTES_MAX = 20


def missing() -> str | None:
    """What the scripts need and this machine lacks, or None."""
    lacking = [tool for tool in ("java", "javac", "mvn", "curl") if shutil.which(tool) is None]
    return f"not installed: {', '.join(lacking)}" if lacking else None


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@contextmanager
def _folder(name: str) -> Iterator[Path]:
    """A folder of one run, with what was fetched before; what it fetches goes to the cache."""
    if lacks := missing():
        pytest.skip(lacks)
    cache = CACHE / name
    with tempfile.TemporaryDirectory(prefix=f"{name}-") as made:
        folder = Path(made)
        for each in FETCHED:
            if (cache / each).exists():
                (folder / each).symlink_to(cache / each)
        yield folder
        cache.mkdir(parents=True, exist_ok=True)
        for each in FETCHED:
            if (folder / each).exists() and not (folder / each).is_symlink():
                shutil.move(folder / each, cache / each)


@contextmanager
def _running(script: str, folder: Path, *arguments: str, **environment: str) -> Iterator[str]:
    """What a server printed when it was up; it is stopped at the end."""
    command = [str(SCRIPTS / script)]
    log = folder / "start.log"
    with log.open("w") as errors:
        done = subprocess.run(
            ["bash", *command, "start", str(folder), *arguments],
            stdout=subprocess.PIPE, stderr=errors, text=True, timeout=60 * MINUTES_MAX,
            env={**os.environ, **environment},
        )  # fmt: skip
    assert done.returncode == 0, f"{script}: {log.read_text()[-2000:]}"
    try:
        yield done.stdout.split("\n")[-2] if done.stdout.strip() else ""
    finally:
        subprocess.run(["bash", *command, "stop", str(folder)], timeout=120, check=False)


@contextmanager
def hive_metastore(major: str) -> Iterator[str]:
    """The URI of an empty metastore, 3.1.3 or 4.0.1."""
    port = free_port()
    with (
        _folder(f"metastore-{major}") as folder,
        _running("hive-metastore.sh", folder, str(port), METASTORE=major),
    ):
        yield f"thrift://127.0.0.1:{port}"


@cache
def real_metastore() -> str:
    """One metastore 3.1.3 for the tests of this process, ended with it.  4.0.1 as it is started
    here has no tables of locks: its jars lack their SQL."""
    running = hive_metastore("3")
    atexit.register(lambda: running.__exit__(None, None, None))
    return running.__enter__()


@contextmanager
def trino(metastore: str) -> Iterator[int]:
    """The port of Trino 476; its catalogs `hudi` and `hive` use the metastore."""
    port = free_port()
    with _folder("trino") as folder, _running("trino.sh", folder, metastore, str(port)):
        yield port


@contextmanager
def hive(register: Callable[[str], T]) -> Iterator[tuple[int, T]]:
    """The port of Hive 4.0.1, and what `register` returned.

    register: gets the URI of a metastore 4.0.1, which stops then: Hive opens its catalog itself.
    """
    port = free_port()
    with _folder("metastore-4") as store, _folder("hive") as folder:
        with _running("hive-metastore.sh", store, str(port), METASTORE="4"):
            made = register(f"thrift://127.0.0.1:{port}")
        shutil.copytree(store / "catalog", folder / "catalog")
        with _running("hive.sh", folder, str(port)):
            yield port, made


_OPENED = (
    "lang", "lang.reflect", "net", "nio", "io", "time", "text", "util", "util.regex",
    "util.concurrent", "util.concurrent.atomic",
)  # fmt: skip
"""Packages of java.base that Flink 1.17 reads by reflection."""


def flink(statements: Iterable[str]) -> list[list[str]]:
    """The rows of the queries among statements of SQL, values as text; Flink 1.17.2 with Apache
    Hudi 0.14.0, which serves nothing and ends.  Each statement is one line."""
    with _folder("flink") as folder:
        if not (folder / "lib").exists():
            pom = ["-f", str(SCRIPTS / "flink-pom.xml"), f"-DoutputDirectory={folder}/lib"]
            command = ["mvn", "-q", "-B", *pom, "dependency:copy-dependencies"]
            subprocess.run(command, check=True, timeout=60 * MINUTES_MAX, cwd=folder)
        (folder / "statements.sql").write_text("\n".join(statements))
        opened = [f"--add-opens=java.base/java.{name}=ALL-UNNAMED" for name in _OPENED]
        files = [str(folder / name) for name in ("statements.sql", "rows.txt")]
        done = subprocess.run(
            ["java", "-Xmx1500m", *opened, "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
             "-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-cp", f"{folder}/lib/*",
             str(SCRIPTS / "FlinkQueries.java"), *files],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, cwd=folder,
            timeout=60 * MINUTES_MAX,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-3000:]
        lines = (folder / "rows.txt").read_text().splitlines()
    return [line.split("\t") for line in lines]


if __name__ == "__main__":
    sys.exit(missing())
