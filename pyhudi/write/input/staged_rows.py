"""Rows parked below the table before its write begins, by tasks that know nothing of the table.

```
.hoodie/.temp/parked-<begun, ms since 1970>-<owner, 16 hex digits>/rows-<write token>.arrow
```

Every task writes names of its own and hands them on; only files handed on are read.  The folder
goes with its write; one left by the dead goes when it is days old, as nothing else tells whether
its tasks still run.
"""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.engine import Engine
from pyhudi.filenames import TEMP
from pyhudi.keygen.generators import KeyRule, partition_paths, record_keys
from pyhudi.storage.filesystem import FileSystem
from pyhudi.storage.spill import FileStaged, FileStaging, Staging
from pyhudi.write.input.batch import BatchChunk, KeyPlan, KeyRows, stage_rows

AGE_DAYS_MAX: Final = 3
_FOLDER: Final = re.compile(r"parked-(\d{13})-([0-9a-f]{16})")


@dataclass(frozen=True, slots=True)
class Parked:
    """One file of rows."""

    file: FileStaged
    row_count: int
    byte_count: int


def parking_folder(owner: str | None = None) -> str:
    """A folder for rows; one that no other write uses where there is no owner.

    owner: 16 hex digits, under which `parked_of` finds the folder again.
    """
    return f"{TEMP}/parked-{time.time_ns() // 1_000_000:013d}-{owner or secrets.token_hex(8)}"


def parked_of(fs: FileSystem, owner: str) -> list[str]:
    """The folders of an owner."""
    found = ((entry.path, _FOLDER.fullmatch(entry.name)) for entry in fs.children(TEMP))
    return [path for path, match in found if match and match[2] == owner]


def park(fs: FileSystem, folder: str, tables: Iterable[pa.Table]) -> Iterator[Parked]:
    """Write each table to a file of its own."""
    staging = FileStaging(fs, folder)
    for table in tables:
        staged = staging.put("rows", table)
        assert isinstance(staged, FileStaged)
        yield Parked(staged, table.num_rows, table.nbytes)


def is_parked(name: str) -> bool:
    """Whether a folder of this name holds parked rows."""
    return _FOLDER.fullmatch(name) is not None


def sweep_parked(fs: FileSystem) -> None:
    """Remove folders of writes that were begun days ago."""
    oldest = time.time() * 1000 - AGE_DAYS_MAX * 86_400_000
    for entry in fs.children(TEMP):
        match = _FOLDER.fullmatch(entry.name)
        if match and int(match[1]) < oldest:
            fs.delete_folder(entry.path)


@dataclass(frozen=True, slots=True)
class ParkedRows:
    """Incoming rows that are parked.  schema: that of every file."""

    schema: pa.Schema
    files: tuple[Parked, ...]

    def stage(self, plan: KeyPlan, staging: Staging, engine: Engine) -> list[BatchChunk]:
        return engine.run(_stage_rows, list(_cuts(self.files, plan, staging)), label="key")


@dataclass(frozen=True, slots=True)
class ParkedKeys:
    """Records to delete: parked rows with the table's key columns, and any others.

    tells_partition: whether they have its partition columns too.
    """

    files: tuple[Parked, ...]
    tells_partition: bool

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([])

    def stage(self, plan: KeyPlan, staging: Staging, engine: Engine) -> list[BatchChunk]:
        found: list[BatchChunk] = []
        for cut in _cuts(self.files, plan, staging):
            rows = cut.parked.file.load()
            keys = record_keys(rows, plan.rule, first_row=cut.first_row)
            paths = None
            if self.tells_partition:
                paths = partition_paths(rows, plan.rule, first_row=cut.first_row)
            found += KeyRows(keys, paths).stage(plan, staging, engine)
        return found


def partitions_of(files: Iterable[Parked], rule: KeyRule) -> list[str]:
    """The partition paths that parked rows lie in."""
    found: set[str] = set()
    for parked in files:
        for chunk in partition_paths(parked.file.load(), rule).chunks:
            found.update(pc.unique(chunk).cast(pa.string()).to_pylist())
    return sorted(found)


@dataclass(frozen=True, slots=True)
class _Cut:
    parked: Parked
    plan: KeyPlan
    staging: Staging
    first_row: int


def _cuts(files: Iterable[Parked], plan: KeyPlan, staging: Staging) -> Iterator[_Cut]:
    first = 0
    for parked in files:
        yield _Cut(parked, plan, staging, first)
        first += parked.row_count


def _stage_rows(cut: _Cut) -> BatchChunk:
    return stage_rows(cut.parked.file.load(), cut.plan, cut.staging, first_row=cut.first_row)
