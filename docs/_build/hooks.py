"""Hooks of the documentation site: pages from files outside docs/, generated parts, and links.

README.md is the start page.  Links in the sources are relative to the source file, so that they work
in a checkout; they are rewritten for the site.
"""

from __future__ import annotations

import posixpath
import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))
from docs._build.generated import filled  # noqa: E402

PAGES = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "bench/RESULTS.md": "results.md",
}
"""Files of the repository by their place on the site."""
SOURCES = {page: source for source, page in PAGES.items()}
LINK = re.compile(r"(\]\(|src=\")(?!\w+:|#)([^)#\"\s]+)")


def on_files(files: Files, config: Any) -> Files:
    for source, page in PAGES.items():
        files.append(File.generated(config, page, content=(ROOT / source).read_text("utf-8")))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    return rewritten(filled(markdown), page.file.src_uri)


def rewritten(markdown: str, page: str) -> str:
    """The text of a page with links to places on the site."""
    source = SOURCES.get(page, f"docs/{page}")

    def place(match: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(source), match[2]))
        found = PAGES.get(target, target.removeprefix("docs/"))
        return match[1] + posixpath.relpath(found, posixpath.dirname(page) or ".")

    return LINK.sub(place, markdown)
