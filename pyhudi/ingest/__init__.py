"""Ingest: rows of a source and the position reached in it, written to a table in one commit.

`Stream(source, table).run()` continues where the newest commit of the table stopped, also after a
crash, and on tables that Apache Hudi's streamer wrote.
"""

from pyhudi.ingest.bad_rows import ErrorTable as ErrorTable
from pyhudi.ingest.concurrent_services import ConcurrentServices as ConcurrentServices
from pyhudi.ingest.concurrent_services import ServicesStatus as ServicesStatus
from pyhudi.ingest.databases.postgres_changes import PostgresChanges as PostgresChanges
from pyhudi.ingest.databases.query_source import QuerySource as QuerySource
from pyhudi.ingest.files.csv_rows import CsvDialect as CsvDialect
from pyhudi.ingest.files.listing import DateFolders as DateFolders
from pyhudi.ingest.files.source import FileSource as FileSource
from pyhudi.ingest.kafka.kafka_source import KafkaSource as KafkaSource
from pyhudi.ingest.message_formats.avro_messages import AvroFormat as AvroFormat
from pyhudi.ingest.message_formats.bytes_messages import BytesFormat as BytesFormat
from pyhudi.ingest.message_formats.debezium_messages import DebeziumFormat as DebeziumFormat
from pyhudi.ingest.message_formats.dms_messages import DmsFormat as DmsFormat
from pyhudi.ingest.message_formats.json_messages import JsonFormat as JsonFormat
from pyhudi.ingest.message_formats.json_schema_messages import (
    JsonSchemaFormat as JsonSchemaFormat,
)
from pyhudi.ingest.message_formats.protobuf_messages import ProtobufFormat as ProtobufFormat
from pyhudi.ingest.queues.s3_event_source import S3EventSource as S3EventSource
from pyhudi.ingest.retries import Retries as Retries
from pyhudi.ingest.source import REJECTED as REJECTED
from pyhudi.ingest.source import RejectedRows as RejectedRows
from pyhudi.ingest.source import ReportsLag as ReportsLag
from pyhudi.ingest.source import RowSource as RowSource
from pyhudi.ingest.source import SourceBatch as SourceBatch
from pyhudi.ingest.source import SourceLag as SourceLag
from pyhudi.ingest.source import SourceLimits as SourceLimits
from pyhudi.ingest.source import SourceSplit as SourceSplit
from pyhudi.ingest.status import IngestState as IngestState
from pyhudi.ingest.status import IngestStatus as IngestStatus
from pyhudi.ingest.status import health_file as health_file
from pyhudi.ingest.stream import Stream as Stream
from pyhudi.ingest.table_source import TableSource as TableSource
from pyhudi.ingest.transforms import Flatten as Flatten
from pyhudi.ingest.transforms import SqlTransform as SqlTransform
