"""Writes: the commit, then the table services that are due, catalogs and the callback."""

from __future__ import annotations

from dataclasses import replace

from pyhudi.engine import Engine
from pyhudi.observe.events import observed, plain_facts
from pyhudi.operations.after_commit import call_back, sync_catalogs
from pyhudi.operations.commit import commit
from pyhudi.operations.publish import publish_deferred
from pyhudi.operations.service_runs import after_write
from pyhudi.operations.versions.execute import upgrade_if_requested
from pyhudi.options import Options
from pyhudi.storage.filesystem import FileSystem
from pyhudi.write.write_context import WriteRequest
from pyhudi.write.write_report import WriteReport


def write(fs: FileSystem, request: WriteRequest) -> WriteReport:
    """Run one write and the table services that are due after it; returns the report of both.

    With `hoodie.write.auto.upgrade` the table is upgraded first, with a note in the report.
    Raises the errors of `commit`; errors of a service only if the options make them fail the
    write.
    """
    options, engine = request.options, request.engine
    with observed("write", operation=request.operation.value.lower(), table=fs.url) as facts:
        notes = () if request.dry_run else upgrade_if_requested(fs, options, engine)
        report = after_write(fs, options, engine, commit(fs, request))
        facts.update(plain_facts(report))
    report = _announced(fs, options, report)
    return replace(report, notes=(*notes, *report.notes)) if notes else report


def publish(fs: FileSystem, options: Options, engine: Engine, instant: str) -> WriteReport:
    """Complete a deferred write, and run the table services that are due after it."""
    report = publish_deferred(fs, instant, options.write)
    return _announced(fs, options, after_write(fs, options, engine, report))


def _announced(fs: FileSystem, options: Options, report: WriteReport) -> WriteReport:
    """The report, after catalogs and the callback have got it."""
    return call_back(fs, options.write.callback, sync_catalogs(fs, options, report))
