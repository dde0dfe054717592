"""What the HFile writer puts on disk, and what it refuses."""

from __future__ import annotations

import base64
import hashlib
import io
import random
import struct
import zlib
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyhudi._native import HFileReader, HFileWriter
from pyhudi.errors import UserError
from tests.support.hfiles import SUFFIX, Cell, H, build, with_

KINDS = ("gz", "none")


def write(cells: list[Cell], batches: int = 1, **options: object) -> bytes:
    writer = HFileWriter(None, **options)  # type: ignore[arg-type]
    step = max(1, -(-len(cells) // batches))
    for i in range(0, len(cells), step):
        keys, values = zip(*cells[i : i + step], strict=True)
        writer.add(pa.array(keys, pa.binary()), pa.array(values, pa.binary()))
    data = writer.finish()
    assert data is not None
    assert len(data) == writer.bytes_written
    assert writer.entry_count == len(cells)
    return data


def read(data: bytes) -> list[Cell]:
    reader = HFileReader(data)
    reader.verify()
    table = reader.scan().read_all()
    return list(zip(table["key"].to_pylist(), table["value"].to_pylist(), strict=True))


def blocks(data: bytes) -> list[tuple[int, bytes, int, int, int, int, bytes]]:
    """(offset, magic, OD, UN, previous, BPC, plain body) of each block; sums must be zero."""
    found = []
    at = 0
    while at < len(data) - 4096:
        magic = data[at : at + 8]
        stored, plain, previous, kind, chunk, summed = struct.unpack(
            ">iiqBii", data[at + 8 : at + 33]
        )
        body = data[at + 33 : at + summed]
        assert kind == 0
        assert set(data[at + summed : at + 33 + stored]) <= {0}
        assert stored == summed - 33 + 4 * -(-summed // chunk)
        body = zlib.decompress(body, 31) if body[:2] == b"\x1f\x8b" else body
        assert len(body) == plain
        found.append((at, magic, stored, plain, previous, chunk, body))
        at += 33 + stored
    assert at == len(data) - 4096
    return found


def test_the_bytes_are_those_of_the_format() -> None:
    """A file of one cell, byte by byte."""
    data = write([(b"k", b"value")], compression="none", metadata={"schema": "{}"})
    key = b"\0\1k" + SUFFIX
    cell = struct.pack(">ii", 13, 5) + key + b"value" + b"\0"
    header = struct.pack(">iiqBii", len(cell) + 4, len(cell), -1, 0, 16384, 33 + len(cell))
    first = b"DATABLK*" + header + cell + bytes(4)
    root = struct.pack(">qi", 0, len(first)) + bytes([13]) + key
    header = struct.pack(">iiqBii", len(root) + 4, len(root), -1, 0, 16384, 33 + len(root))
    second = b"IDXROOT2" + header + root + bytes(4)
    third = b"IDXROOT2" + struct.pack(">iiqBii", 4, 0, -1, 0, 16384, 33) + bytes(4)
    assert data.startswith(first + second + third + b"FILEINF2")
    info = blocks(data)[3][6]
    assert info[:4] == b"PBUF"
    names = [
        b"KEY_VALUE_VERSION", b"MAX_MEMSTORE_TS_KEY", b"hfile.AVG_KEY_LEN", b"hfile.AVG_VALUE_LEN",
        b"hfile.CREATE_TIME_TS", b"hfile.LASTKEY", b"schema",
    ]  # fmt: skip
    places = [info.index(name) for name in names]
    assert places == sorted(places)
    assert data[-4:] == b"\3\0\0\3"
    assert data[-4096:].startswith(b'TRABLK"$')
    assert b"org.apache.hudi.io.storage.HoodieHBaseKVComparator" in data[-4096:]


def test_equal_input_gives_equal_bytes() -> None:
    cells = [(b"key%07d" % i, b"v" * (i % 40)) for i in range(9000)]
    for kind in KINDS:
        whole = hashlib.sha256(write(cells, compression=kind)).digest()
        assert hashlib.sha256(write(cells, batches=17, compression=kind)).digest() == whole


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("count", [0, 1, 2, 1000, 20_000])
def test_what_was_written_is_read(kind: str, count: int) -> None:
    rnd = random.Random(count)
    cells = [(b"%08d" % (3 * i), rnd.randbytes(rnd.randrange(60))) for i in range(count)]
    data = write(cells, batches=3, compression=kind)
    assert read(data) == cells
    reader = HFileReader(data)
    assert reader.compression == kind
    assert (
        reader.get_many([key for key, _ in cells][::-1]).to_pylist() == [v for _, v in cells][::-1]
    )


@settings(max_examples=60, deadline=None)
@given(
    stored=st.dictionaries(
        st.one_of(
            st.text(min_size=1, max_size=12).map(str.encode), st.binary(min_size=1, max_size=40)
        ),
        st.binary(max_size=120),
        max_size=200,
    ),
    absent=st.lists(st.binary(max_size=12), max_size=40),
    block_size=st.sampled_from([64, 200, 1024, 65536]),
    kind=st.sampled_from(KINDS),
)
def test_any_keys_and_values_survive(
    stored: dict[bytes, bytes], absent: list[bytes], block_size: int, kind: str
) -> None:
    cells = sorted(stored.items())
    data = write(cells, compression=kind, block_size=block_size)
    assert read(data) == cells
    probes = [*absent, *stored]
    for method in ("auto", "seek", "scan"):
        got = HFileReader(data).get_many(pa.array(probes, pa.binary()), method=method).to_pylist()
        assert got == [stored.get(key) for key in probes]


def test_strings_of_any_width_and_slices_are_taken() -> None:
    keys = pa.array([f"k{i}é" for i in range(9)])
    for kind in (pa.string(), pa.large_string(), pa.binary(), pa.large_binary()):
        writer = HFileWriter(None)
        writer.add(keys.cast(kind).slice(2, 4), pa.array([b"a", b"b", b"", b"d"]))
        writer.add(
            pa.chunked_array([keys.cast(kind).slice(6, 1), keys.slice(7, 1).cast(kind)]), ["x", "y"]
        )
        assert read(writer.finish() or b"") == [
            (f"k{i}é".encode(), value)
            for i, value in zip(range(2, 8), [b"a", b"b", b"", b"d", b"x", b"y"], strict=True)
        ]


@pytest.mark.parametrize(
    ("keys", "row", "words"),
    [
        (["b", "a"], 1, "ascending"),
        (["a", "a"], 1, "twice"),
        (["a", ""], 1, "empty"),
        (["a", "b" * 32768], 1, "32767"),
        (["a", None], 1, "null"),
        (["\U0001f600", "\ue000"], 1, "ascending"),
    ],
)
def test_keys_that_cannot_be_written_are_named_by_row(
    keys: list[str | None], row: int, words: str
) -> None:
    writer = HFileWriter(None)
    with pytest.raises(UserError, match=words) as caught:
        writer.add(pa.array(keys), pa.array([b"v"] * len(keys)))
    assert caught.value.facts["row"] == row


def test_order_holds_over_batches_and_blocks() -> None:
    for block_size in (64, 65536):
        writer = HFileWriter(None, block_size=block_size)
        writer.add(["a", "b", "c" * 70], ["1", "2", "3"])
        with pytest.raises(UserError, match="ascending") as caught:
            writer.add(["bb"], ["x"])
        assert caught.value.facts["row"] == 0
        with pytest.raises(UserError, match="twice"):
            writer.add(["c" * 70], ["x"])


def test_other_misuse_is_refused(tmp_path: Path) -> None:
    for options in ({"compression": "zip"}, {"block_size": 10}, {"block_size": 1 << 20}):
        with pytest.raises(UserError):
            HFileWriter(None, **options)  # type: ignore[arg-type]
    with pytest.raises(UserError):
        HFileWriter(None, metadata={"hfile.LASTKEY": b""})
    with pytest.raises(UserError):
        HFileWriter(17)
    writer = HFileWriter(None)
    with pytest.raises(UserError, match="as many"):
        writer.add(["a"], [])
    with pytest.raises(UserError, match="null"):
        writer.add(["a"], pa.array([None], pa.binary()))
    writer.finish()
    with pytest.raises(UserError, match="closed"):
        writer.add(["a"], ["b"])
    with pytest.raises(UserError, match="closed"):
        writer.finish()


def test_a_longest_key_and_a_large_value_are_written() -> None:
    cells = [(b"a" * 32767, bytes(3 << 20)), (b"b", b""), (b"c" * 32767, b"x")]
    for kind in KINDS:
        assert read(write(cells, compression=kind)) == cells


def assert_rules(data: bytes) -> None:
    """Rules 1 and 3 of storage_format 1.10, as the readers that break on them compute."""
    for _, magic, stored, plain, _, chunk, body in blocks(data):
        summed = 33 + stored - 4 * -(-(33 + stored) // chunk)
        assert -(-(33 + stored) // chunk) == -(-summed // chunk), "rule 3"
        if magic == b"DATABLK*":
            at = 0
            while at < plain:
                size = 9 + sum(struct.unpack(">ii", body[at : at + 8]))
                at += size
            assert 4 * -(-(33 + stored) // 16384) < size, "rule 1"


@pytest.mark.parametrize("kind", KINDS)
def test_blocks_dodge_the_defects_of_released_readers(kind: str) -> None:
    """Sizes around the edges of checksum pieces, where a body alone would break rule 3."""
    for body in (*range(16384 - 33 - 12, 16384 - 33 + 3), *range(32768 - 33 - 12, 32768 - 33 + 3)):
        single = [(b"%08d" % 0, random.Random(body).randbytes(body - 29))]
        data = write(single, compression=kind)
        assert_rules(data)
        assert read(data) == single
    for cell in (461, 71, 32731 // 7):
        cells = [(b"%08d" % i, bytes(cell - 29)) for i in range(600)]
        for block_size in (32731, 16347, 65499):
            data = write(cells, compression=kind, block_size=block_size)
            assert_rules(data)
            assert read(data) == cells


def test_short_cells_in_full_blocks_keep_rule_one() -> None:
    cells = [(struct.pack(">I", i), b"") for i in range(1, 20_000)]
    for kind in KINDS:
        assert_rules(write(cells, compression=kind))


def test_data_blocks_are_chained_and_closed_before_the_row_that_finds_them_full() -> None:
    cells = [(b"%08d" % i, bytes(71)) for i in range(100)]
    data = write(cells, compression="none", block_size=1000)
    chain = [
        (at, plain, previous)
        for at, magic, _, plain, previous, _, _ in blocks(data)
        if magic == b"DATABLK*"
    ]
    assert [plain for _, plain, _ in chain] == [1000] * 10
    assert [previous for _, _, previous in chain] == [-1] + [at for at, _, _ in chain[:-1]]


def test_an_empty_file_has_no_last_key() -> None:
    reader = HFileReader(write([]))
    assert reader.verify() == 0
    assert "hfile.LASTKEY" not in reader.metadata
    assert reader.get_many(["a"]).to_pylist() == [None]
    assert reader.scan().read_all().num_rows == 0
    assert HFileReader(build([], with_(H, checksum=0))).metadata.keys() < reader.metadata.keys()


class Filter:
    """Stands for a bloom filter."""

    kind = "DYNAMIC_V0"

    def __init__(self, stored: int = 0) -> None:
        self.key_count = stored
        self.seen: list[str] = []

    def add(self, keys: pa.Array) -> None:
        self.seen += keys.to_pylist()
        self.key_count += len(keys)

    def to_base64(self) -> str:
        return base64.b64encode(",".join(self.seen).encode()).decode()


def test_a_bloom_filter_goes_into_a_meta_block() -> None:
    stored = Filter()
    writer = HFileWriter(None, bloom=stored, metadata={b"schema": b"{}"})
    writer.add(["a", "b"], ["1", "2"])
    writer.add(["c"], ["3"])
    reader = HFileReader(writer.finish())
    assert stored.seen == ["a", "b", "c"]
    assert reader.meta_block("bloomFilter") == stored.to_base64().encode()
    reported = {
        name: reader.metadata[name]
        for name in ("minRecordKey", "maxRecordKey", "bloomFilterTypeCode", "schema")
    }
    assert reported == {
        "minRecordKey": b"a",
        "maxRecordKey": b"c",
        "bloomFilterTypeCode": b"DYNAMIC_V0",
        "schema": b"{}",
    }
    full = HFileWriter(None, bloom=Filter(stored=1))
    full.add(["a"], ["1"])
    full.finish()
    wrong = HFileWriter(None, bloom=Filter(stored=2))
    wrong.add(["a"], ["1"])
    with pytest.raises(UserError, match="filter"):
        wrong.finish()


def test_targets_are_paths_files_and_memory(tmp_path: Path) -> None:
    expected = write([(b"a", b"1")])
    path = tmp_path / "x.hfile"
    with HFileWriter(path) as writer:
        writer.add(["a"], ["1"])
    assert path.read_bytes() == expected
    with HFileWriter(str(path)) as writer:
        writer.add(["a"], ["1"])
    assert path.read_bytes() == expected
    stored = io.BytesIO(b"before")
    stored.seek(0, io.SEEK_END)
    with HFileWriter(stored) as writer:
        writer.add(["a"], ["1"])
    assert stored.getvalue() == b"before" + expected


def test_a_failed_write_leaves_no_file(tmp_path: Path) -> None:
    path = tmp_path / "x.hfile"
    with pytest.raises(UserError), HFileWriter(path) as writer:
        writer.add(["b", "a"], ["1", "2"])
    assert not path.exists()
