"""Syncs of tables with a metastore: what they change, how often, and what a failure leaves."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pyhudi
from pyhudi.options.catalogs import CatalogOptions
from pyhudi.storage.hive_thrift import connect
from pyhudi.sync.catalog_entry import CatalogColumn
from pyhudi.sync.table_entries import EntryFacts, table_entries
from tests.support.fake_metastore import Handler, metastore
from tests.sync.cases import (
    CITY,
    MOR,
    SYNC,
    TRIPS,
    add_columns,
    drop_one_city,
    one_more_city,
    trip,
    upsert_trips,
)
from tests.sync.entries import stored

DAYS_AS_TEXT = {"partition_by": [pyhudi.TimestampPartition("at", "EPOCHMICROSECONDS")]}


@pytest.fixture
def server() -> Iterator[tuple[str, Handler]]:
    with metastore() as made:
        yield made


def create(path: Path, **more: Any) -> pyhudi.Table:
    table = pyhudi.create_table(path, TRIPS, record_key="id", **{**CITY, **more})
    upsert_trips(table, 1, 4)
    return table


def partitions(uri: str, name: str) -> list[tuple[list[str], str]]:
    client = connect("127.0.0.1", int(uri.rpartition(":")[2]))
    found = stored(client, "default", name)
    client.close()
    assert found is not None
    return [(p["values"], p["sd"]["location"]) for p in found["partitions"]]


def test_a_report_states_what_was_created(server: Any, tmp_path: Path) -> None:
    uri, _ = server
    table = create(tmp_path / "trips")
    report = table.sync("hive", uri=uri, database="Lake")
    (entry,) = report.entries
    assert (report.catalog, report.url, report.database) == ("hive", uri, "lake")
    assert report.created_database and entry.created and entry.partitions_added == 3
    assert report.synced_instant == table.timeline.commits.last.time
    assert report.to_dict()["entries"][0]["table"] == "trips"
    assert "partitions added: 3" in report._repr_html_()


def test_a_second_sync_changes_nothing(server: Any, tmp_path: Path) -> None:
    uri, handler = server
    table = create(tmp_path / "trips", **MOR)
    assert not table.sync(uri=uri).is_empty
    handler.calls.clear()
    assert table.sync(uri=uri).is_empty
    assert set(handler.calls) == {"get_database", "get_table_req"}


def test_only_partitions_that_changed_are_compared(server: Any, tmp_path: Path) -> None:
    uri, handler = server
    table = create(tmp_path / "trips")
    table.sync(uri=uri)
    one_more_city(table)
    handler.calls.clear(), handler.sizes.clear()
    (entry,) = table.sync(uri=uri).entries
    assert entry.partitions_added == 1
    sizes = dict(zip(handler.calls, handler.sizes, strict=True))
    assert sizes["get_partitions"] == 1 and sizes["add_partitions"] == 1
    assert "get_partition_names" not in handler.calls


def test_many_partitions_are_added_in_batches(server: Any, tmp_path: Path) -> None:
    uri, handler = server
    table = pyhudi.create_table(tmp_path / "t", TRIPS, record_key="id", partition_by="city")
    rows = [trip(n) | {"city": f"c{n:04}"} for n in range(250)]
    table.bulk_insert(pa.Table.from_pylist(rows, TRIPS))
    (entry,) = table.sync(uri=uri, options={SYNC + "batch_num": "100"}).entries
    assert entry.partitions_added == 250
    calls = zip(handler.calls, handler.sizes, strict=True)
    assert [size for call, size in calls if call == "add_partitions"] == [100, 100, 50]


def test_new_columns_and_wider_types_reach_the_partitions(server: Any, tmp_path: Path) -> None:
    uri, _ = server
    table = create(tmp_path / "trips")
    table.sync(uri=uri)
    add_columns(table)
    (entry,) = table.sync(uri=uri).entries
    assert entry.columns_added == ("tip",) and entry.columns_changed == ("zone",)
    client = connect("127.0.0.1", int(uri.rpartition(":")[2]))
    found = stored(client, "default", "trips")
    client.close()
    assert found is not None
    kinds = [{c["name"]: c["type"] for c in p["sd"]["cols"]} for p in found["partitions"]]
    assert {(k["zone"], k["tip"]) for k in kinds} == {("bigint", "decimal(8,2)")}


def test_dropped_partitions_leave_the_catalog(server: Any, tmp_path: Path) -> None:
    uri, _ = server
    table = create(tmp_path / "trips")
    table.sync(uri=uri)
    drop_one_city(table)
    (entry,) = table.sync(uri=uri).entries
    assert entry.partitions_dropped == 1
    assert [values for values, _ in partitions(uri, "trips")] == [["new york"], ["sf"]]


def test_a_restore_takes_partitions_back(server: Any, tmp_path: Path) -> None:
    uri, _ = server
    table = create(tmp_path / "trips")
    before = table.timeline.commits.last.time
    table.savepoint("before", before)
    one_more_city(table)
    table.sync(uri=uri)
    assert len(partitions(uri, "trips")) == 4
    table.restore(before)
    (entry,) = table.sync(uri=uri).entries
    assert entry.partitions_dropped == 1 and len(partitions(uri, "trips")) == 3


def test_a_table_that_is_created_again_is_compared_whole(server: Any, tmp_path: Path) -> None:
    uri, _ = server
    create(tmp_path / "trips").sync(uri=uri)
    shutil.rmtree(tmp_path / "trips")
    table = pyhudi.create_table(tmp_path / "trips", TRIPS, record_key="id", **CITY)
    one_more_city(table)
    (entry,) = table.sync(uri=uri).entries
    assert (entry.partitions_added, entry.partitions_dropped) == (1, 3)


def test_an_entry_of_another_folder_is_created_again(server: Any, tmp_path: Path) -> None:
    uri, _ = server
    create(tmp_path / "old").sync(uri=uri, table="trips")
    (entry,) = create(tmp_path / "new").sync(uri=uri, table="trips").entries
    assert "location" in entry.recreated
    assert all(place.startswith(f"file:{tmp_path}/new/") for _, place in partitions(uri, "trips"))


def test_other_partition_columns_create_the_entry_again(server: Any, tmp_path: Path) -> None:
    uri, _ = server
    table = create(tmp_path / "trips")
    table.sync(uri=uri)
    (entry,) = table.sync(uri=uri, options={SYNC + "partition_fields": "town"}).entries
    assert "partition columns" in entry.recreated and entry.partitions_added == 3


def test_a_table_of_another_format_is_not_replaced(server: Any, tmp_path: Path) -> None:
    uri, handler = server
    table = create(tmp_path / "trips")
    table.sync(uri=uri)
    entry = handler.tables["default", "trips"]
    entry.sd.inputFormat = "org.apache.hadoop.mapred.TextInputFormat"
    del entry.parameters["spark.sql.sources.provider"]
    with pytest.raises(pyhudi.UserError, match="another format"):
        table.sync(uri=uri)


def test_properties_of_others_stay(server: Any, tmp_path: Path) -> None:
    uri, handler = server
    table = create(tmp_path / "trips")
    table.sync(uri=uri)
    handler.tables["default", "trips"].parameters["team"] = "taxi"
    handler.tables["default", "trips"].sd.cols[-1].comment = "in dollars"
    add_columns(table)
    table.sync(uri=uri)
    entry = handler.tables["default", "trips"]
    assert entry.parameters["team"] == "taxi"
    assert {c.name: c.comment for c in entry.sd.cols}["fare"] == "in dollars"


def test_a_dry_run_writes_nothing(server: Any, tmp_path: Path) -> None:
    uri, handler = server
    (entry,) = create(tmp_path / "trips").sync(uri=uri, dry_run=True).entries
    assert entry.created and entry.partitions_added == 3
    assert handler.tables == {}


@pytest.mark.parametrize("call", ["create_table", "add_partitions", "alter_table"])
def test_a_sync_that_failed_is_completed_by_the_next(
    call: str, server: Any, tmp_path: Path
) -> None:
    uri, handler = server
    table = create(tmp_path / "trips")
    files = sorted(p for p in tmp_path.rglob("*"))
    handler.fails[call] = 0
    with pytest.raises(pyhudi.CatalogError, match="the metastore is ill") as raised:
        table.sync(uri=uri)
    assert raised.value.code == "CATALOG" and raised.value.facts["catalog"] == uri
    assert sorted(p for p in tmp_path.rglob("*")) == files
    handler.fails.clear()
    table.sync(uri=uri)
    assert len(partitions(uri, "trips")) == 3 and table.sync(uri=uri).is_empty


def test_an_entry_that_another_sync_creates_meanwhile_is_no_failure(
    server: Any, tmp_path: Path
) -> None:
    uri, handler = server
    table, create_entry = create(tmp_path / "trips"), handler.create_table

    def create_late(entry: Any) -> None:
        handler.create_table = create_entry
        pyhudi.open_table(tmp_path / "trips").sync(uri=uri)
        create_entry(entry)

    handler.create_table = create_late
    (entry,) = table.sync(uri=uri).entries
    assert not entry.created and not entry.partitions_added
    assert len(partitions(uri, "trips")) == 3


def test_a_metastore_that_is_away_is_a_typed_error(tmp_path: Path) -> None:
    table = create(tmp_path / "trips")
    with pytest.raises(pyhudi.CatalogError, match="cannot be reached"):
        table.sync(uri="thrift://127.0.0.1:1")


INLINE = {
    SYNC + "enable": "true",
    "hoodie.datasource.hive_sync.metastore.uris": "thrift://127.0.0.1:1",
}


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_a_failing_catalog_never_fails_a_commit(kind: str, server: Any, tmp_path: Path) -> None:
    uri, _ = server
    create(tmp_path / "trips", table_type=kind)
    table = pyhudi.open_table(tmp_path / "trips", options=INLINE)
    report = upsert_trips(table, 5, 6)
    assert isinstance(report, pyhudi.WriteReport) and table.count() == 6
    assert [n for n in report.notes if "failed, the commit stands" in n]
    found = {**INLINE, SYNC + "metastore.uris": uri}
    again = one_more_city(pyhudi.open_table(tmp_path / "trips", options=found))
    assert isinstance(again, pyhudi.WriteReport)
    assert [note for note in again.notes if note.startswith("synced with hive: default.trips")]
    name = "trips" if kind == "cow" else "trips_rt"
    assert len(partitions(uri, name)) == 4


def test_a_deferred_write_is_synced_when_it_is_published(server: Any, tmp_path: Path) -> None:
    uri, handler = server
    create(tmp_path / "trips")
    options = {**INLINE, SYNC + "metastore.uris": uri}
    table = pyhudi.open_table(tmp_path / "trips", options=options)
    row = pa.Table.from_pylist([trip(9) | {"city": "oakland"}], TRIPS)
    report = table.upsert(row, publish=False)
    assert handler.tables == {}
    assert report.instant is not None
    assert table.publish(report.instant).notes and len(partitions(uri, "trips")) == 4


def test_comments_of_the_schema_follow_their_option(tmp_path: Path) -> None:
    table = create(tmp_path / "trips")
    facts = EntryFacts(table.config, table.schema, "s3://lake/trips", {"fare": "in dollars"})
    for shown, comment in ((True, "in dollars"), (False, "")):
        (entry,) = table_entries(facts, CatalogOptions(comments=shown))
        assert entry.columns[-1] == CatalogColumn("fare", "double", comment)
        assert entry.location == "s3://lake/trips"


def test_times_and_the_database_follow_their_options(server: Any, tmp_path: Path) -> None:
    uri, handler = server
    table = create(tmp_path / "trips")
    table.sync(uri=uri, options={SYNC + "support_timestamp": "true"})
    kinds = {c.name: c.type for c in handler.tables["default", "trips"].sd.cols}
    assert kinds["at"] == "timestamp"
    with pytest.raises(pyhudi.CatalogError, match="the database does not exist"):
        table.sync(uri=uri, database="no", options={SYNC + "auto_create_database": "false"})


def test_texts_made_from_times_are_partition_columns_of_text(server: Any, tmp_path: Path) -> None:
    uri, handler = server
    create(tmp_path / "trips", **DAYS_AS_TEXT).sync(uri=uri)
    (key,) = handler.tables["default", "trips"].partitionKeys
    assert (key.name, key.type) == ("at", "string")
    values = [values for values, _ in partitions(uri, "trips")]
    assert values == [["2026-11-20"], ["2026-11-21"], ["2026-11-22"]]


def test_encoded_paths_are_decoded_on_request(server: Any, tmp_path: Path) -> None:
    uri, _ = server
    options = {"hoodie.datasource.write.partitionpath.urlencode": "true"}
    table = pyhudi.create_table(
        tmp_path / "t", TRIPS, record_key="id", partition_by="city", options=options
    )
    table.upsert(pa.Table.from_pylist([trip(1) | {"city": "a/b: 1%"}], TRIPS))
    table.sync(uri=uri, options={"hoodie.meta.sync.decode_partition": "true"})
    (found,) = partitions(uri, "t")
    assert found == (["a/b: 1%"], f"file:{tmp_path}/t/a%2Fb%3A 1%25")


def test_paths_that_an_extractor_cannot_read_are_named_before_a_change(
    server: Any, tmp_path: Path
) -> None:
    uri, handler = server
    extractor = {SYNC + "partition_extractor_class": "SlashEncodedDayPartitionValueExtractor"}
    with pytest.raises(pyhudi.UserError, match="partition=la"):
        create(tmp_path / "trips").sync(uri=uri, options=extractor)
    assert handler.calls == []


def test_a_table_is_opened_by_its_name(server: Any, tmp_path: Path) -> None:
    uri, _ = server
    create(tmp_path / "a table").sync(uri=uri, table="trips", database="lake")
    place = uri.removeprefix("thrift://")
    table = pyhudi.open_table(f"hive://{place}/lake.trips")
    assert table.path == str(tmp_path / "a table") and table.count() == 4
    with pytest.raises(pyhudi.TableNotFoundError, match="no such table"):
        pyhudi.open_table(f"hive://{place}/lake.other")
    with pytest.raises(pyhudi.UserError, match="does not name a table"):
        pyhudi.open_table(f"hive://{place}/lake")


def test_wrong_arguments_are_named(tmp_path: Path) -> None:
    table = create(tmp_path / "trips")
    for given, text in (
        ({"catalog": "iceberg"}, "unknown catalog"),
        ({"database": " "}, "database must be a name"),
        ({"uri": "127.0.0.1:9083"}, "not the address"),
        ({"options": {"hoodie.parquet.max.file.size": "1"}}, "not an option of a sync"),
    ):
        with pytest.raises(pyhudi.UserError, match=text):
            table.sync(**given)


def test_a_table_in_memory_has_no_place_that_engines_reach(server: Any) -> None:
    uri, _ = server
    table = pyhudi.create_table("memory://sync17/trips", TRIPS, record_key="id", **CITY)
    with pytest.raises(pyhudi.UserError, match="memory of this process"):
        table.sync(uri=uri)
