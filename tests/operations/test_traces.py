"""What each operation changes on the store, and in which order."""

from __future__ import annotations

import pytest

from tests.operations.traces import TABLES, golden_path, render


@pytest.mark.parametrize(("table_type", "version"), TABLES)
def test_operations_change_the_store_in_the_recorded_order(table_type: str, version: int) -> None:
    assert render(table_type, version) == golden_path(table_type, version).read_text("utf-8"), (
        "the order of changes is different: read it, then python -m tests.operations.traces"
    )
