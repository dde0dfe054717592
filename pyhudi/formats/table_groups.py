"""Rows as tables of the size of a row group, in a form that Arrow's Parquet writer accepts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.types as pt


def table_groups(
    rows: pa.Table | Iterable[pa.RecordBatch | pa.Table], schema: pa.Schema | None, size: int
) -> Iterator[pa.Table]:
    """Tables of `size` rows, the last of the rest; at least one, empty if there are no rows.  A
    table is one group, which the writer of the file divides."""
    if isinstance(rows, pa.Table):
        yield rows
        return
    waiting: list[pa.Table] = []
    count = 0
    started = False
    for part in rows:
        table = pa.Table.from_batches([part]) if isinstance(part, pa.RecordBatch) else part
        waiting.append(table)
        count += table.num_rows
        del table, part  # else their memory waits until a group is written
        while count >= size:
            whole = pa.concat_tables(waiting)
            waiting, count, started = [whole.slice(size)], count - size, True
            group = whole.slice(0, size)
            del whole
            yield group
    if count or (waiting and not started):
        yield pa.concat_tables(waiting)
    elif not started:
        if schema is None:
            raise ValueError("a schema is needed to write no rows")
        yield schema.empty_table()


def writable(table: pa.Table) -> pa.Table:
    """Arrow cannot write dictionaries that contain a null; such columns are encoded again."""
    for index, column in enumerate(table.columns):
        if pt.is_dictionary(column.type) and any(c.dictionary.null_count for c in column.chunks):
            chunks = [chunk.dictionary_decode().dictionary_encode() for chunk in column.chunks]
            fresh = pa.chunked_array(chunks, column.type)
            table = table.set_column(index, table.schema.field(index), fresh)
    return table
