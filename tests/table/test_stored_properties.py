"""Support for every property that hoodie.properties may contain."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from pyhudi.api.table import Table
from pyhudi.engine import LocalEngine
from pyhudi.errors import PyhudiError, UnsupportedTableError
from pyhudi.filenames import PROPERTIES
from pyhudi.keygen.key_generator_config import key_rule
from pyhudi.operations.create import create
from pyhudi.options import Options, parse_options
from pyhudi.storage.filesystem import FileSystem
from pyhudi.storage.memory import MemoryFileSystem
from pyhudi.table.properties import TableType, load_config, store_config
from pyhudi.table.stored_properties import STORED, Support, check_writable_properties
from pyhudi.write.table_creation import NewTable
from tests.support.golden import golden_names, golden_table, version_table, version_table_names
from tests.table.test_property_checks import foreign

NAMES = Path(__file__).parents[1] / "golden" / "options" / "table_properties_1.2.0.tsv"
ROWS = pa.table({"id": ["k1", "k2"], "ts": [1, 1], "v": [1, 2]})
OTHER = {"false": "true", "true": "false"}


def names_of_apache_hudi() -> list[str]:
    found = []
    for line in NAMES.read_text().splitlines():
        name, _, alternatives = line.partition("\t")
        found += [name, *filter(None, alternatives.split(","))]
    return sorted(set(found))


def with_property(name: str, value: str) -> FileSystem:
    fs = MemoryFileSystem()
    options = parse_options({"hoodie.write.table.version": "9"})
    create(fs, NewTable(ROWS.schema, "t", TableType.COPY_ON_WRITE, ("id",), (), ("ts",), options))
    opened(fs).upsert(ROWS)
    store_config(fs, load_config(fs).with_properties({name: value}))
    return fs


def opened(fs: FileSystem) -> Table:
    return Table(fs, options=Options(), engine=LocalEngine(1))


def test_the_fate_of_every_property_of_apache_hudi_is_known() -> None:
    assert [name for name in names_of_apache_hudi() if name not in STORED] == []


@pytest.mark.parametrize(
    "name", [name for name, row in STORED.items() if row.support is Support.LIMITED]
)
def test_a_table_with_an_unsupported_value_is_not_written(name: str) -> None:
    value = OTHER.get(STORED[name].allowed[0], "other")
    fs = with_property(name, value)
    before = dict(fs.store.files)
    with pytest.raises(UnsupportedTableError, match=name.replace(".", r"\.") + "|format"):
        opened(fs).upsert(ROWS)
    assert dict(fs.store.files) == before


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("hoodie.table.shuffled.rows", "true"),
        ("hoodie.datasource.write.keygenerator.consistent.logical.timestamp.enabled", "true"),
        ("hoodie.datasource.write.recordkey.field", "v"),
        ("hoodie.datasource.write.payload.class", "org.example.Custom"),
    ],
)
def test_an_unknown_property_prevents_writes_not_reads(name: str, value: str) -> None:
    fs = with_property(name, value)
    table = opened(fs)
    assert table.scan().to_arrow().num_rows == 2
    with pytest.raises(UnsupportedTableError, match=name.replace(".", r"\.")):
        table.upsert(ROWS)
    (finding,) = table.doctor().findings
    assert (finding.code, finding.path) == ("unsupported-property", PROPERTIES)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("hoodie.cleaner.commits.retained", "7"),
        ("hoodie.upsert.shuffle.parallelism", "7"),
        ("hoodie.datasource.write.recordkey.field", "id"),
    ],
)
def test_an_option_of_a_writer_among_the_properties_is_reported(name: str, value: str) -> None:
    table = opened(with_property(name, value))
    table.upsert(ROWS)
    (finding,) = table.doctor().findings
    assert finding.code == "unused-property" and name in finding.what


def test_properties_without_the_prefix_are_of_the_user() -> None:
    table = opened(with_property("owner", "someone"))
    table.upsert(ROWS)
    assert not table.doctor().findings


def test_tables_of_apache_hudi_have_known_properties_only() -> None:
    read_only = set()
    tables = [(name, golden_table(name)) for name in golden_names()]
    tables += [(name, version_table(name)) for name in version_table_names()]
    for name, fs in tables:
        try:
            check_writable_properties(load_config(fs))
        except PyhudiError as refused:
            read_only.add((name, refused.facts["property"]))
    assert {property_ for _, property_ in read_only} <= {
        "hoodie.populate.meta.fields",
        "hoodie.datasource.write.drop.partition.columns",
        "hoodie.partition.metafile.use.base.format",
    }, read_only


def test_settings_of_old_releases_format_the_paths_of_times() -> None:
    fs = foreign("cow_v9_timebasedkeygen_epochmillis")
    config = load_config(fs)
    settings = {n: v for n, v in config.properties.items() if "keygen.timebased" in n}
    renamed = {n.replace("hoodie.", "hoodie.deltastreamer."): v for n, v in settings.items()}
    assert settings
    store_config(fs, config.with_properties({**dict.fromkeys(settings), **renamed}))
    rule = key_rule(load_config(fs), Options())
    assert rule.times == key_rule(config, Options()).times != ()
