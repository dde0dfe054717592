"""Key generators: keys and paths of the golden tables made again, then written to.

Goal: what Apache Hudi made out of rows is what this package makes out of them, so that both find
the same records.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from pyhudi.api.table import Table, create_table, open_table
from pyhudi.engine import LocalEngine
from pyhudi.errors import OptionError, UnsupportedTableError, UserError
from pyhudi.keygen.generators import PythonKeys, partition_paths, record_keys
from pyhudi.keygen.key_generator_config import key_rule
from pyhudi.keygen.new_table_keys import TimestampPartition
from pyhudi.keygen.table_key_rule import rule_of
from pyhudi.options import parse_options
from pyhudi.read.table_snapshot import load_state
from pyhudi.records import DEFAULT_PARTITION, META_COLUMNS
from pyhudi.table.properties import KeyGeneratorKind, load_config
from tests.support.golden import golden_table
from tests.support.inside import fs_of

CUSTOM = {
    "hoodie.datasource.write.partitionpath.field": "part:SIMPLE,ev:TIMESTAMP",
    "hoodie.keygen.timebased.timestamp.type": "DATE_STRING",
    "hoodie.keygen.timebased.input.dateformat": "yyyy-MM-dd'T'HH:mm:ssZ",
    "hoodie.keygen.timebased.output.dateformat": "yyyyMMdd",
}
TABLES: Mapping[str, Mapping[str, str]] = {
    "kg_complex": {},
    "kg_complex_onekey": {},
    "kg_complex_onekey_h120": {},
    "kg_custom": CUSTOM,
    "kg_nonpart_mor": {},
    "kg_simple_hive": {},
    "kg_simple_urlencode": {},
    "kg_timestamp": {"hoodie.keygen.timebased.timestamp.type": "EPOCHMILLISECONDS"},
}


def opened(name: str, **more: str) -> Table:
    """A golden table, opened as its writer would, with a record index to come."""
    options = {"hoodie.index.type": "RECORD_INDEX", **TABLES[name], **more}
    return Table(golden_table(name), options=parse_options(options), engine=LocalEngine(2))


@pytest.mark.parametrize("name", TABLES)
def test_keys_and_paths_are_those_apache_hudi_stored(name: str) -> None:
    fs, options = golden_table(name), parse_options(TABLES[name])
    state = load_state(fs, options.read)
    rows = Table(fs, options=options, engine=LocalEngine(1)).scan().to_arrow()
    rule = rule_of(state, options, functions=None)
    assert record_keys(rows, rule).to_pylist() == rows["_hoodie_record_key"].to_pylist()
    assert partition_paths(rows, rule).to_pylist() == rows["_hoodie_partition_path"].to_pylist()


@pytest.mark.parametrize("name", TABLES)
def test_an_upsert_finds_the_records_of_apache_hudi(name: str) -> None:
    table = opened(name)
    before = table.scan().to_arrow()
    rows = before.drop_columns(list(META_COLUMNS))
    qty = pc.add(pc.fill_null(rows["qty"], 0), 1000).cast(pa.int32())
    rows = rows.set_column(rows.schema.get_field_index("qty"), "qty", qty)
    report = table.upsert(rows)
    assert (report.inserted, report.updated) == (0, before.num_rows)
    after = table.scan().to_arrow()
    for column in ("_hoodie_record_key", "_hoodie_partition_path"):
        assert sorted(after[column].to_pylist()) == sorted(before[column].to_pylist())
    assert pc.min(after["qty"]).as_py() > 0


@pytest.mark.parametrize("name", TABLES)
def test_a_delete_by_rows_finds_the_records_of_apache_hudi(name: str) -> None:
    table = Table(
        golden_table(name),
        options=parse_options({"hoodie.index.type": "RECORD_INDEX"}),
        engine=LocalEngine(2),
    )
    rows = table.scan().to_arrow().slice(0, 5)
    report = table.delete(rows.select([n for n in rows.schema.names if n in ("id", "name")]))
    assert (report.deleted, report.missing_keys) == (5, 0)


def test_a_table_that_leaves_out_its_types_is_not_written_without_them() -> None:
    for name, missing in (("kg_timestamp", "timestamp.type"), ("kg_custom", "partitionpath")):
        options = parse_options({"hoodie.index.type": "RECORD_INDEX"})
        table = Table(golden_table(name), options=options, engine=LocalEngine(1))
        rows = table.scan().to_arrow().drop_columns(list(META_COLUMNS))
        instants = len(table.timeline.instants)
        with pytest.raises(OptionError, match=missing):
            table.upsert(rows)
        assert len(table.timeline.instants) == instants


def test_options_that_contradict_the_table_are_refused() -> None:
    wrong = {"hoodie.keygen.timebased.output.dateformat": "yyyy"}
    with pytest.raises(OptionError, match="yyyy/MM/dd"):
        rule_of_golden("kg_timestamp", **wrong)
    with pytest.raises(OptionError, match="encoding of the stored keys"):
        rule_of_golden("kg_complex_onekey", **{"hoodie.write.complex.keygen.new.encoding": "false"})


def rule_of_golden(name: str, **more: str):
    fs, options = golden_table(name), parse_options({**TABLES[name], **more})
    return rule_of(load_state(fs, options.read), options, functions=None)


SCHEMA = pa.schema(
    [("id", pa.string()), ("city", pa.string()), ("at", pa.int64()), ("day", pa.string())]
)
ROWS = pa.table(
    {
        "id": ["a", "b", "c"],
        "city": ["x", None, "y z"],
        "at": [1_700_000_000_000, None, 0],
        "day": ["2023-11-14", "2024-02-29", None],
    },
    SCHEMA,
)


TYPED = "city:SIMPLE,day:TIMESTAMP"


def written(path, partition_by, **options: str) -> list[str]:
    """Paths of the rows above in a new table, written twice through doors opened anew."""
    table = create_table(
        path, SCHEMA, record_key="id", partition_by=partition_by, options=options
    )  # fmt: skip
    table.upsert(ROWS)
    again = open_table(path)
    assert again.upsert(ROWS).updated == 3
    rows = again.scan().to_arrow().sort_by("id")
    assert rows.drop_columns(list(META_COLUMNS)).equals(ROWS)
    return rows["_hoodie_partition_path"].to_pylist()


def test_a_partition_of_times_is_recorded_in_the_table(tmp_path) -> None:
    assert written(tmp_path, TimestampPartition("at")) == [
        "2023/11/14", "1970/01/01", "1970/01/01",
    ]  # fmt: skip
    assert load_config(fs_of(open_table(tmp_path))).key_generator is KeyGeneratorKind.TIMESTAMP


@pytest.mark.parametrize(("version", "fields"), [(6, "city,day"), (8, TYPED), (9, TYPED)])
def test_levels_of_times_and_values_are_recorded_in_the_table(
    tmp_path, version: int, fields: str
) -> None:
    day = TimestampPartition("day", "DATE_STRING", "yyyyMM", "yyyy-MM-dd")
    found = written(
        tmp_path, ["city", day],
        **{"hoodie.datasource.write.hive_style_partitioning": "true",
           "hoodie.write.table.version": str(version)},
    )  # fmt: skip
    assert found == [
        "city=x/day=202311", f"city={DEFAULT_PARTITION}/day=202402", "city=y z/day=197001",
    ]  # fmt: skip
    config = load_config(fs_of(open_table(tmp_path)))
    assert config.key_generator is KeyGeneratorKind.CUSTOM
    assert config.properties["hoodie.table.partition.fields"] == fields


def test_the_same_by_options_alone(tmp_path) -> None:
    options = {
        "hoodie.keygen.timebased.timestamp.type": "DATE_STRING",
        "hoodie.keygen.timebased.input.dateformat": "yyyy-MM-dd",
        "hoodie.keygen.timebased.output.dateformat": "yyyy/MM",
        "hoodie.datasource.write.keygenerator.class": "TimestampBasedKeyGenerator",
        "hoodie.datasource.write.partitionpath.urlencode": "true",
    }
    assert written(tmp_path, "day", **options) == ["2023%2F11", "2024%2F02", "1970%2F01"]
    typed = {**options, "hoodie.datasource.write.keygenerator.class": "CustomKeyGenerator"}
    assert written(tmp_path / "b", ["day:timestamp"], **typed)[0] == "2023%2F11"


@pytest.mark.parametrize(("bare", "key"), [("true", "a"), ("false", "id:a"), (None, "id:a")])
def test_complex_keys_of_one_field_follow_the_table(tmp_path, bare, key) -> None:
    options = {"hoodie.datasource.write.keygenerator.type": "COMPLEX"}
    if bare is not None:
        options["hoodie.write.complex.keygen.new.encoding"] = bare
    written(tmp_path, "city", **options)
    keys = open_table(tmp_path).scan().to_arrow()["_hoodie_record_key"].to_pylist()
    assert sorted(keys)[0] == key


@pytest.mark.parametrize(
    ("kind", "partition_by"),
    [
        ("SIMPLE", []),
        ("SIMPLE", ["city", "day"]),
        ("NON_PARTITION", ["city"]),
        ("TIMESTAMP", []),
        ("CUSTOM", ["city"]),
        ("COMPLEX", ["city:SIMPLE"]),
        ("GLOBAL_DELETE", ["city"]),
    ],
)
def test_key_generators_that_do_not_suit_the_columns_are_refused(
    tmp_path, kind, partition_by
) -> None:
    options = {"hoodie.datasource.write.keygenerator.type": kind}
    with pytest.raises(OptionError, match="does not support"):
        create_table(tmp_path, SCHEMA, record_key="id", partition_by=partition_by, options=options)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"record_key": ["id", "id"]}, "record_key names a column several times.*id"),
        ({"ordering": ["day", "day"]}, "ordering names a column several times.*day"),
        ({"merge": "cow"}, "merge must be a function.*cow"),
    ],
)
def test_repeated_columns_and_merges_that_are_no_functions_are_refused(
    tmp_path, wrong, message
) -> None:
    with pytest.raises(UserError, match=message):
        create_table(tmp_path, SCHEMA, **{"record_key": "id", **wrong})
    assert not list(tmp_path.iterdir())


def own_paths(rows: pa.Table) -> pa.ChunkedArray:
    return pc.binary_join_element_wise("c", pc.fill_null(rows["city"], "none"), "/")


def own_keys(rows: pa.Table) -> list[str]:
    return [f"<{key}>" for key in rows["id"].to_pylist()]


def test_functions_make_keys_and_paths_and_are_requested_again(tmp_path) -> None:
    functions = PythonKeys(own_paths, own_keys, ("city",))
    create_table(tmp_path, SCHEMA, record_key="id", partition_by=functions).upsert(ROWS)
    rows = open_table(tmp_path).scan().to_arrow().sort_by("id")
    assert rows["_hoodie_partition_path"].to_pylist() == ["c/x", "c/none", "c/y z"]
    assert rows["_hoodie_record_key"].to_pylist() == ["<a>", "<b>", "<c>"]
    assert rows.drop_columns(list(META_COLUMNS)).equals(ROWS)
    with pytest.raises(UnsupportedTableError, match="PythonKeys"):
        open_table(tmp_path).upsert(ROWS)
    report = open_table(tmp_path, key_generator=functions).upsert(ROWS)
    assert (report.inserted, report.updated) == (0, 3)


@pytest.mark.parametrize("index", ["record", "simple", "bucket"])
@pytest.mark.parametrize(
    "functions",
    [PythonKeys(keys=lambda rows: rows["city"]), PythonKeys(paths=lambda rows: rows["city"])],
)
def test_functions_use_no_columns_that_an_update_may_change(tmp_path, functions, index) -> None:
    unstated = create_table(
        tmp_path / "a", SCHEMA, record_key="id", partition_by=functions, index=index
    )
    rows = ROWS.slice(0, 1)
    with pytest.raises(UserError, match="city"):
        unstated.upsert(rows)
    stated = replace(functions, columns=("city",))
    table = create_table(tmp_path / "b", SCHEMA, record_key="id", partition_by=stated, index=index)
    table.upsert(rows)
    with pytest.raises(UserError, match="cannot change"):
        table.update({"city": "'z'"})
    with pytest.raises(UserError, match="cannot change"):
        table.merge(rows).when_matched_update({"city": "'z'"}).execute()
    table.update({"at": 7})
    assert table.scan(["city", "at"]).to_arrow().to_pylist() == [{"city": "x", "at": 7}]


@pytest.mark.parametrize(
    "paths",
    [lambda rows: ["../x"] * rows.num_rows, lambda rows: [None] * rows.num_rows,
     lambda rows: ["a"], lambda rows: [".hoodie/x"] * rows.num_rows],
)  # fmt: skip
def test_paths_of_functions_stay_within_the_table(tmp_path, paths) -> None:
    table = create_table(
        tmp_path, SCHEMA, record_key="id", partition_by=PythonKeys(paths, columns=("city",))
    )
    with pytest.raises(UserError):
        table.upsert(ROWS)


def test_an_unknown_key_generator_is_not_written() -> None:
    config = load_config(golden_table("kg_simple_hive"))
    own = config.with_properties({"hoodie.table.keygenerator.class": "org.example.MyKeys"})
    assert own.key_generator is KeyGeneratorKind.USER_PROVIDED
    with pytest.raises(UnsupportedTableError, match="MyKeys"):
        key_rule(own, parse_options(None))


def test_values_that_share_a_path_are_one_partition(tmp_path) -> None:
    day = TimestampPartition("day", "DATE_STRING", "yyyy", "yyyy-MM-dd")
    table = create_table(tmp_path, SCHEMA, record_key="id", partition_by=["city", day])
    days = ["2024-01-01", "2024-02-02", "1970-05-05", None]
    rows = pa.table(
        {
            "id": list("abcdefgh"),
            "city": ["", None] * 4,
            "at": [0] * 8,
            "day": sorted(days * 2, key=str),
        },
        SCHEMA,
    )
    rule = table.key_rule()
    paths = partition_paths(rows, rule)
    assert len(set(paths.chunk(0).dictionary.to_pylist())) == len(paths.chunk(0).dictionary) == 2
    table.upsert(rows)
    assert table.partitions() == [f"{DEFAULT_PARTITION}/1970", f"{DEFAULT_PARTITION}/2024"]
    assert table.upsert(rows).updated == 8
    assert {s.base is not None for s in table.file_slices()} == {True}
    assert len(table.file_slices()) == 2
