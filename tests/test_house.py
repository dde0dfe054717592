"""The measurable claims about the code hold."""

from __future__ import annotations

from pathlib import Path

from tools.house import Claim, text_claims, walk_claims


def test_a_figure_above_its_limit_is_marked() -> None:
    assert str(Claim("files", 2, 1)).startswith("!")
    assert str(Claim("files", 1, 1)).startswith(" ") and Claim("files", 9).holds


def test_the_claims_about_the_code_hold(tmp_path: Path) -> None:
    claims = [*text_claims(), *walk_claims(tmp_path)]
    assert len(claims) > 10 and all(claim.value >= 0 for claim in claims)
    assert not [str(claim) for claim in claims if not claim.holds]
