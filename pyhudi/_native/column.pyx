"""Arrow columns of keys as C pointers: the implementation of column.pxd.

Accepts string, large_string, binary, large_binary; their view and
dictionary types and fixed-size binary are converted; a chunked column is combined; sequences and
objects of the Arrow C interfaces are converted by pyarrow.
"""

import pyarrow as pa
import pyarrow.compute as pc

from libc.stdint cimport int32_t, int64_t, uint8_t, uintptr_t

from pyhudi.errors import UserError

cdef uint8_t NOTHING = 0
cdef int64_t NO_OFFSETS[1]
NO_OFFSETS[0] = 0

cdef int64_t OFFSET_32_MAX = 0x7FFFFFFF


cdef class Column:
    """A string or binary column as pointers; see `ColumnView` in column.pxd.

    keys: Arrow array, chunked array, or anything pyarrow can convert to one.  Zero-copy unless the
    column is chunked, a dictionary, or of a view or fixed-size type.  Raises UserError for other
    types.
    """

    def __cinit__(self, keys not None):
        self.array = plain(keys)
        self._point()

    def __len__(self):
        return self.view.length

    cdef int _point(self) except -1:
        array = self.array
        validity, offsets, data = array.buffers()
        cdef int64_t first = array.offset
        cdef uintptr_t at
        self.view.length = len(array)
        self.view.offset = first
        self.view.data = &NOTHING
        self.view.off32 = NULL
        self.view.off64 = NO_OFFSETS
        self.view.valid = NULL
        if self.view.length == 0:
            return 0
        if data is not None and data.size:
            at = data.address
            self.view.data = <const uint8_t *>at
        at = offsets.address
        if array.type in (pa.string(), pa.binary()):
            self.view.off32 = <const int32_t *>at + first
            self.view.off64 = NULL
        else:
            self.view.off64 = <const int64_t *>at + first
        if validity is not None and array.null_count:
            at = validity.address
            self.view.valid = <const uint8_t *>at
        return 0


PLAIN = frozenset((pa.string(), pa.large_string(), pa.binary(), pa.large_binary()))


def plain(keys):
    """The column as one array of string, large_string, binary or large_binary."""
    if not isinstance(keys, (pa.Array, pa.ChunkedArray)):
        keys = arrow_of(keys)
    if isinstance(keys.type, pa.BaseExtensionType):
        keys = keys.cast(keys.type.storage_type)
    if pa.types.is_run_end_encoded(keys.type):
        keys = pc.run_end_decode(keys)
    if keys.type not in PLAIN:
        keys = keys.cast(plain_type(keys.type))
    if isinstance(keys, pa.ChunkedArray):
        keys = one_array(keys)
    return keys


def arrow_of(keys):
    try:
        if hasattr(keys, "__arrow_c_stream__") and not hasattr(keys, "__arrow_c_array__"):
            return pa.chunked_array(keys)
        return pa.array(keys)
    except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError) as error:
        raise UserError(
            "keys must be a column of strings or bytes", type=type(keys).__name__
        ) from error


def plain_type(kind):
    """The type to cast a column to; UserError if it does not contain strings or bytes."""
    if pa.types.is_dictionary(kind):
        held = kind.value_type
        return held if held in PLAIN else plain_type(held)
    if pa.types.is_string_view(kind):
        return pa.large_string()
    if pa.types.is_binary_view(kind):
        return pa.large_binary()
    if pa.types.is_fixed_size_binary(kind) or pa.types.is_null(kind):
        return pa.binary()
    raise UserError("keys must be a column of strings or bytes", type=str(kind))


def one_array(chunks):
    """Chunks as one array, with 64-bit offsets if 32 bits cannot address the bytes."""
    if chunks.num_chunks == 1:
        return chunks.chunk(0)
    if chunks.nbytes > OFFSET_32_MAX:
        wide = pa.large_string() if pa.types.is_string(chunks.type) else chunks.type
        wide = pa.large_binary() if pa.types.is_binary(chunks.type) else wide
        chunks = chunks.cast(wide)
    return chunks.combine_chunks()
