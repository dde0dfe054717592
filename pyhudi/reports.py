"""Base class of all reports."""

from __future__ import annotations

from dataclasses import fields
from typing import Any


class Report:
    """A frozen dataclass that states what was done or, with dry_run, what would be done."""

    __slots__ = ()

    def to_dict(self) -> dict[str, Any]:
        """The fields by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]
