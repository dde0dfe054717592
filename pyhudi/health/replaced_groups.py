"""Detection and removal of replaced file groups that have become part of the table again.

The replace commit of such a group was archived while files of the group existed: archival of
earlier releases, or of another writer, did so under a savepoint or a snapshot pin.  Only that
instant recorded that the group was no longer part of the table.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing

from pyhudi.engine import Engine
from pyhudi.errors import CorruptFileError, FileMissingError
from pyhudi.filenames import DataFileName, LogFileName, join
from pyhudi.formats.log_file import read_blocks
from pyhudi.formats.log_scan import PlacedBlock, holds_committed_rows
from pyhudi.health.findings import Finding, RepairAction, Severity
from pyhudi.health.inventory import TableInventory
from pyhudi.metadata.writer import begin_metadata
from pyhudi.options import Options
from pyhudi.read.table_snapshot import load_state
from pyhudi.records import FileGroupId, InstantTime
from pyhudi.storage.filesystem import FileSystem
from pyhudi.storage.locks.table_lock import check_lock
from pyhudi.timeline.commit_metadata import CommitMetadata
from pyhudi.timeline.instant import Action
from pyhudi.timeline.service_payloads import REQUESTED_REPLACE, write_avro

_OPERATION = "INSERT_OVERWRITE"


def check_replaced(inventory: TableInventory) -> Iterator[Finding]:
    """File groups that an archived instant replaced and that readers see."""
    replaced = _replaced_by_archived(inventory)
    if not replaced:
        return
    view = inventory.view(inventory.claimed)
    for group in sorted(replaced.keys() & view.groups.keys()):
        at = replaced[group]
        found = [file for file_slice in view.groups[group].slices for file in file_slice.files]
        later = any(_is_later(inventory, file.path, file.name, at) for file in found)
        yield _visible_again(group, at, later)


def _visible_again(group: FileGroupId, at: InstantTime, later: bool) -> Finding:
    what = "a replaced file group is part of the table again"
    why = f"replacecommit {at} was archived while files of the group existed"
    if not later:
        advice = "repair removes the group from the table again; the next cleans delete its files"
    else:
        why += ", and rows were written to it since"
        advice = (
            f"read the rows of this file group whose _hoodie_commit_time is after {at}; repair "
            "with allow_loss removes the group from the table; then upsert those rows"
        )
    return Finding(
        "replaced-alive",
        Severity.ERROR,
        join(group.partition, group.file_id),
        what,
        why,
        advice,
        RepairAction.REPLACE,
        loses=later,
        instant=at,
    )


def _replaced_by_archived(inventory: TableInventory) -> dict[FileGroupId, InstantTime]:
    """File groups that only archived instants replaced, and when."""
    try:
        archived = inventory.archive.commits
    except (CorruptFileError, FileMissingError):  # the check of the archive reports it
        return {}
    gone = {
        FileGroupId(partition, file_id): commit.time
        for commit in archived
        for partition, ids in (commit.metadata.replaced or {}).items()
        for file_id in ids
    }
    known = {
        FileGroupId(partition, file_id)
        for commit in inventory.commits.values()
        for partition, ids in (commit.replaced or {}).items()
        for file_id in ids
    }
    return {group: at for group, at in gone.items() if group not in known}


def _is_later(inventory: TableInventory, path: str, name: DataFileName, at: InstantTime) -> bool:
    """Whether a file has rows written after an instant.  Reads only the headers of a log."""
    if not isinstance(name, LogFileName):
        return name.instant > at

    def is_later(time: InstantTime) -> bool:
        return time > at and inventory.visibility.sees(time)

    try:
        with closing(inventory.fs.open(path)) as file:
            return any(
                holds_committed_rows(PlacedBlock(path, block), is_later)
                for block in read_blocks(file, path=path)
            )
    except (CorruptFileError, FileMissingError):
        return False


def take_out_again(
    fs: FileSystem, paths: Iterable[str], options: Options, engine: Engine
) -> InstantTime:
    """Publish a replace commit that removes file groups from the table; returns its instant.

    paths: partition/file id.  The caller holds the table's lock.  Entries of the record index
    that name the groups are not changed; the check of the index reports them.
    """
    state = load_state(fs, options.read)
    log = state.log
    replaced: dict[str, tuple[str, ...]] = {}
    for path in sorted(paths):
        partition, _, file_id = path.rpartition("/")
        replaced[partition] = (*replaced.get(partition, ()), file_id)
    requested = log.request(Action.REPLACE_COMMIT, write_avro(REQUESTED_REPLACE, {"version": None}))
    inflight = log.start(requested)
    if "files" in state.config.metadata_partitions:
        metadata = begin_metadata(
            fs,
            state.config,
            log,
            log.load(),
            inflight,
            engine=engine,
            compact_after=options.write.metadata_compact_after,
        )
        metadata.finish((), ())
    content = CommitMetadata((), operation=_OPERATION, extra=state.stated(), replaced=replaced)
    check_lock(fs)
    return log.complete(inflight, log.encode(content)).time
