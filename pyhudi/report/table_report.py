"""The report of a table: an object that notebooks show and that can be saved as a page."""

from __future__ import annotations

import html
import os
from dataclasses import dataclass
from pathlib import Path

from pyhudi.engine import Engine
from pyhudi.options import Options
from pyhudi.report.collect import collect_facts
from pyhudi.report.facts import ReportFacts
from pyhudi.report.page import page_html
from pyhudi.storage.filesystem import FileSystem


@dataclass(frozen=True, slots=True)
class TableReport:
    """The state of a table at one moment, as one self-contained HTML page."""

    facts: ReportFacts

    def to_html(self) -> str:
        """The page; it loads nothing from the network."""
        return page_html(self.facts)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the page to a local file, and return its path."""
        target = Path(path)
        target.write_text(self.to_html(), "utf-8")
        return target

    def _repr_html_(self) -> str:
        page = html.escape(self.to_html(), quote=True)
        name = html.escape(f"Report of {self.facts.table.name}", quote=True)
        style = "width:100%;height:44rem;border:0"
        return f'<iframe title="{name}" style="{style}" sandbox="" srcdoc="{page}"></iframe>'

    def __repr__(self) -> str:
        return f"TableReport({self.facts.table.url!r}, {self.facts.made_at!r})"


def table_report(fs: FileSystem, options: Options, engine: Engine) -> TableReport:
    """The report of the table at `fs`; cost and errors as for `collect_facts`."""
    return TableReport(collect_facts(fs, options, engine))
