"""The page of a report: well-formed, self-contained, labelled, bounded, escaped."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest

from pyhudi.markup import bytes_text, escaped, moment_text, seconds_text
from pyhudi.report.page import SECTIONS, page_html
from pyhudi.report.style import STYLE
from tests.report.golden import GOLDEN, golden_page
from tests.report.shapes import HOSTILE, SHAPES

VOID = {"meta", "wbr", "br", "link", "img", "input"}
PAGE_MAX = 250_000
NAMES = {name for name, _, _ in SECTIONS}


class Outline(HTMLParser):
    """Elements of a page; fails on one that is not closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.path: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(text)
        self.close()
        assert not self.path, self.path

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.path.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.path.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    def having(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


@pytest.fixture(scope="module", params=SHAPES)
def page(request: pytest.FixtureRequest) -> str:
    return page_html(SHAPES[request.param]())


@pytest.mark.parametrize("name", SHAPES)
def test_pages_are_as_the_golden_ones(name: str) -> None:
    assert golden_page(name) == (GOLDEN / f"{name}.html").read_text("utf-8"), (
        "pages changed: python -m tests.report.golden"
    )


def test_a_page_is_well_formed_and_has_all_sections(page: str) -> None:
    outline = Outline(page)
    assert {s["id"] for s in outline.having("section")} == NAMES
    assert {a["href"] for a in outline.having("a")} == {f"#{name}" for name in NAMES}
    assert len(outline.having("h1")) == 1
    assert len(outline.having("h2")) == len(NAMES)
    ids = [a["id"] for _, a in outline.elements if "id" in a]
    assert len(ids) == len(set(ids))


def test_a_page_loads_and_runs_nothing(page: str) -> None:
    outline = Outline(page)
    assert not {tag for tag, _ in outline.elements} & {"script", "link", "img", "iframe", "object"}
    names = {name for _, attributes in outline.elements for name in attributes}
    assert not [name for name in names if name.startswith("on") or name == "src"]
    assert not re.search(r"url\(|@import|https?://", page)


def test_charts_and_tables_are_labelled(page: str) -> None:
    outline = Outline(page)
    ids = {a["id"] for _, a in outline.elements if "id" in a}
    for attributes in outline.having("svg"):
        if attributes.get("aria-hidden") != "true":
            assert attributes["role"] == "img"
            labels = (attributes["aria-labelledby"] or "").split()
            assert len(labels) == 2 and ids.issuperset(labels)
    for attributes in outline.having("section"):
        assert attributes["aria-labelledby"] in ids
    assert len(outline.having("table")) == len(outline.having("caption"))
    assert all(a.get("scope") in ("col", "row") for a in outline.having("th"))
    regions = [a for a in outline.having("div") if a.get("class") == "scroll"]
    assert all(a["tabindex"] == "0" and a["role"] == "region" and a["aria-label"] for a in regions)
    assert ("html", {"lang": "en"}) in outline.elements


def test_the_size_of_a_page_is_bounded(page: str) -> None:
    assert len(page) < PAGE_MAX


def test_a_page_states_what_it_does_not_show() -> None:
    assert "9,980 more partitions are not shown." in page_html(SHAPES["many_partitions"]())
    assert "newest 100 of 88,889 commits" in page_html(SHAPES["huge_timeline"]())
    assert "100,000 instants" in page_html(SHAPES["huge_timeline"]())


@pytest.mark.parametrize("name", ["backlog", "damaged"])
def test_text_of_the_table_is_escaped(name: str) -> None:
    text = page_html(SHAPES[name]())
    assert HOSTILE not in text
    assert HOSTILE in "".join(Outline(text).texts)


def test_a_page_of_a_damaged_table_has_the_findings() -> None:
    text = page_html(SHAPES["damaged"]())
    assert "the file of a commit cannot be read" in text
    assert text.count("Not available.") == 6


def luminance(colour: str) -> float:
    digits = colour.removeprefix("#")
    digits = "".join(2 * c for c in digits) if len(digits) == 3 else digits
    parts = [int(digits[n : n + 2], 16) / 255 for n in (0, 2, 4)]
    linear = [p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", [0, 1, 2], ids=["light", "dark", "print"])
def test_text_has_a_contrast_of_at_least_four_and_a_half(theme: int) -> None:
    found = [dict(re.findall(r"--([a-z]+):(#\w+)", block))
             for block in re.findall(r":root\{([^}]*)\}", STYLE)]  # fmt: skip
    colours = found[0] | found[theme]
    for text in ("text", "muted", "link", "good", "e", "w"):
        for ground in ("page", "card"):
            assert contrast(colours[text], colours[ground]) >= 4.5, (text, ground)
    for mark in ("b", "s", "w", "e"):
        assert contrast(colours[mark], colours["page"]) >= 3.0, mark


def test_texts_are_escaped_and_bounded() -> None:
    assert escaped('<a b="c">\'&') == "&lt;a b=&quot;c&quot;&gt;&#x27;&amp;"
    assert escaped("a\x00b\u202ec\ud800") == "a\ufffdb\ufffdc\ufffd"
    assert len(escaped("x" * 10_000)) == 300


@pytest.mark.parametrize(("size", "text"), [
    (0, "0 bytes"), (1, "1 byte"), (1023, "1,023 bytes"), (1024, "1 KiB"), (1536, "1.5 KiB"),
    (100 << 20, "100 MiB"), (1023 << 20, "1 GiB"), (5 << 60, "5 EiB"), (5 << 72, "20,480 EiB"),
])  # fmt: skip
def test_sizes_have_units(size: int, text: str) -> None:
    assert bytes_text(size) == text


@pytest.mark.parametrize(("seconds", "text"), [
    (0, "0 s"), (8.16e-5, "81.6 µs"), (0.0042, "4.2 ms"), (0.42, "420 ms"), (4.24, "4.2 s"),
    (59.96, "1 min"), (200, "3 min 20 s"), (7500, "2 h 5 min"), (100_000, "1 d 3 h"),
    (86_400, "1 d"),
])  # fmt: skip
def test_durations_have_units(seconds: float, text: str) -> None:
    assert seconds_text(seconds) == text


def test_instants_are_shown_as_times() -> None:
    assert moment_text("20261122093005123") == "2026-11-22 09:30:05"
    assert moment_text("none") == "none"
