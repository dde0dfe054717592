"""A real HDFS of this machine: one name node and one data node, with WebHDFS.

    python -m tests.support.hdfs            starts one and says where, until a line comes in
    python -m tests.support.hdfs --fetch    fetches what it needs, and ends

Needs Java and, to fetch, Maven; the jars (64 MB) are kept in PYHUDI_CACHE (default
~/.cache/pyhudi).
"""

from __future__ import annotations

import atexit
import itertools
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from pyhudi.storage.hdfs import HdfsFileSystem

CACHE = Path(os.environ.get("PYHUDI_CACHE", Path.home() / ".cache" / "pyhudi"))
JARS = CACHE / "hdfs" / "lib"
_PACKAGE = "org.apache.hadoop.hdfs.server"
_UP_SECONDS = 90
_ARTIFACTS = (
    ("org.apache.hadoop", "hadoop-common", "3.4.1"),
    ("org.apache.hadoop", "hadoop-hdfs", "3.4.1"),
    ("org.apache.hadoop", "hadoop-hdfs-client", "3.4.1"),
    ("com.fasterxml.jackson.core", "jackson-core", "2.15.2"),
    ("com.fasterxml.jackson.core", "jackson-databind", "2.15.2"),
)
_AUDIT = """\
log4j.rootLogger=WARN,err
log4j.appender.err=org.apache.log4j.ConsoleAppender
log4j.appender.err.target=System.err
log4j.appender.err.layout=org.apache.log4j.PatternLayout
log4j.appender.err.layout.ConversionPattern=%p %c: %m%n
log4j.logger.org.apache.hadoop.hdfs.server.namenode.FSNamesystem.audit=INFO,audit
log4j.additivity.org.apache.hadoop.hdfs.server.namenode.FSNamesystem.audit=false
log4j.appender.audit=org.apache.log4j.FileAppender
log4j.appender.audit.file={file}
log4j.appender.audit.layout=org.apache.log4j.PatternLayout
log4j.appender.audit.layout.ConversionPattern=%m%n
"""


@dataclass(frozen=True)
class Hdfs:
    """host:port of the name node's own protocol, and the port of WebHDFS.

    audit: the name node's log of requests, a line each; None for a server that was given.
    """

    address: str
    http_port: int
    audit: Path | None = None

    @property
    def options(self) -> dict[str, object]:
        return {"port": self.http_port, "user": "pyhudi"}


def missing() -> str | None:
    """What an HDFS needs and this machine lacks, or None."""
    if shutil.which("java") is None:
        return "java is not installed"
    if not JARS.is_dir():
        return "its jars are not here, make long-hdfs fetches them"
    return None


def prepare() -> None:
    """Fetch the jars, once."""
    if JARS.is_dir():
        return
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as folder:
        expected = "".join(
            f"<dependency><groupId>{g}</groupId><artifactId>{a}</artifactId>"
            f"<version>{v}</version></dependency>"
            for g, a, v in _ARTIFACTS
        )
        Path(folder, "pom.xml").write_text(
            "<project><modelVersion>4.0.0</modelVersion><groupId>pyhudi.test</groupId>"
            "<artifactId>hdfs</artifactId><version>1</version>"
            f"<dependencies>{expected}</dependencies></project>"
        )
        copy = ["mvn", "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=lib"]
        subprocess.run(copy, check=True, cwd=folder)
        JARS.parent.mkdir(exist_ok=True)
        Path(folder, "lib").replace(JARS)


def _free_ports(count: int) -> list[int]:
    with_ports = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in with_ports]
    for one in with_ports:
        one.close()
    return ports


def _xml(properties: dict[str, object]) -> str:
    lines = (
        f"<property><name>{n}</name><value>{v}</value></property>" for n, v in properties.items()
    )
    return f"<configuration>{''.join(lines)}</configuration>"


def _configure(folder: Path) -> Hdfs:
    rpc, http, transfer, data_http, ipc = _free_ports(5)
    for name in ("hdfs", "datanode"):  # where the servers look for their web pages
        (folder / "conf" / "webapps" / name).mkdir(parents=True)
    (folder / "conf" / "core-site.xml").write_text(
        _xml({"fs.defaultFS": f"hdfs://127.0.0.1:{rpc}"})
    )
    settings: dict[str, object] = {
        "dfs.replication": 1, "dfs.permissions.enabled": "false",
        "dfs.namenode.name.dir": folder / "name", "dfs.datanode.data.dir": folder / "data",
        "dfs.namenode.http-address": f"127.0.0.1:{http}",
        "dfs.datanode.address": f"127.0.0.1:{transfer}",
        "dfs.datanode.http.address": f"127.0.0.1:{data_http}",
        "dfs.datanode.ipc.address": f"127.0.0.1:{ipc}", "dfs.datanode.hostname": "127.0.0.1",
        # A data node that closes a file before the name node knows its block waits so long (400).
        "dfs.client.block.write.locateFollowingBlock.initial.delay.ms": 20,
    }  # fmt: skip
    (folder / "conf" / "hdfs-site.xml").write_text(_xml(settings))
    audit = folder / "audit.log"
    (folder / "conf" / "log4j.properties").write_text(_AUDIT.format(file=audit))
    return Hdfs(f"127.0.0.1:{rpc}", http, audit)


def _java(folder: Path, main: str, *args: str) -> list[str]:
    opened = "--add-opens=java.base/java.lang=ALL-UNNAMED"
    path = f"{folder / 'conf'}:{JARS}/*"
    return ["java", "-Xmx256m", opened, "-cp", path, f"{_PACKAGE}.{main}", *args]


@contextmanager
def hdfs() -> Iterator[Hdfs]:
    """A file system of its own, up and empty; ended with the block."""
    with tempfile.TemporaryDirectory(prefix="hdfs-") as name:
        folder = Path(name)
        found = _configure(folder)
        servers = []
        with open(folder / "log", "wb") as log:
            form = _java(folder, "namenode.NameNode", "-format", "-nonInteractive")
            subprocess.run(form, check=True, stdout=log, stderr=log)
            for main in ("namenode.NameNode", "datanode.DataNode"):
                command = _java(folder, main)
                servers.append(subprocess.Popen(command, stdout=log, stderr=log))
        try:
            _await(found, servers, folder / "log")
            yield found
        finally:
            for server in servers:
                server.kill()
                server.wait()


def _await(found: Hdfs, servers: list[subprocess.Popen[bytes]], log: Path) -> None:
    """Until a file can be written: the data node has told the name node of itself."""
    end = time.monotonic() + _UP_SECONDS
    request = f"http://127.0.0.1:{found.http_port}/webhdfs/v1/up?op=CREATE&user.name=pyhudi"
    while all(s.poll() is None for s in servers) and time.monotonic() < end:
        with suppress(OSError):
            put = urllib.request.Request(request + "&noredirect=true", method="PUT")
            urllib.request.urlopen(put, timeout=5).read()
            return
        time.sleep(0.3)
    raise RuntimeError(f"HDFS did not come up:\n{log.read_text(errors='replace')[-3000:]}")


@cache
def shared_hdfs() -> Hdfs:
    """One for the tests of this process, ended with it; skips where there can be none.

    PYHUDI_TEST_HDFS=host:port,http_port names one that runs already.
    """
    if given := os.environ.get("PYHUDI_TEST_HDFS"):
        address, _, http_port = given.partition(",")
        return Hdfs(address, int(http_port))
    if lacks := missing():
        pytest.skip(f"no HDFS here: {lacks}")
    running = hdfs()
    atexit.register(lambda: running.__exit__(None, None, None))
    return running.__enter__()


_FOLDERS = itertools.count()


def fresh_hdfs() -> HdfsFileSystem:
    """A folder that no other test has."""
    found = shared_hdfs()
    url = f"hdfs://{found.address}/tests/{secrets.token_hex(4)}/{next(_FOLDERS)}"
    return HdfsFileSystem(url, found.options)


if __name__ == "__main__":
    if sys.argv[1:] == ["--fetch"]:
        prepare()
        sys.exit(0)
    if lacking := missing():
        sys.exit(f"no HDFS here: {lacking}")
    with hdfs() as up:
        print(f"hdfs://{up.address}, WebHDFS on port {up.http_port}", flush=True)
        sys.stdin.readline()
