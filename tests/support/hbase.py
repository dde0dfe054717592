"""A real HBase of this machine: master, region server and ZooKeeper in one process, and its Thrift
gateway in another.

    python -m tests.support.hbase            starts one and says where, until a line comes in
    python -m tests.support.hbase --fetch    fetches what it needs, and ends

Needs Java and, to fetch, Maven; the jars (108 MB) are kept in PYHUDI_CACHE (default
~/.cache/pyhudi).
"""

from __future__ import annotations

import atexit
import itertools
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

CACHE = Path(os.environ.get("PYHUDI_CACHE", Path.home() / ".cache" / "pyhudi"))
JARS = CACHE / "hbase" / "lib"
_UP_SECONDS = 300
_VERSION = "2.6.1"
_ARTIFACTS = ("hbase-server", "hbase-thrift", "hbase-zookeeper")
_CODECS = "org.apache.hadoop.hbase.codec"
_NAMES = itertools.count()


@dataclass(frozen=True)
class HBase:
    """host:port of the Thrift gateway, and of the ZooKeeper that Java's client asks."""

    gateway: str
    zookeeper: str

    def table(self, *, versions: int = 1) -> str:
        """A new table with the column family of an index."""
        import happybase

        host, _, port = self.gateway.partition(":")
        name = f"index_{os.getpid()}_{next(_NAMES)}"
        connection = happybase.Connection(host, int(port))
        connection.create_table(name, {"_s": {"max_versions": versions}})
        connection.close()
        return name

    def rows(self, table: str) -> dict[bytes, dict[bytes, bytes]]:
        """Every row of a table."""
        import happybase

        host, _, port = self.gateway.partition(":")
        connection = happybase.Connection(host, int(port))
        found = dict(connection.table(table).scan())
        connection.close()
        return found

    def options(self, table: str) -> dict[str, Any]:
        return {"pyhudi.index.hbase.gateway": self.gateway, "hoodie.index.hbase.table": table}


def missing() -> str | None:
    """What an HBase needs and this machine lacks, or None."""
    if shutil.which("java") is None:
        return "java is not installed"
    if find_spec("happybase") is None:
        return "happybase is not installed"
    if not JARS.is_dir():
        return "its jars are not here, make long-hbase fetches them"
    return None


def prepare() -> None:
    """Fetch the jars, once."""
    if JARS.is_dir():
        return
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as folder:
        expected = "".join(
            f"<dependency><groupId>org.apache.hbase</groupId><artifactId>{name}</artifactId>"
            f"<version>{_VERSION}</version></dependency>"
            for name in _ARTIFACTS
        )
        Path(folder, "pom.xml").write_text(
            "<project><modelVersion>4.0.0</modelVersion><groupId>pyhudi.test</groupId>"
            "<artifactId>hbase</artifactId><version>1</version>"
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


def _configure(folder: Path, zookeeper: int, master: int, region: int) -> None:
    settings: dict[str, object] = {
        "hbase.rootdir": f"file://{folder}/root", "hbase.tmp.dir": f"{folder}/tmp",
        "hbase.zookeeper.property.dataDir": f"{folder}/zookeeper",
        "hbase.zookeeper.property.clientPort": zookeeper,
        "hbase.zookeeper.quorum": "127.0.0.1",
        "hbase.cluster.distributed": "false", "hbase.wal.provider": "filesystem",
        "hbase.unsafe.stream.capability.enforce": "false",
        "hbase.master.port": master, "hbase.regionserver.port": region,
        "hbase.master.info.port": -1, "hbase.regionserver.info.port": -1,
        "hbase.thrift.info.port": -1, "hbase.regionserver.handler.count": 10,
        "hbase.master.ipc.address": "127.0.0.1", "hbase.regionserver.ipc.address": "127.0.0.1",
    }  # fmt: skip
    lines = (
        f"<property><name>{n}</name><value>{v}</value></property>" for n, v in settings.items()
    )
    (folder / "conf").mkdir()
    (folder / "conf" / "hbase-site.xml").write_text(
        f"<configuration>{''.join(lines)}</configuration>"
    )
    (folder / "conf" / "log4j.properties").write_text(
        "log4j.rootLogger=WARN,err\nlog4j.appender.err=org.apache.log4j.ConsoleAppender\n"
        "log4j.appender.err.layout=org.apache.log4j.SimpleLayout\n"
    )


def _teach_relocated_codec(folder: Path) -> None:
    """The client in Apache Hudi's bundle has moved to another package, and names its codec to the
    server by the name that it has there: the server gets a class of that name.  Without javac it
    does not, and Apache Hudi's writers find no region."""
    if shutil.which("javac") is None:
        return
    source = folder / "KeyValueCodec.java"
    source.write_text(
        f"package org.apache.hudi.{_CODECS};\n"
        f"public class KeyValueCodec extends {_CODECS}.KeyValueCodec {{}}\n"
    )
    compile_ = ["javac", "-proc:none", "-cp", f"{JARS}/*", "-d", str(folder / "conf"), str(source)]
    subprocess.run(compile_, check=True, capture_output=True)


def _java(folder: Path, memory: str, main: str, *args: str) -> list[str]:
    packages = ("lang", "nio", "util", "util.concurrent")
    opened = [f"--add-opens=java.base/java.{name}=ALL-UNNAMED" for name in packages]
    opened.append("--add-opens=java.base/sun.nio.ch=ALL-UNNAMED")
    path = f"{folder / 'conf'}:{JARS}/*"
    return ["java", memory, *opened, "-cp", path, f"org.apache.hadoop.hbase.{main}", *args]


@contextmanager
def hbase() -> Iterator[HBase]:
    """An HBase of its own, up and empty; ended with the block."""
    with tempfile.TemporaryDirectory(prefix="hbase-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        zookeeper, master, region, gateway = _free_ports(4)
        _configure(folder, zookeeper, master, region)
        _teach_relocated_codec(folder)
        commands = (
            _java(folder, "-Xmx768m", "master.HMaster", "start"),
            _java(
                folder, "-Xmx256m", "thrift.ThriftServer", "start", "-p", str(gateway),
                "-b", "127.0.0.1",
            ),
        )  # fmt: skip
        with open(folder / "log", "wb") as log:
            servers = [subprocess.Popen(each, stdout=log, stderr=log) for each in commands]
        found = HBase(f"127.0.0.1:{gateway}", f"127.0.0.1:{zookeeper}")
        try:
            _await(found, servers, folder / "log")
            yield found
        finally:
            for server in servers:
                server.kill()
                server.wait()


def _await(found: HBase, servers: list[subprocess.Popen[bytes]], log: Path) -> None:
    """Until a table can be made."""
    import happybase
    from thriftpy2.thrift import TException

    host, _, port = found.gateway.partition(":")
    end = time.monotonic() + _UP_SECONDS
    while all(s.poll() is None for s in servers) and time.monotonic() < end:
        with suppress(OSError, TException):
            connection = happybase.Connection(host, int(port), timeout=20_000)
            if b"up" not in connection.tables():  # a call that ran out of time may have made it
                connection.create_table("up", {"_s": {}})
            connection.close()
            return
        time.sleep(0.5)
    raise RuntimeError(f"HBase did not come up:\n{log.read_text(errors='replace')[-3000:]}")


@cache
def shared_hbase() -> HBase:
    """One for the tests of this process, ended with it; skips where there can be none.

    PYHUDI_TEST_HBASE=host:port,host:port (gateway, ZooKeeper) names one that runs already.
    """
    if given := os.environ.get("PYHUDI_TEST_HBASE"):
        gateway, _, zookeeper = given.partition(",")
        return HBase(gateway, zookeeper)
    if lacks := missing():
        pytest.skip(f"no HBase here: {lacks}")
    running = hbase()
    atexit.register(lambda: running.__exit__(None, None, None))
    return running.__enter__()


if __name__ == "__main__":
    if sys.argv[1:] == ["--fetch"]:
        prepare()
        sys.exit(0)
    if lacking := missing():
        sys.exit(f"no HBase here: {lacking}")
    with hbase() as up:
        print(f"{up.gateway},{up.zookeeper}", flush=True)
        sys.stdin.readline()
