"""Numbers of `types.Kind` and branch hints, for the Avro decoder and encoder."""

cdef extern from * nogil:
    """
    #ifndef pyhudi_expect
    #define pyhudi_expect(x) __builtin_expect(!!(x), 1)
    #define pyhudi_doubt(x) __builtin_expect(!!(x), 0)
    #endif
    """
    bint likely "pyhudi_expect"(bint)
    bint unlikely "pyhudi_doubt"(bint)

cdef enum Kind:  # types.Kind
    K_NULL = 0
    K_BOOLEAN = 1
    K_INT = 2
    K_LONG = 3
    K_TIME_MILLIS = 4
    K_TIME_MICROS = 5
    K_FLOAT = 6
    K_DOUBLE = 7
    K_STRING = 8
    K_BYTES = 9
    K_FIXED = 10
    K_DECIMAL_BYTES = 11
    K_DECIMAL_FIXED = 12
    K_ENUM = 13
    K_ARRAY = 14
    K_MAP = 15
    K_RECORD = 16
    K_UNION = 17
