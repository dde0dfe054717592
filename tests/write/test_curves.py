"""Space-filling curves: neighbours on them are neighbours in every column."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from pyhudi.options import Layout
from pyhudi.services.space_filling_curves import Curve, hilbert_transpose, interleave


def grid(columns: int, side: int) -> list[np.ndarray]:
    axes = np.meshgrid(*[np.arange(side, dtype=np.uint64)] * columns, indexing="ij")
    return [axis.ravel() for axis in axes]


def test_z_order_interleaves_bits_the_first_column_first() -> None:
    x, y = np.array([0b10, 0b01], np.uint64), np.array([0b11, 0b00], np.uint64)
    assert interleave([x, y], 2).tolist() == [0b1101, 0b0010]


@pytest.mark.parametrize(("columns", "bits"), [(2, 4), (3, 3), (4, 2)])
def test_neighbours_on_a_hilbert_curve_differ_in_one_column_by_one(columns: int, bits: int) -> None:
    axes = grid(columns, 1 << bits)
    place = interleave(hilbert_transpose(axes, bits), bits)
    assert sorted(place.tolist()) == list(range(len(place))), "each place once"
    ordered = np.stack([axis[np.argsort(place)].astype(np.int64) for axis in axes])
    steps = np.abs(np.diff(ordered, axis=1)).sum(axis=0)
    assert (steps == 1).all()


@pytest.mark.parametrize("layout", [Layout.ZORDER, Layout.HILBERT])
def test_columns_of_any_type_and_spread_count_alike(layout: Layout) -> None:
    """A column of four values and one of many, skewed: a stretch of the curve is narrow in both."""
    rng = np.random.default_rng(0)
    count = 4000
    rows = pa.table(
        {
            "few": pa.array([f"v{n}" for n in rng.integers(0, 4, count)]),
            "many": pa.array(rng.exponential(1.0, count), mask=rng.random(count) < 0.01),
        }
    )
    numbers = Curve.of(layout, rows).numbers(rows)
    ordered = rows.take(pa.array(np.argsort(numbers, kind="stable")))
    stretch = count // 16
    few = [len(ordered["few"].slice(at, stretch).unique()) for at in range(0, count, stretch)]
    ranks = np.argsort(np.argsort(rows["many"].fill_null(99.0).to_numpy())) / count
    ranks = ranks[np.argsort(numbers)]
    spans = [np.ptp(ranks[at : at + stretch]) for at in range(0, count, stretch)]
    assert np.mean(few) <= 2 and np.mean(spans) <= 0.6, (few, spans)
