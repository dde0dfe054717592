"""Every tunable: settings as dataclasses, and the table from `hoodie.*` names to them."""

from pyhudi.options.locks import LockProvider as LockProvider
from pyhudi.options.locks import LockRules as LockRules
from pyhudi.options.parse import parse_options as parse_options
from pyhudi.options.settings import BaseFileOptions as BaseFileOptions
from pyhudi.options.settings import BulkInsert as BulkInsert
from pyhudi.options.settings import CleaningPolicy as CleaningPolicy
from pyhudi.options.settings import Concurrency as Concurrency
from pyhudi.options.settings import FileSizing as FileSizing
from pyhudi.options.settings import Heartbeats as Heartbeats
from pyhudi.options.settings import HolesPolicy as HolesPolicy
from pyhudi.options.settings import IndexKind as IndexKind
from pyhudi.options.settings import IndexRules as IndexRules
from pyhudi.options.settings import KnownKeys as KnownKeys
from pyhudi.options.settings import LogFormat as LogFormat
from pyhudi.options.settings import Merging as Merging
from pyhudi.options.settings import Options as Options
from pyhudi.options.settings import QueryRequest as QueryRequest
from pyhudi.options.settings import ReadOptions as ReadOptions
from pyhudi.options.settings import SchemaMode as SchemaMode
from pyhudi.options.settings import ServiceOptions as ServiceOptions
from pyhudi.options.settings import SortMode as SortMode
from pyhudi.options.settings import StreamOptions as StreamOptions
from pyhudi.options.settings import TableOptions as TableOptions
from pyhudi.options.settings import TableRequest as TableRequest
from pyhudi.options.settings import TimestampSettings as TimestampSettings
from pyhudi.options.settings import WriteOptions as WriteOptions
