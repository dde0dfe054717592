"""What tests use of an open table and its public calls do not give: its store and its state."""

from __future__ import annotations

from typing import Any


def fs_of(table: Any) -> Any:
    """The store of a table or another object that has one, rooted at the table."""
    return table._fs


def state_of(table: Any) -> Any:
    """The state of the newest commit, read now."""
    return table._state()
