"""`pyhudi report`: the state of a table as an HTML page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from pyhudi.cli.command import Answer, Call, command
from pyhudi.errors import UserError
from pyhudi.report.table_report import table_report


@command("report", example="report trips --output report.html")
@click.option("--output", "-o", required=True, metavar="FILE", help="The HTML file to write.")
def report(call: Call, output: str) -> Any:
    """Write the state of a table as one self-contained HTML page.

    The page shows the timeline, writes, file sizes, logs, index, overlap, findings, services that
    are due, and cleaning. A damaged table gives a page with the findings.
    """
    target = Path(output)
    if not output or target.is_dir() or not target.parent.is_dir():
        raise UserError(
            "the page cannot be written to this path",
            output=output,
            hint="name a file in an existing folder",
        )
    found = table_report(call.store, call.parsed, call.engine)
    size = found.save(target).stat().st_size
    return Answer({"path": call.path, "output": str(target), "bytes": size}, text=f"wrote {target}")
