"""Which blocks of a metadata log count, and in which order they apply."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pytest

from pyhudi._native.hashing import bucket_of
from pyhudi.errors import CorruptFileError, UnsupportedTableError
from pyhudi.formats.log_block import delete_block, empty_delete_block, rollback_block
from pyhudi.formats.log_file import BlockKind, HeaderKey, read_blocks, write_block
from pyhudi.metadata.file_writers import value_blocks
from pyhudi.metadata.hfile_slices import MapSlice, StoredFile, layers, newest_values
from pyhudi.metadata.payloads import SCHEMA
from pyhudi.records import InstantTime
from pyhudi.storage.memory import MemoryFileSystem

VALID = frozenset({"1", "2", "3", "4"})


def put(instant: str, key: str, value: str, **header: str) -> bytes:
    (block,) = value_blocks(
        pa.array([key.encode()]), pa.array([value.encode()]), instant=InstantTime(instant)
    )
    if not header:
        return block
    content = hfile_of(block)
    texts = {HeaderKey[name]: text for name, text in header.items()}
    return write_block(
        BlockKind.HFILE,
        {HeaderKey.INSTANT_TIME: instant, HeaderKey.SCHEMA: SCHEMA, **texts},
        content,
    )


def hfile_of(block: bytes) -> bytes:
    fs = MemoryFileSystem()
    fs.create("x", block)
    (framed,) = read_blocks(fs.open("x"), path="x")
    return block[framed.content_offset : framed.content_offset + framed.content_length]


def gone(instant: str, *keys: str) -> bytes:
    return delete_block(pa.array(keys), "record_index", None, instant=instant)


def read(logs: Sequence[bytes], keys: Sequence[str]) -> dict[str, str]:
    """What the keys map to; logs are as many files."""
    fs = MemoryFileSystem()
    files = []
    for number, content in enumerate(logs):
        path = f"log.{number}.{abs(hash(content))}"
        fs.create(path, content)
        files.append(StoredFile(path, len(content)))
    file_slice = MapSlice("record_index", 0, None, tuple(files), VALID)
    found: dict[str, str] = {}
    for hit in newest_values(fs, file_slice, pa.array(keys)):
        for position, value in zip(hit.positions, hit.values.to_pylist(), strict=True):
            found[keys[position]] = value.decode()
    return found


def test_the_newest_value_wins_over_files_and_blocks() -> None:
    logs = [put("1", "a", "old") + put("2", "b", "b2"), put("3", "a", "new")]
    assert read(logs, ["a", "b", "c"]) == {"a": "new", "b": "b2"}


def test_deletes_hide_what_is_older_only() -> None:
    assert read([put("1", "a", "x"), gone("2", "a")], ["a"]) == {}
    assert read([put("1", "a", "x"), gone("2", "a"), put("3", "a", "y")], ["a"]) == {"a": "y"}


def test_blocks_of_unknown_instants_do_not_count() -> None:
    assert read([put("1", "a", "x"), put("9", "a", "y") + gone("9", "a")], ["a"]) == {"a": "x"}


def test_a_rollback_takes_out_what_came_before_it() -> None:
    logs = [put("1", "a", "x"), put("2", "a", "y"), rollback_block("3", "2"), put("4", "b", "z")]
    assert read(logs, ["a", "b"]) == {"a": "x", "b": "z"}


def test_blocks_after_a_rollback_of_their_instant_count() -> None:
    logs = [put("2", "a", "x"), rollback_block("3", "2"), put("2", "a", "y")]
    assert read(logs, ["a"]) == {"a": "y"}


def test_compacted_blocks_stand_where_the_newest_of_theirs_stood() -> None:
    """1 and 2 were compacted by 4 while 3 was written between."""
    compacted = put("4", "a", "two", COMPACTED_BLOCK_TIMES="2,1")
    logs = [put("1", "a", "one"), put("2", "a", "two"), put("3", "a", "three"), compacted]
    assert read(logs, ["a"]) == {"a": "three"}
    assert read([*logs[:2], compacted], ["a"]) == {"a": "two"}


def test_a_compaction_of_compactions_counts_once() -> None:
    logs = [
        put("1", "a", "one"),
        put("2", "a", "one", COMPACTED_BLOCK_TIMES="1"),
        put("3", "b", "three"),
        put("4", "a", "all", COMPACTED_BLOCK_TIMES="3,2"),
    ]
    assert read(logs, ["a", "b"]) == {"a": "all"}


def test_of_several_attempts_of_a_task_the_fullest_counts() -> None:
    def attempt(number: int, block: int, value: str) -> bytes:
        return put("1", f"k{block}", value, BLOCK_IDENTIFIER=f"{number},{block}")

    logs = [attempt(0, 0, "x"), attempt(0, 1, "x"), attempt(1, 0, "y")]
    assert read(logs, ["k0", "k1"]) == {"k0": "x", "k1": "x"}
    assert read([*logs, attempt(1, 1, "y")], ["k0", "k1"]) == {"k0": "y", "k1": "y"}


def test_a_malformed_block_identifier_does_not_stop_a_reader() -> None:
    logs = [
        put("1", "k0", "x", BLOCK_IDENTIFIER="x,0"),
        put("1", "k1", "y", BLOCK_IDENTIFIER="1"),
        put("1", "k2", "z", BLOCK_IDENTIFIER="2,0"),
    ]
    assert read(logs, ["k0", "k1", "k2"]) == {"k0": "x", "k1": "y", "k2": "z"}
    assert read(logs[1:], ["k1", "k2"]) == {"k1": "y", "k2": "z"}


def test_a_block_without_an_instant_is_corrupt() -> None:
    block = put("1", "a", "x")
    content = hfile_of(block)
    lost = write_block(BlockKind.HFILE, {HeaderKey.SCHEMA: SCHEMA}, content)
    with pytest.raises(CorruptFileError, match="no instant"):
        read([put("1", "b", "y"), lost], ["a"])


def test_empty_logs_and_marks_of_a_group_hold_nothing() -> None:
    fs = MemoryFileSystem()
    fs.create("mark", empty_delete_block("1"))
    fs.create("none", b"")
    files = (StoredFile("mark", 80), StoredFile("none", 0))
    assert layers(fs, MapSlice("files", 0, None, files, VALID)) == ()


def test_a_torn_append_of_an_unfinished_commit_leaves_the_blocks_before_it() -> None:
    whole, torn = put("1", "a", "x"), put("unfinished", "a", "y")
    for cut in range(0, len(torn), 97):
        assert read([whole + torn[:cut]], ["a"]) == {"a": "x"}


def test_a_damaged_block_of_a_committed_instant_is_an_error() -> None:
    whole, damaged = put("1", "a", "x"), put("2", "a", "y")
    with pytest.raises(CorruptFileError, match="committed write is damaged"):
        read([whole + damaged[:-9]], ["a"])


def test_blocks_of_rows_are_refused_by_name() -> None:
    block = write_block(
        BlockKind.AVRO, {HeaderKey.INSTANT_TIME: "1", HeaderKey.SCHEMA: SCHEMA}, bytes(8)
    )
    with pytest.raises(UnsupportedTableError, match="not HFiles"):
        read([block], ["a"])


def test_flipped_bytes_give_the_same_values_or_an_error() -> None:
    log = put("1", "a", "x" * 50) + put("2", "b", "y" * 50) + gone("3", "c")
    want = read([log], ["a", "b", "c"])
    for at in range(0, len(log), 41):
        flipped = bytearray(log)
        flipped[at] ^= 0x10
        try:
            found = read([bytes(flipped)], ["a", "b", "c"])
        except (CorruptFileError, UnsupportedTableError):
            continue
        assert found.keys() <= want.keys()
        assert all(want[key] == value for key, value in found.items())


@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("home", [0, 1])
def test_a_file_with_keys_of_another_group_is_refused(number: int, home: int) -> None:
    """As long as the right one and of the same commit, so that only its keys tell."""
    keys = [f"k{n}" for n in range(8)]
    homes = bucket_of(pa.array(keys), 2).tolist()
    mine = [key for key, of in zip(keys, homes, strict=True) if of == home]
    texts = pa.array(mine).cast(pa.binary())
    (block,) = value_blocks(texts, pa.array([b"x"] * len(mine)), instant=InstantTime("1"))
    for content in (block, gone("1", *mine)):
        fs, name = MemoryFileSystem(root=f"{home}-{number}"), f"log.{len(content)}"
        fs.create(name, content)
        file = StoredFile(name, len(content))
        file_slice = MapSlice("record_index", number, None, (file,), VALID, groups=2)
        if home == number:
            newest_values(fs, file_slice, pa.array(keys))
            continue
        with pytest.raises(CorruptFileError, match="keys of another file group"):
            newest_values(fs, file_slice, pa.array(keys))
