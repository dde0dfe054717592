"""hoodie.properties: its text, its meaning, and its update under a crash."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyhudi.errors import CorruptFileError, TableNotFoundError, UnsupportedTableError
from pyhudi.filenames import PROPERTIES, PROPERTIES_BACKUP, PROPERTIES_COPY
from pyhudi.layouts.v6 import V6
from pyhudi.layouts.v9 import V9
from pyhudi.merge.merge_choice import mode_properties
from pyhudi.storage.filesystem import FileSystem
from pyhudi.storage.local import LocalFileSystem
from pyhudi.storage.memory import MemoryFileSystem
from pyhudi.table.new_table import new_table_properties
from pyhudi.table.properties import (
    KeyGeneratorKind,
    MergeMode,
    TableConfig,
    TableType,
    checksum,
    format_properties,
    is_valid,
    load_config,
    parse_properties,
    store_config,
)
from tests.support.filesystems import TracingFileSystem, every_stop

GOLDEN = sorted((Path(__file__).parents[1] / "golden" / "properties").glob("*.properties"))


@pytest.mark.parametrize(
    ("database", "table", "expected"),
    [
        ("default", "v6_nonpartitioned", 1363530505),
        ("", "v6_nonpartitioned", 1751145590),
        ("default", "trips", 2200697520),
    ],
)
def test_checksum_vectors(database: str, table: str, expected: int) -> None:
    assert checksum(database, table) == expected


@pytest.mark.parametrize("path", GOLDEN, ids=lambda p: p.stem)
def test_a_real_file_parses_and_survives_being_written(path: Path) -> None:
    data = path.read_bytes()
    properties = parse_properties(data)
    assert is_valid(properties) and properties["hoodie.table.checksum"]
    lines = [line for line in data.decode().splitlines() if line and not line.startswith("#")]
    assert len(properties) == len(lines)
    again = format_properties(properties)
    assert parse_properties(again) == properties
    ours = {line for line in again.decode().splitlines() if not line.startswith("#")}
    assert ours == set(lines)  # byte for byte, but for the order


def golden(name: str) -> TableConfig:
    (path,) = [p for p in GOLDEN if p.stem == name]
    return TableConfig(parse_properties(path.read_bytes()))


def test_what_real_files_mean() -> None:
    cow = golden("cow_rolled_back")
    assert (cow.name, cow.version, cow.layout) == ("cow_rolled_back", 6, V6)
    assert cow.table_type is TableType.COPY_ON_WRITE and not cow.is_merge_on_read
    assert cow.record_key_fields == ("id",) and cow.partition_fields == ("part",)
    assert cow.ordering_fields == ("ts",) and cow.timezone == "LOCAL"
    assert cow.key_generator is KeyGeneratorKind.SIMPLE and not cow.hive_style
    assert cow.metadata_partitions == {"files", "record_index"}
    assert cow.archive_folder == ".hoodie/archived" and cow.bootstrap_base_path is None
    newer = golden("mor_event_time_h120")
    assert newer.is_merge_on_read and newer.version == 6 and newer.ordering_fields == ("ts",)
    assert newer.archive_folder == ".hoodie/history"
    assert newer.merge_mode is MergeMode.EVENT_TIME
    assert golden("kg_custom").key_generator is KeyGeneratorKind.CUSTOM
    assert golden("kg_timestamp").key_generator is KeyGeneratorKind.TIMESTAMP
    assert golden("kg_complex").key_generator is KeyGeneratorKind.COMPLEX
    virtual = golden("mor_utc_virtualkeys")
    assert virtual.timezone == "UTC" and not virtual.has_meta_columns
    meta = golden("mor_rolled_back_metadata")
    assert meta.base_file_format == "HFILE" and meta.payload_class == "HoodieMetadataPayload"
    assert golden("cow_v9_txns_nonpart_meta").layout == V9


JAVA_TEXT = {
    b"a=b": {"a": "b"},
    b"a:b\n c = d \\\n   e": {"a": "b", "c": "d e"},
    b"# x=1\n! y=2\n\n  \t\nz": {"z": ""},
    b"k k2": {"k": "k2"},
    b"a\\ b\\:\\=c=v\\:w\\=x": {"a b:=c": "v:w=x"},
    b"u=\\u00e9\\u65e5 \\t\\n\\\\": {"u": "é日 \t\n\\"},
    b"s=\\uD83D\\uDE00": {"s": "😀"},
    b"e=": {"e": ""},
    b"a=1\na=2": {"a": "2"},
    b"a=1\r\nb=2\rc=3": {"a": "1", "b": "2", "c": "3"},
    b"l=\xe9": {"l": "é"},
    b"t=x\\\n": {"t": "x"},
    b"c=1\\\\\nd=2": {"c": "1\\", "d": "2"},
    b"v=a\x0bb\x1cc\x85d": {"v": "a\x0bb\x1cc\x85d"},
}


@pytest.mark.parametrize("text", JAVA_TEXT, ids=repr)
def test_the_text_is_read_as_java_reads_it(text: bytes) -> None:
    assert parse_properties(text) == JAVA_TEXT[text]


_TEXT = st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=12)


@given(st.dictionaries(_TEXT.filter(bool), _TEXT, max_size=6))
def test_parse_is_the_inverse_of_format(properties: dict[str, str]) -> None:
    data = format_properties(properties)
    assert parse_properties(data) == properties
    assert data.isascii() and data.count(b"\n") == 2 + len(properties)


@given(st.binary(max_size=120))
def test_any_bytes_parse_to_something(data: bytes) -> None:
    for key, value in parse_properties(data).items():
        assert isinstance(key, str) and isinstance(value, str)
        (key + value).encode()


def test_the_first_lines_are_comments_as_java_writes_them() -> None:
    first, second, third = format_properties({"a": "b"}).decode().splitlines()
    assert first.startswith("#Updated at 20") and third == "a=b"
    assert re.fullmatch(r"#\w{3} \w{3} \d\d \d\d:\d\d:\d\d UTC \d{4}", second)


def made(**changes: str | None) -> TableConfig:
    config = new_table_properties(
        name="trips",
        table_type=TableType.MERGE_ON_READ,
        record_key=("id",),
        partition_by=("city",),
        ordering=("ts",),
        create_schema='{"type":"record"}',
        merge_properties=mode_properties(MergeMode.EVENT_TIME, 6),
        version=6,
    )
    return config.changed(**changes)


def test_a_new_table_has_every_key_readers_need() -> None:
    properties = made().properties
    expected = {
        "hoodie.table.name": "trips",
        "hoodie.table.type": "MERGE_ON_READ",
        "hoodie.table.version": "6",
        "hoodie.timeline.layout.version": "1",
        "hoodie.table.timeline.timezone": "UTC",
        "hoodie.table.base.file.format": "PARQUET",
        "hoodie.table.recordkey.fields": "id",
        "hoodie.table.partition.fields": "city",
        "hoodie.table.precombine.field": "ts",
        "hoodie.table.keygenerator.class": "org.apache.hudi.keygen.SimpleKeyGenerator",
        "hoodie.populate.meta.fields": "true",
        "hoodie.archivelog.folder": "archived",
        "hoodie.table.checksum": str(checksum("", "trips")),
    }
    assert expected.items() <= properties.items()
    config = TableConfig(properties)
    assert config.merge_mode is MergeMode.EVENT_TIME
    assert config.key_generator is KeyGeneratorKind.SIMPLE


def test_merge_modes_follow_the_payload_as_1_2_0_does() -> None:
    payload = {"hoodie.compaction.payload.class": "org.apache.hudi.common.model.X"}

    def mode(**properties: str) -> MergeMode:
        return TableConfig(
            {key.replace("__", "."): value for key, value in properties.items()}
        ).merge_mode

    def with_payload(name: str) -> MergeMode:
        return TableConfig({key: v.replace("X", name) for key, v in payload.items()}).merge_mode

    assert with_payload("OverwriteWithLatestAvroPayload") is MergeMode.COMMIT_TIME
    assert with_payload("DefaultHoodieRecordPayload") is MergeMode.EVENT_TIME
    assert with_payload("PartialUpdateAvroPayload") is MergeMode.CUSTOM
    assert mode() is MergeMode.COMMIT_TIME
    assert mode(hoodie__table__precombine__field="ts") is MergeMode.EVENT_TIME
    assert mode(hoodie__record__merge__mode="CUSTOM") is MergeMode.CUSTOM


def test_a_version_that_is_no_number_is_damage() -> None:
    with pytest.raises(CorruptFileError):
        _ = TableConfig({"hoodie.table.version": "six"}).version


@pytest.mark.parametrize("key", ["hoodie.table.type", "hoodie.record.merge.mode"])
def test_a_kind_of_table_we_do_not_know_is_refused_by_name(key: str) -> None:
    config = TableConfig({key: "SOMETHING_NEW"})
    with pytest.raises(UnsupportedTableError, match="SOMETHING_NEW"):
        _ = config.table_type, config.merge_mode


def stored(config: TableConfig) -> MemoryFileSystem:
    fs = MemoryFileSystem()
    fs.create(PROPERTIES, format_properties(config.properties))
    return fs


def test_a_missing_table_is_reported() -> None:
    with pytest.raises(TableNotFoundError):
        load_config(MemoryFileSystem())


@pytest.mark.parametrize("damage", [b"", b"hoodie.table.name=trips\nhoodie.table.checksum=1\n"])
def test_a_damaged_file_falls_back_to_its_backup_or_is_refused(damage: bytes) -> None:
    fs = stored(made())
    good = fs.read(PROPERTIES)
    fs.replace(PROPERTIES, damage)
    with pytest.raises(CorruptFileError):
        load_config(fs)
    fs.create(PROPERTIES_BACKUP, good)
    assert load_config(fs) == made()


def test_a_missing_checksum_is_no_damage() -> None:
    fs = stored(made(hoodie__table__checksum=None))
    assert load_config(fs).name == "trips"


def test_an_update_keeps_what_it_does_not_know() -> None:
    fs = stored(made(some__other__key="kept"))
    store_config(fs, load_config(fs).changed(hoodie__table__metadata__partitions="files"))
    config = load_config(fs)
    assert config.properties["some.other.key"] == "kept"
    assert config.metadata_partitions == {"files"}
    assert not fs.exists(PROPERTIES_BACKUP)


def test_the_checksum_follows_the_names() -> None:
    fs = stored(made())
    renamed = store_config(fs, load_config(fs).changed(hoodie__database__name="default"))
    assert renamed.properties["hoodie.table.checksum"] == "2200697520"
    assert load_config(fs) == renamed


def update(fs: FileSystem) -> None:
    store_config(fs, load_config(fs).changed(hoodie__table__metadata__partitions="files"))


def java_loads(fs: FileSystem) -> Mapping[str, str]:
    """As Apache Hudi 0.15 does: the file, or its backup where the file is missing or invalid."""
    for path in (PROPERTIES, PROPERTIES_BACKUP):
        if fs.exists(path) and is_valid(parse_properties(fs.read(path))):
            return parse_properties(fs.read(path))
    raise AssertionError("no valid properties")


@pytest.mark.parametrize("leftover", [None, "old", "damaged"])
def test_an_update_that_dies_anywhere_leaves_the_old_properties_or_the_new(
    leftover: str | None,
) -> None:
    fs = stored(made())
    if leftover:
        fs.create(PROPERTIES_BACKUP, fs.read(PROPERTIES) if leftover == "old" else b"#")
    for stop in every_stop(fs, update, after=True):
        partitions = load_config(stop.fs).metadata_partitions
        assert partitions in (frozenset(), {"files"}), stop
        assert TableConfig(dict(java_loads(stop.fs))).metadata_partitions == partitions, stop
        update(stop.fs)
        assert load_config(stop.fs).metadata_partitions == {"files"}, stop
        assert not stop.fs.exists(PROPERTIES_BACKUP), stop


def test_an_update_recovers_a_table_that_java_left_without_its_file() -> None:
    """Java deletes hoodie.properties before it writes the new one."""
    fs = stored(made())
    fs.create(PROPERTIES_BACKUP, fs.read(PROPERTIES))
    fs.delete([PROPERTIES])
    for stop in every_stop(fs, update):
        assert load_config(stop.fs).name == "trips", stop
        assert java_loads(stop.fs)["hoodie.table.name"] == "trips", stop


def test_the_order_of_an_update_is_pinned() -> None:
    fs = TracingFileSystem(stored(made()))
    update(fs)
    assert fs.trace == [
        f"replace {PROPERTIES_BACKUP}",
        f"replace {PROPERTIES}",
        f"replace {PROPERTIES_COPY}",
        f"delete {PROPERTIES_BACKUP}",
    ]


def test_javas_checksum_sidecar_goes_with_the_replaced_file(tmp_path: Path) -> None:
    fs = LocalFileSystem(tmp_path)
    fs.create(PROPERTIES, format_properties(made().properties))
    sidecar = tmp_path / ".hoodie" / ".hoodie.properties.crc"
    sidecar.write_bytes(b"crc")
    update(fs)
    assert not sidecar.exists()
