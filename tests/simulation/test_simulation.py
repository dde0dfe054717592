"""Kept plans and a few fresh seeds; `make long-simulate` runs many."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PLANS = Path(__file__).with_name("plans.jsonl").read_text("ascii").splitlines()


def simulate(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.simulation", *arguments], text=True, capture_output=True,
        cwd=Path(__file__).parents[2], env={**os.environ, "PYTHONHASHSEED": "0"}, check=False,
    )  # fmt: skip


def test_one_seed_gives_one_trace() -> None:
    first, second = (simulate("--seed", "8", "--trace") for _ in range(2))
    assert first.returncode == 0, first.stdout[-3000:] + first.stderr
    assert first.stdout == second.stdout
    assert len(first.stdout.splitlines()) > 100


@pytest.mark.parametrize("plan", PLANS)
def test_a_plan_that_failed_once_holds(plan: str) -> None:
    ran = simulate("--plan", plan)
    assert ran.returncode == 0, ran.stdout[-3000:] + ran.stderr


@pytest.mark.parametrize("count", [4, pytest.param(8, marks=pytest.mark.long)])
def test_seeds_hold(count: int) -> None:
    """Fresh ones for a time if PYHUDI_SIMULATION_SECONDS is set, else the same few."""
    seconds = os.environ.get("PYHUDI_SIMULATION_SECONDS")
    few = ("--count", str(count), "--first", "311")
    ran = simulate("--seconds", seconds) if seconds else simulate(*few)
    assert ran.returncode == 0, ran.stdout[-6000:] + ran.stderr


def test_a_store_that_forgets_is_found_out_and_shown_by_a_trace() -> None:
    plan = {"seed": 1, "store": "bucket", "version": 9, "kind": "cow", "index": "record",
            "actors": ["writer"], "steps": 6, "faults": ["forget"], "rate": 0.1, "focus": "",
            "stay": 0.5, "verbs": ["upsert"]}  # fmt: skip
    ran = simulate("--plan", json.dumps(plan), "--trace")
    assert ran.returncode == 3, ran.stdout[-3000:] + ran.stderr
    assert "plan: {" in ran.stdout and "forgotten" in ran.stdout
