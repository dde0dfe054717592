"""The index definition of `column_stats`, which Apache Hudi 1.x requires to use the partition.

```
.hoodie/.index_defs/index.json   indexDefinitions: name -> indexName, indexType, indexFunction,
                                 sourceFields, indexOptions, version
hoodie.table.index.defs.path     property: its path, relative to the table
```

sourceFields are the columns that 1.x may use to skip files.  It treats a column that a file's
entries lack as all null, so only columns are listed that every writer of version 6 indexes by
default; nested columns, which 0.15.0 does not index, are excluded.  0.15.0 ignores the file and
the property.
Source: HoodieIndexMetadata and HoodieTableMetaClient of Apache Hudi 1.2.0; its tables of version 6.
"""

from __future__ import annotations

import json
from typing import Any, Final

import pyarrow as pa
import pyarrow.types as pt

from pyhudi.errors import CorruptFileError, FileMissingError
from pyhudi.filenames import HOODIE
from pyhudi.metadata.payloads import COLUMN_STATS
from pyhudi.records import COMMIT_TIME, META_COLUMNS, PARTITION_PATH, RECORD_KEY
from pyhudi.storage.filesystem import FileSystem
from pyhudi.table.properties import TableConfig, store_config

LOCATION: Final = "hoodie.table.index.defs.path"
DEFINITIONS: Final = f"{HOODIE}/.index_defs/index.json"
_ALL: Final = "indexDefinitions"


def define_column_stats(fs: FileSystem, config: TableConfig, schema: pa.Schema) -> TableConfig:
    """Write the definition of `column_stats`; returns the stored properties.

    schema: of the table.  Other definitions are preserved.  The caller holds the table's lock and
    writes the entries of every file, before or after.  Does nothing where the properties name
    another file.  Raises CorruptFileError where the file does not contain index definitions.
    """
    if config.properties.get(LOCATION, DEFINITIONS) != DEFINITIONS:
        return config
    stored = _stored(fs)
    stored[_ALL][COLUMN_STATS.path] = {
        "indexName": COLUMN_STATS.path,
        "indexType": COLUMN_STATS.path,
        "indexFunction": COLUMN_STATS.path,
        "sourceFields": _source_fields(schema),
        "indexOptions": {},
        "version": "V1",
    }
    fs.replace(DEFINITIONS, json.dumps(stored, indent=2, ensure_ascii=False).encode())
    if LOCATION in config.properties:
        return config
    return store_config(fs, config.with_properties({LOCATION: DEFINITIONS}))


def read_definitions(fs: FileSystem, config: TableConfig) -> dict[str, dict[str, Any]]:
    """The index definitions by name; empty where the table has none.  Raises CorruptFileError."""
    path = config.properties.get(LOCATION, DEFINITIONS).lstrip("/")
    try:
        stored = json.loads(fs.read(path))[_ALL]
    except FileMissingError:
        return {}
    except (ValueError, KeyError, TypeError) as error:
        raise _damaged() from error
    if not isinstance(stored, dict):
        raise _damaged()
    return {name: each for name, each in stored.items() if isinstance(each, dict)}


def _stored(fs: FileSystem) -> dict[str, Any]:
    if not fs.exists(DEFINITIONS):
        return {_ALL: {}}
    try:
        stored = json.loads(fs.read(DEFINITIONS))
    except ValueError as error:
        raise _damaged() from error
    if not isinstance(stored, dict) or not isinstance(stored.get(_ALL), dict):
        raise _damaged()
    return stored


def _damaged() -> CorruptFileError:
    return CorruptFileError(
        "cannot read the index definitions", path=DEFINITIONS,
        hint="delete the file; Apache Hudi 1.x then opens more files than necessary",
    )  # fmt: skip


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
