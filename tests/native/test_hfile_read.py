"""HFiles of every dialect are read, whatever they come from."""

from __future__ import annotations

import gzip
import io
import mmap
import random
import re
import subprocess
import sys
import threading
import zlib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pyhudi._native import HFileReader
from pyhudi._native.hfile.block_cache import SHARED
from pyhudi.errors import CorruptFileError, FileMissingError, UserError
from tests.support.fixtures import fixtures
from tests.support.hfiles import N0, N1, N2, Cell, Dialect, H, build, with_

GOLDEN = Path(__file__).parents[1] / "golden" / "hfile"
CELLS = [(b"hudi-key-%05d" % i, b"hudi-value-%d" % i) for i in range(200)]
LONG = [(b"%03d-" % i + b"k" * 140, b"%d" % i) for i in range(60)]
METHODS = ("auto", "seek", "scan")

DIALECTS = {
    "hbase": H,
    "hbase none": with_(H, gz=False),
    "hbase crc32": with_(H, checksum=1),
    "hbase no checksums": with_(H, checksum=0),
    "hbase two levels": with_(H, levels=2, fake_first_keys=True),
    "hbase three levels": with_(H, levels=3, fake_first_keys=True, block_cells=3),
    "hbase four levels none": with_(H, levels=4, gz=False, block_cells=2),
    "native first": N1,
    "native first none": with_(N1, gz=False),
    "native second": N2,
    "native pre-release": N0,
    "native pre-release none": with_(N0, gz=False),
    "no mvcc": with_(H, mvcc=None),
    "wide mvcc": with_(H, mvcc=(0, 200, 70_000, -1, 1 << 40)),
    "tags": with_(H, tags=b"tags of a cell"),
    "tags and no mvcc": with_(H, tags=b"", mvcc=None, gz=False),
    "no last key": with_(H, last_key=False),
    "one cell a block": with_(H, block_cells=1, gz=False),
}


def rows(reader: HFileReader) -> list[Cell]:
    table = reader.scan().read_all()
    return list(zip(table["key"].to_pylist(), table["value"].to_pylist(), strict=True))


def look_up(reader: HFileReader, keys: list[bytes], method: str = "auto") -> list[bytes | None]:
    return reader.get_many(pa.array(keys, pa.binary()), method=method).to_pylist()  # type: ignore[no-any-return]


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=DIALECTS)
@pytest.mark.parametrize("cells", [CELLS, LONG, CELLS[:1], []], ids=["many", "long", "one", "none"])
def test_every_dialect_reads_the_same(dialect: Dialect, cells: list[Cell]) -> None:
    data = build(cells, dialect)
    reader = HFileReader(data)
    assert reader.verify() == reader.entry_count == len(cells)
    assert rows(reader) == cells
    stored = dict(cells)
    probes = (
        [key for key, _ in cells] + [key + b"x" for key, _ in cells] + [b"", b"\xff" * 40, b"h"]
    )
    random.Random(1).shuffle(probes)
    for method in METHODS:
        got = look_up(HFileReader(data, hash_after=None), probes, method)
        assert got == [stored.get(key) for key in probes], method
    assert look_up(HFileReader(data, hash_after=0), probes * 2) == [
        stored.get(k) for k in probes * 2
    ]


@pytest.mark.parametrize("seed", range(6))
def test_rows_of_all_shapes_are_found(seed: int) -> None:
    """Random bytes over a small alphabet: shared prefixes, prefixes of each other, zero bytes."""
    rnd = random.Random(seed)
    alphabet = [b"\0\1", b"ab", b"\0\xff\x80a", bytes(range(256))][seed % 4]
    shared = rnd.choice([b"", b"pre\0", b"x" * 20])
    stored = {
        shared + bytes(rnd.choices(alphabet, k=rnd.choice([0, 1, 2, 7, 8, 9, 15, 16, 30]))): b"%d"
        % i
        for i in range(600)
    }
    cells = sorted(stored.items())
    dialect = with_(H, gz=seed % 2 == 0, block_cells=rnd.choice([1, 5, 50]), fake_first_keys=True)
    data = build(cells, dialect)
    absent = [
        shared + bytes(rnd.choices(alphabet, k=rnd.choice([0, 1, 3, 8, 9, 16]))) for _ in range(600)
    ]
    probes = [*stored, *absent, b"", shared[:-1], shared + b"\xff" * 50]
    rnd.shuffle(probes)
    for reader in (HFileReader(data, hash_after=None), HFileReader(data, hash_after=0)):
        for method in METHODS:
            assert look_up(reader, probes, method) == [stored.get(key) for key in probes]
            assert look_up(reader, sorted(probes), method) == [
                stored.get(k) for k in sorted(probes)
            ]
        for key in probes[:30]:
            assert reader.get(key) == stored.get(key)


@pytest.mark.parametrize("gz", [True, False])
def test_of_equal_rows_the_first_cell_is_the_answer(gz: bool) -> None:
    cells = [(b"k%03d" % i, b"%d.%d" % (i, n)) for i in range(40) for n in range(5)]
    data = build(cells, with_(H, gz=gz, block_cells=3))
    keys = [b"k%03d" % i for i in range(40)]
    for method in METHODS:
        for hash_after in (None, 0):
            got = look_up(HFileReader(data, hash_after=hash_after), keys, method)
            assert got == [b"%d.0" % i for i in range(40)]
    assert rows(HFileReader(data)) == cells


def test_keys_come_as_any_column_and_nulls_are_absent() -> None:
    reader = HFileReader(build(CELLS), hash_after=None)
    names = ["hudi-key-00003", None, "hudi-key-00001", "hudi-key-00003", "é"]
    expected = [b"hudi-value-3", None, b"hudi-value-1", b"hudi-value-3", None]
    for kind in (pa.string(), pa.large_string(), pa.binary(), pa.large_binary(), pa.string_view()):
        column = pa.array(names, kind)
        assert reader.get_many(column).to_pylist() == expected
        assert reader.get_many(column.slice(1, 3)).to_pylist() == expected[1:4]
        assert reader.get_many(pa.chunked_array([column, column])).to_pylist() == expected * 2
    assert reader.get_many(names).to_pylist() == expected
    assert reader.get_many(pa.array(names).dictionary_encode()).to_pylist() == expected
    assert reader.get_many(pa.array([], pa.string())).to_pylist() == []
    assert reader.get("hudi-key-00007") == b"hudi-value-7"
    with pytest.raises(UserError):
        reader.get_many(pa.array([1, 2]))
    with pytest.raises(UserError):
        reader.get_many(names, method="guess")


@pytest.mark.parametrize("dialect", [H, with_(H, levels=3, gz=False, block_cells=3)])
def test_ranges_and_prefixes_are_scanned_in_order(dialect: Dialect) -> None:
    reader = HFileReader(build(CELLS, dialect))
    keys = [key for key, _ in CELLS]
    bounds = [None, b"", b"hudi-key-00017", b"hudi-key-00017x", b"hudi-key-0010", b"z", keys[-1]]
    for start in bounds:
        for stop in bounds:
            expected = [k for k in keys if (start or b"") <= k and (stop is None or k < stop)]
            assert reader.scan(start, stop).read_all()["key"].to_pylist() == expected
    for prefix in (b"", b"hudi-key-0001", "hudi-key-0001", b"hudi-key-00019", b"nothing", b"\xff"):
        raw = prefix if isinstance(prefix, bytes) else prefix.encode()
        expected = [k for k in keys if k.startswith(raw)]
        assert reader.prefix(prefix).read_all()["key"].to_pylist() == expected


def test_scans_give_batches_of_key_and_value() -> None:
    reader = HFileReader(build([(b"%06d" % i, b"v" * 5000) for i in range(3000)]))
    stream = reader.scan()
    assert stream.schema.names == ["key", "value"]
    batches = list(stream)
    assert len(batches) > 1
    assert sum(batch.num_rows for batch in batches) == 3000
    assert all(batch.column("key").null_count == 0 for batch in batches)


class Remote:
    """A store where requests cost; counts them."""

    request_cost_seconds = 0.02
    bytes_per_second = 50e6

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.size = len(data)
        self.requests: list[tuple[int, int]] = []

    def read_at(self, offset: int, length: int) -> bytes:
        self.requests.append((offset, length))
        return self.data[offset : offset + length]


class Plain(Remote):
    request_cost_seconds = 0.0


def sources(data: bytes, folder: Path) -> dict[str, Any]:
    path = folder / "outer"
    path.write_bytes(b"before" + data + b"behind")
    whole = folder / "whole.hfile"
    whole.write_bytes(data)
    window = f"inlinefs:/{path}/file/?start_offset=6&length={len(data)}"
    with whole.open("rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    return {
        "str": str(whole),
        "path": whole,
        "url": window,
        "bytes": data,
        "bytearray": bytearray(data),
        "memoryview": memoryview(b"x" + data)[1:],
        "mmap": mapped,
        "arrow": pa.py_buffer(data),
        "file": io.BytesIO(data),
        "open file": whole.open("rb"),
        "random access": Plain(data),
        "remote": Remote(data),
    }


@pytest.mark.parametrize("gz", [True, False])
def test_every_kind_of_source_gives_the_same_answers(tmp_path: Path, gz: bool) -> None:
    data = build(CELLS, with_(H, gz=gz, metas={b"bloomFilter": b"text"}))
    for name, source in sources(data, tmp_path).items():
        with HFileReader(source) as reader:
            assert rows(reader) == CELLS, name
            assert reader.meta_block("bloomFilter") == b"text"
            for method in METHODS:
                got = look_up(reader, [key for key, _ in CELLS[::7]], method)
                assert got == [value for _, value in CELLS[::7]], name
            assert reader.verify() == len(CELLS)


def test_what_cannot_be_a_source_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError):
        HFileReader(17)
    with pytest.raises(FileMissingError):
        HFileReader(tmp_path / "absent.hfile")
    with pytest.raises(CorruptFileError):
        HFileReader(b"")
    (tmp_path / "empty").write_bytes(b"")
    with pytest.raises(CorruptFileError) as caught:
        HFileReader(tmp_path / "empty")
    assert "empty" in str(caught.value)
    with pytest.raises(UserError):
        HFileReader("inlinefs:/x/file/?start=1")
    closed = HFileReader(build(CELLS))
    closed.close()
    with pytest.raises(UserError):
        closed.get_many(["a"])


def test_only_needed_blocks_are_read_and_once() -> None:
    source = Plain(build(CELLS, with_(H, gz=True, block_cells=10)))
    reader = HFileReader(source)
    opened = len(source.requests)
    assert opened == 2
    look_up(reader, [CELLS[3][0], CELLS[4][0], CELLS[155][0]])
    assert reader.blocks_read == 2
    assert len(source.requests) == opened + 2
    look_up(reader, [CELLS[3][0], CELLS[9][0], CELLS[158][0]])
    assert reader.blocks_read == 2
    reader.prefix(CELLS[42][0]).read_all()
    assert reader.blocks_read == 3
    look_up(reader, [b"absent before", b"zz absent behind"])
    assert reader.blocks_read == 3


def test_a_multi_level_index_is_read_where_it_is_needed() -> None:
    source = Plain(build(CELLS, with_(H, levels=3, block_cells=2, node_entries=4)))
    reader = HFileReader(source)
    opened = len(source.requests)
    assert reader.get(CELLS[77][0]) == CELLS[77][1]
    assert len(source.requests) == opened + 3
    assert reader.get(CELLS[77][0]) == CELLS[77][1]
    assert len(source.requests) == opened + 3


def test_ranges_are_coalesced_where_requests_cost() -> None:
    cells = [(b"%06d" % i, random.Random(i).randbytes(400)) for i in range(20_000)]
    data = build(cells, with_(H, gz=False, checksum=0, block_cells=100))
    source = Remote(data)
    reader = HFileReader(source, hash_after=None)
    del source.requests[:]
    near = [cells[i][0] for i in range(0, 1000, 50)]
    assert look_up(reader, near, "seek") == [cells[i][1] for i in range(0, 1000, 50)]
    assert len(source.requests) == 1
    few = reader.plan(pa.array([cells[8_000][0], cells[19_000][0]]))
    many = reader.plan(pa.array([key for key, _ in cells[::40]]))
    assert few.method == "seek"
    assert few.requests == 2
    assert few.seek_cost < few.scan_cost
    assert many.scan_cost <= many.seek_cost * 1.2
    assert look_up(reader, [key for key, _ in cells[::40]]) == [value for _, value in cells[::40]]


def test_auto_seeks_in_a_mapped_file(tmp_path: Path) -> None:
    path = tmp_path / "x.hfile"
    path.write_bytes(build(CELLS))
    plan = HFileReader(path).plan([key for key, _ in CELLS[:30]])
    assert plan.method == "seek"
    assert plan.touched_blocks == 3
    assert plan.blocks == 20
    hashed = HFileReader(path, hash_after=0)
    hashed.get_many([CELLS[0][0]], method="seek")
    hashed.get_many([CELLS[0][0]])
    assert hashed.plan([CELLS[0][0]]).method == "hash"


def test_the_cache_is_bounded_and_answers_do_not_depend_on_it() -> None:
    data = build(CELLS, with_(H, block_cells=10))
    keys = [key for key, _ in CELLS]
    for cache_bytes in (0, 400, 1000, 5000, 1 << 20):
        reader = HFileReader(data, cache_bytes=cache_bytes)
        for _ in range(4):
            assert look_up(reader, keys) == [value for _, value in CELLS]
            assert look_up(reader, keys[::-13]) == [value for _, value in CELLS[::-13]]


def test_closing_gives_the_shared_cache_its_room_back() -> None:
    before = SHARED.bytes_stored
    with HFileReader(build(CELLS)) as reader:
        look_up(reader, [key for key, _ in CELLS[:3]])
        assert SHARED.bytes_stored > before
        look_up(reader, [key for key, _ in CELLS] * 2)
        look_up(reader, [key for key, _ in CELLS] * 2)
    assert SHARED.bytes_stored == before
    SHARED.check()


@pytest.mark.parametrize("source", [bytes, Plain])
def test_several_threads_inflate_for_several_callers(source: Any) -> None:
    cells = [(b"%06d" % i, b"%d" % i) for i in range(4000)]
    data = build(cells, with_(H, checksum=0, block_cells=20))
    stored = dict(cells)
    reader = HFileReader(source(data), threads=3, cache_bytes=100_000)
    failures: list[object] = []

    def look_up_seeded(seed: int) -> None:
        rnd = random.Random(seed)
        for _ in range(5):
            keys = [*rnd.sample(list(stored), 1500), b"absent"]
            if look_up(reader, keys) != [stored.get(key) for key in keys]:
                failures.append(seed)

    callers = [threading.Thread(target=look_up_seeded, args=(seed,)) for seed in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert not failures


@pytest.mark.parametrize("block_cells", [2, 500])
def test_files_in_the_order_of_utf_16_are_answered_all_the_same(block_cells: int) -> None:
    """Java writers sort text by its 16-bit units, where an emoji comes before U+FF01."""
    names = [
        f"{mark}{i:02d}" for mark in ("a", "\U0001f600", "\uff01", "\ue000") for i in range(20)
    ]
    names.sort(key=lambda name: name.encode("utf-16-be"))
    cells = [(name.encode(), b"%d" % i) for i, name in enumerate(names)]
    assert cells != sorted(cells)
    data = build(cells, with_(N1, block_cells=block_cells))
    probes = [*names, "b", "\U0001f600", "\uff02"]
    for method in METHODS:
        for cache_bytes in (None, 0):
            reader = HFileReader(data, cache_bytes=cache_bytes)
            for _ in range(2):
                got = reader.get_many(probes, method=method).to_pylist()
                assert got == [b"%d" % i for i in range(len(names))] + [None] * 3
    assert rows(HFileReader(data)) == cells
    with pytest.raises(CorruptFileError, match="order"):
        HFileReader(data).prefix("\uff01").read_all()
    with pytest.raises(CorruptFileError, match="order"):
        HFileReader(data).verify()


def test_a_scan_of_a_closed_reader_is_refused() -> None:
    reader = HFileReader(Plain(build(CELLS)))
    stream = reader.scan()
    reader.close()
    with pytest.raises(UserError, match="closed"):
        stream.read_all()


def test_file_info_and_meta_blocks_are_returned() -> None:
    info = {b"schema": b"{}", b"\xff odd": b"\0"}
    metas = {b"bloomFilter": b"A" * 100, b"other": b""}
    reader = HFileReader(build(CELLS, with_(N1, info=info, metas=metas)))
    assert reader.metadata["schema"] == b"{}"
    assert set(reader.metadata) > {"schema", "KEY_VALUE_VERSION", "hfile.LASTKEY"}
    assert reader.meta_block("bloomFilter") == b"A" * 100
    assert reader.meta_block("other") == b""
    assert reader.meta_block("nothing") is None
    assert reader.compression == "gz"


@pytest.mark.parametrize(
    "name", ["no_entry", "non_unique", "hbase_0_15_0", "native_1_2_0", "native_1_2_1"]
)
def test_files_of_apache_hudi_are_read(name: str) -> None:
    reader = HFileReader(GOLDEN / f"{name}.hfile")
    cells = rows(reader)
    assert reader.verify() == len(cells) == reader.entry_count
    first = dict(reversed(cells))
    keys = list(first)
    for method in METHODS:
        assert look_up(HFileReader(GOLDEN / f"{name}.hfile"), keys, method) == list(first.values())
    if name == "non_unique":
        assert len(cells) == 200 * 21
    else:
        assert reader.metadata["schema"].startswith(b"{")


def test_index_keys_of_1_2_1_have_the_suffix_and_long_keys_are_found() -> None:
    """Its keys of 208 bytes, whose size takes three bytes in the index, begin blocks too."""
    path = GOLDEN / "native_1_2_1.hfile"
    suffix = b"\0" + b"\x7f" + b"\xff" * 7 + b"\x04"
    body = path.read_bytes()
    packed = body[body.index(b"IDXROOT2") + 33 :]  # after the header of the block
    assert suffix in zlib.decompressobj(31).decompress(packed)  # of 1.2.0 they are without
    keys = [b"key%05d" % n + b"x" * 200 * (n % 7 == 3) for n in range(300)]
    reader = HFileReader(path)
    assert look_up(reader, keys) == [b"value-%d" % n for n in range(300)]
    assert look_up(reader, [b"key00003", b"a", b"z"]) == [None] * 3


def test_the_shared_sample_files_are_read() -> None:
    for path in sorted((fixtures() / "hfile").glob("*.hfile")):
        reader = HFileReader(path)
        assert reader.verify() == reader.entry_count
        cells = rows(reader)
        count = re.search(r"_(?:GZ|NONE)_(\d+)(?!\d*_20_non)", path.name)
        if count:
            assert len(cells) == int(count[1])
            assert look_up(reader, [k for k, _ in cells[::-3]]) == [v for _, v in cells[::-3]]


def test_a_file_of_a_pre_release_writer_is_read() -> None:
    """Keys of its cells are rows alone, and its blocks have no room for checksums."""
    with HFileReader(GOLDEN / "pre_release_1_1.hfile") as reader:
        assert reader.verify() == 1
        ((key, value),) = rows(reader)
        assert key == b"__all_partitions__"
        assert reader.get(key) == value
        assert reader.get(b"other") is None


def test_cells_of_both_kinds_in_one_block_are_refused() -> None:
    """Whether keys have the suffix is one fact of a block."""
    body = build(CELLS[:2], with_(N0, gz=False))
    assert rows(HFileReader(body)) == CELLS[:2]
    at = body.index(CELLS[1][0]) - 10
    torn = body[:at] + bytes([0, 0, 0, body[at + 3] + 1]) + body[at + 4 :]
    with pytest.raises(CorruptFileError):
        rows(HFileReader(torn))


def without_checksums(data: bytes, *, first: int = 0) -> bytes:
    """Zeros for the checksums of all blocks but the first ones, as hudi-rs 0.6 writes them."""
    made, at, number = bytearray(data), 0, 0
    while at < len(data) - 4096:  # the trailer
        stored, summed = (int.from_bytes(data[at + n : at + n + 4], "big") for n in (8, 29))
        if number >= first:
            made[at + summed : at + 33 + stored] = bytes(33 + stored - summed)
        at, number = at + 33 + stored, number + 1
    return bytes(made)


@pytest.mark.parametrize("gz", [False, True])
def test_a_file_that_states_checksums_and_has_none_is_read(gz: bool) -> None:
    data = build(CELLS, with_(H, gz=gz, checksum=2))
    assert rows(HFileReader(without_checksums(data))) == CELLS


def test_cleared_checksums_of_some_blocks_are_damage() -> None:
    data = build(CELLS, with_(H, gz=False, checksum=2))
    blocks_without_last = without_checksums(data)
    info = data.rindex(b"FILEINF2")
    some = blocks_without_last[:info] + data[info:]
    with pytest.raises(CorruptFileError, match="checksum mismatch"):
        HFileReader(some)


def test_a_file_without_cells_may_have_an_empty_data_block() -> None:
    """hudi-rs 0.6.0-rc.1 wrote this file, of a new table's column statistics."""
    data = gzip.decompress((GOLDEN / "hudi_rs_empty.hfile.gz").read_bytes())
    reader = HFileReader(data)
    assert reader.scan().read_all().num_rows == 0
    reader.verify()
    entry = data.index(b"IDXROOT2") + 33
    assert data[entry : entry + 13] == bytes(11) + b"\x25" + b"\0"
    longer = bytearray(data)
    longer[entry + 11] = 0x60  # a block that may have cells
    with pytest.raises(CorruptFileError):
        HFileReader(bytes(longer), verify_checksums=False)


def test_a_reader_in_a_garbage_cycle_is_collected() -> None:
    """CPython 3.11 crashed when the collector cleared the memoryview that a reader had exported."""
    code = """
import gc, io, weakref
import pyarrow as pa
from pyhudi import HFileReader, HFileWriter
from pyhudi.metadata.hfile_slices import MappedBytes

file = io.BytesIO()
with HFileWriter(file) as writer:
    writer.add(pa.array([b"a", b"b"]), pa.array([b"1", b"2"]))

class Cycle:
    pass

for _ in range(20):
    source, cycle = MappedBytes(file.getvalue(), "x"), Cycle()
    cycle.all = cycle, source, source.buffer, HFileReader(source)
    gone = weakref.ref(cycle)
    del source, cycle
    gc.collect()
    assert gone() is None
print("collected")
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (found.returncode, found.stdout, found.stderr) == (0, "collected\n", "")
