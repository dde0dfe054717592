"""Conversion of archived instants between archive files (layout 1) and the history (layout 2).

```
archive files   one record for each state of an instant; commits as Avro records
history         one row for a completed instant: the content of its file, and the plan of a service
```

Archive files stay on the store after a conversion to layout 2, where they are ignored; the
conversion back adds the instants that they lack.  Source: writer_v8_v9 10, 16.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa

from pyhudi.errors import CorruptFileError
from pyhudi.records import InstantTime
from pyhudi.storage.filesystem import FileSystem
from pyhudi.timeline.archive import HISTORY, archived_records
from pyhudi.timeline.archive_entries import entry
from pyhudi.timeline.archive_files import ArchiveFiles
from pyhudi.timeline.commit_avro import avro_to_json, record_to_avro
from pyhudi.timeline.history.manifest import (
    HistoryFile,
    Manifest,
    history_file_name,
    publish_manifest,
)
from pyhudi.timeline.history.reader import TimelineHistory
from pyhudi.timeline.history.rows import ROW_VERSION, ROWS, write_history_file
from pyhudi.timeline.instant import COMMITS, COMPLETES_AS, Action, Instant, State
from pyhudi.timeline.instant_files import TimelineLog
from pyhudi.timeline.layout_conversion import InstantKey, assigned_completions, key_of
from pyhudi.timeline.service_payloads import (
    CLEAN_METADATA,
    CLEANER_PLAN,
    COMPACTION_PLAN,
    REQUESTED_REPLACE,
    ROLLBACK_METADATA,
    write_avro,
)

_ACTIONS: Final = {action.value: action for action in Action}
_RESULTS: Final = {
    Action.CLEAN: ("hoodieCleanMetadata", CLEAN_METADATA),
    Action.ROLLBACK: ("hoodieRollbackMetadata", ROLLBACK_METADATA),
}
_PLANS: Final = (
    ("hoodieCompactionPlan", COMPACTION_PLAN),
    ("hoodieCleanerPlan", CLEANER_PLAN),
    ("hoodieRequestedReplaceMetadata", REQUESTED_REPLACE),
)
_FILE_ROWS: Final = 1000
_BATCH: Final = 10


@dataclass(frozen=True, slots=True)
class _Archived:
    """An archived instant; contents are empty where none is recorded."""

    metadata: bytes | None = None
    plan: bytes = b""


def history_from_archive(fs: FileSystem, folder: str) -> int:
    """Write the instants of the archive files in `folder` as a new history; returns their number.

    The table has no history yet.  Memory: the content of the archive.  Raises CorruptFileError.
    """
    found = _archived(fs, folder)
    done = [key for key, each in found.items() if each.metadata is not None]
    instants = [Instant(time, action, State.COMPLETED) for time, action in done]
    ends = assigned_completions(instants, {}, None)
    rows = [
        {
            "instantTime": time,
            "completionTime": ends[time, action],
            "action": action.value,
            "metadata": found[time, action].metadata or None,
            "plan": found[time, action].plan or None,
            "version": ROW_VERSION,
        }
        for time, action in sorted(done, key=lambda key: (key[0], key[1].value))
    ]
    files = [
        _write(fs, rows[start : start + _FILE_ROWS]) for start in range(0, len(rows), _FILE_ROWS)
    ]
    if files:
        publish_manifest(fs, HISTORY, Manifest(), files)
    return len(rows)


def _write(fs: FileSystem, rows: list[dict[str, Any]]) -> HistoryFile:
    name = history_file_name(rows[0]["instantTime"], rows[-1]["instantTime"], 0)
    return write_history_file(fs, HISTORY, name, [pa.Table.from_pylist(rows, ROWS)])


def _archived(fs: FileSystem, folder: str) -> dict[InstantKey, _Archived]:
    found: dict[InstantKey, _Archived] = {}
    for record in archived_records(fs, folder):
        action, time = _ACTIONS.get(record.get("actionType") or ""), record.get("commitTime")
        if action is None or not time:
            continue
        key = (InstantTime(time), COMPLETES_AS[action])
        known = found.get(key, _Archived())
        if record.get("actionState") == State.COMPLETED.name:
            found[key] = replace(known, metadata=_result(record, action, folder))
        else:
            found[key] = replace(known, plan=known.plan or _plan(record))
    return found


def _result(record: Mapping[str, Any], action: Action, folder: str) -> bytes:
    """The content of a completed instant's file in layout 2; empty if the record has none."""
    try:
        if action in COMMITS:
            body = record.get("hoodieReplaceCommitMetadata") or record.get("hoodieCommitMetadata")
            return record_to_avro(body or {}, replaces=action is Action.REPLACE_COMMIT)
        field, schema = _RESULTS.get(action, ("", {}))
        return write_avro(schema, record[field]) if record.get(field) else b""
    except (ValueError, TypeError, AttributeError, KeyError) as error:
        raise CorruptFileError(
            "an archived instant has an unknown shape", path=folder, instant=record["commitTime"]
        ) from error


def _plan(record: Mapping[str, Any]) -> bytes:
    stated = ((record.get(field), schema) for field, schema in _PLANS)
    return next((write_avro(schema, plan) for plan, schema in stated if plan), b"")


def archive_from_history(log: TimelineLog, folder: str) -> int:
    """Add the instants of the history to the archive files in `folder`, where they are missing;
    returns how many were added.

    log: the timeline in layout 1.  Memory: the content of the history.  Raises CorruptFileError.
    """
    known = {key for key, each in _archived(log.fs, folder).items() if each.metadata is not None}
    history = TimelineHistory(log.fs, HISTORY)
    missing = [each for each in history.contents() if key_of(each[0]) not in known]
    if missing:
        ArchiveFiles(log, folder).write(_entries(missing, log), batch=_BATCH)
    return len(missing)


def _entries(
    archived: Iterable[tuple[Instant, bytes]], log: TimelineLog
) -> Iterator[dict[str, Any]]:
    for instant, content in archived:
        path = f"{HISTORY}/{instant}"
        if content and instant.action in COMMITS:
            content = avro_to_json(content, path=path)
        made = entry(instant, content, path=path, modified=None, zone=log.zone)
        yield {**made, "stateTransitionTime": instant.completion}
