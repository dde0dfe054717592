"""Runs the project twice on a new table, and compares the rows; `make example-dbt`."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa

import pyhudi

HERE = Path(__file__).parent


def rows(path: Path) -> list[dict[str, Any]]:
    return sorted(pyhudi.open_table(path).to_arrow().to_pylist(), key=lambda row: row["city"])


def ride(key: str, city: str, fare: float, ts: int) -> dict[str, Any]:
    return {"id": key, "city": city, "fare": fare, "ts": ts}


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        lake = Path(folder)

        path = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])
        environment = {
            "PYTHONPATH": path,
            "LAKE": folder,
            "DBT_SEND_ANONYMOUS_USAGE_STATS": "false",
        }

        def dbt(since: int) -> None:
            subprocess.run(
                [Path(sys.executable).with_name("dbt"), "run", "--profiles-dir", HERE,
                 "--project-dir", HERE, "--vars", f"{{since: {since}}}",
                 "--target-path", lake / "target", "--log-path", lake / "logs"],
                check=True, cwd=folder, env={**os.environ, **environment},
            )  # fmt: skip

        first = [ride("a", "la", 1.0, 1), ride("b", "sf", 2.0, 1)]
        pyhudi.upsert(lake / "rides", pa.Table.from_pylist(first), record_key="id")
        dbt(0)
        assert [row["fare"] for row in rows(lake / "fares")] == [1.0, 2.0]
        more = pa.Table.from_pylist([ride("c", "la", 5.0, 2)])
        pyhudi.upsert(lake / "rides", more, record_key="id")
        dbt(2)
        assert rows(lake / "fares") == [
            {"city": "la", "fare": 6.0, "rides": 2},
            {"city": "sf", "fare": 2.0, "rides": 1},
        ]
        dbt(9)  # no rows: no commit
        assert len(list(pyhudi.open_table(lake / "fares").timeline)) == 2


if __name__ == "__main__":
    main()
