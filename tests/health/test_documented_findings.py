"""docs/operations lists every code of the doctor's findings and of the errors."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import pyhudi
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


def expected_alone(tests: str) -> set[str]:
    """Classes that some `pytest.raises` expects, not as one of several."""
    return set(re.findall(r"\braises\(\s*(?:\w+\.)*(\w+Error)\b", tests))


def test_every_error_code_is_raised_by_a_test() -> None:
    """As its class alone in `pytest.raises`, or below; the base class is raised nowhere."""
    tests = "\n".join(path.read_text("utf-8") for path in sorted((ROOT / "tests").rglob("*.py")))
    assert set(error_classes().values()) - expected_alone(tests) <= {"PyhudiError"}
    assert not expected_alone("raises((UserError, OptionError)) raises(\nKeyError)") - {"KeyError"}


def test_every_error_with_subclasses_is_raised_itself(tmp_path: Path) -> None:
    """`pytest.raises` of such a class would also be satisfied by a subclass."""
    reached: dict[type[PyhudiError], Callable[[Path], object]] = {
        errors.UserError: lambda path: made(path).head(-1),
        errors.StorageError: lambda path: made(path / ("x" * 300)),
        errors.WriteConflictError: overtaken_upsert,
    }
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type)]
    bases = {k for k in kinds if issubclass(k, PyhudiError) and k.__subclasses__()}
    bases = {k for k in bases if k.__module__ == "pyhudi.errors" and k is not PyhudiError}
    assert bases == reached.keys()
    for kind, reach in reached.items():
        with pytest.raises(kind) as raised:
            reach(tmp_path / kind.__name__)
        assert raised.value.code == kind.code, raised.value


ROWS = pa.table({"id": ["a"], "v": [1]})


def made(path: Path) -> pyhudi.Table:
    table = pyhudi.create_table(path, ROWS.schema, record_key="id")
    table.upsert(ROWS)
    return table


def overtaken_upsert(path: Path) -> object:
    """An upsert without retries, during which another writer changes the same record."""
    made(path)
    options = {
        "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
        "hoodie.write.num.retries.on.conflict.failures": 0,
    }

    def batches() -> Iterator[pa.RecordBatch]:
        pyhudi.open_table(path, options=options).upsert(ROWS)
        yield from ROWS.to_batches()

    rows = pa.RecordBatchReader.from_batches(ROWS.schema, batches())
    return pyhudi.open_table(path, options=options).upsert(rows)
