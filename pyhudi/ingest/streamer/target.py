"""The table that an ingest writes, which its first batch may create."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final

import pyarrow as pa

from pyhudi.api.health_methods import TableServices
from pyhudi.api.input_conversion import table_type_name
from pyhudi.api.option_consistency import agreed
from pyhudi.api.table import Table, create_table, open_table
from pyhudi.engine import Engine
from pyhudi.errors import OptionError, TableNotFoundError
from pyhudi.options import TableRequest, parse_options
from pyhudi.records import without_meta
from pyhudi.write.input.schema_check import SchemaRules
from pyhudi.write.input.source_checkpoint import SourcePosition
from pyhudi.write.write_report import WriteReport

_TYPES: Final = {"cow": "COPY_ON_WRITE", "mor": "MERGE_ON_READ"}


@dataclass(frozen=True, slots=True)
class _FutureConfig:
    """What is known of a table before it exists."""

    record_key_fields: tuple[str, ...]
    ordering_fields: tuple[str, ...]
    partition_fields: tuple[str, ...]


@dataclass
class IngestTarget:
    """A table at a path; without one, the first batch creates it from the options.

    options: `hoodie.*` names, with the record key and the partition path of a new table.
    source_schema: of the rows, types values of formats without types; new_schema: of a new table;
    None: that of the first batch.
    """

    location: str
    options: Mapping[str, str]
    name: str | None = None
    table_type: str | None = None
    source_schema: pa.Schema | None = None
    new_schema: pa.Schema | None = None
    storage_options: Mapping[str, Any] | None = None
    engine: Engine | None = None
    _table: Table | None = field(default=None, init=False)

    @property
    def path(self) -> str:
        return self.location if self.table is None else self.table.path

    @property
    def table(self) -> Table | None:
        """The table; None as long as it does not exist.  Raises OptionError if it has another name
        or type."""
        if self._table is None:
            try:
                found = open_table(
                    self.location,
                    options=self.options,
                    storage_options=self.storage_options,
                    engine=self.engine,
                )
            except TableNotFoundError:
                return None
            agreed(parse_options(self._stated), found.config)
            self._table = found
        return self._table

    @property
    def _stated(self) -> dict[str, str]:
        """The arguments that a table must agree with, as options."""
        kind = self.table_type and _TYPES.get(self.table_type.lower(), self.table_type)
        given = {"hoodie.table.name": self.name, "hoodie.datasource.write.table.type": kind}
        return {option: value for option, value in given.items() if value is not None}

    @property
    def services(self) -> TableServices | None:
        """Of the table; None as long as it does not exist."""
        return None if self.table is None else self.table.services

    def without_inline_services(self) -> IngestTarget:
        """The same target, but its writes run no table services."""
        return replace(self, options={**self.options, "hoodie.table.services.enabled": "false"})

    @cached_property
    def _request(self) -> TableRequest:
        return parse_options(self.options).request

    @property
    def config(self) -> Any:
        if self.table is not None:
            return self.table.config
        request = self._request
        partition = tuple(name.partition(":")[0] for name in request.partition_by or ())
        return _FutureConfig(request.record_key, request.ordering, partition)

    def schema_rules(self) -> SchemaRules:
        """As of the table; a new one takes all columns."""
        return SchemaRules() if self.table is None else self.table.schema_rules()

    def row_test(self) -> Callable[[pa.Table], object]:
        """As of the table, which exists when the rows of its first batch are read."""
        assert self.table is not None
        return self.table.row_test()

    def has_global_keys(self) -> bool:
        """As `Table.has_global_keys`; of a new table, whether it has no partitions or no index
        is stated."""
        if self.table is not None:
            return self.table.has_global_keys()
        index = parse_options(self.options).write.index
        return index is None or index.is_global or not self._request.partition_by

    def stored_columns(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """As `Table.stored_columns`."""
        return iter(()) if self.table is None else self.table.stored_columns(columns)

    def source_position(self) -> tuple[SourcePosition | None, pa.Schema]:
        """As of the table.  For a new one, the schema is that of the rows, or has no columns."""
        if self.table is not None:
            position, schema = self.table.source_position()
            return position, schema if len(schema) else self.source_schema or schema
        return None, self.source_schema or pa.schema([])

    def ingest(self, rows: Any, **how: Any) -> WriteReport:
        """As `Table.ingest`.  Raises OptionError if a new table has no record key."""
        table = self.table or self._create(rows.schema)
        return table.ingest(rows, **how)

    def check(self) -> None:
        """Raises OptionError if the options are invalid, or do not suffice to create the table."""
        if self.table is None and not self._request.record_key:
            raise OptionError(
                "a new table needs a record key",
                path=self.location,
                option="hoodie.datasource.write.recordkey.field",
            )

    def _create(self, schema: pa.Schema) -> Table:
        self.check()
        request = self._request
        self._table = create_table(
            self.location,
            without_meta(self.new_schema or schema),
            record_key=request.record_key,
            partition_by=request.partition_by or (),
            ordering=request.ordering or None,
            table_type=table_type_name(self.table_type or request.table_type),
            name=self.name,
            options=self.options,
            storage_options=self.storage_options,
            engine=self.engine,
            other_files=True,  # as Apache Hudi
        )
        return self._table
