"""Options of `format("pyhudi")`.

Spark passes option names in lower case.  `hoodie.*` options have their meaning in Apache Hudi; the
options of this source, in Spark's spelling, are in `SOURCE_OPTIONS`; any other name is an
OptionError.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from pyhudi.errors import OptionError
from pyhudi.options import Options, parse_options
from pyhudi.options.registry import BY_NAME
from pyhudi.read.changes.incremental import ChangeRange
from pyhudi.read.scan_plan import ScanMode, ScanRequest
from pyhudi.storage.filesystem import FileSystem
from pyhudi.storage.url_resolver import locate

SOURCE_OPTIONS: Final[Mapping[str, str]] = {
    "columns": "read these columns only: comma-separated names, or a JSON list",
    "maxPartitionBytes": "files read by one Spark task, in bytes (128m)",
    "maxBatchBytes": "larger batches, as Arrow data, are spilled to disk, with a warning (1g)",
    "maxBatchRows": "larger batches, in rows, are spilled to disk, with a warning (10000000)",
    "maxCommitsPerTrigger": "maximum commits in one batch of a stream (all)",
    "maxRowsPerTrigger": "maximum rows written by these commits; at least one commit is read (all)",
    "maxBytesPerTrigger": "maximum bytes written by these commits; at least one is read (all)",
    "failOnDataLoss": "whether a stream fails if files that it needs have been cleaned (true)",
    "storage_options": "settings of the storage (endpoint, keys, ...), as a JSON object; or each "
    "as storage_options.<name>",
    "saveMode": "append, overwrite, ignore or errorifexists, as Spark supports only two of them",
}
"""Options of this source, with description and default."""

_QUERY: Final = "hoodie.datasource.query.type"
_BEGIN: Final = "hoodie.datasource.read.begin.instanttime"
_END: Final = "hoodie.datasource.read.end.instanttime"
_AS_OF: Final = "as.of.instant"
_STORAGE: Final = "storage_options"
_OWNER: Final = "owner"
"""A property of tables of Spark's catalog, which it passes as an option of a new table."""
_VIEWS: Final = (
    "in SQL use CREATE TEMPORARY VIEW name USING pyhudi OPTIONS (path '...'), or "
    "pyhudi.spark.register_views"
)
_SPARKS: Final = frozenset({"path", "checkpointlocation", "queryname", "outputmode"})
_SIZE: Final = re.compile(r"(\d+)\s*([kmgt]?)b?")
_POWERS: Final = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}


@dataclass(frozen=True, slots=True)
class Given:
    """Options by origin: `source` (of this source, in lower case), `hoodie` (in full spelling) and
    `sparks` (of Spark).

    storage: settings of the storage at `path`.
    """

    path: str
    source: Mapping[str, str]
    hoodie: Mapping[str, str]
    sparks: Mapping[str, str]
    storage: Mapping[str, Any]

    def size(self, name: str, default: int) -> int:
        """The value of an option of this source: a whole number, with or without a unit."""
        text = self.source.get(name.lower())
        if text is None:
            return default
        match = _SIZE.fullmatch(text.strip().lower())
        value = int(match[1]) << _POWERS[match[2]] if match else 0
        if value <= 0:
            raise OptionError("invalid option value", option=name, value=text, hint="such as 128m")
        return value


def given(options: Mapping[str, str]) -> Given:
    """Sort options by origin.  Raises OptionError for an unknown name or a missing path."""
    spelling = {name.lower(): name for name in BY_NAME}
    source_names = {name.lower() for name in SOURCE_OPTIONS}
    source, hoodie, sparks = {}, {}, {}
    storage: dict[str, Any] = {}
    for name, value in options.items():
        low = name.lower()
        if low == _STORAGE:
            storage = {**_object(value), **storage}
        elif low.startswith(f"{_STORAGE}."):
            storage[low.removeprefix(f"{_STORAGE}.")] = value
        elif low in source_names:
            source[low] = value
        elif low in _SPARKS:
            sparks[low] = value
        elif low == _OWNER:
            raise OptionError("CREATE TABLE does not support USING pyhudi", hint=_VIEWS)
        elif low in spelling or low.startswith(("hoodie.", "_")):
            hoodie[spelling.get(low, low)] = value
        else:
            raise _unknown(name)
    if "path" not in sparks:
        raise OptionError(
            "no path given",
            option="path",
            hint=f"load(path), save(path); Spark passes no LOCATION of a table: {_VIEWS}",
        )
    return Given(sparks["path"], source, hoodie, sparks, storage)


def _object(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise OptionError("invalid option value", option=_STORAGE, hint=SOURCE_OPTIONS[_STORAGE])
    return found


def _unknown(name: str) -> OptionError:
    spelling = {n.lower(): n for n in (*SOURCE_OPTIONS, *BY_NAME)}
    near = difflib.get_close_matches(name.lower(), spelling, n=1, cutoff=0.6)
    known = f"supported: {', '.join(SOURCE_OPTIONS)} and hoodie.*"
    hint = f"did you mean {spelling[near[0]]}?" if near else known
    return OptionError('unknown option of format("pyhudi")', option=name, hint=hint)


@dataclass(frozen=True, slots=True)
class ReadRequest:
    """A read: the scan request and the maximum size of its partitions."""

    path: str
    request: ScanRequest
    options: Options
    partition_bytes: int
    storage: Mapping[str, Any]

    @property
    def fs(self) -> FileSystem:
        return locate(self.path, storage_options=self.storage)


def read_request(options: Mapping[str, str]) -> ReadRequest:
    """The batch read described by options.  Raises OptionError."""
    found = given(options)
    parsed = parse_options(found.hoodie)
    columns = _columns(found.source.get("columns"))
    request = _request(parsed, columns)
    size = found.size("maxPartitionBytes", 128 << 20)
    return ReadRequest(found.path, request, parsed, size, found.storage)


def _request(options: Options, columns: tuple[str, ...] | None) -> ScanRequest:
    query, read = options.query, options.read
    bounds = {_BEGIN: query.since, _END: query.until}
    if query.query_type == "incremental":
        if query.since is None:
            raise OptionError("an incremental query requires a begin instant", option=_BEGIN)
        if query.as_of is not None:
            raise OptionError(
                "option not supported by incremental queries", option=_AS_OF, hint=f"use {_END}"
            )
        changes = ChangeRange(
            query.since,
            query.until,
            read.hollow_commits,
            read.partition_glob,
            falls_back=read.incremental_fallback,
            schema_of_end=read.schema_of_end,
        )
        return ScanRequest(columns=columns, changes=changes)
    for name, value in bounds.items():
        if value is not None:
            raise OptionError(
                "only incremental queries have bounds", option=name, hint=f"set {_QUERY}"
            )
    mode = ScanMode(query.query_type or "snapshot")
    # Apache Hudi gives no rows for a time before the first commit
    return ScanRequest(columns=columns, as_of=query.as_of, mode=mode, empty_before_first=True)


def _columns(text: str | None) -> tuple[str, ...] | None:
    if text is None:
        return None
    if text.lstrip().startswith("["):
        try:
            names: Any = json.loads(text)
        except ValueError:
            names = None
        if isinstance(names, list) and all(isinstance(name, str) for name in names):
            return tuple(names)
        raise OptionError(
            "invalid option value", option="columns", value=text, hint=SOURCE_OPTIONS["columns"]
        )
    return tuple(name.strip() for name in text.split(",") if name.strip())
