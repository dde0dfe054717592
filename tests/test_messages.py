"""The wording of errors: all messages in one golden text, and the words that none may use."""

from __future__ import annotations

from tests.messages import GOLDEN, render


def test_the_golden_text_holds_every_error_message() -> None:
    assert render() == GOLDEN.read_text("utf-8"), (
        "error messages changed: python -m tests.messages > tests/golden/messages.txt"
    )
