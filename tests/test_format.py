"""Every citation of the format reference names a section that exists."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FORMAT = ROOT / "docs" / "format"
PAGES = {page.stem: page for page in FORMAT.glob("*.md") if page.stem != "index"}
SECTION = re.compile(r"^##+ (\d+(?:\.\d+)*)\.? ", re.MULTILINE)
NUMBER = r"\d+(?:\.\d+)*"
NOTE = r"(?:\s\([^()]*\))?"
CITATION = re.compile(
    rf"\b({'|'.join(PAGES)})(?:\.md)?((?:,|\sto|\sand)?\s(?:chapter\s)?{NUMBER}{NOTE}"
    rf"(?:(?:,|\sto|\sand)\s{NUMBER}{NOTE})*)"
)
CITING = sorted(
    path
    for folder in ("pyhudi", "tests", "bench", "docs/format")
    for path in (ROOT / folder).rglob("*")
    if path.suffix in (".py", ".pyx", ".pxd", ".md") and path != Path(__file__)
)


def citations(text: str) -> Iterator[tuple[str, str]]:
    """(page, section) of every citation; a list such as `table_format 4 (plans), 7.9` has two."""
    for found in CITATION.finditer(re.sub(r"\s*\n[ \t#]*", " ", text)):
        for number in re.findall(NUMBER, re.sub(r"\([^()]*\)", "", found[2])):
            yield found[1], number


def test_lists_and_notes_of_a_citation_are_read() -> None:
    text = "table_format 4 (plans, 2),\n  7.4 and 9.2 to 9.3. 5; storage_format chapter 3."
    assert [*citations(text)] == [
        ("table_format", "4"),
        ("table_format", "7.4"),
        ("table_format", "9.2"),
        ("table_format", "9.3"),
        ("storage_format", "3"),
    ]


@pytest.mark.parametrize("page", PAGES)
def test_sections_have_numbers_that_rise(page: str) -> None:
    numbers = SECTION.findall(PAGES[page].read_text("utf-8"))
    values = [[int(part) for part in number.split(".")] for number in numbers]
    assert values == sorted(values) and len(numbers) == len(set(numbers))


def test_every_cited_section_exists() -> None:
    sections = {name: set(SECTION.findall(page.read_text("utf-8"))) for name, page in PAGES.items()}
    missing, found = [], set()
    for path in CITING:
        for page, number in citations(path.read_text("utf-8")):
            found.add((page, number))
            if number not in sections[page]:
                missing.append(f"{path.relative_to(ROOT)}: {page} {number}")
    assert not missing, "\n".join(missing)
    assert len(found) > 50


def test_sources_in_docstrings_are_citations() -> None:
    """A page that is not in docs/format cannot be looked up."""
    cited = re.compile(r"\b([a-z]\w*_\w+)(?:\.md)? \d+(?:\.\d+)*[,;.)]")
    unknown = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in CITING
        if path.suffix != ".md"
        for source in re.findall(r"Source: ([^\"]*?)(?:\n\n|\"\"\")", path.read_text("utf-8"))
        for name in cited.findall(source)
        if name not in PAGES
    ]
    assert not unknown, "\n".join(unknown)
