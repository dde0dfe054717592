"""Tables whose catalog entries are compared with those of Apache Hudi's sync, and their life.

A case creates a table, and has steps that change it; the table is synced before the first step
and after each.  `golden/` has what Apache Hudi's HiveSyncTool wrote into a Hive Metastore then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa

import pyhudi

SYNC = "hoodie.datasource.hive_sync."
META = "hoodie.meta.sync."

TRIPS = pa.schema(
    [
        ("id", pa.string()),
        ("city", pa.string()),
        ("zone", pa.int32()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("fare", pa.float64()),
    ]
)

TYPES = pa.schema(
    [
        ("id", pa.string()),
        ("flag", pa.bool_()),
        ("small", pa.int32()),
        ("big", pa.int64()),
        ("real", pa.float32()),
        ("double_real", pa.float64()),
        ("body", pa.binary()),
        ("day", pa.date32()),
        ("micros", pa.timestamp("us", "UTC")),
        ("millis", pa.timestamp("ms", "UTC")),
        ("local_micros", pa.timestamp("us")),
        ("price", pa.decimal128(10, 2)),
        ("MixedCase", pa.string()),
        pa.field("required", pa.int64(), nullable=False),
        ("tags", pa.list_(pa.string())),
        ("amounts", pa.map_(pa.string(), pa.decimal128(20, 4))),
        (
            "place",
            pa.struct(
                [
                    ("Street", pa.string()),
                    ("seen", pa.list_(pa.timestamp("us", "UTC"))),
                    ("point", pa.struct([("x", pa.float64()), ("y", pa.float64())])),
                ]
            ),
        ),
        ("stops", pa.list_(pa.struct([("name", pa.string()), ("days", pa.list_(pa.date32()))]))),
    ]
)


@dataclass(frozen=True)
class Case:
    """create: keyword arguments of create_table.  options: `hoodie.*` keys of the sync.

    steps: what happens to the table between one sync and the next.
    """

    create: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)
    steps: tuple[Callable[[pyhudi.Table], object], ...] = ()
    schema: pa.Schema = TRIPS
    first: Callable[[pyhudi.Table], object] = lambda table: upsert_trips(table, 1, 4)

    def build(self, path: Path) -> pyhudi.Table:
        """The table as it is at the first sync."""
        table = pyhudi.create_table(path, self.schema, **{"record_key": "id", **self.create})
        self.first(table)
        return table


def trip(number: int) -> dict[str, Any]:
    """A row of TRIPS; cities and days repeat."""
    return {
        "id": f"t{number:03}",
        "city": ("sf", "la", "new york")[number % 3],
        "zone": number % 2,
        "day": date(2026, 11, 20 + number % 3),
        "at": datetime(2026, 11, 20 + number % 3, 9, 30, tzinfo=UTC),
        "fare": number * 1.5,
    }


def upsert_trips(table: pyhudi.Table, first: int, last: int) -> object:
    rows = [trip(number) for number in range(first, last + 1)]
    return table.upsert(pa.Table.from_pylist(rows, TRIPS))


def upsert_types(table: pyhudi.Table) -> object:
    row = {
        "id": "a", "flag": True, "small": 1, "big": 2, "required": 3, "price": Decimal("1.25"),
        "MixedCase": "m", "tags": ["x"], "amounts": [("k", Decimal("1.0000"))],
    }  # fmt: skip
    return table.upsert(pa.Table.from_pylist([row], TYPES))


def add_columns(table: pyhudi.Table) -> object:
    """A new column at the end, and a wider type of one that exists."""
    schema = TRIPS.append(pa.field("tip", pa.decimal128(8, 2)))
    schema = schema.set(2, pa.field("zone", pa.int64()))
    rows = [trip(number) | {"tip": Decimal("0.50")} for number in (1, 7)]
    return table.upsert(pa.Table.from_pylist(rows, schema), schema_mode="widen")


def drop_one_city(table: pyhudi.Table) -> object:
    return table.delete_partitions([table.partitions()[0]])


def one_more_city(table: pyhudi.Table) -> object:
    return table.upsert(pa.Table.from_pylist([trip(9) | {"city": "oakland"}], TRIPS))


def more_trips(table: pyhudi.Table) -> object:
    return upsert_trips(table, 3, 6)


def no_city(table: pyhudi.Table) -> object:
    return table.upsert(pa.Table.from_pylist([trip(9) | {"city": None}], TRIPS))


def encoded_cities(table: pyhudi.Table) -> object:
    rows = [trip(1) | {"city": "bay/north: 1%"}, trip(2) | {"city": "a=b"}]
    return table.upsert(pa.Table.from_pylist(rows, TRIPS))


def clean(table: pyhudi.Table) -> object:
    return table.clean()


HIVE_STYLE = {"options": {"hoodie.datasource.write.hive_style_partitioning": "true"}}
ENCODED = {"options": {"hoodie.datasource.write.partitionpath.urlencode": "true"}}
CITY = {"partition_by": ["city"]}
THREE = {"partition_by": ["city", "zone", "day"]}
DAYS = {"partition_by": [pyhudi.TimestampPartition("at", "EPOCHMICROSECONDS", output="yyyy/MM/dd")]}
EXTRACT = SYNC + "partition_extractor_class"
DAY_EXTRACTOR = {
    EXTRACT: "org.apache.hudi.hive.SlashEncodedDayPartitionValueExtractor",
    SYNC + "partition_fields": "day_seen",
}
MOR = {"table_type": "mor"}

CASES: dict[str, Case] = {
    "cow_types": Case({}, {}, (), TYPES, upsert_types),
    "cow_types_timestamps": Case({}, {SYNC + "support_timestamp": "true"}, (), TYPES, upsert_types),
    "mor_types": Case(MOR, {}, (), TYPES, upsert_types),
    "cow_plain": Case({}, {}, (more_trips, clean)),
    "cow_one": Case(CITY, {}, (more_trips, one_more_city)),
    "cow_three": Case(THREE, {}, (more_trips,)),
    "cow_hive_one": Case(CITY | HIVE_STYLE, {}, (more_trips,)),
    "cow_hive_three": Case(THREE | HIVE_STYLE, {}, (more_trips,)),
    "cow_zone": Case({"partition_by": ["zone"]}),
    "cow_date": Case({"partition_by": ["day"]}),
    "cow_days": Case(DAYS, DAY_EXTRACTOR, (more_trips,)),
    "cow_days_hive": Case(DAYS | HIVE_STYLE, DAY_EXTRACTOR),
    "cow_days_default": Case(DAYS, {}),
    "cow_encoded": Case(CITY | ENCODED, first=encoded_cities),
    "cow_encoded_decoded": Case(
        CITY | ENCODED, {META + "decode_partition": "true"}, first=encoded_cities
    ),
    "cow_no_city": Case(CITY, {}, (no_city,)),
    "cow_no_city_hive": Case(CITY | HIVE_STYLE, {}, (no_city,)),
    "cow_evolved": Case(CITY, {}, (add_columns,)),
    "cow_plain_evolved": Case({}, {}, (add_columns,)),
    "mor_evolved": Case(CITY | MOR, {}, (add_columns,)),
    "cow_dropped": Case(CITY, {}, (drop_one_city, one_more_city)),
    "mor_dropped": Case(CITY | MOR, {}, (drop_one_city, one_more_city)),
    "mor_plain": Case(MOR, {}, (more_trips,)),
    "mor_one": Case(CITY | MOR, {}, (more_trips, one_more_city)),
    "mor_skip_suffix": Case(CITY | MOR, {SYNC + "skip_ro_suffix": "true"}),
    "mor_only_ro": Case(CITY | MOR, {SYNC + "table.strategy": "RO"}),
    "mor_only_rt": Case(CITY | MOR, {SYNC + "table.strategy": "RT"}),
    "mor_no_snapshot": Case(CITY | MOR, {META + "sync_snapshot_with_table_name": "false"}),
    "cow_managed": Case(CITY, {SYNC + "create_managed_table": "true"}),
    "cow_no_meta": Case(CITY, {SYNC + "omit_metadata_fields": "true"}, (add_columns,)),
    "cow_no_spark": Case(CITY, {SYNC + "sync_as_datasource": "false"}),
    "cow_long_schema": Case(CITY, {SYNC + "schema_string_length_thresh": "200"}),
    "cow_comments": Case(CITY, {SYNC + "sync_comment": "true"}),
    "cow_properties": Case(
        CITY,
        {
            SYNC + "table_properties": "owner.team=taxi\nretention=30 days",
            SYNC + "serde_properties": "compressed=no\nowner=taxi",
        },
    ),
    "cow_v9": Case(CITY | {"version": 9}, {}, (more_trips, add_columns)),
    "mor_v9": Case(CITY | MOR | {"version": 9}, {}, (more_trips, drop_one_city)),
    "mor_v8": Case(CITY | MOR | {"version": 8}, {}, (more_trips,)),
}  # fmt: skip
