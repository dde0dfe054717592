"""The columns of one decoding call: their memory, and the resulting Arrow arrays."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uintptr_t
from libc.stdlib cimport free

import pyarrow as pa

from pyhudi._native.avro.column cimport *
from pyhudi._native.avro.cursor cimport *
from pyhudi._native.avro.kinds cimport *
from pyhudi._native.avro.text cimport find_bad_text, pack_bits


cdef bint finish(Run *run, int32_t op_count, uint8_t *asked, int64_t *bad_slot) noexcept nogil:
    """Extend struct children, check strings, pack flags to bits, parents before children."""
    cdef int32_t i, k
    cdef Op *op
    for i in range(op_count):
        if not asked[i]:
            continue
        op = &run.ops[i]
        if op.kind == K_RECORD or op.kind == K_UNION:
            for k in range(op.first, op.first + op.count):
                if asked[k] and run.ops[k].length < op.length:
                    if not pad(run, &run.ops[k], op.length - run.ops[k].length):
                        return False
        if op.kind == K_STRING:
            bad_slot[0] = find_bad_text(op.values, op.offsets, op.length)
            if bad_slot[0] >= 0:
                fail(run, op, NULL, BAD_TEXT)
                return False
        if op.kind == K_BOOLEAN:
            pack_bits(op.values, op.length)
        if op.nullable and op.null_count > 0:
            pack_bits(op.valid, op.length)
    return True


cdef void *allocate(Run *run, Op *op, Block block, int64_t size) noexcept with gil:
    """A block of at least `size` bytes with its previous content; NULL with the failure in `run`.

    Arrow's pool retains freed blocks, so that the next call reuses their pages.
    """
    cdef Columns columns = <Columns>run.owner
    cdef int64_t slot = (op - run.ops) * BLOCK_COUNT + block
    try:
        buffer = columns.blocks[slot]
        if buffer is None:
            buffer = pa.allocate_buffer(size, resizable=True)
            columns.blocks[slot] = buffer
        else:
            buffer.resize(size)
    except MemoryError:
        fail(run, op, NULL, NO_MEMORY)
        return NULL
    return <void *><uintptr_t>buffer.address


cdef class Columns:
    """The ops of one call and the blocks of their columns."""

    def __dealloc__(self):
        free(self.ops)

    cdef object block(self, int32_t index, Block block, int64_t size):
        """A finished block cut to its size; an absent one is an empty buffer."""
        buffer = self.blocks[index * BLOCK_COUNT + block]
        if buffer is None:
            return pa.py_buffer(bytes(4))
        buffer.resize(size, shrink_to_fit=True)
        return buffer

    cdef object validity(self, int32_t index):
        if self.ops[index].null_count == 0:
            return None
        return self.block(index, VALID, (self.ops[index].length + 7) // 8)

    cdef object array(self, tuple parts, int32_t index):
        """The Arrow array of an op."""
        cdef Op *op = &self.ops[index]
        cdef int64_t n = op.length
        cdef int32_t i
        node = parts[index].node
        validity = self.validity(index)
        if op.kind == K_NULL:
            return pa.nulls(n)
        if op.kind == K_RECORD or op.kind == K_UNION:
            children = [self.array(parts, i) for i in range(op.first, op.first + op.count)]
            return pa.StructArray.from_buffers(
                node.arrow, n, [validity], null_count=op.null_count, children=children
            )
        if op.kind == K_ENUM:
            codes = pa.Array.from_buffers(
                pa.int32(), n, [validity, self.block(index, VALUES, n * 4)], op.null_count
            )
            return pa.DictionaryArray.from_arrays(codes, list(node.symbols)).dictionary_decode()
        if op.has_offsets:
            offsets = self.block(index, OFFSETS, (n + 1) * 4)
            if op.kind == K_STRING or op.kind == K_BYTES:
                data = self.block(index, VALUES, op.data_size)
                return pa.Array.from_buffers(
                    node.arrow, n, [validity, offsets, data], op.null_count
                )
            items = self.array(parts, op.first + op.count - 1)
            if op.kind == K_MAP:
                items = pa.StructArray.from_arrays(
                    [self.array(parts, op.first), items],
                    fields=[node.arrow.key_field, node.arrow.item_field],
                )
            return pa.Array.from_buffers(
                node.arrow, n, [validity, offsets], op.null_count, children=[items]
            )
        values = self.block(index, VALUES, (n + 7) // 8 if op.kind == K_BOOLEAN else n * op.width)
        return pa.Array.from_buffers(node.arrow, n, [validity, values], op.null_count)
