"""The example of an ingest from Kafka runs, and continues a table when it is started again."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pyhudi
from tests.ingest.kafka.topics import Broker

ROOT = Path(__file__).parents[3]
PROGRAM = ROOT / "examples" / "ingest" / "kafka_to_table.py"


def output_of(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, str(PROGRAM), "--rides", "30", *arguments],
        cwd=folder, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True,
        timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def cities(output: str) -> dict[str, tuple[int, float]]:
    found = re.findall(r"│ (\w+) +│ +(\d+) │ +([\d.]+) │", output)
    return {city: (int(rides), float(fares)) for city, rides, fares in found}


EXPECTED = {"berlin": (9, 97.5), "lisbon": (10, 107.5), "oslo": (10, 107.5)}


def test_the_example_prints_the_result_of_its_query(tmp_path: Path) -> None:
    output = output_of(tmp_path)
    assert cities(output) == EXPECTED
    assert "checkpoint: rides,0:" in output


def test_a_second_run_of_the_example_continues_the_table(tmp_path: Path, broker: Broker) -> None:
    words = ("--servers", broker.servers, "--topic", broker.topic())
    assert cities(output_of(tmp_path, *words)) == EXPECTED
    first = pyhudi.open_table(tmp_path / "rides_table").checkpoint()
    assert cities(output_of(tmp_path, *words)) == EXPECTED
    second = pyhudi.open_table(tmp_path / "rides_table").checkpoint()
    assert first is not None and second is not None
    assert sum(offsets(second)) == 2 * sum(offsets(first)) == 82


def offsets(checkpoint: str) -> list[int]:
    return [int(each.partition(":")[2]) for each in checkpoint.split(",")[1:]]
