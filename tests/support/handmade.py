"""Tables put together file by file, as any writer could have left them; no write path involved."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from pyhudi.filenames import BaseFileName, LogFileName, join
from pyhudi.formats.avro_schema import arrow_to_avro, table_record_name, with_meta_fields
from pyhudi.formats.base_file import write_base
from pyhudi.formats.log_block import data_block, delete_block, rollback_block
from pyhudi.formats.log_file import BlockKind
from pyhudi.merge.merge_choice import mode_properties
from pyhudi.records import (
    COMMIT_SEQNO,
    COMMIT_TIME,
    FILE_NAME,
    PARTITION_PATH,
    RECORD_KEY,
    InstantTime,
    with_meta,
)
from pyhudi.storage.filesystem import FileSystem
from pyhudi.table.listing import ensure_partition
from pyhudi.table.new_table import new_table_properties
from pyhudi.table.properties import (
    MergeMode,
    TableConfig,
    TableType,
    store_config,
)
from pyhudi.timeline.commit_metadata import CommitMetadata, WriteStat


def file_id(number: int) -> str:
    return f"{uuid.UUID(int=number)}-0"


@dataclass
class Handmade:
    """A table of version 6 under construction.

    rows given to it have the user columns of `schema`; keys are the text of the column `key`.
    """

    fs: FileSystem
    schema: pa.Schema
    key: str = "id"
    partition_by: tuple[str, ...] = ()
    ordering: tuple[str, ...] = ("ts",)
    merge_mode: MergeMode = MergeMode.EVENT_TIME
    table_type: TableType = TableType.MERGE_ON_READ
    hive_style: bool = False
    config: TableConfig = field(init=False)
    touched: dict[str, list[WriteStat]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.avro = self.avro_of(self.schema)
        self.config = store_config(
            self.fs,
            new_table_properties(
                name="handmade",
                table_type=self.table_type,
                record_key=(self.key,),
                partition_by=self.partition_by,
                ordering=self.ordering,
                create_schema=self.avro,
                merge_properties=mode_properties(self.merge_mode, 6),
                version=6,
                hive_style=self.hive_style,
            ),
        )

    def avro_of(self, schema: pa.Schema) -> str:
        name, namespace = table_record_name("handmade")
        return arrow_to_avro(schema, name=name, namespace=namespace)

    def with_meta(self, rows: pa.Table, instant: str, partition: str, file: str) -> pa.Table:
        count = rows.num_rows
        columns = {
            COMMIT_TIME: pa.repeat(instant, count),
            COMMIT_SEQNO: pa.array([f"{instant}_0_{i}" for i in range(count)], pa.string()),
            RECORD_KEY: rows.column(self.key).cast(pa.string()),
            PARTITION_PATH: pa.repeat(partition, count),
            FILE_NAME: pa.repeat(file, count),
            **dict(zip(rows.column_names, rows.columns, strict=True)),
        }
        return pa.table(columns).cast(with_meta(rows.schema))

    def base(
        self,
        group: int,
        instant: str,
        rows: pa.Table,
        *,
        partition: str = "",
        row_group_rows: int = 1 << 20,
    ) -> None:
        """A base file; rows that carry meta columns keep them."""
        name = BaseFileName(file_id(group), "0-0-0", InstantTime(instant))
        if COMMIT_TIME not in rows.column_names:
            rows = self.with_meta(rows, instant, partition, str(name))
        ensure_partition(self.fs, partition, InstantTime(instant))
        with self.fs.open_sink(join(partition, str(name))) as sink:
            write_base(
                sink,
                rows,
                avro_schema=with_meta_fields(self.avro),
                bloom=None,
                row_group_rows=row_group_rows,
            )
        self._touch(instant, group, partition, str(name))

    def rows_block(
        self, group: int, instant: str, rows: pa.Table, *, kind: BlockKind = BlockKind.PARQUET,
        partition: str = "",
    ) -> bytes:  # fmt: skip
        return data_block(
            self.with_meta(rows, instant, partition, file_id(group)),
            kind=kind,
            instant=instant,
            avro_schema=with_meta_fields(self.avro_of(rows.schema)),
        )

    def deletes_block(
        self, instant: str, keys: Sequence[str], *, ordering: pa.Array | None = None
    ) -> bytes:
        return delete_block(pa.array(keys, pa.string()), "", ordering, instant=instant)

    def rollback_block(self, instant: str, target: str) -> bytes:
        return rollback_block(instant, target)

    def log(
        self, group: int, base_instant: str, version: int, blocks: Sequence[bytes], *,
        partition: str = "", instant: str | None = None,
    ) -> None:  # fmt: skip
        name = LogFileName(file_id(group), InstantTime(base_instant), version, "0-0-0")
        ensure_partition(self.fs, partition, InstantTime(base_instant))
        self.fs.create(join(partition, str(name)), b"".join(blocks))
        if instant is not None:
            self._touch(instant, group, partition, str(name), version)

    def _touch(
        self, instant: str, group: int, partition: str, name: str, version: int | None = None
    ) -> None:
        path = join(partition, name)
        stat = WriteStat(
            partition=partition, file_id=file_id(group), path=path, previous_instant=None,
            write_count=0, delete_count=0, update_count=0, insert_count=0,
            size_bytes=self.fs.size(path), write_bytes=0, log_version=version,
        )  # fmt: skip
        self.touched.setdefault(instant, []).append(stat)

    def commit(
        self,
        instant: str,
        *,
        action: str = "deltacommit",
        operation: str = "UPSERT",
        schema: pa.Schema | None = None,
        replaced: dict[str, tuple[str, ...]] | None = None,
    ) -> None:
        """Complete an instant with the files put down for it."""
        text = self.avro if schema is None else self.avro_of(schema)
        commit = CommitMetadata(
            stats=tuple(self.touched.get(instant, ())),
            operation=operation,
            extra={"schema": text},
            replaced=replaced,
        )
        self.fs.create(f".hoodie/{instant}.{action}", commit.to_json())
