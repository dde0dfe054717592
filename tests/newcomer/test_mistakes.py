"""Mistakes of newcomers: each message names the thing, the place and the way out."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.newcomer.mistakes import MISTAKES, render


@pytest.mark.slow
def test_every_answer_is_an_error_with_a_fact_and_a_way_out() -> None:
    """`what; fact=value; what to do`: a message of one part names no way out."""
    answers = render().split("# ")[1:]
    assert len(answers) == len(MISTAKES) >= 60
    for entry in answers:
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
