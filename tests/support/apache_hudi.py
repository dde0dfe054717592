"""One process of each version of Apache Hudi, which tests/interop/apache_hudi runs."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.interop.apache_hudi import install

VERSIONS = ("0.15.0", "1.2.0")


class ApacheHudi:
    """One warm process of one version, fetched and built first; close() ends it."""

    def __init__(self, version: str) -> None:
        self.version = version
        install.setup(version)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.interop.apache_hudi", "--hudi", version, "serve"],
            cwd=install.ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def call(self, command: str, **arguments: Any) -> dict[str, Any]:
        """The answer to one command; its error fails the test."""
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(json.dumps({"command": command, **arguments}) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        assert line, f"Apache Hudi {self.version}: the process ended"
        answer: dict[str, Any] = json.loads(line)
        assert answer.get("ok"), f"Apache Hudi {self.version}: {_failure(answer)}"
        return answer

    def read(self, path: Path, **query: Any) -> pa.Table:
        """The rows it sees in a table; query: what its command `read` takes."""
        with TemporaryDirectory() as made:
            out = Path(made) / "rows.parquet"
            self.call("read", path=str(path), out=str(out), **query)
            return pq.ParquetFile(out).read()

    def close(self) -> None:
        assert self.process.stdin
        self.process.stdin.close()
        self.process.wait(60)


def newest_table_version(hudis: Iterable[ApacheHudi]) -> int:
    """The newest version of a table that all of them read: 0.x reads none above 6."""
    return 6 if any(hudi.version.startswith("0.") for hudi in hudis) else 9


def _failure(answer: dict[str, Any]) -> str:
    return "\n".join(map(str, [answer.get("error"), *(answer.get("problems") or ())[:10]]))


def skip_unless_it_runs() -> None:
    """Skip, saying why, where Apache Hudi cannot be started."""
    import pytest  # the demo runs Apache Hudi without it

    for version in VERSIONS:
        if lacks := install.missing(version):
            pytest.skip(f"Apache Hudi was not run: {lacks}")
