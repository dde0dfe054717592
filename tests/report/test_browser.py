"""The pages of the six shapes in headless Chromium: light, dark, phone, desktop.

make long-browser
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from pyhudi.report.page import SECTIONS, page_html
from tests.report.shapes import SHAPES
from tests.support.browser import DESKTOP, PHONE, Browser, browser

pytestmark = [pytest.mark.slow, pytest.mark.browser]

WIDER = """[...document.querySelectorAll('main *')].filter(e => !e.closest('.scroll') &&
e.getBoundingClientRect().right > document.documentElement.clientWidth + 1)
.map(e => e.outerHTML.slice(0, 80))"""
SMALL_TEXT = """[...document.querySelectorAll('body *')].filter(e => e.innerText &&
parseFloat(getComputedStyle(e).fontSize) < 12).map(e => e.outerHTML.slice(0, 80))"""
BROKEN_WORDS = r"""(() => {
const found = [], texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (texts.nextNode()) for (const word of texts.currentNode.data.matchAll(/[\w,]+/g)) {
  const range = document.createRange();
  range.setStart(texts.currentNode, word.index);
  range.setEnd(texts.currentNode, word.index + word[0].length);
  const lines = new Set([...range.getClientRects()].map(r => Math.round(r.top)));
  if (lines.size > 1) found.push(word[0]);
}
return found;
})()"""
GROUND = "getComputedStyle(document.body).backgroundColor"


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser() as found:
        yield found


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
@pytest.mark.parametrize("name", SHAPES)
def test_a_page_is_shown_whole_and_without_complaints(
    chromium: Browser, tmp_path: Path, name: str, size: tuple[int, int], scheme: str
) -> None:
    page = tmp_path / f"{name}.html"
    page.write_text(page_html(SHAPES[name]()), "utf-8")
    chromium.complaints.clear()
    chromium.requests.clear()
    chromium.open(page.as_uri(), size, scheme=scheme)
    assert chromium.value("document.documentElement.scrollWidth") <= size[0]
    assert chromium.value("window.innerWidth") == size[0]
    assert chromium.value(WIDER) == []
    assert chromium.value(SMALL_TEXT) == []
    assert chromium.value(BROKEN_WORDS) == []
    assert chromium.value("document.querySelectorAll('section h2').length") == len(SECTIONS)
    red, green, blue = map(int, re.findall(r"\d+", chromium.value(GROUND)))
    assert (red + green + blue < 200) == (scheme == "dark")
    picture = chromium.screenshot(tmp_path / "page.png")
    assert picture.startswith(b"\x89PNG") and len(picture) > 10_000
    assert len(np.unique(np.frombuffer(picture, np.uint8))) > 200
    assert not chromium.complaints
    assert chromium.requests == [page.as_uri()]


def test_charts_and_tables_are_reached_by_the_keyboard(chromium: Browser, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text(page_html(SHAPES["backlog"]()), "utf-8")
    chromium.open(page.as_uri(), DESKTOP, scheme="light")
    seen = []
    for _ in range(40):
        for kind in ("keyDown", "keyUp"):
            chromium.call("Input.dispatchKeyEvent", type=kind, key="Tab", code="Tab",
                          windowsVirtualKeyCode=9)  # fmt: skip
        seen.append(chromium.value("document.activeElement.tagName"))
    assert {"A", "SUMMARY", "DIV"} <= set(seen)
