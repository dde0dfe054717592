"""The constants of the choice between seek and scan: kept for a machine, and read with care."""

from __future__ import annotations

from itertools import cycle
from pathlib import Path

import pyarrow as pa
import pytest

from pyhudi._native import HFileReader, HFileWriter
from pyhudi._native.hfile.costs import LookupCosts, costs_file, lookup_costs, store_costs
from pyhudi.cli.app import run
from pyhudi.errors import MeasurementError
from pyhudi.metadata.record_index.lookup_calibration import Timer, measure_costs


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYHUDI_CACHE", str(tmp_path))
    lookup_costs.cache_clear()


@pytest.mark.usefixtures("machine")
def test_measured_constants_are_stored_and_used() -> None:
    assert lookup_costs() == LookupCosts()
    measured = measure_costs(2_000, spread_max=float("inf")).costs
    assert store_costs(measured) == costs_file()
    assert lookup_costs() == measured
    lookup_costs.cache_clear()
    assert lookup_costs() == measured != LookupCosts()
    path = costs_file().parent / "x.hfile"
    with HFileWriter(path, compression="gz") as writer:
        writer.add(pa.array(["a", "b"]), pa.array([b"1", b"2"]))
    slow = LookupCosts(key_seconds=1.0)
    store_costs(slow)
    assert HFileReader(path).plan(pa.array(["a", "b"])).seek_cost > 2.0
    lookup_costs.cache_clear()


def ticking(*rounds: tuple[float, float]) -> Timer:
    """A clock by which look-ups take these times in turn: seconds passed, and seconds worked."""
    pairs = cycle(rounds)
    wall = worked = 0.0
    ends = cycle((False, True))

    def now() -> tuple[float, float]:
        nonlocal wall, worked
        if next(ends):
            passed, busy = next(pairs)
            wall, worked = wall + passed, worked + busy
        return wall, worked

    return now


def in_turn(*lookups: float, noise: tuple[float, ...] = (1.0,), share: float = 1.0) -> Timer:
    """Times of the four look-ups, seven rounds each.  share: of them this process worked."""
    factors = cycle(noise)
    return ticking(*((t := s * next(factors), t * share) for s in lookups for _ in range(7)))


def test_a_quiet_machine_gives_constants_with_their_spread() -> None:
    quiet = in_turn(0.002, 0.004, 0.010, 0.001, noise=(1.0, 1.0, 1.1))
    measured = measure_costs(2_000, clock=quiet)
    assert measured.spread <= 0.1
    assert measured.costs.cell_seconds == pytest.approx(1e-6)
    assert measured.costs.key_seconds == pytest.approx(4e-6)


@pytest.mark.parametrize(
    "busy",
    [
        pytest.param(in_turn(0.002, 0.004, 0.010, 0.001, noise=(1.0, 3.0, 2.0)), id="spread"),
        pytest.param(in_turn(0.002, 0.004, 0.010, 0.001, share=0.5), id="waits for the processor"),
        pytest.param(in_turn(0.002, 0.001, 0.010, 0.001), id="gz faster than none"),
        pytest.param(in_turn(0.002, 0.004, 0.001, 0.001), id="all keys faster than a scan"),
    ],
)
def test_measurements_that_differ_too_much_are_refused(busy: Timer) -> None:
    with pytest.raises(MeasurementError, match="too busy"):
        measure_costs(2_000, clock=busy)


@pytest.mark.usefixtures("machine")
def test_the_command_stores_nothing_on_a_busy_machine(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("pyhudi.metadata.record_index.lookup_calibration.SPREAD_MAX", 0.0)
    with pytest.raises(SystemExit) as ended:
        run(["index", "calibrate"])
    assert ended.value.code == 1
    assert "MEASUREMENT" in capsys.readouterr().err
    assert not costs_file().exists()


@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize(
    "text", ["", "[]", '{"cell_seconds": "x"}', '{"cell_seconds": -1}', '{"key_seconds": 1e999}']
)
def test_a_file_that_is_no_such_file_is_passed_over(text: str) -> None:
    costs_file().write_text(text)
    assert lookup_costs() == LookupCosts()
    lookup_costs.cache_clear()
