"""The end of a test run: what did not run and why, what failed, and how many ran Apache Hudi.

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
    found["failures"] = {
        report.nodeid: _cause(report)
        for kind in ("failed", "error")
        for report in terminalreporter.stats.get(kind, [])
    }
    found["long"] = dict(_LONG_FORMS)
    if path := os.environ.get("PYHUDI_TEST_SUMMARY"):
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(json.dumps(found), "utf-8")
    else:
        terminalreporter.write_line("\n".join(summary([found])))


def _reason(report: Any) -> str:
    why = report.longrepr
    return str(why[2] if isinstance(why, tuple) else why).removeprefix("Skipped: ")


def _cause(report: Any) -> str:
    """The first line of the error, in at most 200 characters."""
    lines = report.longreprtext.splitlines()
    errors = [line[1:].strip() for line in lines if line.startswith("E ")] or lines[-1:] or [""]
    return str(errors[0])[:200]


def summary(runs: list[dict[str, Any]]) -> list[str]:
    """A line for each test that did not run, one of long forms, one for each failure, the totals.

    Failures come near the end: a log of CI may show its end only.
    """
    skipped = {name: why for run in runs for name, why in run["skipped"].items()}
    long_forms = {name: count for run in runs for name, count in run["long"].items()}
    lines = [f"did not run: {name}: {why}" for name, why in sorted(skipped.items())]
    by_folder: Counter[str] = Counter()
    for name, count in long_forms.items():
        by_folder[name.partition("::")[0].rpartition("/")[0] or "."] += count
    if by_folder:
        counts = ", ".join(f"{folder} {n}" for folder, n in sorted(by_folder.items()))
        lines.append(f"long forms, left to make long: {counts}")
    failures = {name: why for run in runs for name, why in run["failures"].items()}
    lines += [f"failed: {name}: {why}" for name, why in sorted(failures.items())]
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
