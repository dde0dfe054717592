"""Parameters of docstrings as lists of the API reference.

Docstrings describe parameters and fields in running text, `schema: of the table.  name: its name.`
"""

from __future__ import annotations

import re

import griffe


class ParameterLists(griffe.Extension):
    """Turns paragraphs of `name: meaning` into lists, one entry a parameter or field."""

    def on_function(self, *, func: griffe.Function, **_: object) -> None:
        _listed(func, [parameter.name for parameter in func.parameters])

    def on_class(self, *, cls: griffe.Class, **_: object) -> None:
        _listed(cls, [*cls.members, *(parameter.name for parameter in cls.parameters)])


def _listed(described: griffe.Object, names: list[str]) -> None:
    if described.docstring is not None:
        described.docstring.value = listed(described.docstring.value, names)


def listed(text: str, names: list[str]) -> str:
    """A docstring in which each description of one of `names`, or of several, begins an entry."""
    if not names:
        return text
    name = "|".join(sorted(map(re.escape, names), key=len, reverse=True))
    start = re.compile(rf"(?:^|(?<=[.;])\s+)\*?((?:{name})(?:, (?:{name}))*):\s+")
    return "\n\n".join(_entries(paragraph, start) for paragraph in text.split("\n\n"))


def _entries(paragraph: str, start: re.Pattern[str]) -> str:
    """A paragraph with a list from its first description on; what it raises stands below."""
    before, *parts = start.split(" ".join(paragraph.split()))
    if not parts or "```" in paragraph:
        return paragraph
    last, *raises = re.split(r"(?<=\.) (?=Raises )", parts[-1], maxsplit=1)
    described = zip(parts[::2], [*parts[1:-1:2], last], strict=True)
    entries = "\n".join(f"- `{names}`: {meaning}" for names, meaning in described)
    return "\n\n".join(filter(None, [before, entries, *raises]))
