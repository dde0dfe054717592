"""Parts of pages that are generated from the code when the site is built.

The text between `<!-- generated: NAME -->` and `<!-- end -->` of a page is for readers of the
repository; the site has the generated part in its place.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from docs._build import command_help, option_tables
from tests.write import schema_matrix

PARTS: Final[Mapping[str, Callable[[], str]]] = {
    "commands": command_help.text,
    "options": option_tables.text,
    "schema matrix": schema_matrix.table,
}
_REGION = re.compile(r"<!-- generated: ([\w ]+) -->\n.*?<!-- end -->\n", re.DOTALL)


def filled(markdown: str) -> str:
    """The text of a page with its generated parts."""
    return _REGION.sub(lambda found: PARTS[found[1]](), markdown)
