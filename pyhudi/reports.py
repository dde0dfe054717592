"""Fields common to all reports."""

from __future__ import annotations

from dataclasses import fields
from typing import Any


class Report:
    """A frozen dataclass that says what was done, or (dry_run) would be."""

    __slots__ = ()

    def to_dict(self) -> dict[str, Any]:
        """Its fields by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]
