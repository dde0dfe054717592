"""Properties of new tables of each version, and their merge rules."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pyhudi.errors import OptionError, SchemaError
from pyhudi.keygen.key_generator_config import key_rule
from pyhudi.layouts.known import LAYOUTS
from pyhudi.merge.merge_rules import merge_rules
from pyhudi.merge.payload_classes import DeleteMark, Keeps
from pyhudi.options import DEFAULT_TABLE_VERSION, IndexKind, parse_options
from pyhudi.table.new_table import CREATABLE_VERSIONS
from pyhudi.table.properties import KeyGeneratorKind, MergeMode, TableConfig, TableType, is_valid
from pyhudi.write.table_creation import NewTable, config_of
from tests.table.new_table_cases import (
    CASES,
    DELETED,
    GOLDEN,
    MODE,
    PAYLOAD,
    SCHEMA,
    STRATEGY,
    VERSIONS,
    created,
    rendered,
    stored,
)

JAVA = stored("apache_hudi_1.2.0.txt")
EXTRA = {
    "hoodie.table.create.schema",  # Apache Hudi: only from Spark SQL
    "hoodie.table.precombine.field",  # at version 8 for releases 1.0
    "hoodie.index.type",  # so that a table keeps its index
    "hoodie.keygen.timebased.timestamp.type",  # Apache Hudi: of the timestamp generator only
    "hoodie.keygen.timebased.output.dateformat",
}
LACKING = {"hoodie.table.partition_extractor_class"}  # of a catalog
OTHER = {"hoodie.table.timeline.timezone"}  # UTC here, the machine's there


def test_the_properties_of_every_case_are_pinned() -> None:
    assert "\n".join(rendered()) + "\n" == (GOLDEN / "pyhudi.txt").read_text()


@pytest.mark.parametrize(("name", "version"), JAVA, ids=lambda value: str(value))
def test_a_new_table_has_the_properties_that_apache_hudi_gives_it(name: str, version: int) -> None:
    theirs, ours = JAVA[name, version], created(name, version).properties
    ordering = "hoodie.table.ordering.fields"
    if name in ("payload_mysql", "mor_mysql") and version == 8:  # asked for, not of the payload
        assert theirs[ordering] == "_event_bin_file,_event_pos"
        theirs = {**theirs, ordering: "_event_seq"}
    assert theirs.keys() - ours.keys() <= LACKING
    assert ours.keys() - theirs.keys() <= EXTRA
    common = (theirs.keys() & ours.keys()) - OTHER
    assert {key: ours[key] for key in common} == {key: theirs[key] for key in common}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", CASES)
def test_the_properties_are_valid_and_state_their_version(name: str, version: int) -> None:
    config = created(name, version)
    assert is_valid(config.properties)
    assert (config.version, config.layout) == (version, LAYOUTS[version])
    assert ("hoodie.table.initial.version" in config.properties) is (version > 6)


def test_the_default_version_can_be_created() -> None:
    assert DEFAULT_TABLE_VERSION in CREATABLE_VERSIONS == VERSIONS


@pytest.mark.parametrize("version", VERSIONS)
def test_ordering_fields_are_found_under_either_name(version: int) -> None:
    config = created("several", version)
    assert config.ordering_fields == ("ts", "seq")
    names = {
        key for key in config.properties if key.endswith((".precombine.field", ".ordering.fields"))
    }
    assert len(names) == {6: 1, 8: 2, 9: 1}[version]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_custom_key_generator_finds_the_types_of_its_partition_fields(version: int) -> None:
    config = created("kg_custom", version)
    assert config.key_generator is KeyGeneratorKind.CUSTOM
    assert config.partition_fields == ("part", "day")
    rule = key_rule(config, parse_options({}))
    assert [time is not None for time in rule.times] == [False, True]


EXPECTED: dict[str, dict[str, Any]] = {
    "payload_partial": {"ordering": ("ts",), "keeps": Keeps.NULLS},
    "payload_nondefaults": {"ordering": (), "keeps": Keeps.NULLS},
    "payload_awsdms": {"ordering": (), "marks": (DeleteMark("Op", "D"),)},
    "payload_mysql": {
        "ordering": ("_event_bin_file", "_event_pos"), "sequence": False,
        "marks": (DeleteMark("_change_operation_type", "d"),),
    },
    "payload_postgres": {
        "ordering": ("_event_lsn",), "keeps": Keeps.UNAVAILABLE,
        "unavailable": "__debezium_unavailable_value",
        "marks": (DeleteMark("_change_operation_type", "d"),),
    },
    "payload_overwrite": {"ordering": (), "keeps": Keeps.NOTHING},
    "payload_first": {"ordering": ("ts",), "first_of_equals": True},
    "several": {"ordering": ("ts", "seq"), "keeps": Keeps.NOTHING},
}  # fmt: skip


@pytest.mark.parametrize("name", EXPECTED)
def test_version_9_merges_by_mode_and_properties(name: str) -> None:
    rules = merge_rules(created(name, 9))
    assert rules.refused is None
    assert {key: getattr(rules, key) for key in EXPECTED[name]} == EXPECTED[name]


@pytest.mark.parametrize("name", CASES)
def test_version_8_merges_by_the_payload_class_as_version_6_does(name: str) -> None:
    assert merge_rules(created(name, 8)) == merge_rules(created(name, 6))


def made(version: int, given: dict[str, str], ordering: tuple[str, ...]) -> TableConfig:
    options = parse_options(given)
    options = replace(options, table=replace(options.table, version=version))
    kind, index = TableType.COPY_ON_WRITE, IndexKind.BLOOM
    return config_of(NewTable(SCHEMA, "t", kind, ("id",), (), ordering, options, index))


COMMIT, EVENT = "COMMIT_TIME_ORDERING", "EVENT_TIME_ORDERING"
BY_COMMIT = "ce9acb64-bde0-424c-9b91-f6ebba25356d"
BY_EVENT = "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5"
CONTRADICTIONS = [
    ((8, 9), {MODE: COMMIT, PAYLOAD: "DefaultHoodieRecordPayload"}, ("ts",)),
    ((8, 9), {MODE: EVENT, PAYLOAD: "OverwriteWithLatestAvroPayload"}, ("ts",)),
    ((8, 9), {MODE: COMMIT, STRATEGY: BY_EVENT}, ("ts",)),
    ((8, 9), {MODE: EVENT, STRATEGY: BY_COMMIT}, ("ts",)),
    ((8, 9), {MODE: "CUSTOM", STRATEGY: BY_EVENT}, ("ts",)),
    ((8,), {MODE: EVENT, PAYLOAD: "PartialUpdateAvroPayload"}, ("ts",)),
    ((9,), {MODE: COMMIT, PAYLOAD: "PartialUpdateAvroPayload"}, ("ts",)),
    ((9,), {MODE: "CUSTOM", PAYLOAD: "PartialUpdateAvroPayload"}, ("ts",)),
    ((9,), {STRATEGY: BY_EVENT, PAYLOAD: "AWSDmsAvroPayload"}, ("ts",)),
    ((9,), {PAYLOAD: "PostgresDebeziumAvroPayload"}, ("ts",)),
    ((9,), {PAYLOAD: "MySqlDebeziumAvroPayload"}, ("_event_seq",)),
    ((9,), {PAYLOAD: "AWSDmsAvroPayload", **DELETED, "hoodie.payload.delete.marker": "X"}, ("ts",)),
    ((6, 8, 9), {MODE: EVENT}, ()),
    ((6, 8, 9), {MODE: "CUSTOM"}, ("ts",)),
    ((6, 8, 9), {STRATEGY: "11111111-2222-3333-4444-555555555555"}, ("ts",)),
    ((6, 8, 9), {PAYLOAD: "com.example.OwnPayload"}, ("ts",)),
]


@pytest.mark.parametrize(
    ("version", "given", "ordering"),
    [
        (version, given, ordering)
        for versions, given, ordering in CONTRADICTIONS
        for version in versions
    ],
)
def test_contradictions_are_refused_before_anything_is_written(
    version: int, given: dict[str, str], ordering: tuple[str, ...]
) -> None:
    with pytest.raises(OptionError):
        made(version, given, ordering)


def test_version_9_needs_the_ordering_columns_of_the_payload_class_in_the_schema() -> None:
    options = parse_options({PAYLOAD: "MySqlDebeziumAvroPayload"})
    options = replace(options, table=replace(options.table, version=9))
    schema = SCHEMA.remove(SCHEMA.get_field_index("_event_pos"))
    table = NewTable(schema, "t", TableType.COPY_ON_WRITE, ("id",), (), (), options)
    with pytest.raises(SchemaError, match="_event_pos"):
        config_of(table)


def test_the_stated_mode_and_strategy_may_agree_with_the_payload_class() -> None:
    for version in (8, 9):
        config = made(
            version,
            {PAYLOAD: "DefaultHoodieRecordPayload", MODE: EVENT, STRATEGY: BY_EVENT},
            ("ts",),
        )
        assert config.merge_mode is MergeMode.EVENT_TIME
    config = made(9, {PAYLOAD: "PartialUpdateAvroPayload", MODE: EVENT}, ("ts",))
    assert config.merge_mode is MergeMode.EVENT_TIME
