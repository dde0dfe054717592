"""Byte ranges as files: windows, file objects, `inlinefs:` URLs and the fsspec protocol."""

from __future__ import annotations

import io
from pathlib import Path

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyhudi.errors import CorruptFileError, FileMissingError, UserError
from pyhudi.storage.inline_file import InlineFileSystem, InlinePath, Window, parse_url
from pyhudi.storage.inline_fsspec import InlineFsspecFileSystem
from pyhudi.storage.local import LocalFileSystem
from pyhudi.storage.memory import MemoryFile, MemoryFileSystem
from pyhudi.storage.seekable_file import SeekableFile, as_pyarrow_file

DATA = bytes(range(100))


def outer() -> MemoryFile:
    return MemoryFile(DATA, "outer")


class TestUrls:
    @pytest.mark.parametrize(
        ("outer", "offset", "length", "url"),
        [
            (
                "s3a://b/t/.f-0_1.log.1_0-1-2",
                20,
                40,
                "inlinefs://b/t/.f-0_1.log.1_0-1-2/s3a/?start_offset=20&length=40",
            ),
            (
                "file:///d/x.log",
                8036,
                6959,
                "inlinefs://d/x.log/file/?start_offset=8036&length=6959",
            ),
            ("hdfs://nn:8020/a/b", 0, 0, "inlinefs://nn:8020/a/b/hdfs/?start_offset=0&length=0"),
        ],
    )
    def test_the_examples_of_the_format(
        self, outer: str, offset: int, length: int, url: str
    ) -> None:
        assert str(InlinePath(outer, offset, length)) == url
        assert parse_url(url) == InlinePath(outer, offset, length)

    @pytest.mark.parametrize(
        ("url", "outer"),
        [
            ("inlinefs:/d/x.log/file/?start_offset=1&length=2", "file:///d/x.log"),
            ("inlinefs:///d/x.log/file/?start_offset=1&length=2", "file:///d/x.log"),
            ("inlinefs://b/k/s3a/?start_offset=1&length=2", "s3a://b/k"),
            ("inlinefs:///k/hdfs/?start_offset=1&length=2", "hdfs:///k"),
            ("inlinefs://b/k/s3a?start_offset=1&length=2", "s3a://b/k"),
        ],
    )
    def test_older_forms_are_read(self, url: str, outer: str) -> None:
        assert parse_url(url) == InlinePath(outer, 1, 2)

    def test_a_plain_path_is_a_local_file(self) -> None:
        url = InlineFileSystem.url("/d/city=a?b/x.log", 1, 2)
        assert url == "inlinefs://d/city=a?b/x.log/file/?start_offset=1&length=2"
        assert InlineFileSystem.parse(url).outer == "file:///d/city=a?b/x.log"

    @given(
        st.sampled_from(["file", "s3a", "memory", "abfss"]),
        st.text(st.characters(exclude_characters="/", codec="utf-8"), min_size=1),
        st.integers(0, 2**63 - 1),
        st.integers(0, 2**63 - 1),
    )
    def test_parse_undoes_format(self, scheme: str, name: str, offset: int, length: int) -> None:
        root = "/" if scheme == "file" else "bucket/"
        there = InlinePath(f"{scheme}://{root}{name}", offset, length)
        assert parse_url(str(there)) == there

    @pytest.mark.parametrize(
        "url",
        [
            "s3a://b/k?start_offset=1&length=2",
            "inlinefs://b/k/s3a/",
            "inlinefs://b/k/s3a/?start_offset=1",
            "inlinefs://b/k/s3a/?start_offset=-1&length=2",
            "inlinefs://b/k/s3a/?start_offset=x&length=2",
            "inlinefs://s3a/?start_offset=1&length=2",
            "inlinefs://?start_offset=1&length=2",
            "",
        ],
    )
    def test_anything_else_is_refused(self, url: str) -> None:
        with pytest.raises(UserError):
            parse_url(url)


class TestWindow:
    def test_it_reads_its_own_bytes_only(self) -> None:
        window = Window(outer(), 10, 5)
        assert window.size == 5
        assert window.read_at(0, 5) == DATA[10:15]
        assert window.read_at(5, 0) == b""
        for offset, length in ((0, 6), (5, 1), (-1, 2), (0, -1)):
            with pytest.raises(CorruptFileError):
                window.read_at(offset, length)

    @pytest.mark.parametrize(("offset", "length"), [(0, 101), (100, 1), (-1, 5), (5, -1)])
    def test_it_must_lie_inside_its_file(self, offset: int, length: int) -> None:
        with pytest.raises(CorruptFileError):
            Window(outer(), offset, length)

    def test_windows_nest(self) -> None:
        assert Window(Window(outer(), 10, 50), 5, 10).read_at(1, 2) == DATA[16:18]

    @given(st.data())
    def test_a_seekable_file_acts_like_bytes_in_memory(self, data: st.DataObject) -> None:
        file = SeekableFile(Window(outer(), 20, 30))
        model = io.BytesIO(DATA[20:50])
        for _ in range(data.draw(st.integers(1, 8))):
            if data.draw(st.booleans()):
                to = data.draw(st.integers(0, 30))
                assert file.seek(to) == model.seek(to)
            size = data.draw(st.integers(-1, 40))
            assert file.read(size) == model.read(size)
            assert file.tell() == model.tell()

    def test_seek_may_not_leave_the_range(self) -> None:
        file = SeekableFile(Window(outer(), 20, 30))
        assert file.seek(30) == 30
        assert file.seek(-5, io.SEEK_END) == 25
        assert file.seek(2, io.SEEK_CUR) == 27
        for offset, whence in ((31, io.SEEK_SET), (1, io.SEEK_END), (-1, io.SEEK_SET)):
            with pytest.raises(UserError):
                file.seek(offset, whence)
        assert file.tell() == 27

    def test_buffered_and_text_layers_work_on_top(self) -> None:
        source = MemoryFile(b"..one\ntwo\n..", "outer")
        with io.TextIOWrapper(io.BufferedReader(SeekableFile(Window(source, 2, 8)))) as lines:
            assert lines.readlines() == ["one\n", "two\n"]


def parquet_inside(before: bytes = b"before", after: bytes = b"after") -> tuple[bytes, int, int]:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"x": range(1000)}), sink)
    body = sink.getvalue().to_pybytes()
    return before + body + after, len(before), len(body)


def test_pyarrow_reads_parquet_in_place() -> None:
    data, offset, length = parquet_inside()
    with as_pyarrow_file(Window(MemoryFile(data, "outer"), offset, length)) as file:
        assert pq.read_table(file)["x"].to_pylist() == list(range(1000))


class TestInlineFileSystem:
    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        (tmp_path / "a b").mkdir()
        place = tmp_path / "a b" / "outer.bin"
        place.write_bytes(DATA)
        return place

    def test_local_paths_and_urls(self, path: Path) -> None:
        inline = InlineFileSystem()
        with inline.open(str(path), 10, 5) as file:
            assert file.read() == DATA[10:15]
            assert (file.size, file.read_at(1, 2)) == (5, DATA[11:13])
        url = inline.url(path, 10, 5)
        with inline.open(url) as file, inline.open(inline.parse(url)) as again:
            assert file.read() == again.read() == DATA[10:15]
        assert inline.exists(url)
        assert inline.size(url) == 5

    def test_a_file_system_holds_the_outer_files(self, path: Path) -> None:
        memory = MemoryFileSystem()
        memory.create("t/x.log", DATA)
        with InlineFileSystem(memory).open("t/x.log", 1, 3) as file:
            assert file.read() == DATA[1:4]
        local = LocalFileSystem(path.parent)
        with InlineFileSystem(local).open(InlineFileSystem.url(path, 1, 3)) as file:
            assert file.read() == DATA[1:4]
        with pytest.raises(UserError, match="not inside"):
            InlineFileSystem(local.sub("deeper")).open(InlineFileSystem.url(path, 1, 3))

    def test_what_is_not_there(self, path: Path) -> None:
        inline = InlineFileSystem()
        assert not inline.exists(inline.url(path, 99, 2))
        assert not inline.exists(inline.url(f"{path}.not", 0, 1))
        with pytest.raises(FileMissingError):
            inline.open(f"{path}.not", 0, 1)
        with pytest.raises(CorruptFileError):
            inline.open(str(path), 99, 2)
        with pytest.raises(UserError, match="file system of that file"):
            inline.open("s3a://b/k", 0, 1)
        with pytest.raises(UserError):
            inline.open(str(path), -1, 1)

    def test_a_closed_range_refuses_reads(self, path: Path) -> None:
        file = InlineFileSystem().open(str(path), 0, 5)
        file.close()
        with pytest.raises(UserError):
            file.read()


class TestFsspec:
    @pytest.fixture(autouse=True)
    def register(self) -> None:
        fsspec.register_implementation("inlinefs", InlineFsspecFileSystem, clobber=True)

    @pytest.fixture
    def url(self, tmp_path: Path) -> str:
        data, offset, length = parquet_inside()
        (tmp_path / "x.log").write_bytes(data)
        return InlineFileSystem.url(tmp_path / "x.log", offset, length)

    def test_the_entry_point_names_the_class(self) -> None:
        text = (Path(__file__).parents[2] / "pyproject.toml").read_text()
        place = f"{InlineFsspecFileSystem.__module__}:{InlineFsspecFileSystem.__name__}"
        assert f'inlinefs = "{place}"' in text

    def test_open_by_url(self, url: str) -> None:
        with fsspec.open(url) as file:
            assert file.read(4) == b"PAR1"
            file.seek(-4, io.SEEK_END)
            assert file.read() == b"PAR1"
            with pytest.raises(UserError):
                file.seek(1, io.SEEK_END)

    def test_other_libraries_read_through_it(self, url: str) -> None:
        fs = fsspec.filesystem("inlinefs")
        assert pq.read_table(fs.open(url)).num_rows == 1000
        assert fs.cat_file(url, 0, 4) == fs.cat_file(url)[:4] == b"PAR1"
        assert fs.info(url)["size"] == fs.size(url) == len(fs.cat_file(url))
        assert fs.ls(url, detail=False) == fs.glob(url) == [url]
        assert fs.exists(url)

    def test_it_is_read_only_and_bounded(self, url: str) -> None:
        fs = fsspec.filesystem("inlinefs")
        with pytest.raises(UserError):
            fs.open(url, "wb")
        with pytest.raises(CorruptFileError):
            fs.open(url.rpartition("=")[0] + "=999999")
        with pytest.raises(FileNotFoundError):
            fs.open(url.replace("x.log", "y.log"))

    def test_ranges_of_remote_files(self) -> None:
        with fsspec.open("memory://bucket/outer.bin", "wb") as file:
            file.write(DATA)
        url = str(InlinePath("memory://bucket/outer.bin", 10, 5))
        with fsspec.open(url) as file:
            assert file.read() == DATA[10:15]
