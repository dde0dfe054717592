"""Default values of options: those of this package, and those of two releases of Apache Hudi.

apache_hudi_defaults.tsv has the defaults of Apache Hudi 0.15.0 and 1.2.0 by name: "-" where the
release has no such option, "(none)" where it has no default.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from functools import cache
from importlib import resources
from typing import Any, NamedTuple

from pyhudi.options.option_row import Row
from pyhudi.options.settings import Options


class HudiDefaults(NamedTuple):
    """Defaults of Apache Hudi as text; None where a release has no default or no such option."""

    v0_15: str | None = None
    v1_2: str | None = None


def hudi_defaults(name: str) -> HudiDefaults:
    """The defaults of an option in Apache Hudi, by its name."""
    return _table().get(name, HudiDefaults())


@cache
def _table() -> Mapping[str, HudiDefaults]:
    file = resources.files("pyhudi.options") / "apache_hudi_defaults.tsv"
    lines = file.read_text("utf-8").splitlines()[1:]
    rows = (line.split("\t") for line in lines)
    return {name: HudiDefaults(_stated(old), _stated(new)) for name, old, new in rows}


def _stated(text: str) -> str | None:
    return None if text in ("-", "(none)") else text


def default_here(row: Row) -> Any:
    """The default of an option in this package as a plain value; None for an option that is only
    checked, and where the default depends on the table."""
    value: Any = Options()
    if row.to is None:
        return None
    for name in row.to.split("."):
        value = getattr(value, name)
    return _plain(value)


def _plain(value: Any) -> Any:
    if isinstance(value, Enum):
        return _plain(value.value)
    if isinstance(value, tuple | frozenset | list):
        return [_plain(item) for item in value]
    return value if isinstance(value, str | int | float | bool | None) else str(value)
