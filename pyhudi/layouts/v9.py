"""Table version 9: the files of version 8, with newer indexes and other properties."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from pyhudi.layouts.table_layout import TableLayout
from pyhudi.layouts.v8 import V8

V9: Final[TableLayout] = replace(V8, version=9, index_version=2)
