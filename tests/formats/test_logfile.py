"""Framing of log files: what Apache Hudi wrote, what it does with damage, and any damage at all."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyhudi.errors import CorruptFileError, PyhudiError, UnsupportedTableError, UserError
from pyhudi.formats.log_file import MAGIC, BlockKind, HeaderKey, frame, read_blocks, write_block
from tests.support.logs import (
    GOLDEN_LOGS,
    as_file,
    blocks_of,
    content_of,
    every_log,
    golden_log,
    kinds_of,
    small_block,
)

A = small_block()
headers = st.dictionaries(st.sampled_from(HeaderKey), st.text(max_size=20), max_size=4)
kinds = st.sampled_from([kind for kind in BlockKind if kind is not BlockKind.CORRUPT])


@pytest.mark.parametrize("path", sorted(GOLDEN_LOGS.iterdir()), ids=lambda path: path.stem)
def test_golden_logs_frame_and_write_back_byte_for_byte(path) -> None:  # type: ignore[no-untyped-def]
    data = path.read_bytes()
    blocks = blocks_of(data)
    for block in blocks:
        if block.kind is not BlockKind.CORRUPT:
            again = write_block(block.kind, block.header, content_of(block, data))
            assert again == data[block.offset : block.offset + block.size]
    assert sum(block.size for block in blocks) == len(data)


def test_every_log_of_the_fixtures_frames_without_residue() -> None:
    count = 0
    for name, data in every_log():
        blocks = read_blocks(as_file(data), path=name)
        assert BlockKind.CORRUPT not in {block.kind for block in blocks}, name
        assert sum(block.size for block in blocks) == len(data), name
        count += len(blocks)
    assert count > 1000


def test_a_rollback_names_its_target() -> None:
    (block,) = blocks_of(golden_log("rollback"))
    assert block.is_rollback
    assert (block.instant, block.target_instant) == ("20250126040936578", "20250126040826878")


def test_a_log_compaction_names_the_instants_it_merged() -> None:
    compacted = [b.compacted_instants for b in blocks_of(golden_log("compacted"))]
    assert compacted == [("20261121065013708", "20261121065005421")]


@given(kinds, headers, st.binary(max_size=300))
def test_a_written_block_reads_back(kind: BlockKind, header: dict, content: bytes) -> None:  # type: ignore[type-arg]
    content = b"" if kind is BlockKind.COMMAND else content
    data = write_block(kind, header, content)
    (block,) = blocks_of(data)
    assert (block.kind, block.header, content_of(block, data)) == (kind, header, content)


def test_frame_surrounds_content_of_the_length_given() -> None:
    before, after = frame(BlockKind.AVRO, {HeaderKey.SCHEMA: "é"}, 5)
    assert before + b"12345" + after == write_block(
        BlockKind.AVRO, {HeaderKey.SCHEMA: "é"}, b"12345"
    )


def test_a_block_of_two_gib_is_refused_before_it_is_built() -> None:
    with pytest.raises(UserError, match="2 GiB"):
        frame(BlockKind.AVRO, {}, (1 << 31) - 10)


class TestDamageAsApacheHudiSeesIt:
    """storage_format 2.6: what Hudi's own reader was seen to do."""

    def test_an_empty_file_has_no_blocks(self) -> None:
        assert kinds_of(b"") == []

    @pytest.mark.parametrize("cut", range(len(MAGIC), len(A)))
    def test_a_torn_block_after_its_magic_is_corrupt(self, cut: int) -> None:
        assert kinds_of(A + A[:cut]) == ["PARQUET", "CORRUPT"]

    @pytest.mark.parametrize("cut", range(len(MAGIC)))
    def test_less_than_a_magic_is_nothing(self, cut: int) -> None:
        assert kinds_of(A + A[:cut]) == ["PARQUET"]

    @pytest.mark.parametrize("cut", range(len(MAGIC), len(A)))
    def test_the_next_whole_block_is_found(self, cut: int) -> None:
        blocks = blocks_of(A + A[:cut] + A)
        assert [block.kind.name for block in blocks] == ["PARQUET", "CORRUPT", "PARQUET"]
        assert (blocks[1].offset, blocks[1].size) == (len(A), cut)

    def test_bytes_that_are_no_magic_make_the_block_before_corrupt(self) -> None:
        assert kinds_of(A + b"garbage") == ["CORRUPT"]

    def test_the_real_torn_log(self) -> None:
        assert kinds_of(golden_log("torn_1.2.0")) == ["AVRO", "CORRUPT"]

    def test_a_file_of_something_else_is_refused(self) -> None:
        with pytest.raises(CorruptFileError, match="#HUDI#"):
            blocks_of(b"PAR1 something else")


def test_a_command_with_content_is_corrupt() -> None:
    """A command is its header: the kind of a block of deletes or rows is damaged."""
    block = write_block(BlockKind.COMMAND, {HeaderKey.INSTANT_TIME: "1"}, b"rows")
    with pytest.raises(CorruptFileError, match="command"):
        blocks_of(block)


def test_a_magic_inside_garbage_does_not_hide_the_block_behind_it() -> None:
    garbage = MAGIC + b"x" * 40 + MAGIC + b"y" * 3
    assert kinds_of(A + garbage + A) == ["PARQUET", "CORRUPT", "PARQUET"]


def test_a_far_block_is_found_across_search_windows() -> None:
    torn = MAGIC + b"\0" * (3 << 20)
    for shift in range(8):
        blocks = blocks_of(torn + b"\0" * shift + A)
        assert [block.kind.name for block in blocks] == ["CORRUPT", "PARQUET"]


def test_a_file_of_nothing_but_magics_is_one_corrupt_block() -> None:
    assert kinds_of(MAGIC * 20_000) == ["CORRUPT"]


def test_header_keys_of_the_future_are_retained_as_numbers() -> None:
    data = bytearray(small_block(instant="7"))
    struct.pack_into(">i", data, 14 + 12, 99)
    (block,) = blocks_of(bytes(data))
    assert block.header == {99: "7"}


@pytest.mark.parametrize(
    ("offset", "value", "error"),
    [
        (14, 0, UnsupportedTableError),  # format version
        (14, 2, CorruptFileError),
        (18, 7, CorruptFileError),  # kind
        (18, 2, CorruptFileError),
        (22, -1, CorruptFileError),  # header entries
        (22, 1 << 30, CorruptFileError),
        (30, -1, CorruptFileError),  # length of a header entry
        (30, 1 << 30, CorruptFileError),
    ],
)
def test_a_framed_block_that_contradicts_itself_is_an_error(
    offset: int, value: int, error: type[PyhudiError]
) -> None:
    data = bytearray(A)
    struct.pack_into(">i", data, offset, value)
    with pytest.raises(error):
        blocks_of(bytes(data))


@settings(max_examples=300)
@given(st.data())
def test_any_flipped_byte_gives_blocks_or_an_error(data: st.DataObject) -> None:
    good = A + golden_log("delete") + A
    bad = bytearray(good)
    at = data.draw(st.integers(0, len(bad) - 1))
    bad[at] ^= data.draw(st.integers(1, 255))
    try:
        blocks = blocks_of(bytes(bad))
    except PyhudiError:
        return
    assert sum(block.size for block in blocks) <= len(bad)
    assert all(block.content_offset + block.content_length <= len(bad) for block in blocks)


@settings(max_examples=300)
@given(st.lists(st.sampled_from([A, MAGIC, b"\0" * 8, b"#HUD", b"\xff" * 7]), max_size=12))
def test_any_mixture_of_blocks_is_covered_or_refused(chunks: list[bytes]) -> None:
    data = b"".join(chunks)
    try:
        blocks = blocks_of(data)
    except CorruptFileError:
        assert not data.startswith(MAGIC)
        return
    at = 0
    for block in blocks:
        assert block.offset == at
        at += block.size
    assert len(data) - at < len(MAGIC)


def test_blocks_hash_and_compare() -> None:
    first, second = blocks_of(A), blocks_of(A)
    assert first == second
    assert hash(first[0]) == hash(second[0])
