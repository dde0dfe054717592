"""Every record of a metadata table, as rows of Apache Hudi's schema of them.

A value of several types, such as the bound of a range, is a struct with a field for each type,
`member0` and so on in the order of the schema, of which one is not null: so Spark reads unions.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.types as pt

from pyhudi.errors import UnsupportedTableError
from pyhudi.metadata.compaction import merged_files, merged_newest
from pyhudi.metadata.hfile_slices import MapSlice
from pyhudi.metadata.payloads import FILES, codec, maintained_partitions
from pyhudi.metadata.reader import MetadataTable
from pyhudi.metadata.record_schema import records_of


def all_records(metadata: MetadataTable) -> pa.Table:
    """The newest record of each key of each partition, in memory.

    Raises UnsupportedTableError if the table lists a partition of an unknown kind.
    """
    kinds = maintained_partitions(metadata.partitions_listed)
    unknown = metadata.partitions_listed - {kind.path for kind in kinds}
    if unknown:
        raise UnsupportedTableError(
            "the metadata table has a partition of an unknown kind",
            path=metadata.data_fs.url,
            partitions=", ".join(sorted(unknown)),
        )
    schema = records_of(metadata.config.layout.index_version)
    stored, names = codec(schema.stored), codec(schema.commit).arrow_schema.names
    fields = [stored.arrow_schema.field(name) for name in names]
    columns = pa.schema([pa.field(each.name, _of_spark(each.type)) for each in fields])
    tables = [columns.empty_table()]
    for kind in kinds:
        merged = merged_files if kind == FILES else merged_newest
        for number, file_slice in metadata.numbered_slices(kind):
            mapped = MapSlice.of(file_slice, number, metadata.valid_in(file_slice))
            keys, values = merged(metadata.log.fs, mapped, schema.stored)
            rows = stored.decode_column(values, fields=names, path=kind.path)
            found = [rows.field(each.name).view(each.type) for each in columns]
            found[names.index("key")] = keys.cast(pa.string())  # values have an empty one
            tables.append(pa.Table.from_arrays(found, schema=columns))
    return pa.concat_tables(tables)


def _of_spark(kind: pa.DataType) -> pa.DataType:
    """The type that Spark reads: members of unions have no name, and times are numbers."""
    if pt.is_struct(kind):
        is_union = all(child.name.endswith("Wrapper") for child in kind)
        return pa.struct(
            [
                pa.field(f"member{number}" if is_union else child.name, _of_spark(child.type))
                for number, child in enumerate(kind)
            ]
        )
    if pt.is_list(kind):
        return pa.list_(_of_spark(kind.value_type))
    if pt.is_map(kind):
        return pa.map_(kind.key_type, _of_spark(kind.item_type))
    return pa.int64() if pt.is_time(kind) else kind
