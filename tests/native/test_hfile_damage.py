"""Damaged HFiles give the same rows or a CorruptFileError: never other rows, a crash or a hang.

The promise holds wherever the file carries checksums or gzip bodies; the trailer, which has
neither, is checked against the blocks.
"""

from __future__ import annotations

import contextlib
import random
import resource
import struct
import zlib
from pathlib import Path

import pyarrow as pa
import pytest

from pyhudi._native import HFileReader
from pyhudi.errors import CorruptFileError
from tests.support.fixtures import fixtures
from tests.support.hfiles import N1, SUFFIX, Dialect, H, build, proto, uvarint, with_

CELLS = [(b"hudi-key-%05d" % (7 * i), b"hudi-value-%d" % i) for i in range(60)]
PROBES = pa.array(
    [key for key, _ in CELLS] + [key + b"x" for key, _ in CELLS] + [b"", b"z"], pa.binary()
)
ANSWERS = [value for _, value in CELLS] + [None] * (len(CELLS) + 2)
TRAILER = 4096

PROTECTED = {
    "one level gz": with_(H, metas={b"bloomFilter": b"text"}),
    "two levels none": with_(H, gz=False, levels=2, fake_first_keys=True),
    "three levels gz": with_(H, levels=3, block_cells=4),
    "crc32 none": with_(H, gz=False, checksum=1),
    "no checksums gz": N1,
}


def check(data: bytes) -> bool:
    """Whether the file still reads; asserts that what it then gives is right."""
    sound = True
    for method in ("seek", "scan"):
        try:
            got = HFileReader(data, cache_bytes=0).get_many(PROBES, method=method)
            assert got.to_pylist() == ANSWERS
        except CorruptFileError:
            sound = False
    try:
        table = HFileReader(data, cache_bytes=0).scan().read_all()
        cells = list(zip(table["key"].to_pylist(), table["value"].to_pylist(), strict=True))
        assert cells == CELLS
    except CorruptFileError:
        sound = False
    return sound


def positions(data: bytes) -> list[int]:
    """Every byte, of the trailer's padding only some."""
    used = len(data) - TRAILER + 256
    return [*range(used), *range(used, len(data) - 4, 97), *range(len(data) - 4, len(data))]


@pytest.mark.parametrize("dialect", PROTECTED.values(), ids=PROTECTED)
def test_no_flipped_bit_changes_an_answer(dialect: Dialect) -> None:
    data = build(CELLS, dialect)
    assert check(data)
    survived = 0
    for position in positions(data):
        bad = bytearray(data)
        bad[position] ^= 1 << position % 8
        survived += check(bytes(bad))
    assert survived < len(data) // 2


@pytest.mark.slow
@pytest.mark.parametrize("dialect", PROTECTED.values(), ids=PROTECTED)
def test_no_changed_byte_changes_an_answer(dialect: Dialect) -> None:
    data = build(CELLS, dialect)
    for position in range(len(data)):
        for change in (0xFF, 0x80, 0x01, data[position] or 0x55):
            bad = bytearray(data)
            bad[position] ^= change
            check(bytes(bad))


@pytest.mark.parametrize("dialect", PROTECTED.values(), ids=PROTECTED)
def test_no_truncated_file_is_read(dialect: Dialect) -> None:
    data = build(CELLS, dialect)
    for length in range(0, len(data), 3):
        with pytest.raises(CorruptFileError):
            HFileReader(data[:length])
        with pytest.raises(CorruptFileError):
            HFileReader(data[len(data) - length :]).scan().read_all()


def test_a_missing_chunk_in_the_middle_is_found() -> None:
    data = build(CELLS, H)
    for start in range(0, len(data) - TRAILER, 41):
        for size in (1, 8, 100):
            check(data[:start] + data[start + size :])
            check(data[:start] + bytes(size) + data[start:])


def test_random_damage_never_crashes() -> None:
    rnd = random.Random(11)
    for dialect in (*PROTECTED.values(), with_(N1, gz=False), with_(H, gz=False, checksum=0)):
        data = build(CELLS, dialect)
        for _ in range(150):
            bad = bytearray(data)
            for _ in range(rnd.choice([1, 2, 5, 40])):
                bad[rnd.randrange(len(bad))] = rnd.choice(
                    [0, 1, 0x7F, 0x80, 0xFF, rnd.randrange(256)]
                )
            for use in (
                lambda reader: reader.get_many(PROBES, method="seek"),
                lambda reader: reader.get_many(PROBES, method="scan"),
                lambda reader: reader.get_many(PROBES),
                lambda reader: reader.scan().read_all(),
                lambda reader: reader.verify(),
            ):
                try:
                    use(HFileReader(bytes(bad), hash_after=0))
                except CorruptFileError as error:
                    assert error.code == "CORRUPT_FILE"


def patched(data: bytes, at: int, value: bytes) -> bytes:
    return data[:at] + value + data[at + len(value) :]


def peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


@pytest.fixture(scope="module")
def bomb() -> bytes:
    """200 MiB of zeros as a gzip member."""
    packer = zlib.compressobj(6, wbits=31)
    return b"".join([packer.compress(bytes(1 << 20)) for _ in range(200)]) + packer.flush()


@pytest.mark.parametrize("claimed", [100, 64 << 20, 2_000_000_000])
def test_a_decompression_bomb_is_refused_without_the_memory(bomb: bytes, claimed: int) -> None:
    """A block that inflates to more than it says, or says more than it can."""
    summed = 33 + len(bomb)
    sum_count = -(-summed // 16384)
    header = b"DATABLK*" + struct.pack(
        ">iiqBii", len(bomb) + 4 * sum_count, claimed, -1, 0, 16384, summed
    )
    block = header + bomb + bytes(4 * sum_count)
    forged = forge(block)
    before = peak_bytes()
    with pytest.raises(CorruptFileError):
        HFileReader(forged).get_many([b"a"])
    with pytest.raises(CorruptFileError):
        HFileReader(forged).scan().read_all()
    assert peak_bytes() - before < 100 << 20


def forge(block: bytes) -> bytes:
    """A file of one DATA block as it is, with a right index and trailer."""
    whole = build([(b"a", b"")], with_(N1, gz=True))
    first = struct.unpack(">i", whole[8:12])[0] + 33
    key = struct.pack(">h", 1) + b"a" + SUFFIX
    body = struct.pack(">qi", 0, len(block)) + bytes([len(key)]) + key
    packed = zlib.compress(body, 6, 31)
    summed = 33 + len(packed)
    root = (
        b"IDXROOT2"
        + struct.pack(">iiqBii", len(packed) + 4, len(body), -1, 0, 16384, summed)
        + packed
        + bytes(4)
    )
    old_root = first + 33 + struct.unpack(">i", whole[first + 8 : first + 12])[0]
    rest = whole[old_root : len(whole) - TRAILER]
    trailer = proto((2, len(block)), (5, 1), (6, 0), (7, 1), (8, 1), (9, 0), (10, 0), (12, 1))
    head = b'TRABLK"$' + uvarint(len(trailer)) + trailer
    return block + root + rest + head.ljust(4092, b"\0") + b"\0\0\0\3"


def test_a_forged_file_with_sound_parts_is_read() -> None:
    """The forger of the bomb test is itself right."""
    whole = build([(b"a", b"value")], N1)
    size = 33 + struct.unpack(">i", whole[8:12])[0]
    assert HFileReader(forge(whole[:size])).get(b"a") == b"value"


@pytest.mark.parametrize(
    ("field", "value"),
    [(2, 1 << 40), (2, 0), (5, 1 << 31), (5, 0), (6, 7), (7, 0), (7, 59), (8, 0), (8, 3), (8, 99),
     (9, 5), (10, 0), (12, 6), (12, 2)],
)  # fmt: skip
def test_a_trailer_that_the_blocks_contradict_is_refused(field: int, value: int) -> None:
    data = build(CELLS, H)
    size = data[len(data) - TRAILER + 8]
    at = len(data) - TRAILER + 9
    if size & 0x80:
        size, at = size & 0x7F | data[at] << 7, at + 1
    fields = dict(decoded(data[at : at + size]))
    fields[field] = value
    message = proto(*sorted(fields.items()))
    trailer = (b'TRABLK"$' + uvarint(len(message)) + message).ljust(4092, b"\0") + b"\3\0\0\3"
    with pytest.raises(CorruptFileError):
        HFileReader(data[: len(data) - TRAILER] + trailer).scan().read_all()


def decoded(message: bytes) -> list[tuple[int, int | bytes]]:
    def varint(at: int) -> tuple[int, int]:
        value = shift = 0
        while True:
            value |= (message[at] & 0x7F) << shift
            shift += 7
            at += 1
            if message[at - 1] < 0x80:
                return value, at

    fields: list[tuple[int, int | bytes]] = []
    at = 0
    while at < len(message):
        tag, at = varint(at)
        value, at = varint(at)
        if tag & 7 == 2:
            fields.append((tag >> 3, message[at : at + value]))
            at += value
        else:
            fields.append((tag >> 3, value))
    return fields


def test_verification_finds_what_reading_would_not() -> None:
    """A file whose parts are sound but do not belong together."""
    cells = [(b"b", b"1"), (b"a", b"2")]
    for gz in (True, False):
        with pytest.raises(CorruptFileError):
            HFileReader(build(cells, with_(H, gz=gz))).verify()
    longer = build(
        CELLS,
        with_(H, info={b"hfile.LASTKEY": struct.pack(">h", 1) + b"z" + SUFFIX}, last_key=False),
    )
    with pytest.raises(CorruptFileError):
        HFileReader(longer).verify()


def test_errors_name_file_and_place(tmp_path: Path) -> None:
    data = build(CELLS, H)
    path = tmp_path / "damaged.hfile"
    path.write_bytes(patched(data, 40, b"\xff\xff\xff"))
    with pytest.raises(CorruptFileError) as caught:
        HFileReader(path).get_many([CELLS[0][0]])
    assert caught.value.facts == {"path": str(path), "offset": 0}
    with pytest.raises(CorruptFileError) as caught:
        HFileReader(path.read_bytes(), path_for_errors="in.log").get_many([CELLS[0][0]])
    assert caught.value.facts["path"] == "in.log"


def sample_damage(path: Path, flips: list[int]) -> None:
    data = path.read_bytes()
    reader = HFileReader(data)
    table = reader.scan().read_all()
    expected = reader.get_many(table["key"])
    for position in flips:
        bad = bytearray(data)
        bad[position] ^= 1 << position % 8
        with contextlib.suppress(CorruptFileError):
            assert HFileReader(bytes(bad), cache_bytes=0).get_many(table["key"]).equals(expected)


def test_damaged_sample_files_never_answer_otherwise() -> None:
    for path in sorted((fixtures() / "hfile").glob("*.hfile")):
        size = path.stat().st_size
        sample_damage(path, random.Random(size).choices(range(size), k=60))


@pytest.mark.slow
def test_no_flipped_bit_of_the_sample_files_changes_an_answer() -> None:
    for path in sorted((fixtures() / "hfile").glob("*.hfile")):
        sample_damage(path, list(range(path.stat().st_size)))
