"""The metadata table held against the table: `files` against a listing, the record index against
the keys of every file group, statistics and blooms against footers; its own files too.

Nothing of it is needed to read the table's rows: whatever is wrong here, a rebuild mends.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from pyhudi.engine import Engine, LocalEngine
from pyhudi.errors import CorruptFileError, FileMissingError
from pyhudi.filenames import METADATA_TABLE, BaseFileName, join
from pyhudi.health.data_files import check_files, check_present
from pyhudi.health.findings import Finding, Mend, Severity
from pyhudi.health.inventory import TableInventory
from pyhudi.health.quarantine import set_aside_files
from pyhudi.health.timeline_checks import check_instants, check_properties
from pyhudi.metadata.file_stats.records import IndexedFile, index_file
from pyhudi.metadata.file_stats.verify import wrong_facts
from pyhudi.metadata.payloads import BLOOM_FILTERS, COLUMN_STATS, FILES, RECORD_INDEX
from pyhudi.metadata.reader import MetadataTable, open_metadata
from pyhudi.operations import record_index
from pyhudi.read.metadata_freshness import trusted_metadata
from pyhudi.timeline.commit_metadata import WriteStat


def check_metadata(
    ground: TableInventory, *, with_keys: bool = True, engine: Engine | None = None
) -> Iterator[Finding]:
    """Everything that is wrong with the metadata table; nothing where the table has none.

    with_keys: hold the record index against the keys; costs a read of one column of the table.
    """
    if FILES.path not in ground.config.metadata_partitions:
        return
    try:
        own = _own_ground(ground)
        if own is None:
            yield _broken(METADATA_TABLE, "the metadata table is listed but is not there", "")
            return
        found = [*check_instants(own), *check_files(own), *check_present(own)]
        yield from (_of_metadata(f) for f in found if f.severity is Severity.ERROR)
        metadata = open_metadata(ground.fs, ground.config, ground.log, ground.timeline)
        assert metadata is not None
        if trusted_metadata(ground.fs, ground.config, ground.log, ground.timeline) is None:
            yield _broken(
                METADATA_TABLE, "the metadata table lacks the newest commit",
                "a writer did not keep it; readers list the store instead",
            )  # fmt: skip
            return
        yield from _check_listing(ground, metadata)
        yield from _check_facts(ground, metadata)
        if with_keys and RECORD_INDEX.path in metadata.partitions_listed:
            yield from _check_keys(ground, metadata, engine or LocalEngine())
    except (CorruptFileError, FileMissingError) as broken:
        path = broken.facts.get("path") or METADATA_TABLE
        yield _broken(str(path), "the metadata table cannot be read", broken.what)


def _own_ground(ground: TableInventory) -> TableInventory | None:
    """The metadata table looked at as a table; None where it has no properties."""
    fs = ground.fs.sub(METADATA_TABLE)
    if any(f.severity is Severity.ERROR for f in check_properties(fs)):
        return None
    return TableInventory.of(fs, ground.config)


def _broken(path: str, what: str, why: str) -> Finding:
    return Finding(
        "metadata", Severity.ERROR, path, what, why, "table.metadata.rebuild(), or repair",
        Mend.METADATA,
    )  # fmt: skip


def _of_metadata(finding: Finding) -> Finding:
    """A finding of the metadata table's own files, as one of the table."""
    path = join(METADATA_TABLE, finding.path)
    return replace(
        finding, code="metadata", path=path, advice="table.metadata.rebuild(), or repair",
        mend=Mend.METADATA, loses=False,
    )  # fmt: skip


# ---- files --------------------------------------------------------------------------------------


def _check_listing(ground: TableInventory, metadata: MetadataTable) -> Iterator[Finding]:
    listing = metadata.listing()
    listed = {
        info.path: info.size_bytes
        for infos in listing.files(listing.partitions()).values()
        for info in infos
    }
    gone = {path for path, _ in set_aside_files(ground.fs)}
    known = {s.path: s.size_bytes for c in ground.commits.values() for s in c.stats}
    for path, size in listed.items():
        found = ground.data_files.get(path)
        given_up = path in gone
        if not given_up and path in known and (found is None or found[0].size_bytes != known[path]):
            continue  # the file is missing or torn, which the files' check tells
        if found is None:
            yield _stale(path, "the metadata table lists a file that is not there")
        elif isinstance(found[1], BaseFileName) and found[0].size_bytes != size:
            why = f"it says {size} bytes, the store {found[0].size_bytes}"
            yield _stale(path, "the metadata table has a file's size wrong", why)
    active = ground.timeline.commits.times
    for path, (info, name) in ground.data_files.items():
        if path in listed or not info.size_bytes:
            continue
        is_base = isinstance(name, BaseFileName)
        older = is_base and name.instant not in active and ground.visibility.sees(name.instant)
        if older or (path in known and (not is_base or ground.visibility.sees(name.instant))):
            yield _stale(path, "the metadata table does not list a file that is there")


def _stale(path: str, what: str, why: str = "its partition `files` is not up to date") -> Finding:
    return Finding(
        "metadata-files", Severity.ERROR, path, what, why, "table.metadata.rebuild(), or repair",
        Mend.METADATA,
    )  # fmt: skip


# ---- column statistics, blooms -------------------------------------------------------------------


def _check_facts(ground: TableInventory, metadata: MetadataTable) -> Iterator[Finding]:
    if not {COLUMN_STATS.path, BLOOM_FILTERS.path} & metadata.partitions_listed:
        return
    indexes = []
    for path, (info, name) in ground.data_files.items():
        if isinstance(name, BaseFileName) and ground.visibility.sees(name.instant):
            stat = WriteStat(
                partition=path.rpartition("/")[0], file_id=name.file_id, path=path,
                previous_instant=None, write_count=0, delete_count=0, update_count=0,
                insert_count=0, size_bytes=info.size_bytes, write_bytes=0,
            )  # fmt: skip
            try:
                indexes.append(index_file(IndexedFile(ground.fs, stat)))
            except (CorruptFileError, FileMissingError):
                continue  # the files' check tells
    for wrong in wrong_facts(metadata, indexes):
        what = f"statistics of column {wrong.column}" if wrong.column else "a bloom filter"
        yield Finding(
            "metadata-facts", Severity.ERROR, wrong.path, f"{what} contradict the file", wrong.why,
            "table.metadata.rebuild(), or repair", Mend.METADATA,
        )  # fmt: skip


# ---- record index -------------------------------------------------------------------------------


def _check_keys(
    ground: TableInventory, metadata: MetadataTable, engine: Engine
) -> Iterator[Finding]:
    """Both ways: each key of the table has its file group, and the index knows no others."""
    state = replace(ground.state(), metadata=metadata)
    found = record_index.verify(state, engine, sample=None)
    for kind, count in found.faults.items():
        examples = "; ".join(str(dict(e)) for e in found.examples if e.get("fault") == kind)
        yield Finding(
            "index-keys", Severity.ERROR, f"{METADATA_TABLE}/{RECORD_INDEX.path}",
            f"the record index is wrong for {count} keys: {kind}",
            examples or f"of {found.keys} keys of the table and {found.entries} of the index",
            "table.index.repair(), table.metadata.rebuild(), or repair", Mend.METADATA,
        )  # fmt: skip
