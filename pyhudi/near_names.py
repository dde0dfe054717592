"""Names that are like an unknown one, for errors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches


def near_names(name: str, known: Iterable[str], count: int = 1) -> list[str]:
    """The known names that are most like a name, regardless of case."""
    spelling = {one.lower(): one for one in known if len(one) > 2 or one.lower() == name.lower()}
    return [spelling[one] for one in get_close_matches(name.lower(), spelling, n=count, cutoff=0.6)]


def columns_hint(unknown: Sequence[str], known: Sequence[str], *, has: str = "it has") -> str:
    """What to do about unknown columns: near names, and the columns that there are."""
    own = [name for name in known if not name.startswith("_hoodie_")]
    if len(unknown) == 1 and "," in unknown[0]:
        parts = [part.strip() for part in unknown[0].split(",")]
        if any(part in known for part in parts):
            options = " ".join(f"--columns {part}" for part in parts)
            return f"pass a list of names: {parts!r}; in a command {options}"
    near = dict.fromkeys(one for name in unknown for one in near_names(name, known))
    listed = f"{has} {', '.join(own)}" if own else "it has no columns"
    return f"did you mean {' and '.join(near)}? {listed}" if near else listed
