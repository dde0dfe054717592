"""Base files: what Apache Hudi wrote, what we write, row-group pruning, any damage."""

from __future__ import annotations

import contextlib
import datetime as dt
import gc
import zipfile
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyhudi._native.bloom import BloomFilter
from pyhudi.errors import CorruptFileError, FileMissingError, SchemaError
from pyhudi.formats.base_file import footer, opened_base, read_base, read_parquet, write_base
from pyhudi.storage.local import LocalFileSystem
from pyhudi.storage.memory import MemoryFileSystem
from tests.support.fixtures import fixtures

GOLDEN = LocalFileSystem(Path(__file__).parents[1] / "golden" / "base")
STYLES = ("bag", "two_level_no_meta", "list_element")


def written(rows: object, **options: object) -> MemoryFileSystem:
    fs = MemoryFileSystem()
    settings = {"avro_schema": "{}", "bloom": None, **options}
    with fs.open_sink("f.parquet") as sink:
        write_base(sink, rows, **settings)  # type: ignore[arg-type]
    return fs


def physical(fs: MemoryFileSystem) -> pq.ParquetFile:
    return pq.ParquetFile(pa.BufferReader(fs.read("f.parquet")))


def keyed(count: int, **columns: object) -> pa.Table:
    return pa.table({"_hoodie_record_key": [f"k{i:06d}" for i in range(count)], **columns})


class TestFilesOfApacheHudi:
    @pytest.mark.parametrize("style", STYLES)
    def test_every_style_of_list_reads_as_list_of_element(self, style: str) -> None:
        rows = read_base(GOLDEN, f"{style}.parquet")
        assert str(rows.schema.field("tags").type) == "list<element: string>"
        assert ["t0"] in rows["tags"].to_pylist() or ["t0", "t1"] in rows["tags"].to_pylist()
        assert footer(GOLDEN, f"{style}.parquet").schema.equals(rows.schema, check_metadata=True)

    @pytest.mark.parametrize("style", ["bag", "list_element"])
    def test_the_footer_holds_key_range_and_bloom(self, style: str) -> None:
        foot = footer(GOLDEN, f"{style}.parquet")
        keys = read_base(GOLDEN, f"{style}.parquet", columns=["_hoodie_record_key"])[0]
        assert (foot.min_key, foot.max_key) == tuple(pc.min_max(keys).as_py().values())
        assert foot.bloom is not None
        assert pc.all(foot.bloom.contains(keys)).as_py()
        assert foot.rows == len(keys)

    def test_a_file_without_meta_fields_has_neither(self) -> None:
        foot = footer(GOLDEN, "two_level_no_meta.parquet")
        assert (foot.min_key, foot.max_key, foot.bloom) == (None, None, None)
        assert foot.avro_schema is not None

    @pytest.mark.parametrize("style", STYLES)
    def test_written_again_the_rows_are_equal_and_lists_are_list_element(self, style: str) -> None:
        rows = read_base(GOLDEN, f"{style}.parquet")
        fs = written(rows)
        assert read_base(fs, "f.parquet").equals(rows)
        paths = {physical(fs).metadata.schema.column(i).path for i in range(30 - 10)}
        assert "tags.list.element" in paths
        assert "attrs.key_value.key" in paths

    def test_every_base_file_of_the_fixtures_reads(self) -> None:
        count = 0
        for name, data in every_base_file():
            rows = read_parquet(pa.BufferReader(data), path=name)
            assert rows.num_rows == pq.ParquetFile(pa.BufferReader(data)).metadata.num_rows
            assert "array" not in str(rows.schema.field(rows.num_columns - 1).type)
            count += 1
        assert count > 500


def every_base_file() -> Iterator[tuple[str, bytes]]:
    for path in sorted(fixtures().glob("*/*.zip")):
        with zipfile.ZipFile(path) as archive:
            for entry in archive.namelist():
                parts = entry.split("/")
                if entry.endswith(".parquet") and not {".hoodie", "expected", "__MACOSX"} & {
                    *parts
                }:
                    yield f"{path.stem}:{entry}", archive.read(entry)


class TestWriting:
    def test_footer_entries_are_those_apache_hudi_looks_for(self) -> None:
        bloom = BloomFilter(100, 1e-6)
        rows = keyed(50)
        bloom.add(rows["_hoodie_record_key"])
        fs = written(rows, bloom=bloom, avro_schema='{"type":"record"}')
        assert physical(fs).metadata.metadata == {
            b"parquet.avro.schema": b'{"type":"record"}',
            b"writer.model.name": b"avro",
            b"org.apache.hudi.bloomfilter": bloom.to_base64().encode(),
            b"hoodie_bloom_filter_type_code": b"DYNAMIC_V0",
            b"hoodie_min_record_key": b"k000000",
            b"hoodie_max_record_key": b"k000049",
        }
        foot = footer(fs, "f.parquet")
        assert foot.bloom is not None and foot.bloom.to_base64() == bloom.to_base64()
        assert (foot.min_key, foot.max_key, foot.rows) == ("k000000", "k000049", 50)
        assert foot.size_bytes == fs.size("f.parquet")

    def test_a_simple_bloom_has_no_type_code(self) -> None:
        fs = written(keyed(1), bloom=BloomFilter(10, kind="SIMPLE"))
        assert b"hoodie_bloom_filter_type_code" not in physical(fs).metadata.metadata
        assert footer(fs, "f.parquet").bloom is not None

    def test_an_unknown_kind_of_bloom_is_damage(self) -> None:
        fs = written(keyed(1), bloom=BloomFilter(10))
        fs.replace("f.parquet", fs.read("f.parquet").replace(b"DYNAMIC_V0", b"DYNAMIC_V7"))
        with pytest.raises(CorruptFileError, match="DYNAMIC_V7"):
            footer(fs, "f.parquet").bloom  # noqa: B018

    def test_no_rows_have_no_key_range(self) -> None:
        fs = written(keyed(0), min_key="a", max_key="b")
        assert footer(fs, "f.parquet").min_key is None
        assert read_base(fs, "f.parquet").num_rows == 0

    def test_a_stream_is_written_a_row_group_at_a_time(self) -> None:
        pulled = []

        def stream() -> Iterator[pa.RecordBatch]:
            for start in range(0, 1000, 100):
                pulled.append(start)
                yield from keyed(1000).slice(start, 100).to_batches()

        fs = written(stream(), row_group_rows=250)
        assert read_base(fs, "f.parquet").equals(keyed(1000))
        metadata = physical(fs).metadata
        sizes = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
        assert sum(sizes) == 1000
        assert max(sizes) <= 300
        foot = footer(fs, "f.parquet")
        assert (foot.min_key, foot.max_key) == ("k000000", "k000999")

    def test_an_empty_stream_needs_a_schema(self) -> None:
        fs = written([], schema=keyed(0).schema)
        assert read_base(fs, "f.parquet").schema == keyed(0).schema

    def test_dictionary_arrays_are_stored_as_plain_strings(self) -> None:
        constant = pa.DictionaryArray.from_arrays(pa.array([0] * 500, pa.int32()), ["p=1"])
        other = pa.DictionaryArray.from_arrays(pa.array([1, 0] * 50, pa.int32()), ["x", None])
        column = pa.chunked_array([constant, other])
        fs = written(keyed(600, part=column))
        assert read_base(fs, "f.parquet")["part"].to_pylist() == column.to_pylist()
        assert physical(fs).schema_arrow.field("part").type == pa.string()

    def test_every_type_apache_hudi_holds_comes_back(self) -> None:
        rows = pa.table(
            {
                "bool": [True, None],
                "i32": pa.array([1, None], pa.int32()),
                "f32": pa.array([1.5, None], pa.float32()),
                "decimal": pa.array([Decimal("-1.25"), None], pa.decimal128(10, 2)),
                "date": [dt.date(2024, 1, 2), None],
                "time": pa.array([123, None], pa.time64("us")),
                "time_ms": pa.array([123, None], pa.time32("ms")),
                "at": pa.array([123, None], pa.timestamp("us", "UTC")),
                "at_ms": pa.array([123, None], pa.timestamp("ms", "UTC")),
                "local": pa.array([123, None], pa.timestamp("us")),
                "bytes": [b"\0\xff", None],
                "struct": [{"x": 1, "in": {"y": "é"}}, None],
                "map": pa.array(
                    [[("k", {"v": [1]})], None],
                    pa.map_(pa.string(), pa.struct([("v", pa.list_(pa.int64()))])),
                ),
                "lists": pa.array([[[1], None, []], None]),
            }
        )
        fs = written(rows)
        back = read_base(fs, "f.parquet")
        assert back.to_pylist() == rows.to_pylist()
        assert [f.type for f in back.schema] == [f.type for f in rows.schema]
        schema = physical(fs).schema
        by_path = {schema.column(i).path: schema.column(i) for i in range(len(schema))}
        assert by_path["decimal"].physical_type == "FIXED_LEN_BYTE_ARRAY"
        assert by_path["at"].physical_type == "INT64"

    def test_a_thousand_columns(self) -> None:
        rows = pa.table({f"c{i}": [i, None] for i in range(1000)})
        assert read_base(written(rows), "f.parquet").equals(rows)

    @settings(max_examples=25, deadline=None)
    @given(st.integers(0, 2**32 - 1), st.sampled_from([0.0, 0.3, 1.0]))
    def test_any_encoding_chosen_gives_the_rows_back(self, seed: int, null_share: float) -> None:
        rows = assorted(seed, 3500, null_share)
        assert read_base(written(rows, row_group_rows=1500), "f.parquet").equals(rows)


def assorted(seed: int, count: int, null_share: float) -> pa.Table:
    """Columns of every shape the encoding plan tells apart."""
    random = np.random.default_rng(seed)
    nulls = random.random(count) < null_share
    few = random.integers(0, 5, count)
    wide = random.integers(-(2**63), 2**63, count, dtype=np.int64)
    repeated = wide[random.integers(0, count // 3, count)]
    columns = {
        "few": few,
        "wide": wide,
        "repeated": repeated,
        "rising": np.arange(count) + wide[0] // 2,
        "i32": few.astype(np.int32),
        "random": random.random(count),
        "price": np.round(random.random(count), 2),
        "key": [f"{x & 0xFFFFFFFF:08x}" for x in wide.tolist()],
        "text": [f"the same beginning of {x}" for x in wide.tolist()],
        "word": ["x" * int(x) for x in random.integers(0, 30, count)],
        "city": [f"city-{x}" for x in few.tolist()],
    }
    return pa.table({name: pa.array(values, mask=nulls) for name, values in columns.items()})


class TestReading:
    ROWS = keyed(1000, n=list(range(1000)), s=[{"x": i} for i in range(1000)])

    @pytest.fixture
    def fs(self) -> MemoryFileSystem:
        return written(self.ROWS, row_group_rows=100)

    def test_columns_come_in_the_requested_order(self, fs: MemoryFileSystem) -> None:
        got = read_base(fs, "f.parquet", columns=["s", "absent", "n"])
        assert got.equals(self.ROWS.select(["s", "n"]))
        assert read_base(fs, "f.parquet", columns=[]).num_rows == 1000
        absent = read_base(fs, "f.parquet", schema=pa.schema([("new", pa.int32())]))
        assert absent["new"].null_count == 1000

    def test_a_schema_adds_widens_and_orders(self, fs: MemoryFileSystem) -> None:
        expected = pa.schema(
            [("new", pa.string()), ("s", pa.struct([("y", pa.bool_()), ("x", pa.float64())]))]
        )
        got = read_base(fs, "f.parquet", schema=expected)
        assert got.schema == expected
        assert got.slice(7, 1).to_pylist() == [{"new": None, "s": {"y": None, "x": 7.0}}]
        with pytest.raises(SchemaError):
            read_base(fs, "f.parquet", schema=pa.schema([("_hoodie_record_key", pa.int64())]))

    def test_a_filter_reads_matching_rows_only(self, fs: MemoryFileSystem) -> None:
        got = read_base(fs, "f.parquet", columns=["s"], filter=pc.field("n") > 997)
        assert got.to_pylist() == [{"s": {"x": 998}}, {"s": {"x": 999}}]

    def test_a_filter_on_a_column_the_file_lacks_sees_nulls(self, fs: MemoryFileSystem) -> None:
        expected = pa.schema([("new", pa.string()), ("n", pa.int64())])
        none = read_base(fs, "f.parquet", schema=expected, filter=pc.field("new") == "x")
        every = read_base(fs, "f.parquet", schema=expected, filter=pc.field("new").is_null())
        assert (none.num_rows, every.num_rows) == (0, 1000)
        assert none.schema == expected

    def test_row_groups_that_cannot_match_are_not_read(self) -> None:
        fs = written(self.ROWS, row_group_rows=100)
        data = bytearray(fs.read("f.parquet"))
        metadata = pq.ParquetFile(pa.BufferReader(data)).metadata
        for index in (0, 1, 2, 4, 5, 6, 7, 8, 9):  # damage every group but the fourth
            chunk = metadata.row_group(index).column(1)
            start = chunk.dictionary_page_offset or chunk.data_page_offset
            data[start : start + chunk.total_compressed_size] = (
                b"\xff" * chunk.total_compressed_size
            )
        fs.replace("f.parquet", bytes(data))
        got = read_base(fs, "f.parquet", columns=["n"], filter=pc.field("n") == 333)
        assert got["n"].to_pylist() == [333]
        with pytest.raises(CorruptFileError):
            read_base(fs, "f.parquet", columns=["n"])

    def test_row_groups_one_by_one_are_the_whole(self, fs: MemoryFileSystem) -> None:
        schema = self.ROWS.select(["n", "s"]).schema
        with opened_base(fs, "f.parquet", schema=schema) as file:
            parts = [file.read(row_group=number) for number in range(10)]
            assert file.row_group_rows == [part.num_rows for part in parts]
            assert file.read(["s"]).equals(self.ROWS.select(["s"]))
        assert pa.concat_tables(parts).equals(self.ROWS.select(["n", "s"]))

    def test_reading_leaves_no_reference_cycle_that_keeps_a_footer_alive(self) -> None:
        fs = written(keyed(5000, n=["a", "b"] * 2500), bloom=BloomFilter(1000, 1e-3))
        gc.collect()
        gc.disable()
        try:
            read_base(fs, "f.parquet", dictionaries=["n"])
            footer(fs, "f.parquet")
            alive = [o for o in gc.get_objects() if isinstance(o, pq.FileMetaData)]
        finally:
            gc.enable()
        assert alive == []

    def test_few_valued_strings_can_stay_dictionaries(self) -> None:
        rows = keyed(5000, city=[f"c{i % 3}" for i in range(5000)])
        fs = written(rows)
        got = read_base(fs, "f.parquet", schema=rows.schema, dictionaries=rows.column_names)
        assert got.schema.field("city").type == pa.dictionary(pa.int32(), pa.string())
        assert got.schema.field("_hoodie_record_key").type == pa.string()
        assert got["city"].to_pylist() == rows["city"].to_pylist()
        plain = read_base(fs, "f.parquet", schema=rows.schema, dictionaries=["n"])
        assert plain.equals(rows)
        assert read_base(written(got), "f.parquet").equals(rows)

    def test_int96_timestamps_read_as_the_schema_says(self) -> None:
        moments = pa.array([dt.datetime(2024, 1, 2, 3, 4, 5, 678901)], pa.timestamp("us"))
        sink = pa.BufferOutputStream()
        pq.write_table(pa.table({"at": moments}), sink, use_deprecated_int96_timestamps=True)
        expected = pa.schema([("at", pa.timestamp("us", "UTC"))])
        got = read_parquet(pa.BufferReader(sink.getvalue()), path="x", schema=expected)
        assert got["at"].to_pylist() == [dt.datetime(2024, 1, 2, 3, 4, 5, 678901, dt.UTC)]

    def test_a_missing_file_is_missing(self) -> None:
        with pytest.raises(FileMissingError):
            read_base(MemoryFileSystem(), "nothing.parquet")


class TestDamage:
    def test_every_cut_is_corrupt(self) -> None:
        data = GOLDEN.read("list_element.parquet")
        for cut in range(0, len(data), 13):
            with pytest.raises(CorruptFileError, match=r"path=x\.parquet"):
                read_parquet(pa.BufferReader(data[:cut]), path="x.parquet")

    @pytest.mark.parametrize("style", STYLES)
    def test_flipped_bytes_give_rows_or_corrupt(self, style: str) -> None:
        self.flip(GOLDEN.read(f"{style}.parquet"), step=23)

    def test_no_flipped_byte_of_a_page_we_wrote_goes_unseen(self) -> None:
        fs = written(assorted(1, 1100, 0.1).select(["few", "wide", "price", "key", "city"]))
        data = fs.read("f.parquet")
        metadata = physical(fs).metadata
        for at in range(metadata.num_columns):
            chunk = metadata.row_group(0).column(at)
            end = chunk.data_page_offset + chunk.total_compressed_size
            if chunk.dictionary_page_offset is not None:
                end = chunk.dictionary_page_offset + chunk.total_compressed_size
            for position in range(end - 200, end):  # inside the last page's body
                bad = bytearray(data)
                bad[position] ^= 0x10
                fs.replace("f.parquet", bytes(bad))
                with pytest.raises(CorruptFileError):
                    read_base(fs, "f.parquet", columns=[chunk.path_in_schema])

    @pytest.mark.slow
    @pytest.mark.parametrize("style", STYLES)
    def test_every_flipped_byte_gives_rows_or_corrupt(self, style: str) -> None:
        data = GOLDEN.read(f"{style}.parquet")
        self.flip(data, step=1)
        self.flip(data, step=5, mask=0x01)
        self.flip(data, step=7, mask=0x80)

    def flip(self, data: bytes, *, step: int, mask: int = 0xFF) -> None:
        fs = MemoryFileSystem()
        for at in range(0, len(data), step):
            bad = bytearray(data)
            bad[at] ^= mask
            fs.replace("f", bytes(bad))
            with contextlib.suppress(CorruptFileError):
                read_base(fs, "f")
            with contextlib.suppress(CorruptFileError):
                read_base(fs, "f", filter=pc.field("id") == "k00002")
            with contextlib.suppress(CorruptFileError):
                read_base(fs, "f", dictionaries=["_hoodie_commit_time", "part", "name"])
            with contextlib.suppress(CorruptFileError):
                footer(fs, "f").bloom  # noqa: B018


def test_no_byte_of_a_footer_that_is_zeroed_changes_the_number_of_rows() -> None:
    """Footers have no checksum, and one of their bytes is the number of rows of a row group."""
    fs = written(keyed(50))
    whole = fs.read("f.parquet")
    start, reported = len(whole) - 8 - int.from_bytes(whole[-8:-4], "little"), 0
    for at in range(start, len(whole)):
        fs.replace("f.parquet", whole[:at] + bytes(1) + whole[at + 1 :])
        try:
            assert physical_rows(fs) == [50, 50], at
        except CorruptFileError:
            reported += 1
    assert reported > 50


def physical_rows(fs: MemoryFileSystem) -> list[int]:
    """As counted by row groups, and as stated."""
    metadata = footer(fs, "f.parquet").metadata
    groups = range(metadata.num_row_groups)
    return [sum(metadata.row_group(each).num_rows for each in groups), metadata.num_rows]
