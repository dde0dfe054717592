"""hudi-rs 0.6 as a process: the program of bench/peers/hudi_rs, built by cargo.

    python -m tests.support.hudi_rs --build

The build needs cargo, a C compiler, cmake and protoc, takes an hour of processor time the first
time, and goes to build/hudi_rs.  PYHUDI_HUDI_RS names a program built elsewhere.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, Self

import pyarrow as pa

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "bench" / "peers" / "hudi_rs"
BUILT = ROOT / "build" / "hudi_rs"
VERSION = "0.6.0-rc.1"
NEEDED = {"protoc": "Debian's protobuf-compiler", "cmake": "cmake", "cc": "a C compiler"}


class PeerError(Exception):
    """The process rejected a request, or ended."""


def program() -> Path:
    named = os.environ.get("PYHUDI_HUDI_RS")
    return Path(named) if named else BUILT / "release" / "hudi-rs-peer"


def missing() -> str | None:
    """Why it cannot run, or None."""
    return None if program().exists() else "hudi-rs is not built, make long-hudi-rs builds it"


def build() -> None:
    """Compile the program.  Raises SystemExit with what the machine lacks."""
    cargo = shutil.which("cargo") or shutil.which("cargo", path=Path.home() / ".cargo" / "bin")
    lacks = [text for tool, text in NEEDED.items() if shutil.which(tool) is None]
    lacks += [] if cargo else ["cargo 1.94.1 or newer"]
    if lacks:
        raise SystemExit(f"hudi-rs cannot be built, install {', '.join(lacks)}")
    command = [str(cargo), "build", "--release", "--locked", "--target-dir", str(BUILT)]
    subprocess.run(command, cwd=SOURCES, check=True)


class Peer:
    """A process that answers requests, one JSON text a line; a context manager."""

    def __init__(self, command: Sequence[str]) -> None:
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.pid = self._process.pid

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.close()

    def call(self, command: str, **arguments: Any) -> dict[str, Any]:
        """The answer to one request.  Raises PeerError."""
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(json.dumps({"command": command, **arguments}) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise PeerError(f"{command}: the process ended with {self._process.wait()}")
        answer: dict[str, Any] = json.loads(line)
        if not answer["ok"]:
            raise PeerError(f"{command}: {answer['error']}")
        return answer

    def close(self) -> None:
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait(60)


class HudiRs(Peer):
    """The program of hudi-rs."""

    def __init__(self) -> None:
        super().__init__([str(program())])

    def write(self, command: str, path: Path, rows: pa.Table, **arguments: Any) -> dict[str, Any]:
        """A request that takes a file of rows, or of keys in its first column."""
        with TemporaryDirectory() as folder:
            file = Path(folder) / "rows.arrow"
            with pa.ipc.new_file(file, rows.schema) as writer:
                writer.write_table(rows.combine_chunks())
            name = "keys" if command in ("delete_keys", "lookup") else "rows"
            return self.call(command, path=str(path), **{name: str(file)}, **arguments)

    def read(self, path: Path, **query: Any) -> pa.Table:
        """The rows of a table, meta columns included."""
        with TemporaryDirectory() as folder:
            out = Path(folder) / "rows.arrow"
            self.call("read", path=str(path), out=str(out), **query)
            with pa.OSFile(str(out)) as file:
                return pa.ipc.open_file(file).read_all()


if __name__ == "__main__":
    if sys.argv[1:] != ["--build"]:
        raise SystemExit(__doc__)
    build()
