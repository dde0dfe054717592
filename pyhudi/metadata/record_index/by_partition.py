"""A record index with file groups for each partition of the table, as Apache Hudi 1.1+ writes it.

```
file id     record-index-<partition>-<number>-0
partition   its path with %XX for characters that are special in paths, `-` and `_`
number      hash of the key, among the groups of the partition
```

A key may be in several partitions, and has an entry in each of them.
Source: writer_v8_v9 11.5, 11.7; tables of Apache Hudi 1.2.0.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.engine import Engine
from pyhudi.errors import CorruptFileError, UnsupportedTableError
from pyhudi.filenames import METADATA_TABLE, parse_data_file
from pyhudi.metadata.definitions import read_definitions
from pyhudi.metadata.payloads import (
    PARTITION_GROUP,
    RECORD_INDEX,
    SECONDARY_PREFIX,
    MetadataPartition,
)
from pyhudi.metadata.record_index.lookup import RecordIndex
from pyhudi.storage.filesystem import FileSystem
from pyhudi.table.file_group_view import FileSlice
from pyhudi.table.properties import TableConfig

_SPECIAL: Final = re.compile(r"[\x00-\x1f\x7f\"#%'*/:=?\\{\[\]^_-]")
"""Characters of partition paths that are escaped in file ids: as Apache Hudi does in paths, and the
separators in file ids and file names (Apache Hudi leaves `_`, and reads both)."""
_POSITION: Final = "position"


def is_partitioned_record_index(fs: FileSystem, config: TableConfig) -> bool:
    """Whether the record index has separate file groups for each data partition."""
    if not config.layout.index_version or RECORD_INDEX.path not in config.metadata_partitions:
        return False
    options = read_definitions(fs, config).get(RECORD_INDEX.path, {}).get("indexOptions")
    return isinstance(options, dict) and options.get("isPartitioned") == "true"


def check_global(fs: FileSystem, config: TableConfig) -> None:
    """Raise UnsupportedTableError for a record index by partition, for what needs a global one."""
    if is_partitioned_record_index(fs, config):
        raise by_partition_error(fs)


def check_by_partition(fs: FileSystem, config: TableConfig) -> None:
    """Raise UnsupportedTableError for a record index by partition with a secondary index, whose
    entries have no partition."""
    if is_partitioned_record_index(fs, config):
        check_no_secondary(fs, config)


def check_no_secondary(fs: FileSystem, config: TableConfig) -> None:
    """Raise UnsupportedTableError for a table with a secondary index, if the record index is, or is
    to be, by partition."""
    secondary = sorted(p for p in config.metadata_partitions if p.startswith(SECONDARY_PREFIX))
    if secondary:
        raise UnsupportedTableError(
            "a secondary index needs a global record index, not one by partition",
            path=fs.url,
            index=secondary[0],
            hint=f"run table.index.drop({secondary[0]!r})",
        )


def defined_by_partition(fs: FileSystem, config: TableConfig) -> bool:
    """As `is_partitioned_record_index`, for a table whose metadata table is lost or damaged: by the
    index definitions, or the names of the index's files where those are damaged."""
    if not config.layout.index_version:
        return False
    try:
        definition = read_definitions(fs, config).get(RECORD_INDEX.path)
    except CorruptFileError:
        definition = None
    if definition is None:
        return bool(stored_group_counts(fs))
    options = definition.get("indexOptions")
    return isinstance(options, dict) and options.get("isPartitioned") == "true"


def stored_group_counts(fs: FileSystem) -> dict[str, int]:
    """The number of file groups of each partition, by the names of the index's files."""
    counts: dict[str, int] = {}
    for each in fs.children(f"{METADATA_TABLE}/{RECORD_INDEX.path}"):
        name = parse_data_file(each.name)
        match = None if name is None else PARTITION_GROUP.fullmatch(name.file_id)
        if match is not None:
            partition = unquote(match[1])
            counts[partition] = max(counts.get(partition, 0), int(match[2]) + 1)
    return counts


def by_partition_error(fs: FileSystem) -> UnsupportedTableError:
    """The error for what a record index by partition does not have."""
    return UnsupportedTableError(
        "not available for a record index by partition",
        path=fs.url,
        hint="for a global index, where every key is unique, run table.index.drop('record_index') "
        "and table.index.rebuild(kind='record')",
    )


def partition_groups(partition: str) -> MetadataPartition:
    """The file groups of a data partition.  partition: its path."""
    escaped = _SPECIAL.sub(lambda found: f"%{ord(found[0]):02X}", partition)
    return MetadataPartition(RECORD_INDEX.path, f"{RECORD_INDEX.prefix}{escaped}-")


def groups_as(file_id: str) -> MetadataPartition:
    """The file groups of the data partition of one of them, by the same prefix."""
    return MetadataPartition(RECORD_INDEX.path, file_id.rsplit("-", 2)[0] + "-")


def slices_by_partition(slices: Iterable[FileSlice]) -> dict[str, tuple[FileSlice, ...]]:
    """The newest slice of each group, by group number, of each data partition.

    Raises CorruptFileError if the groups of a partition are not numbered 0..n-1.
    """
    found: dict[str, dict[int, FileSlice]] = {}
    for each in slices:
        match = PARTITION_GROUP.fullmatch(each.file_id)
        if match is None:
            raise _incomplete(each.file_id)
        found.setdefault(unquote(match[1]), {})[int(match[2])] = each
    for partition, groups in found.items():
        if groups.keys() != set(range(len(groups))):
            raise _incomplete(partition)
    return {
        partition: tuple(groups[number] for number in range(len(groups)))
        for partition, groups in sorted(found.items())
    }


def _incomplete(found: str) -> CorruptFileError:
    return CorruptFileError(
        "the file groups of a record index by partition are incomplete",
        partition=RECORD_INDEX.path,
        found=found,
        hint="drop it with table.index.drop('record_index')",
    )


class PartitionedRecordIndex:
    """Look-ups of record locations, in the partitions of the table.

    by_partition: the index of each partition that has entries.
    """

    def __init__(self, by_partition: Mapping[str, RecordIndex]) -> None:
        self.by_partition = by_partition

    @property
    def group_counts(self) -> dict[str, int]:
        """The number of file groups of each partition."""
        return {name: index.bucket_count for name, index in self.by_partition.items()}

    def lookup(
        self,
        keys: Any,
        *,
        engine: Engine | None = None,
        partitions: Collection[str] | None = None,
    ) -> pa.Table:
        """As `RecordIndex.lookup`, with a row for each partition that has the key, by partition; a
        key in none has one row.

        partitions: those to search; None: all.  Cost: a look-up of every key in each of them.
        """
        parts = [
            _numbered(index.lookup(keys, engine=engine))
            for partition, index in self.by_partition.items()
            if partitions is None or partition in partitions
        ]
        if not parts:
            parts = [_numbered(_absent(keys))]
        found = [part.filter(pc.field("found")) for part in parts]
        known = np.zeros(parts[0].num_rows, np.bool_)
        for part in found:
            known[part.column(_POSITION).to_numpy()] = True
        rows = pa.concat_tables([*found, parts[0].filter(pa.array(~known))])
        order = pc.sort_indices(rows, [(_POSITION, "ascending"), ("partition_path", "ascending")])
        return rows.take(order).drop_columns([_POSITION])


def _numbered(rows: pa.Table) -> pa.Table:
    """With the position of each key among those looked up."""
    plain = rows.cast(pa.schema([pa.field(f.name, _plain(f.type)) for f in rows.schema]))
    return plain.append_column(_POSITION, pa.array(np.arange(rows.num_rows)))


def _plain(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _absent(keys: Any) -> pa.Table:
    """The result of a look-up in an index without entries."""
    column = keys if isinstance(keys, pa.Array | pa.ChunkedArray) else pa.array(keys, pa.string())
    nothing = pa.nulls(len(column), pa.string())
    return pa.table(
        {
            "record_key": column.cast(pa.string()),
            "partition_path": nothing,
            "file_id": nothing,
            "instant_time": nothing,
            "found": pa.array(np.zeros(len(column), np.bool_)),
        }
    )
