"""A real PostgreSQL of this machine, with logical replication (`apt-get install postgresql`)."""

from __future__ import annotations

import atexit
import os
import shutil
import socket
import subprocess
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

_INSTALLED = Path("/usr/lib/postgresql")
_UP_SECONDS = 90


def _programs() -> Path:
    found = sorted(_INSTALLED.glob("*/bin/initdb"))
    if not found:
        pytest.skip("no PostgreSQL here: apt-get install postgresql")
    return found[-1].parent


def _run(*command: str) -> None:
    """As the user postgres if this is root, who must not run the server."""
    user = {"user": "postgres", "group": "postgres"} if os.getuid() == 0 else {}
    subprocess.run(command, check=True, cwd="/", stdout=subprocess.DEVNULL, **user)  # type: ignore[call-overload]


@dataclass(frozen=True)
class _Server:
    """data: its folder.  options: of the program."""

    port: int
    data: str
    options: str

    def control(self, *arguments: str) -> None:
        _run(f"{_programs()}/pg_ctl", "-D", self.data, "-w", "-t", str(_UP_SECONDS), *arguments)

    def start(self) -> None:
        log = str(Path(self.data).parent / "server.log")
        self.control("-l", log, "-o", self.options, "start")


@cache
def _server() -> _Server:
    programs, folder = _programs(), Path(tempfile.mkdtemp(prefix="pyhudi-postgres-"))
    if os.getuid() == 0:
        shutil.chown(folder, "postgres", "postgres")
    data = str(folder / "data")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    _run(f"{programs}/initdb", "-D", data, "-U", "test", "-A", "trust", "-E", "UTF8")
    options = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories= "
    options += "-c wal_level=logical -c max_replication_slots=100 -c fsync=off"
    server = _Server(port, data, options)
    server.start()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    atexit.register(server.control, "-m", "immediate", "stop")
    return server


def postgres_url() -> str:
    """The database of a server for the tests of this process, which is ended with it."""
    return f"postgresql://test@127.0.0.1:{_server().port}/postgres"


def stop_postgres() -> None:
    """Ends all connections, as a crash does."""
    _server().control("-m", "immediate", "stop")


def start_postgres() -> None:
    """After `stop_postgres`."""
    _server().start()
