"""What is archived has Apache Hudi's form, and says what the instant's files said."""

from __future__ import annotations

import json
from typing import Any

from pyhudi.formats.log_file import BlockKind, read_blocks
from pyhudi.layouts.v6 import V6
from pyhudi.storage.memory import MemoryFileSystem
from pyhudi.timeline.archive import Archive
from pyhudi.timeline.archive_entries import blocks, entry
from pyhudi.timeline.archive_files import ArchiveFiles
from pyhudi.timeline.instant import State
from pyhudi.timeline.instant_files import TimelineLog
from pyhudi.timeline.state_files import state_files
from tests.support.golden import golden_table

Fields = dict[str, dict[str, Any]]


def records_of(schema: str) -> Fields:
    """The fields of every record in a schema: their types by name, in order."""
    found: Fields = {}

    def reported(kind: Any) -> Any:
        if isinstance(kind, list):
            return [reported(each) for each in kind]
        if isinstance(kind, str):
            return kind.rsplit(".", 1)[-1]
        match kind["type"]:
            case "record":
                fields = {
                    f["name"]: (reported(f["type"]), f.get("default")) for f in kind["fields"]
                }
                found[kind["name"]] = fields
                return kind["name"]
            case "array":
                return ["array", reported(kind["items"])]
            case "map":
                return ["map", reported(kind["values"])]
            case other:
                return reported(other)

    reported(json.loads(schema))
    return found


def test_the_schema_is_that_of_apache_hudi_less_what_is_never_archived() -> None:
    golden = golden_table("cow_cleaned_h120")
    path = ".hoodie/history/.commits_.archive.1_1-0-1"
    theirs = records_of(read_blocks(golden.open(path), path=path)[0].schema or "")
    fs = MemoryFileSystem()
    fs.create("a", b"".join(blocks([{}], batch=1)))
    (block,) = read_blocks(fs.open("a"), path="a")
    assert block.kind is BlockKind.AVRO and block.instant is None
    for name, fields in records_of(block.schema or "").items():
        assert fields == {f: theirs[name][f] for f in theirs[name] if f in fields}, name
        assert list(fields) == [f for f in theirs[name] if f in fields], name


def test_an_archived_instant_reports_what_its_files_contained() -> None:
    for name in ("cow_cleaned", "mor_cleaned", "mor_overwritten", "cow_clustered"):
        fs = golden_table(name)
        log = TimelineLog(fs)
        timeline = log.load()
        done = timeline.where(None, State.COMPLETED).instants
        want = {i.time: log.commit(i) for i in timeline.commits}
        files = ArchiveFiles(log, ".hoodie/ours")
        assert files.append(done, batch=3).endswith(".commits_.archive.1_1-0-1")
        archive = Archive(fs, layout=V6, folder=".hoodie/ours")
        assert archive.timeline.times == {i.time for i in done}
        for archived in archive.commits:
            before = want[archived.time]
            assert archived.metadata.groups == before.groups, name
            assert archived.metadata.schema == before.schema
            assert archived.metadata.operation == before.operation
            assert [s.path for s in archived.metadata.stats] == [s.path for s in before.stats]
        for clean in archive.cleans:
            instant = next(i for i in done if i.time == clean.time)
            reported = log.record(instant)
            assert clean.record["earliestCommitToRetain"] == reported["earliestCommitToRetain"]
        files.remove(done)
        assert not log.load().where(None, State.COMPLETED).instants


def test_the_time_of_a_state_is_that_of_its_file_where_the_store_reports_it() -> None:
    fs = golden_table("cow_cleaned")
    log = TimelineLog(fs)
    (info, state), *_ = next(iter(state_files(log).values()))
    content = fs.read(info.path)
    made = entry(state, content, path=info.path, modified=None, zone=None)
    assert made["stateTransitionTime"] == state.time
    made = entry(state, content, path=info.path, modified=0.5, zone=None)
    assert made["stateTransitionTime"].endswith("500")
