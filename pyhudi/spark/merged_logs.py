"""Merged logs of file slices, stored as Parquet files for the queries of a Spark application.

To merge the logs of a slice costs more than most queries of the result, and Spark passes neither
columns nor filters to rows that come from Python.  So workers merge a slice once, when a scan of it
is planned, and Spark's own reader reads the result (`slice_tasks.StoredLogs`).  A later snapshot
uses it again while the slice has the same files, and the same instants are visible of those that
the merge asked for.

The files are in a folder that ends with the application.  Their size is bounded: the ones used
least recently are deleted, but none that a plan of Spark still refers to.  Slices for which there
is no room are read as without this module.
"""

from __future__ import annotations

import gc
import logging
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.types as pt
from pyspark.sql import DataFrame, SparkSession

from pyhudi.errors import OptionError, SchemaError, StorageError
from pyhudi.formats.logical_types import HUDI_TYPE
from pyhudi.read.scan_plan import ScanPlan
from pyhudi.read.scan_tasks import ReadTask
from pyhudi.records import META_COLUMNS
from pyhudi.spark.engine import SparkEngine
from pyhudi.spark.frames import is_connect, is_on_one_machine
from pyhudi.spark.listed_files import hadoop_path, hadoop_properties
from pyhudi.spark.merged_reader import BITMAP_BYTES, BITMAPS
from pyhudi.spark.parquet_reader import AddedFiles, Reader, Readers, file_schema, read_listed
from pyhudi.spark.slice_tasks import LogWork, StoredFile, StoredLogs, store_logs
from pyhudi.spark.store_access import StoreAccess, store_access
from pyhudi.spark.types import to_spark
from pyhudi.storage.filesystem import FileSystem
from pyhudi.storage.local import LocalFileSystem
from pyhudi.storage.url_resolver import locate

BYTES_MAX: Final = "spark.pyhudi.read.logs.maxBytes"
"""Property of the session: bound on the size of the stored files; 0 stores none."""

FOLDER: Final = "spark.pyhudi.read.logs.folder"
"""Property of the session: a folder for the files, which the driver and all executors reach under
the same name.  On one machine the default is the folder of the application's own files."""

_BYTES_MAX: Final = 4 << 30
_PROBE: Final = "probe"
"""A file in a configured folder, with which it is found how the session opens its store."""

_LOG: Final = logging.getLogger("pyhudi")

_GROWTH: Final = 2
"""Bytes of stored rows for a byte of logs, which are compressed better, as an estimate."""

_LOCAL_BYTES_MAX: Final = 2 << 20
"""Bitmaps of at most this size are part of a plan, so its queries need no job for them."""

_LOCAL_SETS_MAX: Final = 16
_PLANS_MAX: Final = 256
_COLLECT_SECONDS: Final = 60.0
"""Garbage is collected for room once in this time: it stops the JVM."""

_REQUESTED_MAX: Final = 100_000


@dataclass(slots=True, eq=False)
class _Entry:
    """The stored logs of a slice.

    columns: of their rows.  rules: refers to a merge function whose identity is part of the key.
    planners: calls that are about to make a plan with it.
    """

    key: Hashable
    logs: StoredLogs
    columns: frozenset[str]
    rules: Any
    planners: int = 1

    @property
    def size_bytes(self) -> int:
        return sum(file.size_bytes for file in self.logs.files)

    def serves(self, task: ReadTask, columns: pa.Schema) -> bool:
        """Whether its rows are those of a task, with these columns."""
        sees = task.spec.visibility.sees
        return self.columns.issuperset(columns.names) and all(
            sees(time) == answer for time, answer in self.logs.answers
        )


@dataclass(eq=False)
class MergedLogs:
    """The stored logs of an application.  is_removed: Spark deletes the folder at its end."""

    fs: FileSystem
    is_removed: bool
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _entries: OrderedDict[_Entry, None] = field(default_factory=OrderedDict)  # used last is last
    _by_key: dict[Hashable, list[_Entry]] = field(default_factory=dict)
    _plans: list[tuple[Any, Sequence[_Entry]]] = field(default_factory=list)
    """Weak references to Java objects of plans, and the entries whose files these read."""
    _plans_max: int = _PLANS_MAX
    """With more, those that have ended are forgotten."""
    _collected: float = -_COLLECT_SECONDS
    """When garbage was last collected for room, by `time.monotonic`."""
    _requested: OrderedDict[Hashable, None] = field(default_factory=OrderedDict)
    """Slices whose logs a scan has read, oldest first."""
    _local: OrderedDict[Hashable, DataFrame] = field(default_factory=OrderedDict)

    @property
    def size_bytes(self) -> int:
        """Bytes of all files that a later scan may use."""
        return sum(entry.size_bytes for entry in self._entries)

    def find(self, tasks: Sequence[ReadTask], columns: pa.Schema, salt: str) -> list[_Entry | None]:
        """The stored logs of tasks with these columns, held until `release`."""
        keys = _keys(tasks, salt)
        with self._lock:
            return [self._find(*pair, columns) for pair in zip(tasks, keys, strict=True)]

    def merge(
        self,
        spark: SparkSession,
        tasks: Sequence[ReadTask],
        columns: pa.Schema,
        salt: str,
        *,
        is_narrow: bool,
    ) -> list[_Entry | None]:
        """Merge and store the logs of tasks; held until `release`.  None where there is no room.

        is_narrow: the scan needs little of the rows, so logs are stored if it is not the first one.
        Cost: a job.  Raises as the reads of the tasks do.
        """
        found: list[_Entry | None] = [None] * len(tasks)
        keys = _keys(tasks, salt)
        with self._lock:
            chosen = [n for n, key in enumerate(keys) if not is_narrow or key in self._requested]
            self._requested.update(dict.fromkeys(keys))
            while len(self._requested) > _REQUESTED_MAX:
                self._requested.popitem(last=False)
        if chosen:
            new = self._store(spark, [tasks[number] for number in chosen], columns, salt)
            for number, entry in zip(chosen, new, strict=True):
                found[number] = entry
        return found

    def _find(self, task: ReadTask, key: Hashable, columns: pa.Schema) -> _Entry | None:
        for entry in reversed(self._by_key.get(key, ())):
            if entry.serves(task, columns):
                self._entries.move_to_end(entry)
                entry.planners += 1
                return entry
        return None

    def release(self, entries: Iterable[_Entry | None]) -> None:
        with self._lock:
            for entry in entries:
                if entry is not None:
                    entry.planners -= 1

    def _store(
        self, spark: SparkSession, tasks: Sequence[ReadTask], columns: pa.Schema, salt: str
    ) -> list[_Entry | None]:
        """Merge and store the logs of tasks; None where they cannot be stored."""
        found: list[_Entry | None] = [None] * len(tasks)
        if not self._make_room(spark, _GROWTH * sum(task.slice.log_bytes for task in tasks)):
            return found
        order = sorted(range(len(tasks)), key=lambda number: -tasks[number].slice.size_bytes)
        keys = _keys(tasks, salt)
        folder = secrets.token_hex(8)
        work = [
            LogWork(
                tasks[n], self._stored_columns(tasks[n], keys[n], columns), salt, self.fs, folder
            )
            for n in order
        ]
        results: list[StoredLogs | None] = []
        try:
            results = SparkEngine(spark).run(store_logs, work, label="merge logs")
        finally:
            self._keep_only(folder, [logs for logs in results if logs is not None])
        if not self.is_removed:
            self._remove_at_exit(spark)
        with self._lock:
            for number, item, logs in zip(order, work, results, strict=True):
                if logs is None:
                    continue
                entry = _Entry(keys[number], logs, frozenset(item.columns), item.task.spec.rules)
                self._entries[entry] = None
                self._by_key.setdefault(entry.key, []).append(entry)
                found[number] = entry
        return found

    def _keep_only(self, folder: str, stored: Sequence[StoredLogs]) -> None:
        """Delete what attempts of a job wrote that failed or were not the first to end."""
        used = {file.path for logs in stored for file in logs.files}
        with suppress(StorageError):  # what remains is deleted with the whole folder
            if not used:
                self.fs.delete_folder(folder)
                return
            written = [f"{folder}/{name}" for name in self.fs.names(folder)]
            self.fs.delete([path for path in written if path not in used])

    def _stored_columns(self, task: ReadTask, key: Hashable, columns: pa.Schema) -> tuple[str, ...]:
        """Those that a scan reads; all of the table unless it is the first and reads few."""
        known = [column.name for column in task.spec.table if _is_storable(column)]
        with self._lock:
            is_first = key not in self._by_key
        if is_first and _are_few(columns, task.spec.table):
            return tuple(columns.names)
        return tuple(dict.fromkeys((*columns.names, *known)))

    # ---- deletion -------------------------------------------------------------------------------

    def _make_room(self, spark: SparkSession, size_bytes: int) -> bool:
        """Delete files until so many bytes more are within the bound; False if plans use them."""
        bound = bytes_max(spark)
        java: Any = spark._jvm
        with self._lock:
            for collect in (False, True):
                if self.size_bytes + size_bytes <= bound:
                    return True
                if collect:  # both notice late which plans nothing refers to
                    if time.monotonic() - self._collected < _COLLECT_SECONDS:
                        return False
                    self._collected = time.monotonic()
                    gc.collect()
                    java.java.lang.System.gc()
                self._forget_ended()
                used = {entry for _, entries in self._plans for entry in entries}
                for entry in list(self._entries):
                    if entry not in used and not entry.planners:
                        self._delete(entry)
                    if self.size_bytes + size_bytes <= bound:
                        return True
            return False

    def _forget_ended(self) -> None:
        """Forget plans that Java has deleted."""
        self._plans = [plan for plan in self._plans if plan[0].get() is not None]

    def _delete(self, entry: _Entry) -> None:
        with suppress(StorageError):  # what remains is deleted with the whole folder
            self.fs.delete([file.path for file in entry.logs.files])
        del self._entries[entry]
        self._by_key[entry.key].remove(entry)
        if not self._by_key[entry.key]:
            del self._by_key[entry.key]

    def _remove_at_exit(self, spark: SparkSession) -> None:
        """Let Hadoop delete the folder when the JVM of the driver ends."""
        path = hadoop_path(spark, self.access(spark).of(self.fs, ""))
        path.getFileSystem(hadoop_properties(spark)).deleteOnExit(path)

    # ---- for HeldLogs ---------------------------------------------------------------------------

    def access(self, spark: SparkSession) -> StoreAccess:
        """How the session opens the files."""
        return store_access(spark, self.fs, _PROBE)

    def sizes(self, spark: SparkSession, files: Iterable[StoredFile]) -> dict[str, int]:
        """URL to bytes."""
        access = self.access(spark)
        return {access.of(self.fs, file.path): file.size_bytes for file in files}

    def note_plan(self, spark: SparkSession, entries: Sequence[_Entry], frame: DataFrame) -> None:
        """Note that a frame of files reads those of entries; all plans over it refer to its index
        of files."""
        java: Any = frame._jdf
        index = java.queryExecution().analyzed().relation().location()
        jvm: Any = spark._jvm
        with self._lock:
            self._plans.append((jvm.java.lang.ref.WeakReference(index), entries))
            if len(self._plans) > self._plans_max:
                self._forget_ended()
                self._plans_max = max(_PLANS_MAX, 2 * len(self._plans))

    def _stored_bitmaps(self, spark: SparkSession, files: Sequence[StoredFile]) -> DataFrame:
        return read_listed(spark, self.sizes(spark, files), BITMAPS)

    def _local_bitmaps(self, spark: SparkSession, files: Sequence[StoredFile]) -> DataFrame:
        """Bitmaps as rows of the plan.  Cost: a job the first time."""
        key = spark, *(file.path for file in files)
        with self._lock:
            known = self._local.get(key)
        if known is None:
            stored: Any = self._stored_bitmaps(spark, files)._jdf
            session: Any = spark._jsparkSession
            rows = session.createDataFrame(stored.collectAsList(), stored.schema())
            known = DataFrame(rows, spark)
        with self._lock:
            self._local[key] = known
            self._local.move_to_end(key)
            while len(self._local) > _LOCAL_SETS_MAX:
                self._local.popitem(last=False)
        return known

    def bitmaps(
        self, spark: SparkSession, files: Sequence[StoredFile], entries: Sequence[_Entry]
    ) -> DataFrame:
        """The bitmaps of files of entries."""
        if BITMAP_BYTES * sum(file.rows for file in files) <= _LOCAL_BYTES_MAX:
            return self._local_bitmaps(spark, files)
        frame = self._stored_bitmaps(spark, files)
        self.note_plan(spark, entries, frame)
        return frame


@dataclass(frozen=True, slots=True)
class HeldLogs:
    """Tasks, and the stored logs of those that have some."""

    store: MergedLogs | None
    spark: SparkSession
    found: tuple[tuple[ReadTask, _Entry | None], ...]

    @property
    def missing(self) -> list[ReadTask]:
        """Tasks without stored logs."""
        return [task for task, entry in self.found if entry is None]

    @property
    def cut(self) -> list[ReadTask]:
        """Tasks of whose base files stored logs replace rows."""
        return [task for task, entry in self.found if entry and entry.logs.replaced]

    @property
    def whole(self) -> list[ReadTask]:
        """Tasks of whose base files stored logs replace no row."""
        return [task for task, entry in self.found if entry and not entry.logs.replaced]

    @property
    def _entries(self) -> list[_Entry]:
        return [entry for _, entry in self.found if entry]

    @property
    def rows(self) -> AddedFiles | None:
        """The files of rows; None if there are none."""
        files = [entry.logs.rows for entry in self._entries if entry.logs.rows]
        if not files or self.store is None:
            return None
        sizes = self.store.sizes(self.spark, files)
        return AddedFiles(sizes, partial(self.store.note_plan, self.spark, self._entries))

    @property
    def replaced(self) -> DataFrame | None:
        """Bitmaps of the rows of the base files of `cut`; None if there are none."""
        files = [entry.logs.replaced for entry in self._entries if entry.logs.replaced]
        if not files or self.store is None:
            return None
        return self.store.bitmaps(self.spark, files, self._entries)


@contextmanager
def held_logs(
    spark: SparkSession, plan: ScanPlan, readers: Readers, *, merges: bool
) -> Iterator[HeldLogs]:
    """The stored logs for a plan, which stay until the block has made frames of them.

    merges: logs that are not stored are merged now, if there is room for them; for a plan of few
    columns or with a filter, if an earlier one has read the slice.
    Cost: a job, if logs are merged.  Raises as the reads of the tasks do.
    """
    tasks = readers.tasks(plan, Reader.SPARK_AND_LOGS)
    store = merged_logs(spark) if tasks else None
    if store is None:
        yield HeldLogs(None, spark, tuple((task, None) for task in tasks))
        return
    columns, salt = file_schema(plan), readers.salt
    found = store.find(tasks, columns, salt)
    try:
        missing = [n for n, entry in enumerate(found) if entry is None and merges]
        new = store.merge(
            spark, [tasks[n] for n in missing], columns, salt, is_narrow=_is_narrow(plan, columns)
        )
        for number, entry in zip(missing, new, strict=True):
            found[number] = entry
        yield HeldLogs(store, spark, tuple(zip(tasks, found, strict=True)))
    finally:
        store.release(found)


def _is_narrow(plan: ScanPlan, columns: pa.Schema) -> bool:
    """Whether a plan needs few columns, or few rows."""
    return plan.where is not None or _are_few(columns, plan.table)


def _are_few(columns: pa.Schema, table: pa.Schema) -> bool:
    """Whether the columns have fewer than half of a table's, without meta columns."""
    own = len(set(table.names).difference(META_COLUMNS))
    return 2 * len(set(columns.names).difference(META_COLUMNS)) < own


def _keys(tasks: Sequence[ReadTask], salt: str) -> list[Hashable]:
    """What the stored logs of slices follow from, but for their visible instants."""
    found: list[Hashable] = []
    spec, shared = None, None
    for task in tasks:
        if task.spec is not spec:
            spec = task.spec
            rules = replace(spec.rules, function=None), id(spec.rules.function)
            shared = spec.table.serialize().to_pybytes(), rules, salt
        files = tuple((file.path, file.size_bytes) for file in task.slice.files)
        found.append((task.fs.url, files, shared))
    return found


def _is_storable(column: pa.Field) -> bool:
    """Whether Spark's Parquet reader returns the type as workers write it."""
    if pt.is_time(column.type) or HUDI_TYPE in (column.metadata or {}):
        return False
    try:
        to_spark(pa.schema([column]))
    except SchemaError:
        return False
    return True


# ---- one of each application --------------------------------------------------------------------

_LOCK: Final = threading.Lock()
_known: dict[tuple[str, str | None], MergedLogs | None] = {}


def bytes_max(spark: SparkSession) -> int:
    """The bound on the size of stored logs.  Raises OptionError."""
    text = spark.conf.get(BYTES_MAX, None)
    if text is None:
        return _BYTES_MAX
    if not text.isdecimal():
        raise OptionError("not a number of bytes", option=BYTES_MAX, value=text)
    return int(text)


def merged_logs(spark: SparkSession) -> MergedLogs | None:
    """The stored logs of the session's application; None if it stores none.  Raises OptionError."""
    if is_connect(spark) or not bytes_max(spark):
        return None
    folder = spark.conf.get(FOLDER, None)
    if folder is None and not (is_on_one_machine(spark) and _may_be_plain(spark)):
        return None
    application = spark.sparkContext.applicationId
    with _LOCK:
        for other in [name for name in _known if name[0] != application]:
            del _known[other]  # its files are deleted with it
        if (application, folder) not in _known:
            _known[application, folder] = _new(spark, folder, application)
        store = _known[application, folder]
    return None if store is None or store.access(spark).reason else store


def _may_be_plain(spark: SparkSession) -> bool:
    """Whether Spark does not encrypt its own files, among which the stored ones would be."""
    return spark.conf.get("spark.io.encryption.enabled", "false") != "true"


def _new(spark: SparkSession, folder: str | None, application: str) -> MergedLogs | None:
    """None, with a warning, if the folder cannot be written."""
    if folder is not None:  # others may write there, so the name is not one that they can guess
        fs = locate(folder).sub(f"pyhudi-logs-{application}-{secrets.token_hex(8)}")
        try:
            fs.create(_PROBE, b"", durable=False)
        except StorageError as error:
            _LOG.warning("merged logs are not stored, so each query merges them: %s", error)
            return None
        return MergedLogs(fs, is_removed=False)
    java: Any = spark._jvm
    own = Path(java.org.apache.spark.SparkFiles.getRootDirectory())  # deleted by SparkContext.stop
    (own / "pyhudi-logs").mkdir(mode=0o700, exist_ok=True)
    return MergedLogs(LocalFileSystem(str(own / "pyhudi-logs")), is_removed=True)
