"""The constants of the choice between seek and scan: kept for a machine, and read with care."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from pyhudi._native import HFileReader, HFileWriter
from pyhudi._native.hfile_costs import LookupCosts, costs_file, keep_costs, lookup_costs
from pyhudi.calibration import measure_costs


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYHUDI_CACHE", str(tmp_path))
    lookup_costs.cache_clear()


@pytest.mark.usefixtures("machine")
def test_measured_constants_are_kept_and_used() -> None:
    assert lookup_costs() == LookupCosts()
    measured = measure_costs(2_000)
    assert keep_costs(measured) == costs_file()
    assert lookup_costs() == measured
    lookup_costs.cache_clear()
    assert lookup_costs() == measured != LookupCosts()
    path = costs_file().parent / "x.hfile"
    with HFileWriter(path, compression="gz") as writer:
        writer.add(pa.array(["a", "b"]), pa.array([b"1", b"2"]))
    slow = LookupCosts(key_seconds=1.0)
    keep_costs(slow)
    assert HFileReader(path).plan(pa.array(["a", "b"])).seek_cost > 2.0
    lookup_costs.cache_clear()


@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize(
    "text", ["", "[]", '{"cell_seconds": "x"}', '{"cell_seconds": -1}', '{"key_seconds": 1e999}']
)
def test_a_file_that_is_no_such_file_is_passed_over(text: str) -> None:
    costs_file().write_text(text)
    assert lookup_costs() == LookupCosts()
    lookup_costs.cache_clear()
