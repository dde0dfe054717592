"""After a commit: sync with catalogs, its event for lineage, and the HTTP callback.

The commit has been made: a failure is reported in a note and in the log, and not raised here.  The
next sync catches up, because the catalog states the last synced instant.  The callback has the
message of Apache Hudi's.
"""

from __future__ import annotations

import json
import logging
import urllib.request
from dataclasses import replace
from typing import Any, Final

from pyhudi.errors import PyhudiError, StorageError
from pyhudi.observe.events import observed
from pyhudi.options import Options
from pyhudi.options.catalogs import CatalogKind, LineageKind
from pyhudi.options.commit_hooks import CallbackOptions
from pyhudi.read.table_snapshot import load_state
from pyhudi.storage.filesystem import FileSystem
from pyhudi.sync.sync_report import SyncReport
from pyhudi.sync.targets import sync_with
from pyhudi.table.log import timeline_log
from pyhudi.table.properties import load_config
from pyhudi.timeline.commit_metadata import CommitMetadata
from pyhudi.timeline.instant import COMMITS, State
from pyhudi.timeline.service_payloads import read_commit
from pyhudi.write.write_report import FAILED_SYNC, WriteReport

_LOG: Final = logging.getLogger("pyhudi")


def sync_catalogs(fs: FileSystem, options: Options, report: WriteReport) -> WriteReport:
    """The report of a write, with a note for each catalog that is synced inline.

    A dry run, a write without a commit and one that is not published are not synced.
    """
    if report.instant is None or not report.published or report.dry_run:
        return report
    notes = tuple(_note(fs, options, kind, report.instant) for kind in options.catalog.inline)
    return replace(report, notes=(*report.notes, *notes)) if notes else report


def _note(fs: FileSystem, options: Options, kind: CatalogKind | LineageKind, instant: str) -> str:
    try:
        with observed("service", operation=f"sync {kind.value}", instant=instant):
            return _synced(
                sync_with(
                    kind,
                    options.catalog,
                    lambda: load_state(fs, options.read, for_reading=True),
                    instant=instant,
                )
            )
    except (PyhudiError, OSError, ValueError) as error:
        note = f"{_failed(kind)} failed, the commit stands: {error}"
        _LOG.warning("%s; instant=%s", note, instant)
        return note


def _failed(kind: CatalogKind | LineageKind) -> str:
    """OpenLineage only gets events: no query engine finds tables by them."""
    name = "sending an event to" if kind is LineageKind.OPEN_LINEAGE else FAILED_SYNC
    return f"{name} {kind.value}"


def _synced(report: SyncReport) -> str:
    names = ", ".join(f"{report.database}.{entry.table}" for entry in report.entries)
    return f"synced with {report.catalog}: {names}"


def call_back(fs: FileSystem, options: CallbackOptions, report: WriteReport) -> WriteReport:
    """The report of a write, with a note if its callback failed.

    A dry run, a write without a commit and one that is not published have no callback.
    """
    if not options.enabled or report.instant is None or not report.published or report.dry_run:
        return report
    try:
        with observed("callback", operation="http", instant=report.instant):
            _post(options, _message(fs, report.instant))
    except (PyhudiError, OSError, ValueError) as error:
        reason = error.what if isinstance(error, PyhudiError) else str(error)
        note = f"the commit callback failed, the commit stands: {reason}"
        _LOG.warning("%s; instant=%s", note, report.instant)
        return replace(report, notes=(*report.notes, note))
    return report


def _message(fs: FileSystem, instant: str) -> dict[str, Any]:
    """The fields of Apache Hudi's HoodieWriteCommitCallbackMessage."""
    config = load_config(fs)
    log = timeline_log(fs, config)
    for found in log.load().where(COMMITS, State.COMPLETED):
        if found.time == instant:
            commit = read_commit(log.read(found), path=log.path(found))
            return {
                "commitTime": instant,
                "tableName": config.name,
                "basePath": fs.url,
                "hoodieWriteStat": _stats(commit),
                "commitActionType": found.action.value,
                "extraMetadata": dict(commit.extra),
            }
    raise StorageError("the commit is not on the timeline", instant=instant)


def _stats(commit: CommitMetadata) -> list[dict[str, Any]]:
    """The write stats as in the commit's file."""
    written = json.loads(commit.to_json())["partitionToWriteStats"]
    return [stat for stats in written.values() for stat in stats]


def _post(options: CallbackOptions, message: dict[str, Any]) -> None:
    assert options.url is not None
    request = urllib.request.Request(
        options.url,
        json.dumps(message).encode(),
        method="POST",
        headers={
            "Content-Type": "application/json",
            "HUDI-CALLBACK-API-KEY": options.api_key,
            **dict(options.headers),
        },
    )
    with urllib.request.urlopen(request, timeout=options.timeout_seconds) as answer:
        answer.read(1 << 16)
