"""File names of a table: formatting and parsing.

```
base file   <fileId>_<writeToken>_<instant>.parquet|.orc|.hfile
log file    .<fileId>_<baseInstant>.log.<version>_<writeToken>[.cdc]
marker      .hoodie/.temp/<instant>/<partition>/<data file name>.marker.CREATE|MERGE|APPEND
metafile    .hoodie_partition_metadata
```

A write token is `<task>-<stage>-<attempt>`; it guarantees uniqueness and nothing else.
`parse_*` returns None for any other name; `str()` of the result is the original name.
Source: table_format 5.1, 6.1; storage_format 2.1.
"""

from __future__ import annotations

import re
import secrets
import uuid
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from pyhudi.records import InstantTime

HOODIE: Final = ".hoodie"
PROPERTIES: Final = ".hoodie/hoodie.properties"
PROPERTIES_BACKUP: Final = ".hoodie/hoodie.properties.backup"
PROPERTIES_COPY: Final = ".hoodie/.pyhudi.properties"
METADATA_TABLE: Final = ".hoodie/metadata"
SCHEMA_FOLDER: Final = ".hoodie/.schema"
SCHEMA_SUFFIX: Final = ".schemacommit"
TEMP: Final = ".hoodie/.temp"
HEARTBEATS: Final = ".hoodie/.heartbeat"
HOLDS: Final = ".hoodie/.pyhudi.holds"
PARTITION_METAFILE: Final = ".hoodie_partition_metadata"
BASE_EXTENSIONS: Final = (".parquet", ".orc", ".hfile")

_BASE = re.compile(
    r"([^_/.][^/]*)_([0-9]+-[0-9]+-[0-9]+)_([0-9]+)(\.parquet|\.orc|\.hfile|\.lance)"
)
_LOG = re.compile(
    r"\.([^/]+)_([^._/]*)\.log\.(0|[1-9][0-9]{0,8})(?:_([0-9]+-[0-9]+-[0-9]+))?(\.cdc)?"
)
_ARCHIVE = re.compile(r"\.commits_\.archive\.([0-9]+)(?:_.*)?")
_MARKER = re.compile(r"(?P<file>[^/]+)\.marker\.(?P<kind>CREATE|MERGE|APPEND)")
_SCHEMA = re.compile(r"([0-9]{1,64})(?:_[0-9]+)?\.schemacommit(?:\.requested|\.inflight)?")
_NATIVE_LOG = re.compile(r"[^._]+_[0-9]+-[0-9]+-[0-9]+_[^_]+_[0-9]+\.(log|deletes|cdc)\.[^.]+")


def schema_file_time(name: str) -> InstantTime | None:
    """The instant of a file in SCHEMA_FOLDER; None for other names."""
    found = _SCHEMA.fullmatch(name)
    return None if found is None else InstantTime(found[1])


@dataclass(frozen=True, slots=True)
class BaseFileName:
    """Name of a base file; `instant` is the commit that wrote it."""

    file_id: str
    write_token: str
    instant: InstantTime
    extension: str = ".parquet"

    def __str__(self) -> str:
        return f"{self.file_id}_{self.write_token}_{self.instant}{self.extension}"


@dataclass(frozen=True, slots=True)
class LogFileName:
    """Name of a log file; `instant` is the base instant of the file slice (table version 6) or
    the instant of the delta commit (version 8 and later)."""

    file_id: str
    instant: InstantTime
    version: int
    write_token: str | None = None
    is_cdc: bool = False

    def __str__(self) -> str:
        token = f"_{self.write_token}" if self.write_token else ""
        return f".{self.file_id}_{self.instant}.log.{self.version}{token}{'.cdc' * self.is_cdc}"

    @property
    def order(self) -> tuple[str, int, str, bool]:
        """Sort key of the logs in a file slice: instant, version, token, suffix."""
        return (self.instant, self.version, self.write_token or "", self.is_cdc)


@dataclass(frozen=True, slots=True)
class MarkerName:
    """Name of a direct marker, which is written before its data file."""

    data_file: str
    kind: str

    def __str__(self) -> str:
        return f"{self.data_file}.marker.{self.kind}"


DataFileName = BaseFileName | LogFileName


@lru_cache(maxsize=1 << 14)
def parse_data_file(name: str) -> DataFileName | None:
    """A base or log file name, or None for any other name (sidecars, metafiles, foreign files)."""
    if match := _BASE.fullmatch(name):
        return BaseFileName(match[1], match[2], InstantTime(match[3]), match[4])
    if match := _LOG.fullmatch(name):
        return LogFileName(
            match[1], InstantTime(match[2]), int(match[3]), match[4], match[5] is not None
        )
    return None


def is_native_log(name: str) -> bool:
    """Whether `name` is a log of table version 10, which this package does not read."""
    return _NATIVE_LOG.fullmatch(name) is not None


def cdc_log_of(base: BaseFileName) -> LogFileName:
    """Name of the CDC log with the changes of a base file."""
    return LogFileName(base.file_id, base.instant, 1, base.write_token, is_cdc=True)


def parse_marker(name: str) -> MarkerName | None:
    """The parsed file name of a direct marker (without folders), or None."""
    match = _MARKER.fullmatch(name)
    return MarkerName(match["file"], match["kind"]) if match else None


def archive_number(name: str) -> int | None:
    """N of `.commits_.archive.N_token`, or None."""
    match = _ARCHIVE.fullmatch(name)
    return int(match[1]) if match else None


_PLANNED: Final = uuid.UUID("6f1c3b52-6e0e-4b0e-9a57-3c1f6f0f6a10")


def new_file_id() -> str:
    """A new file id: `<uuid>-0`."""
    return f"{uuid.uuid4()}-0"


def planned_file_id(instant: InstantTime, number: int) -> str:
    """The file id of an output of a plan: equal in each attempt to execute it.

    A file of an earlier attempt that appears late is then another copy of the same file slice, and
    not a file group with the rows of all others again.
    """
    return f"{uuid.uuid5(_PLANNED, f'{instant}/{number}')}-0"


def new_write_token(task: int = 0, stage: int = 0) -> str:
    """A write token that no other attempt, thread or process uses."""
    return f"{task}-{stage}-{secrets.randbelow(1 << 31)}"


def join(folder: str, name: str) -> str:
    """`folder/name`, or `name` where the folder is the root."""
    return f"{folder}/{name}" if folder else name
