"""Base class of all reports."""

from __future__ import annotations

import re
from dataclasses import fields
from typing import Any

from pyhudi.markup import card_html, facts_html, facts_text, shown_facts


class Report:
    """A frozen dataclass that states what was done or, with dry_run, what would be done.

    Its `repr` and its output in a notebook are small tables of the fields that say something.
    """

    __slots__ = ()

    def __init_subclass__(cls) -> None:
        if "__repr__" not in vars(cls):  # a dataclass keeps one that its class has
            cls.__repr__ = Report.__repr__  # type: ignore[method-assign]

    def to_dict(self) -> dict[str, Any]:
        """The fields by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]

    def __repr__(self) -> str:
        return facts_text(type(self).__name__, shown_facts(self.to_dict()))

    def _repr_html_(self) -> str:
        words = re.sub("(?<=[a-z])(?=[A-Z])", " ", type(self).__name__).capitalize()
        return card_html(words, facts_html(shown_facts(self.to_dict())))
