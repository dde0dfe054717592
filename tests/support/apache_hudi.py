"""Apache Hudi itself, one warm process a version, asked by lines of JSON (../shared/oracle)."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.avro_rows import fixtures

VERSIONS = ("0.15.0", "1.2.0")


def oracle() -> Path:
    """The program that runs Apache Hudi; skips the test where there are no shared fixtures."""
    return fixtures().parent / "oracle" / "hudi_oracle.py"


class ApacheHudi:
    """One warm process of one version; close() ends it."""

    def __init__(self, version: str) -> None:
        self.version = version
        self.process = subprocess.Popen(
            [sys.executable, str(oracle()), "--hudi", version, "serve"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def ask(self, command: str, **arguments: Any) -> dict[str, Any]:
        """The answer to one command of the oracle; its error fails the test."""
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(json.dumps({"command": command, **arguments}) + "\n")
        self.process.stdin.flush()
        answer: dict[str, Any] = json.loads(self.process.stdout.readline())
        assert answer.get("ok"), f"Apache Hudi {self.version}: {answer.get('error')}"
        return answer

    def read(self, path: Path, **query: Any) -> pa.Table:
        """The rows it sees in a table; query: what its command `read` takes."""
        with TemporaryDirectory() as made:
            out = Path(made) / "rows.parquet"
            self.ask("read", path=str(path), out=str(out), **query)
            return pq.ParquetFile(out).read()

    def close(self) -> None:
        assert self.process.stdin
        self.process.stdin.close()
        self.process.wait(60)


def skip_unless_asked() -> None:
    """Skip, saying why, where Apache Hudi cannot be started."""
    if not oracle().exists():
        pytest.skip(f"Apache Hudi is not asked: {oracle().name} not found beside the fixtures")
    for tool in ("java", "mvn"):
        if shutil.which(tool) is None:
            pytest.skip(f"Apache Hudi is not asked: {tool} is not installed")
