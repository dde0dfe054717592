"""pyhudi and Apache Hudi 1.x take turns that a seed draws: both read the same rows after each.

SEED=7 python -m pytest tests/interop/test_drawn_turns.py
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.interop.both_programs import AVRO, Both, drawn_turns, take_turns
from tests.support.apache_hudi import ApacheHudi

pytestmark = [pytest.mark.interop, pytest.mark.slow]
SEED = int(os.environ.get("SEED", "26"))


@pytest.mark.parametrize("kind", ["cow", "mor"])
@pytest.mark.parametrize("index", ["record", "bloom", "bucket"])
def test_both_agree_after_turns_in_any_order(
    kind: str, index: str, tmp_path: Path, apache_hudi: Callable[[str], ApacheHudi]
) -> None:
    dice = random.Random(f"{SEED} {kind} {index}")
    version, hudi = dice.choice([(8, "1.1.1"), (8, "1.2.0"), (9, "1.1.1"), (9, "1.2.0")])
    options = dice.choice([{}, AVRO]) if kind == "mor" else {}
    both = Both(
        tmp_path / "t", apache_hudi(hudi), version=version, table_type=kind, index=index,
        options=options,
    )  # fmt: skip
    take_turns(both, drawn_turns(dice, kind, index))
