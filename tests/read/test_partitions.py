from __future__ import annotations

import datetime

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from pyhudi.read.filters import as_predicate
from pyhudi.read.skipping.partition_values import matching, partition_values
from pyhudi.table.properties import TableConfig

SCHEMA = pa.schema(
    {"city": pa.string(), "n": pa.int32(), "day": pa.date32(), "flag": pa.bool_(), "x": pa.int64()}
)


def config(fields: str, **properties: str) -> TableConfig:
    return TableConfig(
        {
            "hoodie.table.partition.fields": fields,
            "hoodie.table.recordkey.fields": "id",
            **{k.replace("__", "."): v for k, v in properties.items()},
        }
    )


def values(path: str, fields: str, **properties: str) -> dict[str, object]:
    found = partition_values(config(fields, **properties), SCHEMA, path)
    assert all(value.type == SCHEMA.field(name).type for name, value in found.items())
    return {name: value.as_py() for name, value in found.items()}


HIVE = {"hoodie__datasource__write__hive_style_partitioning": "true"}
ENCODED = {"hoodie__datasource__write__partitionpath__urlencode": "true"}


def test_a_level_a_field() -> None:
    assert values("sf/7", "city,n") == {"city": "sf", "n": 7}


def test_hive_style_names_are_cut() -> None:
    assert values("city=sf/n=7", "city,n", **HIVE) == {"city": "sf", "n": 7}


def test_encoded_values_are_decoded() -> None:
    assert values("u%2Fv%3D1", "city", **ENCODED) == {"city": "u/v=1"}
    assert values("100%25", "city") == {"city": "100%25"}


@pytest.mark.parametrize("style", [{}, HIVE])
def test_the_default_partition_is_null(style: dict[str, str]) -> None:
    level = "city=" * bool(style) + "__HIVE_DEFAULT_PARTITION__"
    assert values(level, "city", **style) == {"city": None}


def test_one_field_takes_the_whole_path() -> None:
    assert values("a/b", "city") == {"city": "a/b"}


def test_dates_and_booleans() -> None:
    expected = {"day": datetime.date(2026, 11, 21), "flag": True}
    assert values("2026-11-21/true", "day,flag") == expected


def test_a_path_that_does_not_split_into_the_fields_has_no_values() -> None:
    assert values("a/b/c", "city,n") == {}


def test_text_that_is_no_value_of_the_type_has_no_value() -> None:
    assert values("sf/seven", "city,n") == {"city": "sf"}


@pytest.mark.parametrize("kind", ["TIMESTAMP", "CUSTOM", "NON_PARTITION"])
def test_other_key_generators_store_the_value(kind: str) -> None:
    assert values("2026", "n", hoodie__table__keygenerator__type=kind) == {}


def test_a_filter_keeps_partitions_that_can_match() -> None:
    known = [
        partition_values(config("city,n"), SCHEMA, path)
        for path in ("sf/1", "sf/2", "la/1", "__HIVE_DEFAULT_PARTITION__/1")
    ]

    def retained(where: pc.Expression) -> list[bool]:
        return matching(known, SCHEMA, as_predicate(where, SCHEMA))

    assert retained(pc.field("city") == "sf") == [True, True, False, False]
    assert retained((pc.field("n") > 1) & (pc.field("x") < 5)) == [False, True, False, False]
    assert retained((pc.field("n") > 1) | (pc.field("x") < 5)) == [True] * 4
    assert retained(pc.field("city").isin(["la", "ny"])) == [False, False, True, False]
    assert retained(pc.field("city").is_null()) == [False, False, False, True]
