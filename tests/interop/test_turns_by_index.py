"""Tables of versions 8 and 9 with the bloom, the bucket and secondary indexes: pyhudi and Apache
Hudi 1.x take turns with every kind of action.

After each turn both read the same rows, by snapshot and read-optimized queries and by the secondary
indexes, and Apache Hudi finds no difference between the metadata table and the storage.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.interop.both_programs import (
    AVRO,
    COMPACTED,
    SERVED,
    UNDONE,
    WRITES,
    Both,
    Turn,
    take_turns,
)
from tests.support.apache_hudi import ApacheHudi

pytestmark = pytest.mark.interop

Hudi = Callable[[str], ApacheHudi]

CASES = [
    ("1.2.0", 9, "mor", AVRO),
    ("1.2.0", 9, "cow", {}),
    ("1.2.0", 8, "mor", {}),
    ("1.2.0", 8, "cow", {}),
]

CREATED: list[Turn] = [
    ("secondary index", lambda b: b.create_index("ts")),
    ("their secondary index", lambda b: b.their_index("day")),
]


def turns_of(kind: str) -> list[Turn]:
    return [*UNDONE, *(COMPACTED if kind == "mor" else ()), *SERVED]


def made(hudi: str, version: int, kind: str, options: dict[str, str]) -> str:
    return f"{hudi}-{version}-{kind}-{'-'.join(options.values()) or 'parquet'}"


def cases(*more: tuple[str, int, str, dict[str, str]]) -> pytest.MarkDecorator:
    """The cases of each index: the version of Apache Hudi, of the table, its type and options."""
    return pytest.mark.parametrize(
        ("hudi", "version", "kind", "options"),
        [pytest.param(*case, id=made(*case), marks=pytest.mark.slow) for case in (*CASES, *more)],
    )


@cases(("1.1.1", 9, "mor", {}))
def test_both_agree_with_the_bloom_index(
    hudi: str, version: int, kind: str, options: dict[str, str], tmp_path: Path, apache_hudi: Hudi
) -> None:
    both = Both(
        tmp_path / "t", apache_hudi(hudi), version=version, table_type=kind, index="bloom",
        options=options,
    )  # fmt: skip
    take_turns(both, [*WRITES, *turns_of(kind)])
    both.turns.hudi_rs_agrees()


@cases(("1.1.1", 8, "mor", AVRO))
def test_both_agree_with_the_bucket_index(
    hudi: str, version: int, kind: str, options: dict[str, str], tmp_path: Path, apache_hudi: Hudi
) -> None:
    """File groups of this index are not clustered."""
    both = Both(
        tmp_path / "t", apache_hudi(hudi), version=version, table_type=kind, index="bucket",
        options=options,
    )  # fmt: skip
    take_turns(both, [*WRITES, *(turn for turn in turns_of(kind) if turn[0] != "clustering")])


@cases(("1.1.1", 9, "cow", {}))
def test_both_agree_with_secondary_indexes(
    hudi: str, version: int, kind: str, options: dict[str, str], tmp_path: Path, apache_hudi: Hudi
) -> None:
    """Apache Hudi refuses to overwrite partitions of such a table; pyhudi does so.

    Of two indexes of a merge-on-read table Apache Hudi 1.2.0 updates one, so such a table has one.
    """
    both = Both(
        tmp_path / "t", apache_hudi(hudi), version=version, table_type=kind, options=options
    )
    turns = [turn for turn in turns_of(kind) if turn[0] != "their insert overwrite"]
    created = CREATED[:1] if kind == "mor" else CREATED
    take_turns(both, [*WRITES, *created, *turns])
