"""Verification of the metadata table: `files` against a listing, the record index and secondary
indexes against the rows of every file group, statistics and bloom filters against footers; also its
own files.

The table's rows can be read without the metadata table: a rebuild repairs every problem found here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property

from pyhudi.engine import Engine
from pyhudi.errors import CorruptFileError, FileMissingError
from pyhudi.filenames import METADATA_TABLE, BaseFileName, join, parse_data_file
from pyhudi.health.data_files import check_files, check_present, paths_being_cleaned
from pyhudi.health.findings import Finding, RepairAction, Severity
from pyhudi.health.inventory import TableInventory
from pyhudi.health.quarantine import quarantined_files
from pyhudi.health.timeline_checks import check_instants, check_properties
from pyhudi.index.secondary.verify import WrongEntries, has_one_text, secondary_faults
from pyhudi.metadata.definitions import read_definitions, stats_definition
from pyhudi.metadata.expression_index.definition import expression_indexes
from pyhudi.metadata.file_stats.records import IndexedFile, index_file
from pyhudi.metadata.file_stats.verify import wrong_facts
from pyhudi.metadata.partition_creation import PartitionCreations, archived_creations
from pyhudi.metadata.payloads import (
    BLOOM_FILTERS,
    COLUMN_STATS,
    FILES,
    INDEX_PREFIXES,
    PARTITION_STATS,
    RECORD_INDEX,
)
from pyhudi.metadata.reader import MetadataTable, open_metadata
from pyhudi.metadata.secondary_index.definition import SecondaryIndex, secondary_indexes
from pyhudi.metadata.visible_instants import is_creation
from pyhudi.metadata.writer import maintainable
from pyhudi.operations import record_index
from pyhudi.read.metadata_freshness import trusted_metadata
from pyhudi.read.table_snapshot import TableState
from pyhudi.records import InstantTime
from pyhudi.storage.filesystem import FileInfo
from pyhudi.timeline.commit_metadata import CommitMetadata, WriteStat
from pyhudi.timeline.instant import Instant


def check_metadata(
    inventory: TableInventory, *, with_keys: bool = True, engine: Engine
) -> Iterator[Finding]:
    """All problems of the metadata table; none if the table has no metadata table.

    with_keys: verify the record index and the secondary indexes against the rows; reads the key
    column and the columns of the indexes.
    """
    listed = inventory.config.metadata_partitions
    if not listed:
        return
    if FILES.path not in listed:
        yield _broken(
            METADATA_TABLE,
            "the table lists metadata partitions without files",
            "nothing maintains them",
        )
        return
    try:
        _check_definitions(inventory)
        if unknown := _not_maintained(inventory):
            yield _broken(
                METADATA_TABLE,
                "the table lists metadata partitions that are not maintained",
                f"writes are refused; a rebuild drops {', '.join(unknown)}",
            )
            return
        inner = _metadata_inventory(inventory)
        if inner is None:
            yield _broken(
                METADATA_TABLE,
                "the metadata table is listed but is missing",
                "writes and services are refused, reads list the files",
            )
            return
        found = [*check_instants(inner), *check_files(inner), *check_present(inner)]
        yield from (_of_metadata(f) for f in found if f.severity is Severity.ERROR)
        metadata = open_metadata(inventory.fs, inventory.config, inventory.log, inventory.timeline)
        assert metadata is not None
        if (
            trusted_metadata(inventory.fs, inventory.config, inventory.log, inventory.timeline)
            is None
        ):
            yield _broken(
                METADATA_TABLE,
                "the metadata table lacks a commit",
                "a writer did not update it; readers list the store instead",
            )
            return
        yield from _check_listing(inventory, metadata)
        yield from _check_facts(inventory, metadata)
        if with_keys and RECORD_INDEX.path in metadata.partitions_listed:
            yield from _check_keys(inventory, metadata, engine)
            yield from _check_secondary(inventory, metadata, engine)
    except (CorruptFileError, FileMissingError) as broken:
        path = broken.facts.get("path") or METADATA_TABLE
        yield _broken(str(path), "the metadata table cannot be read", broken.what)


def _check_definitions(inventory: TableInventory) -> None:
    """Raise CorruptFileError for index definitions that writers cannot use."""
    fs, config = inventory.fs, inventory.config
    read_definitions(fs, config)
    if not config.metadata_partitions.isdisjoint({COLUMN_STATS.path, PARTITION_STATS.path}):
        stats_definition(fs, config)


def _not_maintained(inventory: TableInventory) -> list[str]:
    """Listed partitions of which this package knows no format, or that have no definition."""
    fs, config = inventory.fs, inventory.config
    listed = config.metadata_partitions
    known = {index.name for index in secondary_indexes(fs, config)}
    known |= {index.name for index in expression_indexes(fs, config)}
    named = {name for name in listed if name.startswith(INDEX_PREFIXES)}
    return sorted((listed - maintainable(config, listed)) | (named - known))


def _metadata_inventory(inventory: TableInventory) -> TableInventory | None:
    """The inventory of the metadata table itself; None where it has no properties."""
    fs = inventory.fs.sub(METADATA_TABLE)
    if any(f.severity is Severity.ERROR for f in check_properties(fs)):
        return None
    return MetadataInventory.of(fs, inventory.config)


class MetadataInventory(TableInventory):
    """The contents of the metadata table, in which partitions may be dropped and created again."""

    @cached_property
    def commits(self) -> Mapping[Instant, CommitMetadata]:
        """Completed commits that can be read, with the files of current partitions."""
        readable = self.readable_commits()
        times = {partition: _instants(infos) for partition, infos in self.files.items()}
        for instant, commit in readable.items():  # also a creation whose files are cleaned
            for partition in {s.partition for s in commit.stats if is_creation(instant.time)}:
                times.setdefault(partition, set()).add(instant.time)
        created = PartitionCreations.of(self.timeline, times, archived_creations(self.log))
        listed = self.config.metadata_partitions
        found = {}
        for instant, commit in readable.items():
            current = (s for s in commit.stats if s.partition in listed)
            stats = tuple(stat for stat in current if not created.precede(stat, instant))
            found[instant] = replace(commit, stats=stats)
        return found


def _instants(infos: Iterable[FileInfo]) -> set[InstantTime]:
    names = (parse_data_file(info.name) for info in infos)
    return {name.instant for name in names if name is not None}


def _broken(path: str, what: str, why: str) -> Finding:
    return Finding(
        "metadata",
        Severity.ERROR,
        path,
        what,
        why,
        "table.metadata.rebuild(), or repair",
        RepairAction.METADATA,
    )


def _of_metadata(finding: Finding) -> Finding:
    """A finding of the metadata table's own files, as one of the table."""
    path = join(METADATA_TABLE, finding.path)
    return replace(
        finding,
        code="metadata",
        path=path,
        advice="table.metadata.rebuild(), or repair",
        repair=RepairAction.METADATA,
        loses=False,
    )


# ---- files --------------------------------------------------------------------------------------


def _check_listing(inventory: TableInventory, metadata: MetadataTable) -> Iterator[Finding]:
    listing = metadata.listing()
    listed = {
        info.path: info.size_bytes
        for infos in listing.files(listing.partitions()).values()
        for info in infos
    }
    quarantined = {path for path, _ in quarantined_files(inventory.fs)}
    cleaned = paths_being_cleaned(inventory)
    known = {s.path: s.size_bytes for c in inventory.commits.values() for s in c.stats}
    for path, size in listed.items():
        found = inventory.data_files.get(path)
        given_up = path in quarantined
        if not given_up and path in known and (found is None or found[0].size_bytes != known[path]):
            continue  # missing or torn, which check_files and check_present report
        if found is None and path not in cleaned:
            yield _stale(path, "the metadata table lists a file that does not exist")
        elif found and isinstance(found[1], BaseFileName) and found[0].size_bytes != size:
            why = f"it lists {size} bytes, the store {found[0].size_bytes}"
            yield _stale(path, "the metadata table lists a wrong size for a file", why)
    active = inventory.timeline.commits.times
    for path, (info, name) in inventory.data_files.items():
        if path in listed or not info.size_bytes:
            continue
        is_base = isinstance(name, BaseFileName)
        older = is_base and name.instant not in active and inventory.visibility.sees(name.instant)
        if older or (path in known and (not is_base or inventory.visibility.sees(name.instant))):
            yield _stale(path, "the metadata table does not list a file that exists")


def _stale(path: str, what: str, why: str = "its partition `files` is not up to date") -> Finding:
    return Finding(
        "metadata-files",
        Severity.ERROR,
        path,
        what,
        why,
        "table.metadata.rebuild(), or repair",
        RepairAction.METADATA,
    )


# ---- column statistics, blooms -------------------------------------------------------------------


def _check_facts(inventory: TableInventory, metadata: MetadataTable) -> Iterator[Finding]:
    if not {COLUMN_STATS.path, BLOOM_FILTERS.path} & metadata.partitions_listed:
        return
    indexes = []
    for path, (info, name) in inventory.data_files.items():
        if isinstance(name, BaseFileName) and inventory.visibility.sees(name.instant):
            stat = WriteStat(
                partition=path.rpartition("/")[0],
                file_id=name.file_id,
                path=path,
                previous_instant=None,
                write_count=0,
                delete_count=0,
                update_count=0,
                insert_count=0,
                size_bytes=info.size_bytes,
                write_bytes=0,
            )
            try:
                indexes.append(index_file(IndexedFile(inventory.fs, stat)))
            except (CorruptFileError, FileMissingError):
                continue  # check_files reports it
    for wrong in wrong_facts(metadata, indexes):
        what = f"statistics of column {wrong.column}" if wrong.column else "a bloom filter"
        yield Finding(
            "metadata-facts",
            Severity.ERROR,
            wrong.path,
            f"{what} contradict the file",
            wrong.why,
            "table.metadata.rebuild(), or repair",
            RepairAction.METADATA,
        )


# ---- record index -------------------------------------------------------------------------------


def _check_keys(
    inventory: TableInventory, metadata: MetadataTable, engine: Engine
) -> Iterator[Finding]:
    """In both directions: each key of the table has its file group, and the index has no others."""
    state = replace(inventory.state(), metadata=metadata)
    found = record_index.verify(state, engine, sample=None)
    for kind, count in found.faults.items():
        examples = "; ".join(str(dict(e)) for e in found.examples if e.get("fault") == kind)
        yield Finding(
            "index-keys",
            Severity.ERROR,
            f"{METADATA_TABLE}/{RECORD_INDEX.path}",
            f"the record index is wrong for {count} keys: {kind}",
            examples or f"of {found.keys} keys of the table and {found.entries} of the index",
            "table.index.repair(), table.metadata.rebuild(), or repair",
            RepairAction.METADATA,
        )


# ---- secondary indexes --------------------------------------------------------------------------


def _check_secondary(
    inventory: TableInventory, metadata: MetadataTable, engine: Engine
) -> Iterator[Finding]:
    """In both directions: each row has its entry, and the index has no others."""
    state = replace(inventory.state(), metadata=metadata)
    schema = state.schema()
    for index in secondary_indexes(state.fs, state.config):
        path = f"{METADATA_TABLE}/{index.name}"
        if index.column not in schema.names:
            yield _secondary(
                path, "is of a column that does not exist", "it is not used", Severity.WARNING
            )
        elif not has_one_text(index, schema):
            yield _secondary(
                path,
                "is not verified",
                "writers of version V1 store dates and timestamps in different forms",
                Severity.INFO,
            )
        else:
            yield from _wrong_entries(state, index, engine, path)


def _wrong_entries(
    state: TableState, index: SecondaryIndex, engine: Engine, path: str
) -> Iterator[Finding]:
    with record_index.key_spill(state.fs, engine) as staging:
        found = secondary_faults(state, index, engine, staging)
    if found.missing.count:
        what = "lacks {} entries: point queries by the column miss rows"
        yield _counted(path, what, found.missing, found.entries, Severity.ERROR)
    if found.superfluous.count:
        what = "has {} superfluous entries: point queries read more"
        yield _counted(path, what, found.superfluous, found.entries, Severity.WARNING)


def _counted(
    path: str, what: str, wrong: WrongEntries, entries: int, severity: Severity
) -> Finding:
    why = f"the rows have {entries} entries; for example {', '.join(map(repr, wrong.examples))}"
    return _secondary(path, what.format(wrong.count), why, severity)


def _secondary(path: str, what: str, why: str, severity: Severity) -> Finding:
    return Finding(
        "secondary-keys",
        severity,
        path,
        f"the secondary index {what}",
        why,
        "table.metadata.rebuild(), or repair",
        RepairAction.METADATA if severity is Severity.ERROR else None,
    )
