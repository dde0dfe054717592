"""Definitions of new tables, and their properties at each table version.

python -m tests.table.new_table_cases > tests/golden/new_tables/pyhudi.txt
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa

from pyhudi.options import IndexKind, parse_options
from pyhudi.table.properties import TableConfig, TableType, format_properties, parse_properties
from pyhudi.write.table_creation import NewTable, config_of

GOLDEN = Path(__file__).parents[1] / "golden" / "new_tables"
VERSIONS = (6, 8, 9)
SCHEMA = pa.schema(
    [
        ("id", pa.string()), ("ts", pa.int64()), ("seq", pa.int64()), ("part", pa.string()),
        ("day", pa.int64()), ("v", pa.int64()), ("Op", pa.string()),
        ("_change_operation_type", pa.string()), ("_event_lsn", pa.int64()),
        ("_event_bin_file", pa.string()), ("_event_pos", pa.int64()), ("_event_seq", pa.string()),
    ]
)  # fmt: skip
PAYLOAD = "hoodie.datasource.write.payload.class"
MODE = "hoodie.record.merge.mode"
STRATEGY = "hoodie.record.merge.strategy.id"
DELETED = {"hoodie.payload.delete.field": "Op", "hoodie.payload.delete.marker": "D"}
TIMES = {
    "hoodie.keygen.timebased.timestamp.type": "EPOCHMILLISECONDS",
    "hoodie.keygen.timebased.output.dateformat": "yyyy/MM/dd",
}
_GENERATOR = "hoodie.datasource.write.keygenerator.type"


@dataclass(frozen=True)
class Case:
    """A definition as the caller states it."""

    options: Mapping[str, str] = field(default_factory=dict)
    ordering: tuple[str, ...] = ("ts",)
    record_key: tuple[str, ...] = ("id",)
    partition_by: tuple[str, ...] = ("part",)
    table_type: TableType = TableType.COPY_ON_WRITE


def _payload(name: str, ordering: tuple[str, ...] = ("ts",)) -> Case:
    return Case({PAYLOAD: name}, ordering)


CASES = {
    "nothing": Case(ordering=()),
    "ordering": Case(),
    "several": Case(ordering=("ts", "seq")),
    "commit_mode_with_ordering": Case({MODE: "COMMIT_TIME_ORDERING"}),
    "event_mode": Case({MODE: "EVENT_TIME_ORDERING"}),
    "strategy_commit": Case({STRATEGY: "ce9acb64-bde0-424c-9b91-f6ebba25356d"}),
    "payload_default": _payload("DefaultHoodieRecordPayload"),
    "payload_eventtime": _payload("EventTimeAvroPayload"),
    "payload_overwrite": _payload("OverwriteWithLatestAvroPayload"),
    "payload_partial": _payload("PartialUpdateAvroPayload"),
    "payload_nondefaults": _payload("OverwriteNonDefaultsWithLatestAvroPayload"),
    "payload_awsdms": _payload("AWSDmsAvroPayload"),
    "payload_postgres": _payload("PostgresDebeziumAvroPayload", ()),
    "payload_mysql": _payload("MySqlDebeziumAvroPayload", ()),
    "payload_first": _payload("FirstValueAvroPayload"),
    "delete_field": Case(DELETED),
    "delete_field_payload": Case({PAYLOAD: "DefaultHoodieRecordPayload", **DELETED}),
    "kg_custom": Case(TIMES, partition_by=("part:SIMPLE", "day:TIMESTAMP")),
    "kg_timestamp": Case({_GENERATOR: "TIMESTAMP", **TIMES}, partition_by=("day",)),
    "kg_complex": Case(record_key=("id", "seq"), partition_by=("part", "day")),
    "kg_none": Case(partition_by=()),
    "mor_ordering": Case(table_type=TableType.MERGE_ON_READ),
    "mor_mysql": Case(
        {PAYLOAD: "MySqlDebeziumAvroPayload"}, (), table_type=TableType.MERGE_ON_READ
    ),
    "cdc": Case({"hoodie.table.cdc.enabled": "true"}),
}
"""By name; those of `apache_hudi_1.2.0.txt` have the names of its tables."""


def created(name: str, version: int) -> TableConfig:
    """The properties of the case in a table version."""
    case = CASES[name]
    options = parse_options(dict(case.options))
    options = replace(options, table=replace(options.table, version=version))
    return config_of(
        NewTable(
            SCHEMA, name, case.table_type, case.record_key, case.partition_by, case.ordering,
            options, IndexKind.BLOOM,
        )
    )  # fmt: skip


def stored(name: str) -> dict[tuple[str, int], dict[str, str]]:
    """The properties in a golden file, by case and version."""
    sections: dict[tuple[str, int], list[str]] = {}
    for line in (GOLDEN / name).read_text().splitlines():
        if line.startswith("["):
            case, version = line.strip("[]").split()
            lines = sections[case, int(version)] = []
        else:
            lines.append(line)
    return {key: parse_properties("\n".join(lines).encode()) for key, lines in sections.items()}


def rendered() -> Iterator[str]:
    for name in CASES:
        for version in VERSIONS:
            yield f"[{name} {version}]"
            text = format_properties(created(name, version).properties).decode()
            yield "\n".join(line for line in text.splitlines() if not line.startswith("#"))


if __name__ == "__main__":
    print("\n".join(rendered()))
