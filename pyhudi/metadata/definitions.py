"""Index definitions of the metadata table, which Apache Hudi 1.x requires to use its partitions.

```
.hoodie/.index_defs/index.json   indexDefinitions: name -> indexName, indexType, indexFunction,
                                 sourceFields, indexOptions, version
hoodie.table.index.defs.path     property: its path, relative to the table
```

sourceFields are the columns that 1.x may use to skip files.  It treats a column that a file's
entries lack as all null.  At version 6 only columns are listed that every writer indexes by
default; nested columns, which 0.15.0 does not index, are excluded.  0.15.0 ignores the file and
the property.  At versions 8 and 9 every file has entries of exactly these columns.
Source: HoodieIndexMetadata and HoodieTableMetaClient of Apache Hudi 1.2.0; its tables of version 6.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.types as pt

from pyhudi.errors import CorruptFileError, FileMissingError, UserError
from pyhudi.filenames import HOODIE, PROPERTIES
from pyhudi.metadata.file_stats.records import primitives
from pyhudi.metadata.file_stats.value_types import has_ranges
from pyhudi.metadata.payloads import COLUMN_STATS, RECORD_INDEX
from pyhudi.records import COMMIT_TIME, META_COLUMNS, PARTITION_PATH, RECORD_KEY
from pyhudi.storage.filesystem import FileSystem, checked_file
from pyhudi.table.properties import TableConfig, store_config

LOCATION: Final = "hoodie.table.index.defs.path"
DEFINITIONS: Final = f"{HOODIE}/.index_defs/index.json"
_ALL: Final = "indexDefinitions"
_REBUILD: Final = "table.metadata.rebuild() or pyhudi repair"
COLUMNS_MAX: Final = 32
"""Columns of the table that are indexed by default."""


def define_column_stats(
    fs: FileSystem,
    config: TableConfig,
    schema: pa.Schema,
    columns: Sequence[str] = (),
    columns_max: int = COLUMNS_MAX,
) -> TableConfig:
    """Write the definition of `column_stats`; returns the stored properties.

    schema: of the table.  columns, columns_max: as in `columns_to_index`, for 8 and 9.  Other
    definitions are preserved.  The caller holds the table's lock and writes the entries of every
    file, before or after.  Does nothing where the properties of version 6 name another file, and
    at versions 8 and 9 where there is a definition: it states what the entries are.
    Raises CorruptFileError where the file does not contain index definitions, UserError for
    columns that cannot be indexed.
    """
    version = config.layout.index_version
    if not version and config.properties.get(LOCATION, DEFINITIONS) != DEFINITIONS:
        return config
    if version and COLUMN_STATS.path in read_definitions(fs, config):
        return config
    fields = stats_fields(config, schema, columns, columns_max)
    return add_definition(fs, config, _column_stats(fields, f"V{version or 1}"))


def stats_fields(
    config: TableConfig,
    schema: pa.Schema,
    columns: Sequence[str] = (),
    columns_max: int = COLUMNS_MAX,
) -> list[str]:
    """The columns in a new definition of `column_stats`; arguments and errors as there."""
    version = config.layout.index_version
    if not version:
        return _source_fields(schema)
    return columns_to_index(schema, columns, version, columns_max)


def _column_stats(fields: Sequence[str], version: str) -> dict[str, Any]:
    return {
        "indexName": COLUMN_STATS.path,
        "indexType": COLUMN_STATS.path,
        "indexFunction": COLUMN_STATS.path,
        "sourceFields": list(fields),
        "indexOptions": {},
        "version": version,
    }


@dataclass(frozen=True, slots=True)
class StatsDefinition:
    """What an index of column statistics contains.  version: 0 at table version 6, which has
    entries of all columns (None); else 1 or 2."""

    version: int
    columns: frozenset[str] | None = None


def stats_definition(fs: FileSystem, config: TableConfig) -> StatsDefinition:
    """The definition by which writers maintain `column_stats`.

    Raises CorruptFileError for a table of version 8 or 9 without a definition that can be read.
    """
    if not config.layout.index_version:
        return StatsDefinition(0)
    found = read_definitions(fs, config).get(COLUMN_STATS.path)
    if found is None:
        raise CorruptFileError(
            "the index definitions do not contain the column statistics",
            path=definitions_path(config),
            hint=f"run {_REBUILD}",
        )
    fields, version = found.get("sourceFields"), found.get("version") or "V1"
    if not isinstance(fields, list) or version not in ("V1", "V2"):
        raise _damaged(config)
    return StatsDefinition(int(version[1:]), frozenset(map(str, fields)))


def follow_schema(
    fs: FileSystem, config: TableConfig, schema: pa.Schema, added: Sequence[str]
) -> TableConfig:
    """Add columns that a commit adds to the table to the definition of `column_stats`.

    schema: of the table with the columns.  The caller holds the table's lock.
    Other columns are not added: files without entries of a column would count as all null.
    """
    if (
        not added
        or not config.layout.index_version
        or COLUMN_STATS.path not in config.metadata_partitions
    ):
        return config
    found = read_definitions(fs, config).get(COLUMN_STATS.path)
    if found is None:
        return config
    known = stats_definition(fs, config)
    fields = [str(name) for name in found["sourceFields"]]
    room = COLUMNS_MAX - sum(name not in META_COLUMNS for name in fields)
    new = [
        f.name
        for f in schema
        if f.name in added and f.name not in fields and has_ranges(f.type, known.version)
    ]
    if not new[: max(0, room)]:
        return config
    return add_definition(fs, config, {**found, "sourceFields": [*fields, *new[:room]]})


def define_record_index(
    fs: FileSystem, config: TableConfig, *, by_partition: bool = False
) -> TableConfig:
    """Write the definition of `record_index` at versions 8 and 9; as `add_definition`."""
    if not config.layout.index_version:
        return config
    definition = {
        "indexName": RECORD_INDEX.path,
        "indexType": RECORD_INDEX.path,
        "indexFunction": "",
        "sourceFields": [],
        "indexOptions": {"isPartitioned": "true" if by_partition else "false"},
        "version": "V1",
    }
    return add_definition(fs, config, definition)


def definitions_path(config: TableConfig) -> str:
    """The path of the definitions from the table's root.  Raises CorruptFileError where the
    properties name a path outside the table."""
    path = config.properties.get(LOCATION, DEFINITIONS).lstrip("/")
    try:
        return checked_file(path)
    except UserError as outside:
        raise CorruptFileError(
            "the properties name index definitions outside the table",
            path=PROPERTIES,
            property=LOCATION,
            value=path,
            hint=f"remove the property, then run {_REBUILD}",
        ) from outside


def read_definitions(fs: FileSystem, config: TableConfig) -> dict[str, dict[str, Any]]:
    """The index definitions by name; empty where the table has none.  Raises CorruptFileError."""
    path = definitions_path(config)
    try:
        stored = json.loads(fs.read(path))[_ALL]
    except FileMissingError:
        return {}
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise _damaged(config) from error
    if not isinstance(stored, dict) or not all(isinstance(d, dict) for d in stored.values()):
        raise _damaged(config)
    return stored


def stated_fields(config: TableConfig, definition: Mapping[str, Any]) -> tuple[list[str], str]:
    """(columns, version) of a definition; V1 where it states none.  Raises CorruptFileError."""
    fields, version = definition.get("sourceFields") or [], definition.get("version") or "V1"
    is_list = isinstance(fields, list) and all(isinstance(name, str) for name in fields)
    if not is_list or not isinstance(version, str):
        raise _damaged(config)
    return fields, version


def definitions_with_prefix(
    fs: FileSystem, config: TableConfig, prefix: str, names: Iterable[str] | None = None
) -> list[tuple[str, dict[str, Any] | None]]:
    """The partitions with a prefix, by name, and their definitions; None where there is none.

    Reads one file, and none where no partition is listed.  names: of metadata partitions; None:
    those that the table lists.  Raises CorruptFileError where the definitions cannot be read.
    """
    among = config.metadata_partitions if names is None else names
    listed = sorted(name for name in among if name.startswith(prefix))
    stored = read_definitions(fs, config) if listed else {}
    return [(name, stored.get(name)) for name in listed]


def add_definition(
    fs: FileSystem, config: TableConfig, definition: Mapping[str, Any]
) -> TableConfig:
    """Add a definition, or replace that of its name; returns the stored properties.

    The caller holds the table's lock.  Raises CorruptFileError.
    """
    definitions = read_definitions(fs, config)
    definitions[definition["indexName"]] = dict(definition)
    return _store(fs, config, definitions)


def remove_definition(fs: FileSystem, config: TableConfig, name: str) -> TableConfig:
    """Remove the definition of an index, if there is one; as `add_definition`."""
    definitions = read_definitions(fs, config)
    if definitions.pop(name, None) is None:
        return config
    return _store(fs, config, definitions)


def _store(
    fs: FileSystem, config: TableConfig, definitions: Mapping[str, Mapping[str, Any]]
) -> TableConfig:
    """Replace the file, then name it in the properties.  At versions 8 and 9 each definition gets
    a version: version 9 requires it, and none means V1."""
    path = definitions_path(config)
    default = {"version": "V1"} if config.layout.index_version else {}
    stored = {name: {**default, **each} for name, each in definitions.items()}
    content = json.dumps({_ALL: stored}, indent=2, ensure_ascii=False)
    fs.replace(path, content.encode())
    if LOCATION in config.properties:
        return config
    return store_config(fs, config.with_properties({LOCATION: DEFINITIONS}))


def _damaged(config: TableConfig) -> CorruptFileError:
    """Writers of versions 8 and 9 need the definitions; at version 6 only Apache Hudi 1.x does."""
    path = definitions_path(config)
    if config.layout.index_version:
        return CorruptFileError(
            "cannot read the index definitions", path=path, hint=f"run {_REBUILD}"
        )
    return CorruptFileError(
        "cannot read the index definitions",
        path=path,
        hint="delete the file; Apache Hudi 1.x then opens more files than necessary",
    )


def columns_to_index(
    schema: pa.Schema, columns: Sequence[str], version: int, columns_max: int = COLUMNS_MAX
) -> list[str]:
    """The columns that an index of this version has: record key, partition and commit time, then
    those given as dotted paths, or the first `columns_max` supported ones.

    Raises UserError for a given column that is not in the schema or has no order.
    """
    meta = [COMMIT_TIME, PARTITION_PATH, RECORD_KEY]
    plain = [field for field in schema if field.name not in META_COLUMNS]
    if not columns:
        supported = [field.name for field in plain if has_ranges(field.type, version)]
        return [*meta, *supported[:columns_max]]
    types = dict(primitives(plain))
    wrong = [c for c in columns if c not in meta and not _has_ranges(types.get(c), version)]
    if wrong:
        raise UserError(
            "column statistics of this column are not possible",
            columns=",".join(wrong),
            hint="name columns of the table that are no lists, maps or structs",
        )
    return [*meta, *dict.fromkeys(c for c in columns if c not in meta)]


def _has_ranges(kind: pa.DataType | None, version: int) -> bool:
    return kind is not None and has_ranges(kind, version)


def _source_fields(schema: pa.Schema) -> list[str]:
    meta = [n for n in (COMMIT_TIME, PARTITION_PATH, RECORD_KEY) if n in schema.names]
    return [*meta, *(f.name for f in schema if f.name not in META_COLUMNS and _is_plain(f.type))]


def _is_plain(kind: pa.DataType) -> bool:
    """Whether Spark can order values of the type; 1.x stores no ranges of binary columns."""
    tests = (
        pt.is_integer, pt.is_floating, pt.is_decimal, pt.is_string, pt.is_large_string,
        pt.is_boolean, pt.is_date, pt.is_timestamp,
    )  # fmt: skip
    return any(test(kind) for test in tests)
