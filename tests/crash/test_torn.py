"""A sample of the torn writes of `torn.py`: read, named, repaired."""

from __future__ import annotations

import pytest

from pyhudi.table.properties import TableType
from tests.crash.torn import Totals, run


@pytest.mark.parametrize("version", [6, 9])
@pytest.mark.parametrize("kind", TableType, ids=["cow", "mor"])
def test_torn_files_are_read_named_and_repaired(kind: TableType, version: int) -> None:
    totals = Totals()
    run(kind, totals, version=version, seed=1, every=150)
    assert totals.cases > 3
    assert not totals.bad, "\n".join(totals.bad)
