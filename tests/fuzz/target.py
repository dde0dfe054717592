"""One format to be fuzzed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.fuzz.regions import Regions


@dataclass(frozen=True)
class Target:
    """name; good files; what reading one gives, plain and comparable; what each byte is."""

    name: str
    files: tuple[bytes, ...]
    read: Callable[[bytes], Any]
    regions: Regions
    protected: bool = False

    @property
    def cost(self) -> int:
        """How many times as long a read takes as that of a file alone, about."""
        return 10 if self.name.startswith("table") else 1

    @property
    def format(self) -> str:
        """The name without the number of the file."""
        return self.name.rstrip(" 0123456789")
