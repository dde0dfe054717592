"""Libraries of the extras, which are imported when something first needs them."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from pyhudi.errors import UserError


def load_library(module: str, *, extra: str, needed_for: str) -> Any:
    """A module of an extra's library.

    extra: a key of EXTRAS.  needed_for: what cannot be done without it.
    Raises UserError with the extra to install if the library or one that it needs is missing.
    """
    try:
        return import_module(module)
    except ImportError as absent:
        from pyhudi.environment import EXTRAS  # slow to import

        raise UserError(
            f"the library {EXTRAS[extra][0]} is not installed",
            needed_for=needed_for,
            reason=str(absent),
            hint=f"pip install 'pyhudi[{extra}]'",
        ) from absent
