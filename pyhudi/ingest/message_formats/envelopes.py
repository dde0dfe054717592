"""Fields of decoded envelopes, which a message may lack."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt


def nested_values(envelopes: pa.Table, path: tuple[str, ...]) -> pa.Array:
    """The values of a field; nulls if the envelopes lack it."""
    if path[0] not in envelopes.schema.names:
        return pa.nulls(envelopes.num_rows)
    array = envelopes.column(path[0]).combine_chunks()
    for name in path[1:]:
        if not pt.is_struct(array.type) or array.type.get_field_index(name) < 0:
            return pa.nulls(envelopes.num_rows)
        array = pc.struct_field(array, name)
    return array


def texts_of(values: pa.Array) -> pa.Array:
    """Without nulls: the empty text, also for values of other types."""
    if not pt.is_string(values.type):
        return pa.repeat("", len(values))
    return pc.fill_null(values, "")
