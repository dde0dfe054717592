"""What is wrong with a table, as values: findings, and the report that holds them."""

from __future__ import annotations

import html
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Any


class Severity(Enum):
    """How bad a finding is."""

    ERROR = "error"  # rows are missing or wrong, or a read or write fails
    WARNING = "warning"  # nothing is wrong yet: work that waits, protection that is gone
    INFO = "info"  # worth knowing


class Mend(Enum):
    """What `repair` does about a finding."""

    PROPERTIES = "the properties are restored from their backup or copy"
    RECOMPLETE = "the instant's file is written anew from what it did"
    FORGET = "the instant's files are set aside"
    ROLL_BACK = "the pending write is rolled back"
    SWEEP = "what is left over is deleted"
    REPLACE = "a replace commit takes the file group out of the table"
    METAFILE = "the partition's metafile is written anew"
    SET_ASIDE = "the file is moved out of the table"
    METADATA = "the metadata table is rebuilt"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong.

    code: stable, for programs.  what, why: sentences.  advice: what a person can do.  mend: what
    `repair` would do; None where it can do nothing.  loses: the mend gives up rows or history, so
    it is only done when asked for.
    """

    code: str
    severity: Severity
    path: str
    what: str
    why: str
    advice: str
    mend: Mend | None = None
    loses: bool = False
    instant: str | None = None

    def to_dict(self) -> dict[str, Any]:
        return {
            "code": self.code,
            "severity": self.severity.value,
            "path": self.path,
            "instant": self.instant,
            "what": self.what,
            "why": self.why,
            "advice": self.advice,
            "repair": self.mend.value if self.mend else None,
            "loses_data": self.loses,
        }


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What `doctor` found.  checked: what was looked at, and how much of it."""

    path: str
    findings: tuple[Finding, ...] = ()
    checked: tuple[tuple[str, int], ...] = ()

    @property
    def problems(self) -> tuple[Finding, ...]:
        """Errors and warnings."""
        return tuple(f for f in self.findings if f.severity is not Severity.INFO)

    @property
    def is_healthy(self) -> bool:
        return not self.problems

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as JSON takes them."""
        return {
            "path": self.path,
            "healthy": self.is_healthy,
            "checked": dict(self.checked),
            "findings": [finding.to_dict() for finding in self.findings],
        }

    def __str__(self) -> str:
        if not self.findings:
            return f"{self.path}: nothing is wrong"
        return "\n".join(
            f"{f.severity.value} [{f.code}] {f.path}: {f.what}; {f.why}; {f.advice}"
            for f in self.findings
        )

    def _repr_html_(self) -> str:
        rows = [("severity", "code", "path", "what", "why", "what to do")]
        rows += [(f.severity.value, f.code, f.path, f.what, f.why, f.advice) for f in self.findings]
        verdict = "nothing is wrong" if self.is_healthy else f"{len(self.problems)} problems"
        return f"<b>{html.escape(self.path)}: {verdict}</b><table>{_html_rows(rows)}</table>"


def _html_rows(rows: Iterable[tuple[str, ...]]) -> str:
    return "".join(
        "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )


def in_order(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Each once: the worst first, then by path."""
    rank = list(Severity).index
    return tuple(sorted(set(findings), key=lambda f: (rank(f.severity), f.path, f.code, f.what)))
