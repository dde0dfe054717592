"""The program behind `make long` stores what each form printed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.long_forms import FORMS, HEAD, last_line, main, with_row

MAKE = (sys.executable, "-c", "import sys; print('seeds 1 to 9 | 0 problems'); print('make: x');"
        "sys.exit(sys.argv[1] == 'torn')")  # fmt: skip


def test_rows_are_replaced_in_their_own_section_alone() -> None:
    text = "# Figures\n\n## First\n\n| a |\n\n## Last\n\nend\n"
    once = with_row(text, "torn", "| torn | day | 1 | 2.0 | one |")
    assert once == text.rstrip("\n") + "\n\n" + HEAD + "| torn | day | 1 | 2.0 | one |\n"
    both = with_row(once, "model", "| model | day | 1 | 2.0 | two |")
    assert both.index("| model |") < both.index("| torn |")
    again = with_row(both + "\n## More\n\nx\n", "torn", "| torn | day | 2 | 3.0 | three |")
    assert "one" not in again and "two" in again and "three" in again
    assert again.endswith("\n## More\n\nx\n") and again.startswith(text.rstrip("\n"))


def test_the_last_line_of_a_form_is_its_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = tmp_path / "RESULTS.md"
    monkeypatch.setattr(sys, "argv", ["x", "--seed", "7", "--results", str(results),
                                      "--only", "model", "--only", "torn"])  # fmt: skip
    assert main(MAKE) == 1
    model, torn = results.read_text().splitlines()[-2:]
    assert model.startswith("| model | ") and model.endswith("| seeds 1 to 9 / 0 problems |")
    assert "| 7 |" in model and "**failed**: seeds 1 to 9" in torn
    monkeypatch.setattr(sys, "argv", ["x", "--results", str(results), "--only", "model"])
    assert main(MAKE) == 0


def test_every_form_is_a_target_of_the_makefile() -> None:
    makefile = (Path(__file__).parents[1] / "Makefile").read_text()
    assert not [form for form in FORMS if f"\n{form}: build\n" not in makefile]
    assert last_line("") == "no output"
