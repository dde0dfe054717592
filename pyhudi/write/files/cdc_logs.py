"""Change data capture (CDC) logs: the row changes made by the rewrite of a base file.

```
.<file id>_<instant>.log.1_<write token of the base file>.cdc, one block of kind CDC: Avro records

DATA_BEFORE_AFTER   op, ts_ms (the instant), before, after      op: i, u or d; all nullable
DATA_BEFORE         op, record_key, before                      before, after: the row without
OP_KEY_ONLY         op, record_key                              meta columns, or null
```

The commit lists the log in the `cdcStats` of the base file.  The log shares the write token of
its base file, whose marker identifies both.  Where markers of logs are CREATE, it also has one;
else it has none, because Apache Hudi 0.15.0 cannot roll back markers of logs that are not APPEND.
Source: table_format 7.11, writer_v8_v9 13; files of Apache Hudi 1.2.0.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.filenames import BaseFileName, cdc_log_of, join
from pyhudi.formats.avro_schema import without_meta_fields
from pyhudi.formats.log_block import data_block
from pyhudi.formats.log_file import BlockKind
from pyhudi.formats.schema_conform import conform
from pyhudi.merge.column_merge import plain
from pyhudi.records import RECORD_KEY, FileGroupId
from pyhudi.table.cdc_properties import CdcMode
from pyhudi.transaction.markers import MarkerKind
from pyhudi.write.files.file_plan import FilePlan


def write_cdc_log(
    plan: FilePlan, group: FileGroupId, base: BaseFileName, before: pa.Table, after: pa.Table
) -> Mapping[str, int] | None:
    """Write the log of a base file's changes; returns its path and size in bytes, or None if
    nothing changed.

    before: stored rows removed from the file.  after: rows added to it, at most one per key.
    Rows with the same key on both sides are an update.
    """
    assert plan.cdc is not None
    if not before.num_rows and not after.num_rows:
        return None
    records = _changes(plan, plain(before), after)
    schema = cdc_schema(without_meta_fields(plan.avro_schema), plan.cdc)
    content = data_block(records, kind=BlockKind.CDC, instant=plan.instant, avro_schema=schema)
    name = cdc_log_of(base)
    if MarkerKind(plan.layout.log_marker) is MarkerKind.CREATE:
        plan.announce(group.partition, name, MarkerKind.CREATE)
    path = join(group.partition, str(name))
    with plan.open_sink(path) as sink:
        sink.write(content)
        return {path: sink.tell()}


def _changes(plan: FilePlan, before: pa.Table, after: pa.Table) -> pa.Table:
    """Columns op, ts_ms, record_key, before, after: updates and deletes, then inserts."""
    old_keys, new_keys = before.column(RECORD_KEY), after.column(RECORD_KEY)
    partner = pc.index_in(old_keys, value_set=_one(new_keys))
    fresh = pc.invert(pc.is_in(new_keys, value_set=_one(old_keys)))
    inserted = after.filter(fresh)
    op = pa.concat_arrays(
        [_one(pc.if_else(partner.is_valid(), "u", "d")), pa.repeat("i", inserted.num_rows)]
    )
    nothing = pa.nulls(inserted.num_rows, pa.int64())
    old_at = pa.concat_arrays([pa.array(np.arange(before.num_rows), pa.int64()), nothing])
    new_at = pa.concat_arrays(
        [_one(partner.cast(pa.int64())), pc.indices_nonzero(fresh).cast(pa.int64())]
    )
    return pa.table(
        {
            "op": op,
            "ts_ms": pa.repeat(pa.scalar(str(plan.instant)), len(op)),
            "record_key": pa.concat_arrays([_one(old_keys), _one(inserted.column(RECORD_KEY))]),
            "before": _images(before, plan.schema, old_at),
            "after": _images(after, plan.schema, new_at),
        }
    )


def _one(column: pa.ChunkedArray) -> pa.Array:
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return array if not isinstance(array, pa.ChunkedArray) else pa.nulls(0, array.type)


def _images(rows: pa.Table, schema: pa.Schema, at: pa.Array) -> pa.Array:
    """Rows as structs of the user columns, by position; null for a null position."""
    if not rows.num_rows:  # a delete by key has no user columns
        return pa.nulls(len(at), pa.struct(list(schema)))
    fitted = conform(rows.select(schema.names), schema).take(at)
    children = [_one(fitted.column(name)) for name in schema.names]
    return pa.StructArray.from_arrays(children, fields=list(schema), mask=at.is_null())


def cdc_schema(row_schema: str, mode: CdcMode) -> str:
    """Avro JSON of CDC log records for rows of a schema (Avro JSON without meta fields)."""
    row = json.loads(row_schema)
    name = ".".join(filter(None, (row.get("namespace"), row["name"])))
    text = {"type": ["null", "string"], "doc": "", "default": None}
    fields: list[dict[str, object]] = [{"name": "op", **text}]
    if mode is CdcMode.DATA_BEFORE_AFTER:
        fields.append({"name": "ts_ms", **text})
    else:
        fields.append({"name": "record_key", **text})
    if mode is not CdcMode.OP_KEY_ONLY:
        fields.append({"name": "before", "type": ["null", row], "doc": "", "default": None})
    if mode is CdcMode.DATA_BEFORE_AFTER:
        fields.append({"name": "after", "type": ["null", name], "doc": "", "default": None})
    record = {"type": "record", "name": "CDC", "namespace": row.get("namespace") or "", "doc": "",
              "fields": fields}  # fmt: skip
    return json.dumps(record)
