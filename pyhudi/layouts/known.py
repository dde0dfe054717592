"""The layouts that this package knows, and the one of a table's properties."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from pyhudi.layouts.table_layout import TableLayout
from pyhudi.layouts.v6 import V6
from pyhudi.layouts.v8 import V8
from pyhudi.layouts.v9 import V9

LAYOUTS: Final = {layout.version: layout for layout in (V6, V8, V9)}
"""Table version -> layout, of the versions that are written."""

NEWEST: Final = V9


def layout_of(version: int, timeline_version: int) -> TableLayout:
    """The layout of a table with these versions in its properties.

    Versions before 6 have the files of version 6.  A timeline version other than that of the table
    version, as early tables of version 7 and 8 may have, decides about the timeline's files.
    """
    known = LAYOUTS.get(version, V6 if version < V8.version else NEWEST)
    if known.timeline_version == timeline_version:
        return replace(known, version=version) if known.version != version else known
    other = V6 if timeline_version == 1 else V8
    return replace(other, version=version, index_version=known.index_version)
