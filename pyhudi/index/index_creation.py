"""Result of the creation of an index."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class IndexCreation:
    """Result of the creation of an index.  column: several are joined with commas.  entries: 0 for
    a dry run, which counts none."""

    name: str
    column: str
    version: str
    file_groups: int
    entries: int
    dry_run: bool = False
