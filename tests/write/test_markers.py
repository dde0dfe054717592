"""Markers: what a write announces, what failed attempts leave, what must never be touched."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyhudi.filenames import BaseFileName, LogFileName, cdc_log_of, parse_data_file
from pyhudi.records import InstantTime
from pyhudi.storage.memory import MemoryFileSystem
from pyhudi.timeline.instant_files import TimelineLog
from pyhudi.transaction.heartbeat import Heartbeat, heartbeat_path, living
from pyhudi.transaction.markers import (
    Marker,
    MarkerKind,
    announce,
    list_markers,
    marker_path,
    remove_leftovers,
    remove_markers,
)
from tests.support.filesystems import tree
from tests.support.shells import ShellWrite, T, base, data_files, delta, ticking

GOLDEN = Path(__file__).parents[1] / "golden" / "rollback"


def test_names_are_those_any_apache_hudi_understands() -> None:
    new = base("f-0", T[5])
    log = delta("f-0", T[1], 3, "4-5-6")
    assert marker_path(T[5], "a/b", new, kind=MarkerKind.CREATE) == (
        f".hoodie/.temp/{T[5]}/a/b/f-0_0-1-2_{T[5]}.parquet.marker.CREATE"
    )
    assert marker_path(T[5], "", new, kind=MarkerKind.MERGE) == (
        f".hoodie/.temp/{T[5]}/f-0_0-1-2_{T[5]}.parquet.marker.MERGE"
    )
    assert marker_path(T[5], "p", log, kind=MarkerKind.APPEND) == (
        f".hoodie/.temp/{T[5]}/p/f-0_4-5-6_{T[1]}.parquet.marker.APPEND"
    )


def test_what_is_announced_is_listed_and_twice_is_once() -> None:
    fs = MemoryFileSystem()
    for _ in range(2):
        announce(fs, T[5], "a/b", base("f", T[5]), kind=MarkerKind.CREATE)
        announce(fs, T[5], "", delta("g", T[1], 1), kind=MarkerKind.APPEND)
    announce(fs, T[6], "a/b", base("h", T[6]), kind=MarkerKind.MERGE)
    found = list_markers(fs, T[5])
    assert [(m.partition, m.file.file_id, m.base_instant, m.kind.value) for m in found] == [
        ("a/b", "f", T[5], "CREATE"),
        ("", "g", T[1], "APPEND"),
    ]
    assert list_markers(fs, T[7]) == []


def golden_markers(version: str) -> list[tuple[str, dict[str, bytes]]]:
    """(heading, files of .hoodie) of each write seen in the golden text."""
    writes: list[tuple[str, dict[str, bytes]]] = []
    for line in (GOLDEN / f"markers_{version}.txt").read_text().splitlines():
        if line.startswith("## "):
            writes.append((line[3:], {}))
        elif line.startswith(".hoodie"):
            path, _, rest = line.partition("   ")
            text = rest.partition(": ")[2].strip("'")
            writes[-1][1][path] = text.replace("\\n", "\n").encode()
    return writes


@pytest.mark.parametrize("version", ["0.15.0", "1.2.0"])
def test_both_kinds_of_apache_hudis_markers_are_read(version: str) -> None:
    for heading, files in golden_markers(version):
        fs = MemoryFileSystem()
        for path, content in files.items():
            fs.create(path, content)
        instant = InstantTime(heading.rsplit(" ", 1)[-1])
        found = list_markers(fs, instant)
        kinds = sorted(m.kind.value for m in found)
        is_upsert = "upsert" in heading
        if not is_upsert:
            assert kinds == ["CREATE"] * 3, heading
        elif heading.startswith("COPY_ON_WRITE"):
            assert kinds == ["CREATE"] * 2 + ["MERGE"] * 3, heading
        else:
            assert kinds == ["APPEND"] * 3 + ["CREATE"] * 2, heading
        assert {m.partition for m in found} == {"p0", "p1", "p2"}, heading
        for marker in found:
            assert (marker.kind is MarkerKind.APPEND) == (marker.base_instant < instant), heading


def test_names_that_are_not_ours_or_outside_the_table_are_passed_over() -> None:
    fs = MemoryFileSystem()
    top = f".hoodie/.temp/{T[5]}"
    good = f"p/{base('f', T[5])}.marker.CREATE"
    lines = [
        good,
        f"../x/{base('f', T[5])}.marker.CREATE",
        f"/etc/{base('f', T[5])}.marker.CREATE",
        f".hoodie/metadata/files/{base('f', T[5])}.marker.CREATE",
        f"a//b/{base('f', T[5])}.marker.CREATE",
        "p/hoodie.properties.marker.CREATE",
        f"p/{base('f', T[5])}.marker.REMOVE",
        f"p/{base('f', T[5])}.marker.CREA",
        f"p/{delta('f', T[1], 1)}.marker.MERGE",
        "",
    ]
    fs.create(f"{top}/MARKERS0", "\n".join(lines).encode() + b"\xff\xfe")
    fs.create(f"{top}/MARKERS.type", b"TIMELINE_SERVER_BASED")
    fs.create(f"{top}/.MARKERS0.crc", b"crc")
    fs.create(f"{top}/p/notes.txt", b"")
    fs.create(f"{top}/p/MARKERS1", f"q/{base('g', T[5])}.marker.CREATE".encode())
    assert [m.path for m in list_markers(fs, T[5])] == [f"p/{base('f', T[5])}"]


@given(st.binary(max_size=200))
def test_any_bytes_in_a_markers_file_are_survived(data: bytes) -> None:
    fs = MemoryFileSystem()
    fs.create(f".hoodie/.temp/{T[5]}/MARKERS0", data)
    for marker in list_markers(fs, T[5]):
        assert isinstance(marker, Marker) and parse_data_file(str(marker.file)) == marker.file


def test_failed_attempts_are_removed_before_the_commit_and_nothing_else() -> None:
    fs = MemoryFileSystem()
    log = TimelineLog(fs, clock=ticking())
    old = ShellWrite(fs, log).start().put("p", base("a", T[0])).put("p", delta("a", T[0], 1))
    old.commit()
    write = ShellWrite(fs, log).start()
    write.put("p", base("b", write.time, "1-1-1")).put("p", delta("a", T[0], 2, "1-1-1"))
    retained = list(write.stats)
    before = set(data_files(fs))
    write.put("p", base("b", write.time, "1-1-2"))  # the same tasks once more
    write.put("p", delta("a", T[0], 3, "1-1-2"))
    write.put("q", delta("x", T[0], 1, "1-1-2"))
    announce(fs, write.time, "p", base("c", write.time), kind=MarkerKind.CREATE)  # never written
    announce(fs, write.time, "p", base("a", T[0]), kind=MarkerKind.CREATE)  # another's instant
    announce(fs, write.time, "none", delta("y", T[0], 1), kind=MarkerKind.APPEND)
    gone = remove_leftovers(fs, write.time, stats=retained)
    assert set(data_files(fs)) == before
    files = [p for p in gone if not p.endswith(".cdc")]
    assert [p for p in files if "c_0-1-2" not in p] == sorted(
        [f"p/b_1-1-2_{write.time}.parquet", f"p/.a_{T[0]}.log.3_1-1-2", f"q/.x_{T[0]}.log.1_1-1-2"]
    )
    remove_markers(fs, write.time)
    remove_markers(fs, write.time)
    assert not fs.exists(f".hoodie/.temp/{write.time}")


@pytest.mark.parametrize("kind", [MarkerKind.MERGE, MarkerKind.CREATE])
def test_the_log_of_changes_of_a_failed_attempt_goes_with_its_base_file(kind: MarkerKind) -> None:
    """A file group of logs alone gets its first base file, with such a log, by a merge."""
    fs = MemoryFileSystem()
    write = ShellWrite(fs, TimelineLog(fs, clock=ticking())).start()
    lost, retained = (base("a", write.time, token) for token in ("1-1-1", "1-1-2"))
    write.put("p", retained)
    for name in (lost, retained):
        announce(fs, write.time, "p", name, kind=kind)
        fs.create(f"p/{name}", b"rows")
        fs.create(f"p/{cdc_log_of(name)}", b"changes")
    remove_leftovers(fs, write.time, stats=write.stats)
    left = {info.path for info in fs.children("p") if parse_data_file(info.name)}
    assert left == {f"p/{retained}", f"p/{cdc_log_of(retained)}"}


_TOKENS = st.from_regex(r"[0-9]{1,4}-[0-9]{1,4}-[0-9]{1,9}", fullmatch=True)
_IDS = st.from_regex(r"[0-9a-f-]{1,36}", fullmatch=True)
_TIMES = st.from_regex(r"20[0-9]{15}", fullmatch=True).map(InstantTime)


@given(
    st.one_of(
        st.builds(BaseFileName, _IDS, _TOKENS, _TIMES),
        st.builds(LogFileName, _IDS, _TIMES, st.integers(1, 10**6), _TOKENS),
    ),
    st.sampled_from(["", "p", "a=1/b=2", "Zürich/x y"]),
)
def test_a_marker_reports_file_group_token_and_slice(
    file: BaseFileName | LogFileName, partition: str
) -> None:
    fs = MemoryFileSystem()
    kind = MarkerKind.APPEND if isinstance(file, LogFileName) else MarkerKind.CREATE
    announce(fs, T[5], partition, file, kind=kind)
    (marker,) = list_markers(fs, T[5])
    assert marker.kind is kind and marker.partition == partition
    assert marker.group.file_id == file.file_id and marker.base_instant == file.instant
    assert marker.file.write_token == file.write_token


def test_a_heartbeat_beats_while_the_block_runs() -> None:
    fs = MemoryFileSystem()
    with Heartbeat(fs, T[1], interval_seconds=0.01) as beat:
        assert fs.exists(heartbeat_path(T[1])) and T[1] in living(fs)
        fs.delete([heartbeat_path(T[1])])
        for _ in range(200):
            if fs.exists(heartbeat_path(T[1])):
                break
            beat._thread.join(0.01)
        assert fs.exists(heartbeat_path(T[1]))
    assert tree(fs) == {}
