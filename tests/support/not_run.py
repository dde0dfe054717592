"""The end of a test run: every test that did not run and why, and how many ran Apache Hudi.

With CI=true and Java installed, a test that skips itself fails the run.

    python -m tests.support.not_run FILE...    one summary of several runs (PYHUDI_TEST_SUMMARY)
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections import Counter
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

import pytest

_LONG_FORMS: Counter[str] = Counter()


def is_skip_a_failure() -> bool:
    has_java = shutil.which("java") is not None or "JAVA_HOME" in os.environ
    return has_java and os.environ.get("CI", "").lower() == "true"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, Any, Any]:
    return _strict((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, Any, Any]:
    return _strict((yield))


def _strict(report: Any) -> Any:
    """The report; a failure where it is a skip and skips are failures."""
    if report.skipped and is_skip_a_failure():
        report.longrepr = f"skipped, which is a failure with CI=true: {_reason(report)}"
        report.outcome = "failed"
    return report


def pytest_deselected(items: Sequence[Any]) -> None:
    """Note the long forms that -m left out."""
    for item in items:
        if item.get_closest_marker("slow"):
            _LONG_FORMS[item.nodeid.partition("[")[0]] += 1


def pytest_sessionfinish(session: Any) -> None:
    """A worker of xdist sends what it left out; all workers leave out the same."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["long_forms"] = dict(_LONG_FORMS)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    found = Counter(getattr(node, "workeroutput", {}).get("long_forms", {}))
    _LONG_FORMS.update(found - _LONG_FORMS)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print the summary, or store it in the file PYHUDI_TEST_SUMMARY for several runs together."""
    found: dict[str, Any] = {
        kind: len(terminalreporter.stats.get(kind, [])) for kind in ("passed", "failed", "error")
    }
    ran = [r for kind in ("passed", "failed") for r in terminalreporter.stats.get(kind, [])]
    found["interop"] = sum("interop" in report.keywords for report in ran)
    found["skipped"] = {r.nodeid: _reason(r) for r in terminalreporter.stats.get("skipped", [])}
    found["long"] = dict(_LONG_FORMS)
    if path := os.environ.get("PYHUDI_TEST_SUMMARY"):
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(json.dumps(found), "utf-8")
    else:
        terminalreporter.write_line("\n".join(summary([found])))


def _reason(report: Any) -> str:
    why = report.longrepr
    return str(why[2] if isinstance(why, tuple) else why).removeprefix("Skipped: ")


def summary(runs: list[dict[str, Any]]) -> list[str]:
    """A line for each test that did not run and each file of long forms, then a line of totals."""
    skipped = {name: why for run in runs for name, why in run["skipped"].items()}
    long_forms = {name: count for run in runs for name, count in run["long"].items()}
    lines = [f"did not run: {name}: {why}" for name, why in sorted(skipped.items())]
    by_file: dict[str, list[str]] = {}
    for name, count in sorted(long_forms.items()):
        path, _, test = name.partition("::")
        by_file.setdefault(path, []).append(f"{test} ({count})")
    lines += [f"long forms, left to make long: {p}: {', '.join(t)}" for p, t in by_file.items()]
    passed, failed, interop = (
        sum(run[kind] for run in runs for kind in kinds)
        for kinds in (("passed",), ("failed", "error"), ("interop",))
    )
    line = f"{passed} passed, {failed} failed, {len(skipped)} skipped; "
    line += f"{interop} of them ran Apache Hudi"
    line += "".join(f"; {n} left out: {why}" for why, n in Counter(skipped.values()).most_common())
    return [*lines, f"{line}; {sum(long_forms.values())} long forms are not part of this run"]


if __name__ == "__main__":
    files = [Path(name) for name in sys.argv[1:]]
    print("\n".join(summary([json.loads(p.read_text("utf-8")) for p in files if p.exists()])))
    if absent := [p.name for p in files if not p.exists()]:
        sys.exit(f"no summary of {', '.join(absent)}: that run did not come to its end")
