"""A lost race is a value inside the package; its error is raised only where no attempt is left."""

from __future__ import annotations

import ast
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import pyhudi
from pyhudi.api.table import Table
from pyhudi.engine import LocalEngine
from pyhudi.errors import Overtaken, OvertakenError, StorageError, WriteConflictError
from pyhudi.filenames import HEARTBEATS, METADATA_TABLE
from pyhudi.operations.commit import Committed, _attempt
from pyhudi.options import parse_options
from pyhudi.recovery.rollback import roll_back_failed
from pyhudi.storage.filesystem import Bytes, FileSystem
from pyhudi.storage.memory import MemoryFileSystem, MemoryStore
from pyhudi.table.log import timeline_log
from pyhudi.table.properties import load_config, store_config
from pyhudi.transaction.protocol import LockPolicy
from pyhudi.write.input.batch import StreamRows
from pyhudi.write.write_context import Operation, WriteRequest
from tests.concurrency.test_conflicts import OPTIMISTIC, new_table, open_, rows, snapshot
from tests.support.engines import Pausing

PACKAGE = Path(pyhudi.__file__).parent
RAISED = {
    "operations/service_runs.py",  # any error of a service, if an option says so
    "operations/commit.py",  # the end of a write without further attempts
    "spark/streams/split_reader.py",  # an error of a source, which a task returned
    "services/clustering.py",
    "transaction/finish.py",  # the end of a service, which is not planned again
    "write/files/file_plan.py",  # a task of a service
}


def commit_meanwhile(fs: FileSystem) -> None:
    open_(fs).upsert(rows(range(4), 2))


def roll_back_meanwhile(fs: FileSystem) -> None:
    """As another machine does that takes the writer for crashed."""
    fs.delete([info.path for info in fs.children(HEARTBEATS)])
    config = load_config(fs)
    roll_back_failed(fs, config, timeline_log(fs, config), engine=LocalEngine(1))


def index_meanwhile(fs: FileSystem) -> None:
    """As Apache Hudi's indexer does beside a write, whose keys the index would lack."""
    config = load_config(fs)
    listed = ",".join([*config.metadata_partitions, "bloom_filters"])
    store_config(fs, config.changed(hoodie__table__metadata__partitions=listed))


@pytest.mark.parametrize(
    "policy, meanwhile, what",
    [
        (LockPolicy.BEGIN_AND_END, commit_meanwhile, "same file group"),
        (LockPolicy.BEGIN_AND_END, roll_back_meanwhile, "was rolled back or has ended"),
        (LockPolicy.BEGIN_AND_END, index_meanwhile, "properties changed"),
        (LockPolicy.WHOLE_WRITE, roll_back_meanwhile, "was rolled back or has ended"),
    ],
    ids=["a commit", "a rollback", "an index", "a rollback under the lock"],
)
def test_an_attempt_returns_the_race_it_lost_and_leaves_nothing(
    policy: LockPolicy, meanwhile: Callable[[FileSystem], None], what: str
) -> None:
    fs = new_table()
    engine = Pausing("write", lambda: meanwhile(fs))
    batch = rows(range(2, 6), 3)
    request = WriteRequest(
        Operation.UPSERT, StreamRows(batch.to_reader()), parse_options(OPTIMISTIC), engine
    )
    ended = _attempt(fs, request, policy)
    assert isinstance(ended, Overtaken)
    assert what in str(ended.error)
    newer = 2 if meanwhile is commit_meanwhile else 1
    assert snapshot(fs) == {f"k{i}": newer if i < 4 else 1 for i in range(8)}


def test_a_write_that_was_rolled_back_before_its_end_is_planned_again() -> None:
    """Its files are written; another machine took the writer for crashed and removed them."""
    fs = new_table()
    engine = Pausing("write", lambda: roll_back_meanwhile(fs), after=True)
    report = open_(fs, engine=engine).upsert(rows(range(2, 6), 3))
    assert report.conflicts == 1
    assert any("another process rolled this instant back" in note for note in report.notes)
    assert snapshot(fs) == {f"k{i}": 3 if 2 <= i < 6 else 1 for i in range(8)}


def test_a_write_whose_search_lacks_files_that_were_cleaned_is_planned_again() -> None:
    """Its filter is applied to a snapshot whose files another process has deleted meanwhile."""
    fs = new_table()
    newest_alone = {
        **OPTIMISTIC,
        "hoodie.clean.policy": "KEEP_LATEST_FILE_VERSIONS",
        "hoodie.clean.fileversions.retained": "1",
    }

    def clean_meanwhile() -> None:
        commit_meanwhile(fs)
        cleaner = Table(fs, options=parse_options(newest_alone), engine=LocalEngine(1))
        assert cleaner.clean().files

    engine = Pausing("find", clean_meanwhile)
    report = open_(fs, engine=engine).delete(where="id in ('k2', 'k6')")
    assert report.conflicts == 1
    assert snapshot(fs) == {f"k{i}": 2 if i < 4 else 1 for i in (0, 1, 3, 4, 5, 7)}


class _Replying(MemoryFileSystem):
    """A store that loses the reply to one request, after another writer's request came first."""

    def __init__(self, store: MemoryStore, ending: str) -> None:
        super().__init__(store)
        self.ending = ending

    def create(self, path: str, data: Bytes, *, durable: bool = True) -> bool:
        if not path.endswith(self.ending) or path.startswith(METADATA_TABLE):
            return super().create(path, data, durable=durable)
        other = bytes(data).replace(b"UPSERT", b"INSERT")
        assert other != bytes(data)
        super().create(path, other, durable=durable)
        raise StorageError("no reply", path=path)


def test_an_instant_that_another_writer_completed_is_not_taken_for_the_own_commit() -> None:
    fs = new_table()
    assert isinstance(fs, MemoryFileSystem)
    with pytest.raises(WriteConflictError, match="another writer has completed this instant"):
        open_(_Replying(fs.store, ".commit")).upsert(rows(range(2), 3))


class _Refusing(MemoryFileSystem):
    """A store that refuses the commit."""

    refused = 0

    def create(self, path: str, data: Bytes, *, durable: bool = True) -> bool:
        if not path.endswith(".commit") or path.startswith(METADATA_TABLE):
            return super().create(path, data, durable=durable)
        self.refused += 1
        raise StorageError("access denied", path=path)


def test_a_commit_that_the_store_refuses_is_not_requested_again() -> None:
    fs = new_table()
    assert isinstance(fs, MemoryFileSystem)
    refusing = _Refusing(fs.store)
    with pytest.raises(StorageError, match="access denied"):
        open_(refusing).upsert(rows(range(4), 2))
    assert refusing.refused == 1
    open_(fs).upsert(rows(range(4), 3))
    assert snapshot(fs) == {f"k{i}": 3 if i < 4 else 1 for i in range(8)}


def test_an_attempt_returns_the_report_of_a_commit() -> None:
    fs = new_table()
    batch = rows(range(2), 3)
    request = WriteRequest(
        Operation.UPSERT,
        StreamRows(batch.to_reader()),
        parse_options(OPTIMISTIC),
        Pausing("", print),
    )
    ended = _attempt(fs, request, LockPolicy.BEGIN_AND_END)
    assert isinstance(ended, Committed)
    assert ended.report.updated == 2


def test_the_api_raises_the_error_of_the_last_attempt() -> None:
    fs = new_table()
    engine = Pausing("write", lambda: commit_meanwhile(fs))
    table = open_(fs, engine=engine, **{"hoodie.write.num.retries.on.conflict.failures": "0"})
    with pytest.raises(WriteConflictError) as refused:
        table.upsert(rows(range(2, 6), 3))
    assert (refused.value.code, refused.value.facts["attempts"]) == ("WRITE_CONFLICT", 1)
    assert isinstance(refused.value.__cause__, OvertakenError)


def test_the_api_raises_the_race_of_a_single_writer() -> None:
    fs = new_table()
    engine = Pausing("write", lambda: roll_back_meanwhile(fs))
    table = open_(fs, engine=engine, **{"hoodie.write.concurrency.mode": "single_writer"})
    with pytest.raises(OvertakenError, match="was rolled back or has ended") as refused:
        table.upsert(rows(range(2), 3))
    assert refused.value.code == "OVERTAKEN"


def test_a_lost_race_travels_between_processes() -> None:
    lost = Overtaken(OvertakenError("a file was cleaned", path="p/f", hint="write again"))
    assert str(pickle.loads(pickle.dumps(lost)).error) == str(lost.error)


def nodes(*kinds: type[ast.AST]) -> Iterator[tuple[str, ast.AST]]:
    """(module, node) of each node of the kinds."""
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, kinds):
                yield path.relative_to(PACKAGE).as_posix(), node


def test_no_error_of_a_lost_race_is_raised_or_caught_inside() -> None:
    found = list(nodes(ast.Raise, ast.ExceptHandler))
    raised = [(module, ast.unparse(n)) for module, n in found if isinstance(n, ast.Raise)]
    assert not [each for each in raised if each[1].startswith("raise OvertakenError")]
    assert {module for module, text in raised if text.endswith(".error")} == RAISED
    handlers = [
        ast.unparse(n.type) for _, n in found if isinstance(n, ast.ExceptHandler) and n.type
    ]
    assert not [text for text in handlers if "Overtaken" in text]
