# distutils: language = c
"""JSON objects taken apart into the values of each field, without a Python object per value.

Each object passes two functions: `check_object` decides whether its bytes are one JSON object and
nothing else (RFC 8259, UTF-8, at most 64 levels), and `JsonNode.fill`, which relies on that,
notes kind and place of each value.  A node is a field, or the items of a list.  It has entries only
for the values that are there, so fields that few objects have take little memory.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcmp, memcpy

import numpy as np
import pyarrow as pa

NOTHING, FALSE, TRUE, INTEGER, NUMBER, TEXT, ESCAPED, OBJECT, LIST = range(1, 10)

cdef enum:
    _NOTHING = 1
    _FALSE = 2
    _TRUE = 3
    _INTEGER = 4
    _NUMBER = 5
    _TEXT = 6
    _ESCAPED = 7
    _OBJECT = 8
    _LIST = 9
    _DEPTH = 64
    _FIELDS = 10000

cdef enum Fault:
    FINE = 0
    NO_OBJECT = 1
    SYNTAX = 2
    NOT_UTF8 = 3
    HALF_CHARACTER = 4
    TOO_DEEP = 5
    RESIDUE = 6
    ENDS_EARLY = 7
    REPEATED = 8
    TOO_MANY = 9

REASONS = {
    NO_OBJECT: "not a JSON object",
    SYNTAX: "not JSON",
    NOT_UTF8: "not JSON: the text is not UTF-8",
    HALF_CHARACTER: "not JSON: an escape is half of a character",
    TOO_DEEP: "values are nested deeper than 64 levels",
    RESIDUE: "not JSON: something follows the object",
    ENDS_EARLY: "not JSON: the text ends early",
    REPEATED: "a field occurs twice in an object",
    TOO_MANY: "the messages have more than 10000 different fields",
}


cdef struct Cursor:
    const uint8_t *at
    const uint8_t *end
    Fault fault


# ---- checks ---------------------------------------------------------------------------------------

cdef inline bint fail(Cursor *c, Fault fault) noexcept nogil:
    if c.fault == FINE:
        c.fault = ENDS_EARLY if fault == SYNTAX and c.at >= c.end else fault
    return False


cdef inline void skip_space(Cursor *c) noexcept nogil:
    while c.at < c.end and (c.at[0] == 32 or c.at[0] == 10 or c.at[0] == 13 or c.at[0] == 9):
        c.at += 1


cdef inline int hexadecimal(uint8_t byte) noexcept nogil:
    if 48 <= byte <= 57:
        return byte - 48
    if 65 <= byte <= 70:
        return byte - 55
    if 97 <= byte <= 102:
        return byte - 87
    return -1


cdef int code_unit(const uint8_t *at, const uint8_t *end) noexcept nogil:
    """Four hexadecimal digits; -1: not there."""
    cdef int value = 0, digit, i
    if end - at < 4:
        return -1
    for i in range(4):
        digit = hexadecimal(at[i])
        if digit < 0:
            return -1
        value = value * 16 + digit
    return value


cdef int utf8_length(const uint8_t *at, const uint8_t *end) noexcept nogil:
    """Bytes of a character beyond ASCII; 0: not UTF-8."""
    cdef uint8_t first = at[0]
    cdef int size, i
    if 0xC2 <= first <= 0xDF:
        size = 2
    elif 0xE0 <= first <= 0xEF:
        size = 3
    elif 0xF0 <= first <= 0xF4:
        size = 4
    else:
        return 0
    if end - at < size:
        return 0
    for i in range(1, size):
        if at[i] & 0xC0 != 0x80:
            return 0
    if first == 0xE0 and at[1] < 0xA0 or first == 0xED and at[1] > 0x9F:
        return 0
    if first == 0xF0 and at[1] < 0x90 or first == 0xF4 and at[1] > 0x8F:
        return 0
    return size


cdef bint check_escape(Cursor *c) noexcept nogil:
    """After the backslash."""
    cdef int unit
    cdef uint8_t byte
    if c.at >= c.end:
        return fail(c, SYNTAX)
    byte = c.at[0]
    c.at += 1
    if byte == 34 or byte == 92 or byte == 47 or byte == 98 or byte == 102 or byte == 110:
        return True
    if byte == 114 or byte == 116:
        return True
    if byte != 117:
        return fail(c, SYNTAX)
    unit = code_unit(c.at, c.end)
    if unit < 0:
        return fail(c, SYNTAX)
    c.at += 4
    if 0xDC00 <= unit <= 0xDFFF:
        return fail(c, HALF_CHARACTER)
    if 0xD800 <= unit <= 0xDBFF:
        if c.end - c.at < 6 or c.at[0] != 92 or c.at[1] != 117:
            return fail(c, HALF_CHARACTER)
        unit = code_unit(c.at + 2, c.end)
        if not 0xDC00 <= unit <= 0xDFFF:
            return fail(c, HALF_CHARACTER)
        c.at += 6
    return True


cdef bint check_text(Cursor *c) noexcept nogil:
    """From the quote to after its end."""
    cdef uint8_t byte
    cdef int size
    c.at += 1
    while c.at < c.end:
        byte = c.at[0]
        if byte == 34:
            c.at += 1
            return True
        if byte < 32:
            return fail(c, SYNTAX)
        if byte == 92:
            c.at += 1
            if not check_escape(c):
                return False
        elif byte < 128:
            c.at += 1
        else:
            size = utf8_length(c.at, c.end)
            if size == 0:
                return fail(c, NOT_UTF8)
            c.at += size
    return fail(c, SYNTAX)


cdef bint digits(Cursor *c) noexcept nogil:
    if c.at >= c.end or not 48 <= c.at[0] <= 57:
        return fail(c, SYNTAX)
    while c.at < c.end and 48 <= c.at[0] <= 57:
        c.at += 1
    return True


cdef bint check_number(Cursor *c) noexcept nogil:
    if c.at[0] == 45:
        c.at += 1
    if c.at < c.end and c.at[0] == 48:
        c.at += 1
    elif not digits(c):
        return False
    if c.at < c.end and c.at[0] == 46:
        c.at += 1
        if not digits(c):
            return False
    if c.at < c.end and (c.at[0] == 69 or c.at[0] == 101):
        c.at += 1
        if c.at < c.end and (c.at[0] == 43 or c.at[0] == 45):
            c.at += 1
        return digits(c)
    return True


cdef bint check_word(Cursor *c, const char *word, int size) noexcept nogil:
    if c.end - c.at < size:
        c.at = c.end
        return fail(c, SYNTAX)
    if memcmp(c.at, word, <size_t>size) != 0:
        return fail(c, SYNTAX)
    c.at += size
    return True


cdef bint check_value(Cursor *c, int depth) noexcept nogil:
    cdef uint8_t byte
    skip_space(c)
    if c.at >= c.end:
        return fail(c, SYNTAX)
    byte = c.at[0]
    if byte == 34:
        return check_text(c)
    if byte == 123 or byte == 91:
        if depth >= _DEPTH:
            return fail(c, TOO_DEEP)
        return check_inside(c, byte == 123, depth + 1)
    if byte == 45 or 48 <= byte <= 57:
        return check_number(c)
    if byte == 116:
        return check_word(c, b"true", 4)
    if byte == 102:
        return check_word(c, b"false", 5)
    if byte == 110:
        return check_word(c, b"null", 4)
    return fail(c, SYNTAX)


cdef bint check_inside(Cursor *c, bint is_object, int depth) noexcept nogil:
    """An object or a list, from its bracket to after its end."""
    cdef uint8_t close = 125 if is_object else 93
    c.at += 1
    skip_space(c)
    if c.at < c.end and c.at[0] == close:
        c.at += 1
        return True
    while True:
        if is_object:
            skip_space(c)
            if c.at >= c.end or c.at[0] != 34:
                return fail(c, SYNTAX)
            if not check_text(c):
                return False
            skip_space(c)
            if c.at >= c.end or c.at[0] != 58:
                return fail(c, SYNTAX)
            c.at += 1
        if not check_value(c, depth):
            return False
        skip_space(c)
        if c.at >= c.end:
            return fail(c, SYNTAX)
        if c.at[0] == close:
            c.at += 1
            return True
        if c.at[0] != 44:
            return fail(c, SYNTAX)
        c.at += 1


cdef Fault check_object(const uint8_t *start, const uint8_t *end) noexcept nogil:
    """Whether the bytes are one object, and nothing else."""
    cdef Cursor c
    c.at, c.end, c.fault = start, end, FINE
    skip_space(&c)
    if c.at >= c.end or c.at[0] != 123:
        return NO_OBJECT
    if not check_inside(&c, True, 1):
        return c.fault
    skip_space(&c)
    return FINE if c.at == c.end else RESIDUE


# ---- values of checked objects --------------------------------------------------------------------

cdef void skip_text(Cursor *c) noexcept nogil:
    c.at += 1
    while c.at[0] != 34:
        c.at += 2 if c.at[0] == 92 else 1
    c.at += 1


cdef void skip_value(Cursor *c) noexcept nogil:
    """Any value; brackets are in pairs."""
    cdef int depth = 0
    skip_space(c)
    while True:
        if c.at[0] == 34:
            skip_text(c)
        elif c.at[0] == 123 or c.at[0] == 91:
            depth += 1
            c.at += 1
        elif c.at[0] == 125 or c.at[0] == 93:
            depth -= 1
            c.at += 1
        elif depth:
            c.at += 1
        else:
            while c.at[0] != 44 and c.at[0] != 125 and c.at[0] != 93 and c.at[0] > 32:
                c.at += 1
        if depth == 0:
            return


cdef class JsonNode:
    """Values of a field in the objects around it, or the items of lists.

    objects, item_count: of all objects among the values, and of the items of all lists.
    """

    cdef uint8_t *kind_of
    cdef int64_t *numbers  # three for each value: slot, start, size
    cdef int64_t length, capacity
    cdef readonly int64_t objects
    cdef readonly int64_t item_count
    cdef readonly dict fields  # by name
    cdef readonly JsonNode item
    cdef dict _raw
    cdef list _order
    cdef Py_ssize_t _next
    cdef bytes _name

    def __cinit__(self):
        self.kind_of = NULL
        self.numbers = NULL
        self.fields, self._raw, self._order = {}, {}, []

    def __dealloc__(self):
        free(self.kind_of)
        free(self.numbers)

    @property
    def kinds(self):
        """The kind of each value."""
        found = np.empty(self.length, np.uint8)
        cdef uint8_t[::1] view = found
        if self.length:
            memcpy(&view[0], self.kind_of, <size_t>self.length)
        return found

    @property
    def places(self):
        """Of each value: the number of the object or item that has it, its start and its size; of
        text without the quotes, of lists the number of the first item and their count."""
        found = np.empty((self.length, 3), np.int64)
        cdef int64_t[:, ::1] view = found
        if self.length:
            memcpy(&view[0, 0], self.numbers, <size_t>self.length * 24)
        return found

    cdef int add(self, uint8_t kind, int64_t slot, int64_t start, int64_t size) except -1:
        cdef int64_t room
        cdef void *grown
        if self.length == self.capacity:
            room = 2 * self.capacity if self.capacity else 16
            grown = realloc(self.kind_of, <size_t>room)
            if grown == NULL:
                raise MemoryError
            self.kind_of = <uint8_t *>grown
            grown = realloc(self.numbers, <size_t>room * 24)
            if grown == NULL:
                raise MemoryError
            self.numbers = <int64_t *>grown
            self.capacity = room
        self.kind_of[self.length] = kind
        self.numbers[3 * self.length] = slot
        self.numbers[3 * self.length + 1] = start
        self.numbers[3 * self.length + 2] = size
        self.length += 1
        return 0

    cdef bint has(self, int64_t slot) noexcept:
        return self.length > 0 and self.numbers[3 * (self.length - 1)] == slot

    cdef JsonNode named(self, const uint8_t *start, Py_ssize_t size, JsonRows rows):
        """The node of a field; None: there are too many."""
        cdef JsonNode node
        if self._next < len(self._order):
            node = <JsonNode>self._order[self._next]
            if len(node._name) == size and memcmp(<char *>node._name, start, <size_t>size) == 0:
                self._next += 1
                return node
        raw = start[:size]
        found = self._raw.get(raw)
        if found is None:
            name = unescaped(raw).decode()
            found = self.fields.get(name)
            if found is None:
                if rows.nodes >= _FIELDS:
                    return None
                rows.nodes += 1
                found = JsonNode()
                (<JsonNode>found)._name = raw
                self.fields[name] = found
                self._order.append(found)
                self._next = len(self._order)
            if rows.nodes < _FIELDS:
                self._raw[raw] = found
        return <JsonNode>found

    cdef int fill(self, Cursor *c, int64_t slot, JsonRows rows) except -1:
        """One value."""
        cdef const uint8_t *start
        cdef uint8_t kind
        skip_space(c)
        start = c.at
        if start[0] == 34:
            kind = _TEXT
            c.at += 1
            while c.at[0] != 34:
                if c.at[0] == 92:
                    kind = _ESCAPED
                    c.at += 2
                else:
                    c.at += 1
            c.at += 1
            return self.add(kind, slot, start + 1 - rows.base, c.at - start - 2)
        if start[0] == 123:
            return self.fill_object(c, slot, rows)
        if start[0] == 91:
            return self.fill_list(c, slot, rows)
        kind = _INTEGER
        if start[0] == 110:
            kind = _NOTHING
        elif start[0] == 116:
            kind = _TRUE
        elif start[0] == 102:
            kind = _FALSE
        while c.at[0] != 44 and c.at[0] != 125 and c.at[0] != 93 and c.at[0] > 32:
            if kind == _INTEGER and (c.at[0] == 46 or c.at[0] == 69 or c.at[0] == 101):
                kind = _NUMBER
            c.at += 1
        return self.add(kind, slot, start - rows.base, c.at - start)

    cdef int fill_object(self, Cursor *c, int64_t slot, JsonRows rows) except -1:
        cdef const uint8_t *name
        cdef const uint8_t *start = c.at
        cdef int64_t number = self.objects
        cdef JsonNode node
        self.objects += 1
        self._next = 0
        c.at += 1
        skip_space(c)
        while c.at[0] != 125:
            if c.at[0] == 44:
                c.at += 1
                skip_space(c)
            name = c.at + 1
            skip_text(c)
            node = self.named(name, c.at - name - 1, rows)
            skip_space(c)
            c.at += 1
            if node is None:
                rows.report(TOO_MANY)
                skip_value(c)
            elif node.has(number):
                rows.report(REPEATED)
                skip_value(c)
            else:
                node.fill(c, number, rows)
            skip_space(c)
        c.at += 1
        return self.add(_OBJECT, slot, start - rows.base, c.at - start)

    cdef int fill_list(self, Cursor *c, int64_t slot, JsonRows rows) except -1:
        cdef int64_t first = self.item_count
        if self.item is None:
            self.item = JsonNode()
        c.at += 1
        skip_space(c)
        while c.at[0] != 93:
            if c.at[0] == 44:
                c.at += 1
            self.item_count += 1
            self.item.fill(c, self.item_count - 1, rows)
            skip_space(c)
        c.at += 1
        return self.add(_LIST, slot, first, self.item_count - first)


cdef class JsonRows:
    """The values of many objects.

    root: values of the fields.  rows: of the texts, which became an object of `root`, in order.
    faults: reasons by text, of those that are not an object and of those whose object is not whole
    (a field that occurs twice).
    """

    cdef readonly JsonNode root
    cdef readonly object rows
    cdef readonly dict faults
    cdef readonly object data
    cdef const uint8_t *base
    cdef int nodes
    cdef int64_t at

    def __init__(self, data, const int64_t[::1] starts, const int64_t[::1] ends):
        """data: a buffer with all texts."""
        cdef const uint8_t[::1] view = data
        cdef int64_t count = starts.shape[0], i
        cdef Cursor c
        cdef Fault fault
        self.data, self.root, self.faults = data, JsonNode(), {}
        self.rows = np.empty(0, np.int64)
        if count == 0 or view.shape[0] == 0:
            self.faults = {i: REASONS[NO_OBJECT] for i in range(count)}
            return
        self.base = &view[0]
        cdef uint8_t[::1] found = np.zeros(count, np.uint8)
        with nogil:
            for i in range(count):
                found[i] = check_object(self.base + starts[i], self.base + ends[i])
        self.rows = np.flatnonzero(np.asarray(found) == FINE)
        for i in range(count):
            if found[i] != FINE:
                self.faults[i] = REASONS[found[i]]
                continue
            self.at = i
            c.at, c.end, c.fault = self.base + starts[i], self.base + ends[i], FINE
            skip_space(&c)
            self.root.fill_object(&c, self.root.objects, self)

    cdef int report(self, Fault fault) except -1:
        self.faults.setdefault(self.at, REASONS[fault])
        return 0


# ---- texts ----------------------------------------------------------------------------------------

cdef int64_t put_character(uint8_t *target, uint32_t code) noexcept nogil:
    if code < 0x80:
        target[0] = <uint8_t>code
        return 1
    if code < 0x800:
        target[0] = <uint8_t>(0xC0 | code >> 6)
        target[1] = <uint8_t>(0x80 | code & 0x3F)
        return 2
    if code < 0x10000:
        target[0] = <uint8_t>(0xE0 | code >> 12)
        target[1] = <uint8_t>(0x80 | code >> 6 & 0x3F)
        target[2] = <uint8_t>(0x80 | code & 0x3F)
        return 3
    target[0] = <uint8_t>(0xF0 | code >> 18)
    target[1] = <uint8_t>(0x80 | code >> 12 & 0x3F)
    target[2] = <uint8_t>(0x80 | code >> 6 & 0x3F)
    target[3] = <uint8_t>(0x80 | code & 0x3F)
    return 4


cdef int64_t unescape(const uint8_t *at, int64_t size, uint8_t *target) noexcept nogil:
    """The length of the text without escapes; never longer than with them."""
    cdef const uint8_t *end = at + size
    cdef uint8_t *start = target
    cdef uint8_t byte
    cdef uint32_t code
    while at < end:
        if at[0] != 92:
            target[0] = at[0]
            at += 1
            target += 1
            continue
        byte = at[1]
        at += 2
        if byte == 117:
            code = <uint32_t>code_unit(at, end)
            at += 4
            if 0xD800 <= code <= 0xDBFF:
                code = 0x10000 + ((code - 0xD800) << 10) + <uint32_t>code_unit(at + 2, end) - 0xDC00
                at += 6
            target += put_character(target, code)
            continue
        if byte == 98:
            byte = 8
        elif byte == 102:
            byte = 12
        elif byte == 110:
            byte = 10
        elif byte == 114:
            byte = 13
        elif byte == 116:
            byte = 9
        target[0] = byte
        target += 1
    return target - start


cdef bytes unescaped(bytes raw):
    target = bytearray(len(raw) + 1)
    cdef uint8_t[::1] view = target
    cdef int64_t size = unescape(<const uint8_t *><char *>raw, len(raw), &view[0])
    return bytes(target[:size])


def texts(data, const int64_t[::1] starts, const int64_t[::1] sizes, const uint8_t[::1] escaped):
    """Places of checked texts as an Arrow array of large strings; escaped: whether a text has
    escapes."""
    cdef const uint8_t[::1] view = data
    cdef int64_t count = starts.shape[0], i, total = 0
    offsets = np.zeros(count + 1, np.int64)
    cdef int64_t[::1] ends = offsets
    for i in range(count):
        total += sizes[i]
    found = np.empty(total + 1, np.uint8)
    cdef uint8_t[::1] target = found
    cdef int64_t at = 0
    with nogil:
        for i in range(count):
            if sizes[i]:
                if escaped[i]:
                    at += unescape(&view[starts[i]], sizes[i], &target[at])
                else:
                    memcpy(&target[at], &view[starts[i]], <size_t>sizes[i])
                    at += sizes[i]
            ends[i + 1] = at
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(found[:at])]
    return pa.Array.from_buffers(pa.large_string(), count, buffers)
