"""The layers of the package, and the picture of them in docs/architecture.svg.

python -m tests.layers > docs/architecture.svg
"""

from __future__ import annotations

from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "pyhudi"
PICTURE = PACKAGE.parent / "docs" / "architecture.svg"

LAYERS = (
    "errors",
    "_native",
    "arrays environment markup near_names records",
    "libraries other_names reports",
    "observe",
    "filenames options",
    "layouts",
    "storage engine",
    "formats",
    "timeline",
    "table",
    "planning",
    "metadata",
    "merge",
    "read",
    "keygen",
    "index",
    "transaction",
    "recovery",
    "write",
    "services",
    "sync",
    "operations",
    "health",
    "report",
    "api",
    "ingest",
    "engines",
    "daft datafusion duckdb polars",
    "sql",
    "server",
    "__init__",
    "spark",
    "cli",
    "__main__",
)
"""Names of packages and modules, lowest layer first; a layer imports only from those before it."""

_ROW, _WIDTH, _NAMES, _TOP = 30, 1000, 250, 34


def render() -> str:
    """The layers as an SVG, highest first, each with the first sentence of its docstring."""
    rows = [row for row in reversed(LAYERS) if not row.startswith("__")]
    height = _TOP + _ROW * len(rows) + 8
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" '
        'font-family="sans-serif" font-size="13">',
        f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>',
        '<text x="12" y="22">Each layer imports only from the layers below it.</text>',
    ]
    for number, row in enumerate(rows):
        top = _TOP + number * _ROW
        shade = "#eef3fa" if number % 2 else "#dfe9f6"
        parts += [
            f'<rect x="8" y="{top}" width="{_WIDTH - 16}" height="{_ROW - 3}" fill="{shade}"/>',
            f'<text x="18" y="{top + 18}" font-weight="bold">{_escaped(row)}</text>',
            f'<text x="{_NAMES}" y="{top + 18}">{_escaped(_purpose(row))}</text>',
        ]
    return "\n".join([*parts, "</svg>"]) + "\n"


def _purpose(row: str) -> str:
    """First sentences of the docstrings of a layer's packages and modules."""
    return "  ".join(_first_sentence(name) for name in row.split())


def _first_sentence(name: str) -> str:
    folder = PACKAGE / name / "__init__.py"
    text = (folder if folder.exists() else PACKAGE / f"{name}.py").read_text("utf-8")
    docstring = text.removeprefix('"""').partition('"""')[0].partition("\n\n")[0]
    return " ".join(docstring.split()).partition("  ")[0].partition(". ")[0].rstrip(".") + "."


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace("`", "")


if __name__ == "__main__":
    print(render(), end="")
