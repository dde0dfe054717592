"""pyhudi: Apache Hudi tables for Python and PySpark, without a jar.

`open_table` and `create_table` are the entry points; `pyhudi.spark` is the same API on Spark.
Names are loaded on first use, to keep `import pyhudi` fast.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from pyhudi.errors import CatalogError as CatalogError
from pyhudi.errors import CorruptFileError as CorruptFileError
from pyhudi.errors import HollowCommitError as HollowCommitError
from pyhudi.errors import IndexNotReadyError as IndexNotReadyError
from pyhudi.errors import LockError as LockError
from pyhudi.errors import MeasurementError as MeasurementError
from pyhudi.errors import OptionError as OptionError
from pyhudi.errors import PyhudiError as PyhudiError
from pyhudi.errors import SchemaError as SchemaError
from pyhudi.errors import SnapshotExpiredError as SnapshotExpiredError
from pyhudi.errors import SourceDataLostError as SourceDataLostError
from pyhudi.errors import StorageError as StorageError
from pyhudi.errors import TableNotFoundError as TableNotFoundError
from pyhudi.errors import UnsupportedTableError as UnsupportedTableError
from pyhudi.errors import UserError as UserError
from pyhudi.errors import WriteConflictError as WriteConflictError

if TYPE_CHECKING:
    __version__: str
    from pyhudi._native import BloomFilter as BloomFilter
    from pyhudi._native import HFileReader as HFileReader
    from pyhudi._native import HFileWriter as HFileWriter
    from pyhudi.api.path_calls import read as read
    from pyhudi.api.path_calls import upsert as upsert
    from pyhudi.api.table import Table as Table
    from pyhudi.api.table import create_table as create_table
    from pyhudi.api.table import doctor as doctor
    from pyhudi.api.table import open_table as open_table
    from pyhudi.api.table import repair as repair
    from pyhudi.index.standalone_reader import OpenIndex as OpenIndex
    from pyhudi.index.standalone_reader import open_index as open_index
    from pyhudi.keygen.generators import PythonKeys as PythonKeys
    from pyhudi.keygen.new_table_keys import TimestampPartition as TimestampPartition
    from pyhudi.metadata.record_index.hash_functions import register_hash as register_hash
    from pyhudi.read.scan import Scan as Scan
    from pyhudi.report.table_report import TableReport as TableReport
    from pyhudi.sql.session import connect as connect
    from pyhudi.sql.session import sql as sql
    from pyhudi.storage.inline_file import InlineFileSystem as InlineFileSystem
    from pyhudi.sync.sync_report import SyncReport as SyncReport
    from pyhudi.write.write_report import WriteReport as WriteReport

_HOMES: Final = {
    "BloomFilter": "pyhudi._native",
    "HFileReader": "pyhudi._native",
    "HFileWriter": "pyhudi._native",
    "InlineFileSystem": "pyhudi.storage.inline_file",
    "OpenIndex": "pyhudi.index.standalone_reader",
    "PythonKeys": "pyhudi.keygen.generators",
    "Scan": "pyhudi.read.scan",
    "Table": "pyhudi.api.table",
    "SyncReport": "pyhudi.sync.sync_report",
    "TableReport": "pyhudi.report.table_report",
    "TimestampPartition": "pyhudi.keygen.new_table_keys",
    "WriteReport": "pyhudi.write.write_report",
    "connect": "pyhudi.sql.session",
    "create_table": "pyhudi.api.table",
    "doctor": "pyhudi.api.table",
    "open_index": "pyhudi.index.standalone_reader",
    "open_table": "pyhudi.api.table",
    "register_hash": "pyhudi.metadata.record_index.hash_functions",
    "repair": "pyhudi.api.table",
    "upsert": "pyhudi.api.path_calls",
}
"""The module of each name that is loaded on first use."""


_ERRORS: Final = tuple(name for name in globals() if name.endswith("Error"))


class _CallablePackage(ModuleType):
    """The packages `pyhudi.read` and `pyhudi.sql`, which are also the functions of these names."""

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        name = self.__name__.rpartition(".")[2]
        return getattr(import_module(_CALLED[name]), name)(*arguments, **named)


_CALLED: Final = {"read": "pyhudi.api.path_calls", "sql": "pyhudi.sql.session"}
"""The module of each function that is also a package."""

for _name in _CALLED:
    import_module(f"pyhudi.{_name}").__class__ = _CallablePackage


_MODULES: Final = ("daft", "datafusion", "duckdb", "ingest", "observe", "polars")
"""Modules that need no import of their own."""


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return _version()
    if name in _MODULES:
        return import_module(f"pyhudi.{name}")
    home = _HOMES.get(name)
    if home is None:
        raise _unknown(name)
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def _unknown(name: str) -> AttributeError:
    names = import_module("pyhudi.other_names")
    found: AttributeError = names.unknown_name("module 'pyhudi'", name, __dir__(), names.PACKAGE)
    return found


def _version() -> str:
    """The release that is installed; "0+unknown" in a checkout that is not."""
    metadata = import_module("importlib.metadata")
    try:
        return str(metadata.version("pyhudi"))
    except metadata.PackageNotFoundError:
        return "0+unknown"


def __dir__() -> list[str]:
    return sorted({*_HOMES, *_ERRORS, *_CALLED, "errors"})
