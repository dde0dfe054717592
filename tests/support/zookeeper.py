"""A real ZooKeeper of this machine, from the jars that PySpark brings."""

from __future__ import annotations

import atexit
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest

_MAIN = "org.apache.zookeeper.server.ZooKeeperServerMain"
_UP_SECONDS = 60


def jars() -> Path | None:
    """The folder of PySpark's jars, if it is installed; PySpark itself is not imported."""
    spec = find_spec("pyspark")
    places = list(spec.submodule_search_locations or []) if spec else []
    found = [Path(place) / "jars" for place in places]
    return next((f for f in found if list(f.glob("zookeeper-3*.jar"))), None)


def missing() -> str | None:
    """What a ZooKeeper needs and this machine lacks, or None."""
    if shutil.which("java") is None:
        return "java is not installed"
    if jars() is None:
        return "the jars of PySpark are not installed"
    if find_spec("kazoo") is None:
        return "kazoo is not installed"
    return None


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def zookeeper() -> Iterator[str]:
    """host:port of a server of its own, up; ended with the block."""
    with tempfile.TemporaryDirectory(prefix="zookeeper-") as folder:
        port, config = free_port(), Path(folder) / "zoo.cfg"
        config.write_text(
            f"dataDir={folder}/data\nclientPort={port}\nclientPortAddress=127.0.0.1\n"
            "tickTime=200\nmaxClientCnxns=0\nadmin.enableServer=false\n"
        )
        command = ["java", "-Xmx128m", "-cp", f"{jars()}/*", _MAIN, str(config)]
        with open(Path(folder) / "log", "wb") as log:
            server = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            _await(server, port, Path(folder) / "log")
            yield f"127.0.0.1:{port}"
        finally:
            server.kill()
            server.wait()


def _await(server: subprocess.Popen[bytes], port: int, log: Path) -> None:
    end = time.monotonic() + _UP_SECONDS
    while server.poll() is None and time.monotonic() < end:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise RuntimeError(f"ZooKeeper did not come up:\n{log.read_text(errors='replace')[-2000:]}")


@cache
def shared_zookeeper() -> str:
    """One server for the tests of this process, ended with it; skips where there can be none."""
    if lacks := missing():
        pytest.skip(f"no ZooKeeper here: {lacks}")
    running = zookeeper()
    atexit.register(lambda: running.__exit__(None, None, None))
    return running.__enter__()
