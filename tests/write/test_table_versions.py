"""Tables of each version: created, written by every merge mode, opened with a version option."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pyhudi
from pyhudi.errors import OptionError, PyhudiError, UserError
from pyhudi.filenames import PROPERTIES
from pyhudi.table.new_table import CREATABLE_VERSIONS
from pyhudi.write import table_creation
from tests.merge.test_partial_modes import MARKED, MODES, SCHEMA, rows_of, text_of
from tests.merge.test_partial_modes import PAIRS as ALL_PAIRS

OPTION = "hoodie.write.table.version"
NAMES = {6: "SIX", 8: "EIGHT", 9: "NINE"}
SMALL = {
    "hoodie.metadata.record.index.min.filegroup.count": "1",
    "hoodie.table.services.enabled": "false",
}


def made(path: Path, *, kind: str = "cow", **more: Any) -> pyhudi.Table:
    options = {**SMALL, **more.pop("options", {})}
    return pyhudi.create_table(
        path, SCHEMA, record_key="id", ordering="_event_lsn", table_type=kind, options=options,
        **more,
    )  # fmt: skip


def batch(records: list[str]) -> pa.Table:
    """One row a record, of the keys k0, k1, ..."""
    rows = [rows_of(record).drop_columns(["_hoodie_record_key"]) for record in records]
    table = pa.concat_tables(rows)
    return table.set_column(0, "id", pa.array([f"k{n}" for n in range(len(records))]))


def texts(table: pyhudi.Table, count: int) -> list[str]:
    rows = table.scan().to_arrow()
    keys = rows.column("_hoodie_record_key").to_pylist()
    found = {key: text_of(rows.slice(at, 1)) for at, key in enumerate(keys)}
    assert len(found) == rows.num_rows
    return [found.get(f"k{n}", ".") for n in range(count)]


@pytest.mark.parametrize("version", CREATABLE_VERSIONS)
def test_the_version_is_an_argument_or_an_option(version: int, tmp_path: Path) -> None:
    assert made(tmp_path / "a", version=version).config.version == version
    for text in (str(version), NAMES[version]):
        table = made(tmp_path / text, options={OPTION: text})
        assert table.config.version == version
        assert table.config.layout.version == version
    assert made(tmp_path / "d").config.version == table_creation.DEFAULT_TABLE_VERSION


@pytest.mark.parametrize("version", [0, 5, 7, 10, True, "9"])
def test_other_versions_cannot_be_created(version: Any, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="version"):
        made(tmp_path / "t", version=version)
    assert not (tmp_path / "t" / PROPERTIES).exists()


def test_an_argument_and_an_option_that_differ_are_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="version"):
        made(tmp_path / "t", version=9, options={OPTION: "8"})
    with pytest.raises(OptionError, match=r"layout\.version"):
        made(tmp_path / "t", version=9, options={"hoodie.timeline.layout.version": "1"})
    assert not (tmp_path / "t" / PROPERTIES).exists()


@pytest.mark.parametrize("version", CREATABLE_VERSIONS)
def test_an_option_with_another_version_never_changes_a_table(version: int, tmp_path: Path) -> None:
    path = tmp_path / "t"
    made(path, version=version)
    before = (path / PROPERTIES).read_bytes()
    for other in CREATABLE_VERSIONS:
        if other > version:
            with pytest.raises(OptionError, match="upgrade"):
                pyhudi.open_table(path, options={OPTION: str(other)})
            continue
        table = pyhudi.open_table(path, options={**SMALL, OPTION: str(other)})
        table.upsert(batch(["1 a 1"]))
        assert table.config.version == version
        ignored = [note for note in table._options.ignored if OPTION in note]
        assert bool(ignored) is (other < version)
    assert (path / PROPERTIES).read_bytes() == before


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", ["cow", "mor"])
@pytest.mark.parametrize("log", ["parquet", "avro"])
def test_writes_at_version_9_merge_as_apache_hudi_rewrites(
    mode: str, kind: str, log: str, tmp_path: Path
) -> None:
    """Merge-on-read tables too: docs/compatibility.md says where Apache Hudi's logs differ."""
    pairs = [pair for pair in MARKED if pair.mode == mode]
    options = {**MODES[mode], "hoodie.logfile.data.block.format": log}
    table = made(tmp_path / "t", kind=kind, version=9, options=options)
    count = len(pairs)
    table.upsert(batch(["1 base 0"] * count))
    table.upsert(batch([pair.older for pair in pairs]))
    table.upsert(batch([pair.newer for pair in pairs]))
    expected = [pair.cow_on_base for pair in pairs]
    assert texts(table, count) == expected
    if kind == "mor":
        table.compact()
        assert texts(table, count) == expected


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_a_row_after_a_delete_by_key_is_a_new_record(mode: str, kind: str, tmp_path: Path) -> None:
    pairs = [pair for pair in ALL_PAIRS if pair.mode == mode and pair.older == "key"]
    table = made(tmp_path / "t", kind=kind, version=9, options=MODES[mode])
    table.upsert(batch(["7 base 0"] * len(pairs)))
    table.delete(keys=[f"k{n}" for n in range(len(pairs))])
    table.upsert(batch([pair.newer for pair in pairs]))
    assert texts(table, len(pairs)) == [pair.cow_on_base for pair in pairs]


@pytest.mark.parametrize("version", CREATABLE_VERSIONS)
@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_several_ordering_columns_are_compared_as_a_list(
    version: int, kind: str, tmp_path: Path
) -> None:
    schema = pa.schema(
        [("id", pa.string()), ("a", pa.string()), ("b", pa.int64()), ("v", pa.int64())]
    )
    table = pyhudi.create_table(
        tmp_path / "t", schema, record_key="id", ordering=("a", "b"), table_type=kind,
        version=version, options=SMALL,
    )  # fmt: skip
    for a, b, v in (("f2", 1, 1), ("f1", 9, 2), ("f2", 0, 3), ("f2", 1, 4), ("f2", 10, 5)):
        table.upsert(pa.Table.from_pylist([{"id": "k", "a": a, "b": b, "v": v}], schema))
    assert table.scan(["a", "b", "v"]).to_arrow().to_pylist() == [{"a": "f2", "b": 10, "v": 5}]


def test_a_table_that_exists_is_not_replaced_by_another_version(tmp_path: Path) -> None:
    made(tmp_path / "t", version=8)
    with pytest.raises(PyhudiError):
        made(tmp_path / "t", version=9)
    assert pyhudi.open_table(tmp_path / "t").config.version == 8
