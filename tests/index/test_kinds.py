"""Which index a write uses, what it promises, and what it refuses; on small tables in memory."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from pyhudi.api.table import Table
from pyhudi.engine import LocalEngine
from pyhudi.errors import IndexNotReadyError, OptionError, UserError
from pyhudi.index.bloom import FileLens, candidates
from pyhudi.index.key_join import key_run, probes_of
from pyhudi.metadata.bootstrap import create_metadata, drop_metadata
from pyhudi.operations.create import create
from pyhudi.options import IndexKind, parse_options
from pyhudi.records import RECORD_KEY
from pyhudi.storage.local import LocalFileSystem
from pyhudi.storage.memory import MemoryFileSystem
from pyhudi.table.properties import TableType, load_config, store_config
from pyhudi.write.table_creation import NewTable
from tests.support.inside import fs_of, state_of

SCHEMA = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("part", pa.string())])
# HBase needs a server; tests/write/test_partitioned_record_index.py is about that index
KINDS = [kind for kind in IndexKind if kind is not IndexKind.HBASE and not kind.traits.by_partition]
OTHERS = [kind for kind in KINDS if not kind.is_record_index]
ONE_PLACE = (IndexKind.BUCKET, IndexKind.ROCKSDB)  # where a key can be in their eyes
GLOBAL = [IndexKind.GLOBAL_BLOOM, IndexKind.GLOBAL_SIMPLE]
LOCAL = [kind for kind in OTHERS if not kind.is_global]
TYPES = list(TableType)


def batch(ids: range | list[int], ts: int, part: str | None = None) -> pa.Table:
    rows = [{"id": f"k{i:03d}", "ts": ts, "part": part or f"p{i % 3}"} for i in ids]
    return pa.Table.from_pylist(rows, SCHEMA)


def table_of(
    index: IndexKind = IndexKind.RECORD,
    kind: TableType = TableType.COPY_ON_WRITE,
    *,
    fs: MemoryFileSystem | None = None,
    partition_by: tuple[str, ...] = ("part",),
    **given: Any,
) -> Table:
    options = {
        "hoodie.metadata.record.index.min.filegroup.count": 2,
        "hoodie.bucket.index.num.buckets": 4,
        "hoodie.index.bloom.num_entries": 100,
        "pyhudi.index.rocksdb.buckets": 2,
        **{f"hoodie.{name.replace('__', '.')}": value for name, value in given.items()},
    }
    parsed = parse_options(options)
    if fs is None:
        fs = MemoryFileSystem()
        create(fs, NewTable(SCHEMA, "t", kind, ("id",), partition_by, ("ts",), parsed, index))
    return Table(fs, options=parsed, engine=LocalEngine(2))


def rows_of(table: Table) -> list[tuple[str, int, str]]:
    rows = table.scan(["id", "ts", "part"]).to_arrow().to_pylist()
    return sorted((r["id"], r["ts"], r["part"]) for r in rows)


def reopened(table: Table, **given: Any) -> Table:
    return table_of(fs=fs_of(table), **given)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("index", OTHERS)
def test_a_table_keeps_the_index_it_was_made_with(index: IndexKind, kind: TableType) -> None:
    table = table_of(index, kind)
    assert table.config.metadata_partitions == {"files"}
    table.upsert(batch(range(20), 1))
    report = reopened(table).upsert(batch(range(10, 30), 2))
    assert report.index.startswith(index.value.replace("_", " "))
    assert "stored in the table's properties" in report.index
    assert len(rows_of(table)) == 30
    if index.stores_entries:
        assert table.lookup(["k001", "k050"])["found"].to_pylist() == [True, False]
        return
    with pytest.raises(IndexNotReadyError):
        table.lookup(["k001"])


def test_a_table_with_a_record_index_is_written_by_it() -> None:
    table = table_of()
    table.upsert(batch(range(5), 1))
    report = table.upsert(batch(range(5), 2))
    assert report.index == "record index, 2 buckets: the table has one"


def test_no_index_is_guessed() -> None:
    table = table_of(IndexKind.BLOOM)
    table.upsert(batch(range(5), 1))
    store_config(fs_of(table), table.config.with_properties({"hoodie.index.type": None}))
    with pytest.raises(IndexNotReadyError, match="GLOBAL_SIMPLE") as caught:
        reopened(table).upsert(batch(range(5), 2))
    assert "RECORD_INDEX is built by the first write" in str(caught.value)
    report = reopened(table, index__type="simple").upsert(batch(range(5), 2))
    assert report.index == "simple index, 2 parts: set by hoodie.index.type"


@pytest.mark.parametrize("index", OTHERS)
def test_a_table_without_metadata_gets_its_file_list(index: IndexKind) -> None:
    table = table_of(index)
    table.upsert(batch(range(9), 1))
    drop_metadata(fs_of(table), load_config(fs_of(table)))
    reopened(table).upsert(batch(range(6, 12), 2))
    assert table.config.metadata_partitions == {"files"}
    assert len(rows_of(table)) == 12


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("index", [k for k in OTHERS if k is not IndexKind.BUCKET])
def test_the_record_index_stays_in_step(index: IndexKind, kind: TableType) -> None:
    table = table_of(IndexKind.RECORD, kind)
    table.upsert(batch(range(30), 1))
    other = reopened(table, index__type=index.option)
    other.upsert(batch(range(20, 40), 2))
    other.delete(keys=["k003", "k035", "nobody"])
    other.upsert(batch([3, 50], 3))
    keys = {key for key, _, _ in rows_of(table)}
    assert keys == {f"k{i:03d}" for i in [*range(40), 50]} - {"k035"}
    found = table.lookup(sorted(keys))
    assert all(found["found"].to_pylist())
    assert not any(table.lookup(["k035", "nobody"])["found"].to_pylist())
    names = table.scan(["_hoodie_record_key", "_hoodie_file_name"]).to_arrow().to_pylist()
    files = {row["_hoodie_record_key"]: row["_hoodie_file_name"] for row in names}
    for row in found.to_pylist():
        assert files[row["record_key"]].startswith(row["file_id"])
    table.upsert(batch(range(60), 4))
    assert [ts for _, ts, _ in rows_of(table)] == [4] * 60


@pytest.mark.parametrize("kind", TYPES)
def test_a_record_index_next_to_buckets_stays_in_step(kind: TableType) -> None:
    table = table_of(IndexKind.BUCKET, kind)
    table.upsert(batch(range(10), 1))
    create_metadata(fs_of(table), load_config(fs_of(table)), state_of(table).log, bucket_count=2)
    table.upsert(batch(range(30), 2))
    table.delete(keys=["k003", "k025"])
    table.upsert(batch([3, 50], 3))
    keys = [key for key, _, _ in rows_of(table)]
    assert all(table.lookup(keys)["found"].to_pylist())
    assert not any(table.lookup(["k025", "nobody"])["found"].to_pylist())


def test_a_record_index_is_maintained_next_to_another_index_on_request() -> None:
    table = table_of(IndexKind.SIMPLE, metadata__record__index__enable=True)
    table.upsert(batch(range(5), 1))
    assert all(table.lookup([f"k{i:03d}" for i in range(5)])["found"].to_pylist())
    late = table_of(IndexKind.BLOOM)
    late.upsert(batch(range(5), 1))
    reopened(late, metadata__record__index__enable=True).upsert(batch(range(3, 9), 2))
    assert all(late.lookup([f"k{i:03d}" for i in range(9)])["found"].to_pylist())
    with pytest.raises(OptionError, match="is the table's index"):
        table_of(IndexKind.RECORD, metadata__record__index__enable=False)


def test_a_key_in_two_partitions_is_refused_with_a_record_index() -> None:
    table = table_of()
    table.upsert(batch(range(6), 1))
    before = list(table.timeline)
    for index in (IndexKind.BLOOM, IndexKind.SIMPLE):
        with pytest.raises(UserError, match="another partition than in the record index") as caught:
            reopened(table, index__type=index.option).upsert(batch([4], 2, "p0"))
        assert caught.value.facts["stored_in"] == "p1"
    assert list(table.timeline) == before


@pytest.mark.parametrize("index", LOCAL)
def test_a_key_in_two_partitions_is_two_records(index: IndexKind) -> None:
    table = table_of(index)
    table.upsert(batch(range(6), 1, "p0"))
    table.upsert(batch(range(6), 2, "p1"))
    table.upsert(batch(range(3), 3, "p1"))
    table.delete(batch([0, 5], 0, "p0"))
    table.delete(where=(pc.field("part") == "p1") & (pc.field("ts") == 2))
    want = [(f"k{i:03d}", 1, "p0") for i in range(1, 5)]
    want += [(f"k{i:03d}", 3, "p1") for i in range(3)]
    assert rows_of(table) == sorted(want)
    table.delete(keys=["k001"])
    assert rows_of(table) == sorted(row for row in want if row[0] != "k001")


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("index", GLOBAL)
def test_moves_are_followed_or_not_as_requested(index: IndexKind, kind: TableType) -> None:
    name = "bloom" if index is IndexKind.GLOBAL_BLOOM else "simple"
    stays = {f"{name}__index__update__partition__path": False}
    table = table_of(index, kind)
    table.upsert(batch(range(4), 1, "p0"))
    for turn in range(2, 6):  # to and fro, so that old copies lie in the logs
        table.upsert(batch(range(2), turn, f"p{turn % 2}"))
    assert rows_of(table)[:2] == [("k000", 5, "p1"), ("k001", 5, "p1")]
    reopened(table, **stays).upsert(batch(range(4), 9, "p2"))
    assert [part for _, _, part in rows_of(table)] == ["p1", "p1", "p0", "p0"]
    table.delete(batch(range(4), 0, "p7"))
    assert rows_of(table) == []


@pytest.mark.parametrize("index", LOCAL)
def test_a_key_that_a_log_deletes_comes_back_where_it_was(index: IndexKind) -> None:
    """Other writers' indexes find it in the base file, and would write it there and elsewhere."""
    table = table_of(index, TableType.MERGE_ON_READ)
    table.upsert(batch(range(6), 1, "p"))
    table.delete(keys=["k001", "k002"])
    assert table.delete(keys=["k001"]).missing_keys == 1
    before = {s.file_id for s in table.file_slices()}
    table.upsert(batch([1], 2, "p"))
    dropping = reopened(table, datasource__write__insert__drop__duplicates=True)
    assert dropping.insert(batch([2, 3], 3, "p")).duplicates == 1
    assert {s.file_id for s in table.file_slices()} == before
    assert [ts for _, ts, _ in rows_of(table)] == [1, 2, 3, 1, 1, 1]


@pytest.mark.parametrize("index", KINDS)
def test_an_older_row_after_a_delete_is_a_new_record(index: IndexKind) -> None:
    schema = SCHEMA.append(pa.field("_hoodie_is_deleted", pa.bool_()))
    fs = MemoryFileSystem()
    options = parse_options({"hoodie.bucket.index.num.buckets": 2})
    kind = TableType.MERGE_ON_READ
    create(fs, NewTable(schema, "t", kind, ("id",), ("part",), ("ts",), options, index))
    table = Table(fs, options=options, engine=LocalEngine(1))
    for ts, gone in ((1, False), (5, True), (3, False)):
        row = {"id": "a", "ts": ts, "part": "p", "_hoodie_is_deleted": gone}
        table.upsert(pa.Table.from_pylist([row], schema))
    assert rows_of(table) == [("a", 3, "p")]


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("index", [k for k in OTHERS if k not in ONE_PLACE])
def test_copies_of_a_key_are_all_updated(index: IndexKind, kind: TableType) -> None:
    table = table_of(index, kind)
    table.bulk_insert(batch(range(4), 1))
    table.bulk_insert(batch(range(2, 6), 1))
    table.upsert(batch(range(6), 2))
    assert rows_of(table) == sorted(
        (f"k{i:03d}", 2, f"p{i % 3}") for i in [*range(4), *range(2, 6)]
    )
    table.delete(keys=["k002"])
    assert "k002" not in {key for key, _, _ in rows_of(table)}


@pytest.mark.parametrize("index", KINDS)
def test_inserts_leave_known_keys_out_on_request(index: IndexKind) -> None:
    table = table_of(index)
    table.upsert(batch(range(6), 1))
    rows = pa.concat_tables([batch(range(4, 8), 2), batch([7], 3)])
    dropping = reopened(table, datasource__write__insert__drop__duplicates=True)
    report = dropping.insert(rows)
    assert (report.inserted, report.duplicates) == (2, 3)
    assert rows_of(table)[4:] == [
        ("k004", 1, "p1"), ("k005", 1, "p2"), ("k006", 2, "p0"), ("k007", 3, "p1"),
    ]  # fmt: skip
    failing = reopened(table, datasource__insert__dup__policy="fail")
    with pytest.raises(UserError, match="a key to insert already exists in the table"):
        failing.insert(batch(range(7, 9), 4))
    assert failing.insert(batch([8], 4)).inserted == 1


def test_inserts_into_buckets_do_not_double_keys() -> None:
    for kind in TYPES:
        table = table_of(IndexKind.BUCKET, kind)
        for turn in range(3):
            table.insert(batch(range(10), turn))
        table.bulk_insert(batch(range(5, 15), 9))
        assert [key for key, _, _ in rows_of(table)] == [f"k{i:03d}" for i in range(15)]
        ids = [s.file_id for s in table.file_slices()]
        assert all(id[:8] in ("00000000", "00000001", "00000002", "00000003") for id in ids)
        assert len({(s.partition, s.file_id[:8]) for s in table.file_slices()}) == len(ids)


def test_buckets_of_an_overwritten_partition_start_again() -> None:
    table = table_of(IndexKind.BUCKET, TableType.MERGE_ON_READ)
    table.upsert(batch(range(10), 1, "p0"))
    table.insert_overwrite(batch(range(5, 15), 2, "p0"))
    table.upsert(batch(range(12, 20), 3, "p0"))
    assert [key for key, _, _ in rows_of(table)] == [f"k{i:03d}" for i in range(5, 20)]


def test_buckets_cannot_be_changed_nor_mixed_with_another_index() -> None:
    table = table_of(IndexKind.BUCKET)
    table.upsert(batch(range(5), 1))
    with pytest.raises(OptionError, match="cannot be changed"):
        reopened(table, bucket__index__num__buckets=8).upsert(batch(range(5), 2))
    with pytest.raises(OptionError, match="assigns the table's file groups"):
        reopened(table, index__type="BLOOM").upsert(batch(range(5), 2))
    bloom = table_of(IndexKind.BLOOM)
    bloom.upsert(batch(range(5), 1))
    with pytest.raises(OptionError, match="assigns the table's file groups"):
        reopened(bloom, index__type="BUCKET").upsert(batch(range(5), 2))
    with pytest.raises(OptionError, match="record key fields"):
        table_of(IndexKind.BUCKET, bucket__index__hash__field="ts")
    with pytest.raises(OptionError, match="table's bucket engine"):
        reopened(table, index__bucket__engine="CONSISTENT_HASHING").upsert(batch(range(5), 2))


@pytest.mark.covering(1, most=4)
@pytest.mark.parametrize("is_stated", [True, False])
@pytest.mark.parametrize("stored", KINDS)
def test_another_index_in_the_options_never_doubles_a_key(
    stored: IndexKind, is_stated: bool
) -> None:
    """As written by others, whose properties do not state the index."""
    for kind, engine in [
        *((kind, "SIMPLE") for kind in KINDS),
        (IndexKind.BUCKET, "CONSISTENT_HASHING"),
    ]:
        if not is_stated and stored is IndexKind.BUCKET and kind is not stored:
            continue  # nothing says that the table has buckets
        table = table_of(stored, TableType.MERGE_ON_READ)
        table.upsert(batch(range(9), 1))
        if not is_stated:
            store_config(fs_of(table), table.config.with_properties({"hoodie.index.type": None}))
        given = {"index__type": kind.option, "index__bucket__engine": engine}
        try:
            reopened(table, **given).upsert(batch(range(9), 2))
        except (OptionError, UserError):
            assert [ts for _, ts, _ in rows_of(table)] == [1] * 9, kind
        else:
            assert [ts for _, ts, _ in rows_of(table)] == [2] * 9, kind


def test_a_bucket_table_of_others_needs_its_number_of_buckets() -> None:
    table = table_of(IndexKind.BUCKET)
    table.upsert(batch(range(5), 1))
    gone = {"hoodie.index.type": None, "hoodie.bucket.index.num.buckets": None}
    store_config(fs_of(table), table.config.with_properties(gone))
    requested = parse_options({"hoodie.index.type": "BUCKET"})
    with pytest.raises(OptionError, match="do not state its number of buckets"):
        Table(fs_of(table), options=requested, engine=LocalEngine(1)).upsert(batch(range(5), 2))
    with pytest.raises(UserError, match="not one of its buckets"):
        reopened(table, index__type="BUCKET", bucket__index__num__buckets=1).upsert(
            batch(range(5), 2)
        )
    reopened(table, index__type="BUCKET").upsert(batch(range(5), 2))
    assert [ts for _, ts, _ in rows_of(table)] == [2] * 5


@pytest.mark.parametrize("index", OTHERS)
def test_tables_without_partitions(index: IndexKind) -> None:
    table = table_of(index, partition_by=())
    table.upsert(batch(range(8), 1))
    report = table.upsert(batch(range(4, 12), 2))
    assert report.inserted + report.updated == 8
    table.delete(batch([0], 0))
    table.delete(where=pc.field("id") == "k001")
    assert [ts for _, ts, _ in rows_of(table)] == [1] * 2 + [2] * 8


def test_ranges_do_not_hide_keys_that_java_orders_otherwise() -> None:
    """UTF-16 puts U+1F511 before U+FF21, bytes behind it: bounds in either order must do."""
    keys = ["a", "\U0001f511", "\uff21", "z", "\ue000"]
    rows = pa.Table.from_pylist([{"id": k, "ts": 1, "part": "p"} for k in keys], SCHEMA)
    table = table_of(IndexKind.BLOOM)
    table.upsert(rows)
    for prune in (True, False):
        report = reopened(table, bloom__index__prune__by__ranges=prune).upsert(rows)
        assert (report.updated, report.inserted) == (5, 0)


@pytest.mark.parametrize(
    ("bounds", "stored"),
    [
        (("\U0001f511", "\uff21"), ["\U0001f511", "\uff21"]),  # the range is empty in bytes
        (("a", "\ue000"), ["a", "\U0001f511", "\ue000"]),  # a key beyond the greatest in bytes
    ],
)
def test_bounds_that_java_orders_otherwise_leave_no_stored_key_out(
    bounds: tuple[str, str], stored: list[str]
) -> None:
    """Apache Hudi takes the least and greatest key of a file by UTF-16 units."""
    keys = sorted([*stored, "A"], key=str.encode)
    run = key_run(pa.table({RECORD_KEY: keys}), everywhere=True)
    (probes,) = probes_of([_Loaded(run)], "", everywhere=True)
    found = candidates(probes, FileLens(bounds, None), prune=True)
    assert found is not None
    assert set(stored) <= set(found.keys.to_pylist())
    assert "A" not in found.keys.to_pylist()  # a plain key outside is still excluded


@dataclass(frozen=True)
class _Loaded:
    """A run of keys in memory."""

    run: pa.Table

    def load(self) -> pa.Table:
        return self.run


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("index", [IndexKind.BLOOM, IndexKind.GLOBAL_BLOOM])
def test_blooms_of_the_metadata_table_say_what_footers_say(
    index: IndexKind, kind: TableType
) -> None:
    retained = {
        "metadata__index__column__stats__enable": True,
        "metadata__index__bloom__filter__enable": True,
    }
    table = table_of(index, kind, **retained)
    table.upsert(batch(range(40), 1))
    queried = reopened(table, bloom__index__use__metadata=True)
    report = queried.upsert(batch(range(30, 60), 2))
    assert "from the metadata table" in report.index
    assert (report.updated, report.inserted) == (10, 20)
    assert queried.delete(keys=["k001", "k059", "nobody"]).deleted == 2
    assert len(rows_of(table)) == 58


def test_a_metadata_table_without_blooms_is_not_queried_for_them() -> None:
    table = table_of(IndexKind.BLOOM)
    table.upsert(batch(range(4), 1))
    with pytest.raises(IndexNotReadyError, match="lacks partitions"):
        reopened(table, bloom__index__use__metadata=True).upsert(batch(range(4), 2))


class Posting:
    """An engine whose tasks and results travel as bytes, as on a cluster."""

    parallelism = 3
    shares_memory = False

    def run(self, task: Callable[[Any], Any], items: Sequence[Any], *, label: str) -> list[Any]:
        def post(value: Any) -> Any:
            return pickle.loads(pickle.dumps(value))

        return [post(post(task)(post(item))) for item in items]


@pytest.mark.covering(1, most=3)
@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("index", KINDS)
def test_tasks_of_a_look_up_travel(index: IndexKind, kind: TableType, tmp_path: Path) -> None:
    options = parse_options(
        {
            "hoodie.bucket.index.num.buckets": 3,
            "hoodie.bloom.index.use.metadata": True,
            "hoodie.metadata.index.column.stats.enable": True,
            "hoodie.metadata.index.bloom.filter.enable": True,
        }
    )
    fs = LocalFileSystem(tmp_path / "t")
    create(fs, NewTable(SCHEMA, "t", kind, ("id",), ("part",), ("ts",), options, index))
    table = Table(fs, options=options, engine=Posting())
    table.upsert(batch(range(30), 1))
    table.upsert(batch(range(20, 50), 2))
    table.delete(batch(range(5), 0))
    table.delete(keys=["k040"])
    assert [ts for _, ts, _ in rows_of(table)] == [1] * 15 + [2] * 29


@pytest.mark.parametrize("engine", ["SIMPLE", "CONSISTENT_HASHING"])
def test_new_keys_of_a_bucket_that_is_there_go_to_its_logs(engine: str) -> None:
    table = table_of(IndexKind.BUCKET, TableType.MERGE_ON_READ, index__bucket__engine=engine)
    table.upsert(batch(range(60), 1, "p"))
    bases = {s.base.path for s in table.file_slices() if s.base}
    table.upsert(batch(range(50, 120), 2, "p"))
    assert {s.base.path for s in table.file_slices() if s.base} == bases
    assert all(s.logs for s in table.file_slices())
    assert [ts for _, ts, _ in rows_of(table)] == [1] * 50 + [2] * 70


def test_new_keys_of_a_record_index_go_to_logs_only_where_requested() -> None:
    table = table_of(IndexKind.RECORD, TableType.MERGE_ON_READ)
    table.upsert(batch(range(20), 1, "p"))
    small = {"merge__small__file__group__candidates__limit": 0}
    reopened(table, **small).upsert(batch(range(20, 30), 2, "p"))
    assert [bool(s.logs) for s in table.file_slices()] == [False, False]
    requested = Table(
        fs_of(table),
        options=parse_options({"pyhudi.record.index.inserts.to.logs": True}),
        engine=LocalEngine(2),
    )
    report = requested.upsert(batch(range(25, 40), 3, "p"))
    assert (report.inserted, report.updated) == (10, 5)
    assert len(table.file_slices()) == 2
    assert any(s.logs for s in table.file_slices())
    assert requested.upsert(batch(range(40), 4, "p")).updated == 40
    assert requested.delete(keys=["k039", "k038"]).deleted == 2
    table.compact()
    assert [ts for _, ts, _ in rows_of(table)] == [4] * 38
    assert all(table.lookup([f"k{i:03d}" for i in range(38)])["found"].to_pylist())
    requested.insert(batch(range(2), 5, "p"))
    assert len(rows_of(table)) == 40
