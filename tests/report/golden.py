"""Golden pages of the six shapes, without the style sheet.

python -m tests.report.golden
"""

from __future__ import annotations

from pathlib import Path

from pyhudi.report.page import page_html
from pyhudi.report.style import STYLE
from tests.report.shapes import SHAPES

GOLDEN = Path(__file__).parents[1] / "golden" / "report"


def golden_page(name: str) -> str:
    """The page of a shape; one element a line, so that differences can be read."""
    page = page_html(SHAPES[name]()).replace(STYLE, "")
    for tag in ("<section", "<figure", "<tr", "<g>", "<li", "<p", "<table", "<svg"):
        page = page.replace(tag, f"\n{tag}")
    return page


def main() -> None:
    GOLDEN.mkdir(exist_ok=True)
    for name in SHAPES:
        (GOLDEN / f"{name}.html").write_text(golden_page(name), "utf-8")


if __name__ == "__main__":
    main()
