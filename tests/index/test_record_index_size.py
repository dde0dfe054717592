"""A record index that is built for the rows of a table has file groups in proportion to them."""

from __future__ import annotations

import pytest

from tests.options.effects import built_index

SIZE = "hoodie.metadata.record.index.max.filegroup.size"
GROWTH = "hoodie.metadata.record.index.growth.factor"
MOST = "hoodie.metadata.record.index.max.filegroup.count"
LEAST = "hoodie.metadata.record.index.min.filegroup.count"


@pytest.mark.parametrize(
    ("given", "groups"),
    [
        ({}, 1),
        ({LEAST: "2"}, 2),
        ({SIZE: "480"}, 13),  # ten entries a group, and room for three tenths more rows
        ({SIZE: "480", GROWTH: "2.0"}, 20),
        ({SIZE: "480", GROWTH: "0.1", LEAST: "4"}, 4),
        ({SIZE: "480", MOST: "6"}, 6),
        ({SIZE: "1gb", GROWTH: "2", MOST: "10000", LEAST: "10"}, 10),
    ],
)
def test_a_write_builds_an_index_for_the_rows_there_are(given: dict[str, str], groups: int) -> None:
    assert built_index(given) == groups
