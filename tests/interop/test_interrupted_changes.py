"""Changes of the version that stop between two steps, and what Apache Hudi then reads."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pyhudi.api.table import Table
from pyhudi.engine import LocalEngine
from pyhudi.filenames import PROPERTIES
from pyhudi.options import parse_options
from pyhudi.storage.filesystem import FileSystem
from pyhudi.storage.local import LocalFileSystem
from pyhudi.table.version_record import RECORD
from tests.interop.same_rows import differences
from tests.interop.test_version_changes import KEEPS_VERSION, golden
from tests.support.apache_hudi import ApacheHudi
from tests.support.filesystems import Crash, CrashingFileSystem, TracingFileSystem
from tests.support.foreign import row_counts

pytestmark = pytest.mark.interop

OPTIONS = {"hoodie.index.type": "SIMPLE"}
Hudi = Callable[[str], ApacheHudi]


def opened(fs: FileSystem) -> Table:
    return Table(fs, options=parse_options(OPTIONS), engine=LocalEngine(1))


def change(fs: FileSystem, to: int) -> None:
    table = opened(fs)
    table.upgrade(to) if table.config.version < to else table.downgrade(to)


def stage(step: str) -> str:
    """What a step changes: a file of the table, or one of many in a folder."""
    verb, _, path = step.partition(" ")
    removes = "remove " if verb.startswith("delete") else ""
    if not path.startswith(".hoodie/") or path.startswith(".hoodie/.temp/"):
        return f"{removes}data files"
    if re.search(r"/\d{14,}[._]", path) or "/history/" in path:
        return f"{removes}{path.rpartition('/')[0]}/"
    if path.startswith(".hoodie/metadata/"):
        return f"{removes}{'/'.join(path.split('/')[:3])}/"
    return removes + re.sub(r"\d{14,}", "instant", path)


Chosen = dict[str, int]
"""Numbers of steps before which a change stops, by what is done then."""


def between_stages(trace: list[str]) -> Chosen:
    """Between two stages; the same two are tried once."""
    stages = ["", *map(stage, trace)]
    found: Chosen = {}
    for number, (a, b) in enumerate(pairwise(stages)):
        if a != b:
            found.setdefault(f"{a} -> {b}", number)
    return found


def at_phase_ends(trace: list[str]) -> Chosen:
    """Before and after the commit point, after the new metadata table is listed, and before the
    record of the change is removed."""
    replaced = [n for n, step in enumerate(trace) if step.endswith(f" {PROPERTIES}.backup")]
    _, _, begins, ends, _, listed = replaced[:6]  # two steps each; the first unlist the old one
    return {
        "before the commit point": begins,
        "after the commit point": ends + 1,
        "after the listing of files": listed + 1,
        "before the removal of the record": len(trace) - 1,
    }


def stops(root: Path, to: int, choose: Callable[[list[str]], Chosen]) -> Iterator[tuple[str, Path]]:
    """The table as it is where the change stopped, each in a new folder."""
    whole = copied(root, 0)
    watched = TracingFileSystem(LocalFileSystem(whole))
    change(watched, to)
    for name, number in choose(watched.trace).items():
        copy = copied(root, number + 1)
        dying = CrashingFileSystem(LocalFileSystem(copy), stop=number)
        with suppress(Crash):
            change(dying, to)
        assert dying.steps.crashed
        yield name, copy
        shutil.rmtree(copy)


def copied(root: Path, number: int) -> Path:
    copy = root.parent / f"stop-{number}" / root.name
    shutil.copytree(root, copy)
    return copy


def counted(rows: pa.Table) -> Counter[str]:
    return row_counts(rows, sorted(set(rows.column_names) - {"_hoodie_file_name"}))


def problems(copy: Path, hudis: list[ApacheHudi], before: Counter[str]) -> Iterator[str]:
    ours = opened(LocalFileSystem(copy))
    if counted(ours.scan().to_arrow()) != before:
        yield "pyhudi: other rows"
    for hudi in hudis:
        if hudi.version.startswith("0.") and ours.config.version > 6:
            continue
        for metadata in ("on", "off"):
            try:
                found = counted(hudi.read(copy, mdt=metadata))
            except AssertionError as error:
                yield f"metadata {metadata}: {str(error)[:300]}"
                continue
            if found != before:
                yield (
                    f"Apache Hudi {hudi.version}, metadata {metadata}: {found.total()} rows of"
                    f" {before.total()}; only there {list(found - before)[:2]}"
                )


@pytest.mark.slow
@pytest.mark.conformance(26)
@pytest.mark.parametrize(
    ("name", "since", "to"),
    [
        ("mor_bloom", 9, 6),
        pytest.param("mor_bloom", 6, 9, marks=pytest.mark.slow),
        pytest.param("cow_bloom", 6, 8, marks=pytest.mark.slow),
    ],
)
def test_both_read_a_table_whose_change_stopped_between_two_steps(
    name: str, since: int, to: int, tmp_path: Path, apache_hudi: Hudi
) -> None:
    root = golden(name, tmp_path)
    if since > 6:
        change(LocalFileSystem(root), since)
    before = counted(opened(LocalFileSystem(root)).scan().to_arrow())
    hudis = [apache_hudi("1.2.0"), apache_hudi("0.15.0")]
    found = {
        stopped: list(problems(copy, hudis, before))
        for stopped, copy in stops(root, to, between_stages)
    }
    assert len(found) > 10
    assert not {stopped: each for stopped, each in found.items() if each}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "since", "to"),
    [("cow_cleaned", 9, 6), ("mor_cleaned", 6, 9)],
)
def test_a_stopped_change_of_an_archived_table_with_a_record_index_is_written_and_finished(
    name: str, since: int, to: int, tmp_path: Path, apache_hudi: Hudi
) -> None:
    """Before the commit point Apache Hudi updates the table, then pyhudi finishes the change."""
    root = golden(name, tmp_path)
    if since > 6:
        change(LocalFileSystem(root), since)
    before = counted(opened(LocalFileSystem(root)).scan().to_arrow())
    hudis = [apache_hudi("1.2.0"), apache_hudi("0.15.0")]
    found: dict[str, list[str]] = {}
    for stopped, copy in stops(root, to, at_phase_ends):
        found[stopped] = list(problems(copy, hudis, before))
        if stopped == "before the commit point":
            written_and_finished(copy, to, hudis)
    assert not {stopped: each for stopped, each in found.items() if each}


def written_and_finished(copy: Path, to: int, hudis: list[ApacheHudi]) -> None:
    """The Apache Hudi of the table's version updates some rows; pyhudi completes the change."""
    fs = LocalFileSystem(copy)
    for is_finished in (False, True):
        if is_finished:
            change(fs, to)
            assert opened(fs).config.version == to and not fs.exists(RECORD)
            assert "record_index" in opened(fs).config.metadata_partitions
        hudi = hudis[opened(fs).config.version == 6]
        file = copy.with_suffix(".parquet")
        pq.write_table(opened(fs).scan(with_meta=False).to_arrow().slice(3 * is_finished, 3), file)
        version = str(opened(fs).config.version)
        conf = {**KEEPS_VERSION, "hoodie.write.table.version": version}
        hudi.call("write", path=str(copy), rows=str(file), conf=conf)
        assert not differences(copy, hudi)
    assert not opened(fs).metadata.verify().findings
