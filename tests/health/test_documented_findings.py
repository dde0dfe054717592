"""docs/operations lists every code of the doctor's findings and of the errors."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pyhudi.health.doctor
from pyhudi import errors
from pyhudi.errors import PyhudiError

ROOT = Path(__file__).parents[2]
HEALTH = Path(pyhudi.health.doctor.__file__).parent
DOCTOR = (ROOT / "docs/operations/doctor.md").read_text("utf-8")
ERRORS = (ROOT / "docs/operations/errors.md").read_text("utf-8")


def codes_of_findings() -> set[str]:
    """First arguments of `Finding(...)`; `torn-ACTION` where the action is a value."""
    calls = (
        node
        for path in sorted(HEALTH.glob("*.py"))
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Finding"
    )
    return {_text(call.args[0]) for call in calls}


def _text(value: ast.expr) -> str:
    if isinstance(value, ast.JoinedStr):
        return "".join(map(_text, value.values))
    if isinstance(value, ast.FormattedValue):
        assert ast.unparse(value.value) == "instant.action.value"
        return "ACTION"
    assert isinstance(value, ast.Constant), ast.unparse(value)
    return str(value.value)


def test_every_finding_of_the_doctor_is_described_once() -> None:
    described = re.findall(r"^\| `([\w-]+)` \|", DOCTOR, re.MULTILINE)
    assert sorted(described) == sorted(codes_of_findings())


def error_classes() -> dict[str, str]:
    """Class names of all errors by their codes."""
    found = {
        kind.code: name
        for name, kind in vars(errors).items()
        if isinstance(kind, type) and issubclass(kind, PyhudiError)
    }
    source = (ROOT / "pyhudi/spark/job_submission.py").read_text("utf-8")
    pairs = re.findall(r'class (\w+Error)\(\w+\):\n.*\n\n    code = "(\w+)"', source)
    return found | {code: name for name, code in pairs}


def test_every_error_code_is_described_with_its_class() -> None:
    described = dict(re.findall(r"^## (\w+)\n\n`(?:pyhudi\.spark\.)?(\w+)`", ERRORS, re.MULTILINE))
    assert described == error_classes()


def test_every_error_code_is_raised_by_a_test() -> None:
    """As its class in `pytest.raises`; the base class is raised nowhere."""
    tests = "\n".join(path.read_text("utf-8") for path in sorted((ROOT / "tests").rglob("*.py")))
    raised = set(re.findall(r"\b(\w+Error)\b", "\n".join(re.findall(r"raises\([^)]*\)", tests))))
    assert set(error_classes().values()) - raised <= {"PyhudiError"}
