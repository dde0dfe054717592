"""States of a section without data: empty, or unavailable."""

from __future__ import annotations

import re
from typing import Final

from pyhudi.markup import escaped

_CODE: Final = re.compile("`([^`]*)`")
_MOMENT: Final = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d")


def prose(text: str) -> str:
    """A sentence; what is between backticks is code, and a moment stays on one line."""
    coded = _CODE.sub(r"<code>\1</code>", escaped(text))
    return _MOMENT.sub(r'<span class="moment">\g<0></span>', coded)


def breakable(path: str) -> str:
    """A path, whose lines end after a dot or a slash and not within a name."""
    return escaped(path).replace("/", "/<wbr>").replace(".", ".<wbr>")


def empty(text: str) -> str:
    """A section that has nothing to show, and why."""
    return f'<p class="empty">{prose(text)}</p>'


def unavailable(why: str) -> str:
    """A section whose part of the table was not read."""
    return f'<p class="broken"><b>Not available.</b> {prose(why)}</p>'


def lead(text: str) -> str:
    """The sentence that states the main fact of a section."""
    return f"<p>{prose(text)}</p>"


def note(text: str) -> str:
    """A note on what the numbers include."""
    return f'<p class="note">{prose(text)}</p>'


def state(text: str, tone: str) -> str:
    """A state in a table.  tone: error, warning, good or info."""
    return f'<span class="state {tone}">{escaped(text)}</span>'
