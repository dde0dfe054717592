"""pyhudi: Apache Hudi tables for Python and PySpark, without a jar.

`open_table` and `create_table` are the door; `pyhudi.spark` is the same door on Spark.
"""

from pyhudi._native import BloomFilter as BloomFilter
from pyhudi._native import HFileReader as HFileReader
from pyhudi._native import HFileWriter as HFileWriter
from pyhudi.api import Table as Table
from pyhudi.api import create_table as create_table
from pyhudi.api import open_table as open_table
from pyhudi.errors import CorruptFileError as CorruptFileError
from pyhudi.errors import IndexNotReadyError as IndexNotReadyError
from pyhudi.errors import LockError as LockError
from pyhudi.errors import OptionError as OptionError
from pyhudi.errors import PyhudiError as PyhudiError
from pyhudi.errors import SchemaError as SchemaError
from pyhudi.errors import SnapshotExpiredError as SnapshotExpiredError
from pyhudi.errors import StorageError as StorageError
from pyhudi.errors import TableNotFoundError as TableNotFoundError
from pyhudi.errors import UnsupportedTableError as UnsupportedTableError
from pyhudi.errors import UserError as UserError
from pyhudi.errors import WriteConflictError as WriteConflictError
from pyhudi.read.scan import Scan as Scan
from pyhudi.storage.inline import InlineFileSystem as InlineFileSystem
from pyhudi.write.report import WriteReport as WriteReport
