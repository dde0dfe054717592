"""Verification of a whole HFile."""

from libc.stdint cimport int64_t

from pyhudi._native.hfile.store cimport BlockStore


cdef int64_t verify_store(BlockStore store) except -1
