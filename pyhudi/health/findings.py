"""Findings of the doctor, and the diagnosis that contains them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from pyhudi.markup import card_html, plural, rows_html

_SHOWN: Final = 200
"""Findings in the output of a notebook."""


class Severity(Enum):
    """The severity of a finding."""

    ERROR = "error"  # rows are missing or wrong, or a read or write fails
    WARNING = "warning"  # no damage yet: pending work, missing protection
    INFO = "info"  # worth knowing


class RepairAction(Enum):
    """What `repair` does about a finding."""

    PROPERTIES = "the properties are restored from their backup or copy"
    PAYLOAD_CLASS = "the payload class is added to the properties"
    ARCHIVE_FOLDER = "the properties state the folder of the archived timeline"
    RECOMPLETE = "the instant's file is reconstructed from its plan and its files"
    FORGET = "the instant's files are moved out of the timeline"
    ROLL_BACK = "the pending write is rolled back"
    SWEEP = "leftovers are deleted"
    REPLACE = "a replace commit removes the file group from the table"
    METAFILE = "the partition's metafile is rewritten"
    QUARANTINE = "the file is moved out of the table"
    METADATA = "the metadata table is rebuilt"
    FINISH = "the pending clean or restore is finished"


@dataclass(frozen=True, slots=True)
class Finding:
    """One problem, or other fact worth knowing.

    code: stable, for programs.  what, why: sentences.  advice: what an operator can do.  repair:
    what `repair` would do; None where it can do nothing.  loses: the repair loses rows or history,
    so it requires `allow_loss`.
    """

    code: str
    severity: Severity
    path: str
    what: str
    why: str
    advice: str
    repair: RepairAction | None = None
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
            "repair": self.repair.value if self.repair else None,
            "loses_data": self.loses,
        }


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What `doctor` found.  checked: what was checked, with counts."""

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
        """Plain values for JSON."""
        return {
            "path": self.path,
            "healthy": self.is_healthy,
            "checked": dict(self.checked),
            "findings": [finding.to_dict() for finding in self.findings],
        }

    def __str__(self) -> str:
        if not self.findings:
            return f"{self.path}: no problems found"
        return "\n".join(
            f"{f.severity.value} [{f.code}] {f.path}: {f.what}; {f.why}; {f.advice}"
            for f in self.findings
        )

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        heads = ("severity", "code", "path", "what", "why", "what to do")
        rows = [
            (f.severity.value, f.code, f.path, f.what, f.why, f.advice)
            for f in self.findings[:_SHOWN]
        ]
        left = len(self.findings) - len(rows)
        verdict = "no problems found" if self.is_healthy else plural(len(self.problems), "problem")
        tables = (rows_html(heads, rows),) if rows else ()
        note = f"{left:,} more findings are not shown." if left else ""
        return card_html(f"{self.path}: {verdict}", *tables, note=note)


def in_order(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Distinct findings: the most severe first, then by path."""
    rank = list(Severity).index
    return tuple(sorted(set(findings), key=lambda f: (rank(f.severity), f.path, f.code, f.what)))
