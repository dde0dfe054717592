"""What every FileSystem must do, asked of each implementation."""

from __future__ import annotations

import errno
import gc
import os
import pickle
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from pyhudi.errors import CorruptFileError, FileMissingError, StorageError, UserError
from pyhudi.storage.filesystem import FileInfo, FileSystem
from pyhudi.storage.hdfs import HdfsFileSystem
from pyhudi.storage.local import LocalFileSystem
from pyhudi.storage.memory import MemoryFileSystem
from tests.support.azure import fresh_azure
from tests.support.filesystems import TracingFileSystem, tree
from tests.support.gcs import fresh_gcs
from tests.support.hdfs import fresh_hdfs
from tests.support.object_stores import fresh_s3, object_store_in_memory

KINDS = (
    "local",
    "memory",
    "traced",
    "object",
    "s3",
    pytest.param("gcs", marks=pytest.mark.slow),
    pytest.param("azure", marks=[pytest.mark.azure, pytest.mark.slow]),
    pytest.param("hdfs", marks=[pytest.mark.hdfs, pytest.mark.slow]),
)


def make(kind: str, folder: Path) -> FileSystem:
    match kind:
        case "local":
            return LocalFileSystem(folder)
        case "memory":
            return MemoryFileSystem()
        case "object":
            pytest.importorskip("obstore", reason="obstore is not installed")
            return object_store_in_memory()
        case "s3":
            return fresh_s3()
        case "gcs":
            return fresh_gcs()
        case "azure":
            return fresh_azure()
        case "hdfs":
            return fresh_hdfs()
        case _:
            return TracingFileSystem(MemoryFileSystem())


@pytest.fixture(params=KINDS)
def fs(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[FileSystem]:
    yield make(request.param, tmp_path / "root")


def test_a_created_file_reads_back_and_is_not_created_twice(fs: FileSystem) -> None:
    assert fs.create("a/b/c", b"one") is True
    assert fs.create("a/b/c", b"two") is False
    assert fs.read("a/b/c") == b"one"
    assert fs.size("a/b/c") == 3


def test_an_empty_file_is_a_file(fs: FileSystem) -> None:
    assert fs.create("empty", b"")
    assert fs.read("empty") == b"" and fs.size("empty") == 0 and fs.exists("empty")
    with closing(fs.open("empty")) as file:
        assert file.size == 0 and file.read_at(0, 0) == b""
    assert fs.arrow_file("empty").read() == b""


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_any_buffer_can_be_written(fs: FileSystem, kind: type) -> None:
    data = kind(b"0123")
    assert fs.create("c", data)
    fs.replace("r", data)
    with fs.open_sink("s") as sink:
        assert sink.write(data) == 4
    assert fs.read("c") == fs.read("r") == fs.read("s") == b"0123"


def test_replace_takes_the_place_of_old_content_or_none(fs: FileSystem) -> None:
    fs.replace("p/x", b"old")
    fs.replace("p/x", b"newer")
    assert fs.read("p/x") == b"newer"


def test_missing_parts_are_reported(fs: FileSystem) -> None:
    for call in (fs.read, fs.open, fs.size, fs.arrow_file, lambda p: fs.read_range(p, 0, 1)):
        with pytest.raises(FileMissingError) as caught:
            call("no/such")
        assert "no/such" in str(caught.value)
        assert isinstance(caught.value, FileNotFoundError) and not caught.value.retryable
    assert not fs.exists("no/such")
    assert fs.children("no") == [] and fs.names("no") == []


@pytest.mark.parametrize("kind", ["object", "s3"])
def test_an_object_with_the_name_of_a_folder_is_listed_once_as_the_folder(
    kind: str, tmp_path: Path
) -> None:
    """Other tools put an empty object in the place of a folder; an object store allows both."""
    fs = make(kind, tmp_path)
    fs.create("t/p", b"")
    fs.create("t/p/f", b"1")
    fs.create("t/file", b"22")
    found = [(info.path, info.is_folder, info.size_bytes) for info in fs.children("t")]
    assert found == [("t/file", False, 2), ("t/p", True, 0)]
    assert fs.names("t") == ["file"]


def test_ranges_are_exact_and_checked(fs: FileSystem) -> None:
    fs.create("f", b"0123456789")
    assert fs.read_range("f", 2, 3) == b"234"
    with closing(fs.open("f")) as file:
        assert file.size == 10
        assert file.read_at(0, 10) == b"0123456789" and file.read_at(10, 0) == b""
        for offset, length in ((8, 3), (11, 0), (-1, 2), (0, -1), (0, 1 << 62)):
            with pytest.raises(CorruptFileError):
                file.read_at(offset, length)


def test_one_open_file_serves_several_threads(fs: FileSystem) -> None:
    fs.create("f", bytes(range(256)) * 64)
    wrong: list[int] = []
    with closing(fs.open("f")) as file:

        def read(start: int) -> None:
            wrong.extend(
                n
                for n in range(start, 16_384 - 4, 97)
                if file.read_at(n, 4) != bytes((n + i) % 256 for i in range(4))
            )

        threads = [threading.Thread(target=read, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not wrong


def test_an_arrow_file_is_seekable(fs: FileSystem) -> None:
    fs.create("f", b"0123456789")
    with fs.arrow_file("f") as file:
        assert file.size() == 10
        file.seek(4)
        assert file.read(3) == b"456"


def test_children_are_direct_in_name_order_with_their_sizes(fs: FileSystem) -> None:
    for path in ("p/b", "p/a/deep/x", "p/.hidden", "p/c", "p-other/y", "q"):
        fs.create(path, path.encode())
    assert fs.children("p") == [
        FileInfo("p/.hidden", 9),
        FileInfo("p/a", 0, True),
        FileInfo("p/b", 3),
        FileInfo("p/c", 3),
    ]
    assert [info.name for info in fs.children()] == ["p", "p-other", "q"]
    assert fs.names() == ["q"] and fs.names("p") == [".hidden", "b", "c"]
    assert fs.children("p/b") == []
    assert fs.exists("p") and fs.exists("p/a/deep")


def test_names_may_be_any_unicode(fs: FileSystem) -> None:
    for name in (
        "Zürich",
        "日本",
        "a b",
        "q%3F{z}",
        "part=__HIVE_DEFAULT_PARTITION__",
        "x:y",
        "😀",
    ):
        if isinstance(fs, HdfsFileSystem) and ":" in name:
            with pytest.raises(StorageError, match="Invalid"):
                fs.create(f"{name}/{name}", b"")
            continue
        assert fs.create(f"{name}/{name}", name.encode())
        assert fs.read(f"{name}/{name}") == name.encode()
        assert fs.children(name) == [FileInfo(f"{name}/{name}", len(name.encode()))]


def test_no_path_leaves_the_root(fs: FileSystem) -> None:
    bad = ("/etc/x", "../x", "a/../../x", "a/./b", "..", "a\\b", "a\0b", "a//b", "a/")
    for path in bad:
        for call in (
            lambda p: fs.create(p, b""),
            fs.read,
            fs.open,
            fs.size,
            fs.exists,
            fs.children,
            fs.sub,
            fs.open_sink,
            fs.arrow_file,
            fs.delete_folder,
            lambda p: fs.replace(p, b""),
            lambda p: fs.delete([p]),
        ):
            with pytest.raises(UserError):
                call(path)


def test_the_root_itself_is_never_deleted(fs: FileSystem) -> None:
    fs.create("a", b"1")
    with pytest.raises(UserError):
        fs.delete_folder("")
    assert fs.read("a") == b"1"


def test_a_sub_is_the_same_store_rooted_deeper(fs: FileSystem) -> None:
    deeper = fs.sub("a/b")
    deeper.create("c", b"1")
    assert fs.read("a/b/c") == b"1"
    assert deeper.children() == [FileInfo("c", 1)]
    assert deeper.sub("d").url == deeper.url + "/d" == fs.sub("a").sub("b/d").url
    deeper.delete_folder("x")
    fs.delete_folder("a")
    assert not deeper.exists("c")


def test_a_sink_shows_its_file_whole_when_closed(fs: FileSystem) -> None:
    with fs.open_sink("p/f") as sink:
        assert sink.tell() == 0
        sink.write(b"abc")
        sink.write(memoryview(b"defg")[1:])
        assert sink.tell() == 6
        assert fs.children("p") == [] and not fs.exists("p/f")
    assert fs.read("p/f") == b"abcefg"
    sink.close()  # again is no error


def test_a_sink_left_by_an_error_leaves_nothing(fs: FileSystem) -> None:
    with pytest.raises(KeyError), fs.open_sink("p/f") as sink:
        sink.write(b"abc")
        raise KeyError
    sink = fs.open_sink("p/g")
    sink.write(b"abc")
    sink.abandon()
    sink.abandon()
    sink.close()
    assert fs.children("p") == []


def test_a_sink_that_is_dropped_leaves_nothing(fs: FileSystem) -> None:
    sink = fs.open_sink("p/f")
    sink.write(b"abc")
    del sink
    gc.collect()
    assert fs.children("p") == []


def test_a_sink_never_takes_a_name_that_is_taken(fs: FileSystem) -> None:
    fs.create("f", b"first")
    with pytest.raises(StorageError):
        fs.open_sink("f")
    late = fs.open_sink("g")
    late.write(b"late")
    fs.create("g", b"first")
    with pytest.raises(StorageError):
        late.close()
    assert fs.read("f") == fs.read("g") == b"first"


def test_one_of_many_creators_wins(fs: FileSystem) -> None:
    won: list[int] = []
    gate = threading.Barrier(8)

    def create(number: int) -> None:
        gate.wait()
        if fs.create("race", str(number).encode()):
            won.append(number)

    threads = [threading.Thread(target=create, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [fs.read("race")] == [str(n).encode() for n in won]


def test_deleting_what_is_gone_is_no_error(fs: FileSystem) -> None:
    fs.create("a", b"")
    fs.create("b/c/d", b"")
    fs.delete(["a", "a", "b/none", "none/none"])
    fs.delete_folder("b")
    fs.delete_folder("b")
    assert tree(fs) == {}


def test_delete_folder_spares_names_that_only_begin_alike(fs: FileSystem) -> None:
    for path in ("a/x", "ab/x", "a.x", "b/a/x"):
        fs.create(path, b"")
    fs.delete_folder("a")
    assert sorted(tree(fs)) == ["a.x", "ab/x", "b/a/x"]


def test_a_mutex_lets_one_in(fs: FileSystem) -> None:
    one, other = fs.mutex("x/lock"), fs.mutex("x/lock")
    assert one.key == other.key != fs.mutex("x/lock2").key == fs.sub("x").mutex("lock2").key
    assert one.acquire(0)
    assert not other.acquire(0) and not other.acquire(0.05)
    one.sign("me")
    assert other.signature() == "me"
    one.release()
    assert other.acquire(0)
    other.release()


class Model(RuleBasedStateMachine):
    """Any file system against a dict of path -> bytes."""

    kind = "memory"
    folder: Path

    names = st.sampled_from(["a", "b", "p/a", "p/b", "p/q/a", "pq/a", ".x", "p.x"])
    contents = st.binary(max_size=8)

    @initialize()
    def start(self) -> None:
        Model.folder = Model.folder.parent / f"{int(Model.folder.name) + 1}"
        self.fs = make(self.kind, self.folder)
        self.files: dict[str, bytes] = {}

    @rule(path=names, data=contents)
    def create(self, path: str, data: bytes) -> None:
        assert self.fs.create(path, data) == (path not in self.files)
        self.files.setdefault(path, data)

    @rule(path=names, data=contents)
    def replace(self, path: str, data: bytes) -> None:
        self.fs.replace(path, data)
        self.files[path] = data

    @rule(path=names, parts=st.lists(contents, max_size=3), keep=st.booleans())
    def sink(self, path: str, parts: list[bytes], keep: bool) -> None:
        if path in self.files:
            return
        with self.fs.open_sink(path) as sink:
            for part in parts:
                sink.write(part)
            if not keep:
                sink.abandon()
        if keep:
            self.files[path] = b"".join(parts)

    @rule(paths=st.lists(names, max_size=3))
    def delete(self, paths: list[str]) -> None:
        self.fs.delete(paths)
        for path in paths:
            self.files.pop(path, None)

    @rule(folder=st.sampled_from(["p", "p/q", "pq", "none"]))
    def delete_folder(self, folder: str) -> None:
        self.fs.delete_folder(folder)
        self.files = {p: d for p, d in self.files.items() if not p.startswith(folder + "/")}

    @invariant()
    def agrees(self) -> None:
        if hasattr(self, "fs"):
            assert tree(self.fs) == self.files


@pytest.mark.parametrize("kind", KINDS)
def test_any_series_of_calls_behaves_like_a_dict(kind: str, tmp_path: Path) -> None:
    class Sized(Model):
        pass

    Sized.kind = kind
    Model.folder = tmp_path / "0"
    examples = {"local": 15, "s3": 3, "hdfs": 2, "gcs": 3, "azure": 3}.get(kind, 60)
    run_state_machine_as_test(
        Sized,
        settings=settings(
            max_examples=examples,
            stateful_step_count=20,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


# What only the local disk has.


def test_the_local_disk_pickles_and_makes_its_root(tmp_path: Path) -> None:
    fs = LocalFileSystem(tmp_path / "not" / "yet")
    twin = pickle.loads(pickle.dumps(fs))
    assert twin.url == fs.url == str(tmp_path / "not" / "yet")
    twin.create("a", b"1")
    assert fs.read("a") == b"1"


def test_a_relative_root_is_pinned_when_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    fs = LocalFileSystem("t")
    monkeypatch.chdir("/")
    fs.create("a", b"1")
    assert (tmp_path / "t" / "a").read_bytes() == b"1"


def test_hadoops_checksum_sidecars_go_with_the_bytes_they_speak_of(tmp_path: Path) -> None:
    fs = LocalFileSystem(tmp_path)
    for name in ("replaced", "deleted", "made"):
        (tmp_path / f".{name}.crc").write_bytes(b"crc")
    (tmp_path / "replaced").write_bytes(b"old")
    (tmp_path / "deleted").write_bytes(b"old")
    fs.replace("replaced", b"new")
    fs.delete(["deleted"])
    fs.create("made", b"new")
    assert sorted(os.listdir(tmp_path)) == ["made", "replaced"]


def test_no_staged_file_is_left_or_listed(tmp_path: Path) -> None:
    fs = LocalFileSystem(tmp_path)
    fs.create("a", b"1")
    fs.create("a", b"2")
    fs.replace("a", b"3")
    with pytest.raises(KeyError), fs.open_sink("b") as sink:
        sink.write(b"x")
        assert [p for p in os.listdir(tmp_path) if p != "a"]  # staged, under a hidden name
        assert [info.name for info in fs.children()] == ["a"]
        raise KeyError
    assert os.listdir(tmp_path) == ["a"]


def test_new_folders_are_synced_up_to_the_first_that_stood(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    real = os.fsync

    def fsync(fd: int) -> None:
        synced.append(os.path.realpath(f"/proc/self/fd/{fd}"))
        real(fd)

    if not os.path.exists("/proc/self/fd"):
        pytest.skip("names of open files are not told here")
    monkeypatch.setattr(os, "fsync", fsync)
    LocalFileSystem(tmp_path).create("p/q/f", b"1")
    folders = [p for p in synced if os.path.isdir(p)]
    assert folders == [str(tmp_path), str(tmp_path / "p"), str(tmp_path / "p" / "q")]


def test_a_full_disk_is_a_storage_error_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fs = LocalFileSystem(tmp_path)

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    for act in (lambda: fs.create("a", b"1"), lambda: fs.replace("a", b"1")):
        with pytest.raises(StorageError, match="no space left") as caught:
            act()
        assert not caught.value.retryable
    assert os.listdir(tmp_path) == []


def test_a_file_in_the_way_of_a_folder_is_a_storage_error(tmp_path: Path) -> None:
    fs = LocalFileSystem(tmp_path)
    fs.create("a", b"1")
    for act in (
        lambda: fs.create("a/b", b"2"),
        lambda: fs.replace("a/b", b"2"),
        lambda: fs.read("a/b"),
        lambda: fs.delete_folder("a"),
    ):
        with pytest.raises(StorageError):
            act()
    fs.create("f/g", b"")
    with pytest.raises(StorageError):
        fs.read("f")
    assert fs.read("a") == b"1"


@given(st.text(max_size=12))
def test_a_path_is_refused_or_stays_inside(path: str) -> None:
    fs = MemoryFileSystem().sub("inner")
    try:
        fs.create(path, b"x")
    except UserError:
        return
    assert all(name.startswith("inner/") for name in fs.store.files)
