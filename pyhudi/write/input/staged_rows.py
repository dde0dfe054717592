"""Rows staged in the table's folder before a write begins, by tasks that do not open the table.

```
.hoodie/.temp/parked-<begun, ms since 1970>-<owner, 16 hex digits>/rows-<write token>.arrow
```

Every task writes files with unique names and returns the names; only returned files are read.
The write removes the folder at its end; the folder of a crashed writer is removed when it is days
old, because nothing else shows whether its tasks still run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.engine import Engine
from pyhudi.keygen.generators import KeyRule, partition_paths, record_keys
from pyhudi.storage.filesystem import FileSystem
from pyhudi.storage.spill import FileStaged, FileStaging, Staging
from pyhudi.write.input.batch import BatchChunk, KeyPlan, KeyRows, stage_rows


@dataclass(frozen=True, slots=True)
class StagedFile:
    """One file of staged rows."""

    file: FileStaged
    row_count: int
    byte_count: int


def stage_tables(fs: FileSystem, folder: str, tables: Iterable[pa.Table]) -> Iterator[StagedFile]:
    """Write each table to a separate file."""
    staging = FileStaging(fs, folder)
    for table in tables:
        staged = staging.put("rows", table)
        assert isinstance(staged, FileStaged)
        yield StagedFile(staged, table.num_rows, table.nbytes)


@dataclass(frozen=True, slots=True)
class StagedRows:
    """Incoming rows in staged files.  schema: of every file.

    fits_memory: whether the write may hold all rows in memory; otherwise it spills to disk.
    """

    schema: pa.Schema
    files: tuple[StagedFile, ...]
    fits_memory: bool = True

    def stage(self, plan: KeyPlan, staging: Staging, engine: Engine) -> list[BatchChunk]:
        return engine.run(_stage_rows, list(_cuts(self.files, plan, staging)), label="key")


@dataclass(frozen=True, slots=True)
class StagedKeys:
    """Records to delete: staged rows with at least the table's key columns.

    has_partition_columns: whether they also have its partition columns.
    """

    files: tuple[StagedFile, ...]
    has_partition_columns: bool

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([])

    def stage(self, plan: KeyPlan, staging: Staging, engine: Engine) -> list[BatchChunk]:
        found: list[BatchChunk] = []
        for cut in _cuts(self.files, plan, staging):
            rows = cut.staged_file.file.load()
            keys = record_keys(rows, plan.rule, first_row=cut.first_row)
            paths = None
            if self.has_partition_columns:
                paths = partition_paths(rows, plan.rule, first_row=cut.first_row)
            found += KeyRows(keys, paths).stage(plan, staging, engine)
        return found


def partitions_of(files: Iterable[StagedFile], rule: KeyRule) -> list[str]:
    """The partition paths of staged rows."""
    found: set[str] = set()
    for staged_file in files:
        for chunk in partition_paths(staged_file.file.load(), rule).chunks:
            found.update(pc.unique(chunk).cast(pa.string()).to_pylist())
    return sorted(found)


@dataclass(frozen=True, slots=True)
class _Cut:
    staged_file: StagedFile
    plan: KeyPlan
    staging: Staging
    first_row: int


def _cuts(files: Iterable[StagedFile], plan: KeyPlan, staging: Staging) -> Iterator[_Cut]:
    first = 0
    for staged_file in files:
        yield _Cut(staged_file, plan, staging, first)
        first += staged_file.row_count


def _stage_rows(cut: _Cut) -> BatchChunk:
    return stage_rows(cut.staged_file.file.load(), cut.plan, cut.staging, first_row=cut.first_row)
