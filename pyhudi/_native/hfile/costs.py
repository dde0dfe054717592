"""Cost constants of lookups: defaults, or constants measured on this machine and stored.

Stored in `lookup-costs.json` in the folder of PYHUDI_CACHE (else ~/.cache/pyhudi).
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, fields
from functools import cache
from pathlib import Path


@dataclass(frozen=True, slots=True)
class LookupCosts:
    """Seconds, on one core.  inflate_bytes_per_second: stored bytes of GZ blocks (ISA-L)."""

    inflate_bytes_per_second: float = 0.45e9
    cell_seconds: float = 10e-9
    key_seconds: float = 60e-9
    block_seconds: float = 1.5e-6


def costs_file() -> Path:
    """The file of this machine's constants."""
    folder = os.environ.get("PYHUDI_CACHE")
    return Path(folder or Path.home() / ".cache" / "pyhudi") / "lookup-costs.json"


@cache
def lookup_costs() -> LookupCosts:
    """Constants of this machine if they were measured, else the defaults.  Read once per process;
    a file with other content is ignored."""
    names = {field.name for field in fields(LookupCosts)}
    try:
        stored = json.loads(costs_file().read_text())
        values = {name: float(value) for name, value in stored.items() if name in names}
    except (OSError, ValueError, AttributeError, TypeError, RuntimeError):
        return LookupCosts()
    if any(not 0 < value < float("inf") for value in values.values()):
        return LookupCosts()
    return LookupCosts(**values)


def store_costs(costs: LookupCosts) -> Path:
    """Store constants for future processes on this machine, and use them from now on."""
    path = costs_file()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.with_suffix(".new").write_text(json.dumps(asdict(costs), indent=1))
    path.with_suffix(".new").replace(path)
    lookup_costs.cache_clear()
    return path
