"""Filters on columns with a secondary index read only the file groups that it leads to."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import pyhudi
from pyhudi.api.table import Table
from pyhudi.errors import UserError
from pyhudi.read.skipping.key_uniqueness import KEYS, UNIQUE
from tests.metadata.secondary_index.foreign import foreign_table
from tests.support.avro_commits import add_extra_metadata
from tests.support.inside import fs_of

COLUMNS = {
    "mor_avro_v8_trips_8i3u1d": ("rider",),
    "cow_v9_txns_nonpart_meta": ("merchant_name", "txn_date"),
    "mor_avro_v9_txns_simple_meta": ("merchant_name",),  # created after the last upsert
}
OFF = {"hoodie.enable.data.skipping": "false"}


def proven(folder: Path, name: str) -> Table:
    """A table of Apache Hudi, whose newest commit is changed so that it proves unique keys."""
    root = Path(fs_of(foreign_table(folder, name)).url.removeprefix("file://"))
    add_extra_metadata(root, KEYS, UNIQUE)
    return pyhudi.open_table(root)


def rows_of(table: Table, where: pc.Expression) -> list[str]:
    return sorted(map(str, table.scan(where=where).to_arrow().to_pylist()))


@pytest.mark.parametrize("name", COLUMNS)
def test_equality_and_in_filters_return_what_a_full_scan_returns(name: str, tmp_path: Path) -> None:
    table = proven(tmp_path, name)
    plain = pyhudi.open_table(table.path, options=OFF)
    for column in COLUMNS[name]:
        rows = plain.scan([column, "_hoodie_file_name"]).to_arrow()
        values = rows.column(0).combine_chunks().unique().drop_null()
        for value in values:
            where = pc.field(column) == value
            plan = table.scan(where=where).explain()
            assert rows_of(table, where) == rows_of(plain, where) != []
            files = rows.filter(pc.equal(rows.column(0), value)).column(1)
            assert len(plan.tasks) == len(files.unique())
            assert "index       secondary_index_" in str(plan)
        where = pc.field(column).isin(values[:3]) & pc.field("_hoodie_record_key").is_valid()
        assert rows_of(table, where) == rows_of(plain, where)
        assert any("record keys" in note for note in table.scan(where=where).plan.index_notes)


def test_an_index_whose_entries_apache_hudi_may_have_left_out_is_not_used(tmp_path: Path) -> None:
    table = proven(tmp_path, "mor_avro_v9_txns_simple_meta")
    plain = pyhudi.open_table(table.path, options=OFF)
    for value in plain.scan(["txn_date"]).to_arrow().column(0).unique():
        where = pc.field("txn_date") == value
        scan = table.scan(where=where)
        assert rows_of(table, where) == rows_of(plain, where) != []
        assert "index       secondary_index_" not in str(scan.explain())
        assert any("may have written the entries of another" in n for n in scan.plan.index_notes)


def test_a_value_without_entries_reads_nothing(tmp_path: Path) -> None:
    table = proven(tmp_path, "cow_v9_txns_nonpart_meta")
    scan = table.scan(where=pc.field("merchant_name") == "nobody")
    assert not scan.tasks and scan.to_arrow().num_rows == 0


def test_filters_that_keep_other_rows_do_not_use_the_index(tmp_path: Path) -> None:
    table = proven(tmp_path, "cow_v9_txns_nonpart_meta")
    name, day = pc.field("merchant_name"), pc.field("txn_date")
    null_or_uber = pa.array([None, "Uber"])
    for where in (name.is_null(), name.isin(null_or_uber), name != "Uber", name > "M",
                  (name == "Uber") | (pc.field("currency") == "EUR")):  # fmt: skip
        plan = table.scan(where=where).explain()
        assert not plan.index_notes
        assert rows_of(table, where) == rows_of(pyhudi.open_table(table.path, options=OFF), where)
    either = (name == "Uber") | (name == "IKEA")
    assert table.scan(where=either).count() == 2
    assert "2 record keys" in str(table.scan(where=either).explain())
    both = (name == "Uber") & (day == dt.date(2024, 1, 19))
    assert len(table.scan(where=both).plan.index_notes) == 2 and table.scan(where=both).count() == 1


def test_the_plan_says_why_the_index_is_not_used(tmp_path: Path) -> None:
    table = foreign_table(tmp_path, "cow_v9_txns_nonpart_meta")  # with inserts: keys may repeat
    where = pc.field("merchant_name") == "Uber"
    text = str(table.scan(where=where).explain())
    assert "index       not used: secondary_index_merchant_idx: the commits do not prove" in text
    add_extra_metadata(Path(table.path.removeprefix("file://")), KEYS, UNIQUE)
    table = pyhudi.open_table(table.path)
    newest = table.timeline.commits.instants[-1]
    for scan in (
        table.scan(where=where, as_of=newest.completed_at),
        table.scan(where=where, mode="read_optimized"),
        table.changes("000", where=where),
    ):
        assert "describes the newest snapshot only" in str(scan.explain())
        assert scan.count() == 1
    unread = pyhudi.open_table(table.path, options={"hoodie.metadata.enable": "false"})
    assert "the metadata table is not read" in str(unread.scan(where=where).explain())


def test_a_damaged_index_is_not_used(tmp_path: Path) -> None:
    table = proven(tmp_path, "cow_v9_txns_nonpart_meta")
    root = Path(table.path.removeprefix("file://"))
    where = pc.field("merchant_name") == "Uber"
    for path in (root / ".hoodie/metadata/secondary_index_merchant_idx").glob("*.hfile"):
        path.write_bytes(path.read_bytes()[:-40])
    assert pyhudi.open_table(root).scan(where=where).count() == 1
    (root / ".hoodie/.index_defs/index.json").write_text("{")
    scan = pyhudi.open_table(root).scan(where=where)
    assert scan.count() == 1 and "cannot be read" in str(scan.explain())


def test_rows_are_located_by_a_filter(tmp_path: Path) -> None:
    table = proven(tmp_path, "mor_avro_v8_trips_8i3u1d")
    (place,) = table.lookup(where=pc.field("rider") == "rider-G").to_pylist()
    assert place["found"] and place["partition_path"] == "city=sao_paulo"
    assert place == table.lookup(place["record_key"]).to_pylist()[0]
    assert table.lookup(where=pc.field("rider") == "rider-J").num_rows == 0
    for given in ({}, {"keys": "k", "where": pc.field("rider") == "rider-G"}):
        with pytest.raises(UserError, match="exactly one"):
            table.lookup(**given)
