"""What options mean, in one sentence each.

Rows of the table of names have a note where their name leaves a question open; meanings.tsv has the
sentences of the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import resources

from pyhudi.options.option_row import Row


def meaning_of(row: Row) -> str:
    """The meaning of an option; for one that is not supported, the reason."""
    return _table().get(row.name) or row.note


@cache
def _table() -> Mapping[str, str]:
    file = resources.files("pyhudi.options") / "meanings.tsv"
    lines = file.read_text("utf-8").splitlines()[1:]
    return dict(line.split("\t") for line in lines)
