# distutils: language = c
"""Fields of CSV rows as places in their bytes (RFC 4180), without a Python object per field."""

from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memcpy

import numpy as np
import pyarrow as pa

PLAIN, QUOTED, ESCAPED = range(3)
FINE, UNCLOSED, RESIDUE = range(3)


cdef inline bint ends_line(uint8_t byte) noexcept nogil:
    return byte == 10 or byte == 13


cdef class CsvFields:
    """The whole rows at the beginning of some bytes.

    starts, ends, lines: of each row its bytes without the line break, and its line in the bytes,
    from 0.  faults: FINE, UNCLOSED (a quote) or RESIDUE (something after one).  first: of each row
    its first field, with one more at the end.  fields: start, size and PLAIN, QUOTED or ESCAPED of
    each.  consumed, line_count: the bytes of these rows, and their lines.
    """

    cdef readonly object starts, ends, lines, faults, first, fields
    cdef readonly int64_t consumed, line_count

    def __init__(
        self, data, int separator, int quote, int escape, int comment, bint multi_line, bint is_end
    ):
        """separator, quote, escape, comment: bytes, -1 for none.  is_end: whether nothing follows
        the data."""
        cdef const uint8_t[::1] view = np.frombuffer(data, np.uint8)
        cdef int64_t size = view.shape[0], at = 0, line = 0, field = 0, row = 0
        cdef int64_t start, start_line, begin, row_end, length
        cdef uint8_t byte, fault, kind
        cdef bint closed, whole = True
        bytes_ = np.frombuffer(data, np.uint8)
        row_max = int(np.count_nonzero((bytes_ == 10) | (bytes_ == 13))) + 1
        field_max = row_max + int(np.count_nonzero(bytes_ == separator)) + 1
        cdef int64_t[:, ::1] rows = np.empty((row_max, 5), np.int64)
        cdef int64_t[:, ::1] fields = np.empty((field_max, 3), np.int64)
        while at < size:
            if ends_line(view[at]):
                if view[at] == 13 and at + 1 == size and not is_end:
                    break
                at += 2 if view[at] == 13 and at + 1 < size and view[at + 1] == 10 else 1
                line += 1
                self.consumed = at
                self.line_count = line
                continue
            start, start_line, fault = at, line, 0
            if comment >= 0 and view[at] == comment:
                while at < size and not ends_line(view[at]):
                    at += 1
                if at == size and not is_end:
                    break
                self.consumed = at
                continue
            rows[row, 4] = field
            while True:
                kind = 0
                if quote >= 0 and at < size and view[at] == quote:
                    kind, closed = 1, False
                    at += 1
                    begin = at
                    while at < size:
                        byte = view[at]
                        if escape >= 0 and escape != quote and byte == escape and at + 1 < size:
                            kind = 2
                            at += 2
                            continue
                        if byte == quote:
                            if at + 1 < size and view[at + 1] == quote:
                                kind = 2
                                at += 2
                                continue
                            closed = at + 1 < size or is_end
                            break
                        if ends_line(byte):
                            if not multi_line:
                                break
                            if byte == 10 or at + 1 == size or view[at + 1] != 10:
                                line += 1
                        at += 1
                    if not closed and (at >= size or view[at] == quote) and not is_end:
                        whole = False
                        break
                    length = at - begin
                    if not closed:
                        fault = 1
                    else:
                        at += 1
                        if at < size and view[at] != separator and not ends_line(view[at]):
                            fault = 2
                else:
                    begin = at
                    while at < size and view[at] != separator and not ends_line(view[at]):
                        at += 1
                    length = at - begin
                if fault:
                    while at < size and not ends_line(view[at]):
                        at += 1
                if at >= size and not is_end:
                    whole = False
                    break
                fields[field, 0], fields[field, 1], fields[field, 2] = begin, length, kind
                field += 1
                if fault or at >= size or view[at] != separator:
                    break
                at += 1
            if not whole:
                field = rows[row, 4]
                break
            row_end = at
            if at < size and view[at] == 13 and at + 1 == size and not is_end:
                field = rows[row, 4]
                break
            rows[row, 0], rows[row, 1], rows[row, 2], rows[row, 3] = (
                start, row_end, start_line, fault,
            )
            row += 1
            if at < size:
                at += 2 if view[at] == 13 and at + 1 < size and view[at + 1] == 10 else 1
                line += 1
            self.consumed = at
            self.line_count = line
        found = np.asarray(rows)[:row]
        self.starts, self.ends = found[:, 0].copy(), found[:, 1].copy()
        self.lines, self.faults = found[:, 2].copy(), found[:, 3].copy()
        self.first = np.append(found[:, 4], field)
        self.fields = np.asarray(fields)[:field].copy()


def texts(data, places, int quote, int escape):
    """Fields as a large binary array.  places: rows of `fields`."""
    cdef const uint8_t[::1] view = np.frombuffer(data, np.uint8)
    cdef const int64_t[:, ::1] field = np.ascontiguousarray(places)
    cdef int64_t count = field.shape[0], i, k, at = 0, total = 0
    for i in range(count):
        total += field[i, 1]
    offsets = np.zeros(count + 1, np.int64)
    cdef int64_t[::1] ends = offsets
    found = np.empty(total + 1, np.uint8)
    cdef uint8_t[::1] target = found
    cdef int64_t start, size
    with nogil:
        for i in range(count):
            start, size = field[i, 0], field[i, 1]
            if field[i, 2] != 2:
                if size:
                    memcpy(&target[at], &view[start], <size_t>size)
                at += size
            else:
                k = 0
                while k < size:
                    if k + 1 < size and (
                        (escape >= 0 and escape != quote and view[start + k] == escape)
                        or (view[start + k] == quote and view[start + k + 1] == quote)
                    ):
                        k += 1
                    target[at] = view[start + k]
                    at += 1
                    k += 1
            ends[i + 1] = at
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(found[:at])]
    return pa.Array.from_buffers(pa.large_binary(), count, buffers)
