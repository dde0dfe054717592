"""What clients get of an error: what is wrong, and nothing about the server."""

from __future__ import annotations

import pytest

from pyhudi.server.sql_server import public_text


@pytest.mark.parametrize(
    ("text", "sent"),
    [
        ("unknown column; column=fair", "unknown column; column=fair"),
        (
            "the query failed; reason=Invalid Input: no\n\nAt:\n  /srv/app/scan.py(10): read\n",
            "the query failed; reason=Invalid Input: no",
        ),
        (
            'the query failed; reason=Traceback (most recent call last):\n  File "/a/b.py"',
            "the query failed; reason=",
        ),
        (
            'IO Error: cannot open "/data/lake/trips/a.parquet": denied',
            'IO Error: cannot open "(a file of the server)": denied',
        ),
        ("no table; path=s3://b/lake/t; check", "no table; path=(a file of the server); check"),
        ("near a/b or 1 / 2 / 3, day=2026/11/21", "near a/b or 1 / 2 / 3, day=2026/11/21"),
    ],
)
def test_frames_and_places_stay_on_the_server(text: str, sent: str) -> None:
    assert public_text(text) == sent
