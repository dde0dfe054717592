"""Mistakes of newcomers: each message names the thing, the place and the way out."""

from __future__ import annotations

import subprocess
import sys

from tests.newcomer.mistakes import GOLDEN, MISTAKES, render


def test_thirty_mistakes_are_answered_as_the_golden_text_states() -> None:
    assert len(MISTAKES) >= 30
    assert render() == GOLDEN.read_text("utf-8"), (
        "messages changed: python -m tests.newcomer.mistakes > tests/golden/mistakes.txt"
    )


def test_every_answer_is_an_error_with_a_fact_and_a_way_out() -> None:
    """`what; fact=value; what to do`: a message of one part names no way out."""
    for entry in GOLDEN.read_text("utf-8").split("# ")[1:]:
        name, answer = entry.split("\n", 1)
        kind, _, message = answer.strip().partition("Error: ")
        assert kind.isalpha(), entry
        assert message.count("; ") >= 1, f"{name}: {message}"


def test_without_pyspark_the_message_names_the_extra() -> None:
    code = "import sys; sys.modules['pyspark'] = None; import pyhudi.spark"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stderr.splitlines()[-1] == (
        "ModuleNotFoundError: pyhudi.spark requires PySpark: pip install 'pyhudi[spark]'"
    )
