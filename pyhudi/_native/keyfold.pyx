"""Merging of the log entries of one file slice by key, and with the slice's base file.

Entries are applied oldest to newest; the state of a key is its winning data row or "deleted",
with its ordering value (rank).  Two rules (table format 7.3, as Apache Hudi
1.2.0 reads):

* commit time: the later entry always wins; a base row loses to any entry.
* event time: an entry wins unless both it and the state are comparable and its rank is smaller.
  So an older row does not restore a key deleted later.  A delete of kind NATURAL always wins,
  removes the base row, and leaves a state that any entry replaces.  A base row is retained if both
  are comparable and its rank is larger.
"""

import numpy as np

from libc.stdint cimport int64_t, uint8_t, uint32_t

from pyhudi._native.column cimport Column, ColumnView
from pyhudi._native.keyindex cimport BATCH, KeyIndex, Slots, batch_size, find_all, link_batch
from pyhudi.errors import UserError

cdef enum Kind:
    DATA = 0              # a record
    ORDERED = 1           # a delete with an ordering value
    NATURAL = 2           # a delete that always wins

cdef enum:
    DELETED = -1


cdef struct States:
    int64_t *position     # row of the first entry
    int64_t *winner       # row of the winning data entry, or DELETED
    int64_t *rank         # undefined unless comparable
    uint8_t *comparable
    uint8_t *reset        # a NATURAL delete was applied
    uint32_t *number      # by row of a first entry: number of the key


cdef class Fold:
    """State of each distinct key after its log entries, keys in order of first appearance.

    keys_position: int64[k], row of the key's first entry.
    winner:        int64[k], row of the winning data entry, or -1: deleted.
    rank:          int64[k], rank of the state; 0 if not comparable.
    comparable:    uint8[k], whether that rank can be compared.
    reset:         uint8[k], whether a delete that always wins was applied: base rows are ignored.

    Created by `fold`; never changed, so any number of threads may query it.
    """

    cdef KeyIndex index
    cdef uint32_t[::1] number
    cdef bint event_time
    cdef readonly object keys_position
    cdef readonly object winner
    cdef readonly object rank
    cdef readonly object comparable
    cdef readonly object reset

    def __init__(self):
        raise TypeError("use fold() of pyhudi._native")

    def __len__(self):
        return len(self.winner)

    def numbers_of(self, keys not None):
        """Number of each key in this fold -> int64[n]; -1 if it has no entry or is null."""
        cdef Column probes = Column(keys)
        out = np.empty(probes.view.length, dtype=np.int64)
        cdef int64_t[::1] numbers = out
        if probes.view.length and len(self):
            with nogil:
                find_numbers(&self.index.slots, &self.number[0], &probes.view, &numbers[0])
        else:
            out.fill(-1)
        return out

    def against_base(self, base_keys not None, base_ranks=None, base_comparable=None):
        """Merge with the rows of the base file -> (keep_base: bool[b], take_log: int64[t]).

        base_keys: key column of the base file, in file order.  base_ranks: int64[b], or None if
        no base row is comparable; base_comparable: bool[b], or None if all ranks are.
        keep_base: base rows that remain.  take_log: rows of log entries to emit, in order of first
        appearance of their keys.  Base rows with the same key are all retained or all removed.
        """
        numbers = self.numbers_of(base_keys)
        cdef int64_t rows = len(numbers)
        base_stays = np.zeros(len(self), dtype=np.uint8)
        kept = np.ones(rows, dtype=np.uint8)
        cdef const int64_t[::1] number = numbers
        cdef const int64_t[::1] rank, state_rank
        cdef const uint8_t[::1] comparable, state_comparable, reset
        cdef uint8_t[::1] stays = base_stays
        cdef uint8_t[::1] keep = kept
        cdef int64_t row, key
        if self.event_time and base_ranks is not None:
            rank = ranks_of(base_ranks, rows)
            comparable = flags_of(base_comparable, rows)
            state_rank = self.rank
            state_comparable = self.comparable
            reset = self.reset
            with nogil:
                for row in range(rows):
                    key = number[row]
                    if key >= 0 and comparable[row] and state_comparable[key]:
                        if not reset[key] and rank[row] > state_rank[key]:
                            stays[key] = 1
        if len(self):
            with nogil:
                for row in range(rows):
                    if number[row] >= 0:
                        keep[row] = stays[number[row]]
        take = self.winner[(base_stays == 0) & (self.winner >= 0)]
        return kept.view(np.bool_), take


def fold(keys, kinds, ranks, comparable, event_time):
    """Apply log entries in array order and return the state of each key.

    keys: string or binary column; kinds: uint8[n], 0 data, 1 delete with an ordering value,
    2 delete that always wins; ranks: int64[n]; comparable: bool or uint8[n], False where the
    ordering value is null; event_time: whether ranks are used.  ranks and comparable may be None:
    all zero, all comparable.  Raises UserError for a null key, an unknown kind, other lengths.
    """
    cdef KeyIndex index = KeyIndex(keys)
    cdef int64_t rows = index.column.view.length
    cdef const uint8_t[::1] kind = kinds_of(kinds, rows)
    cdef const int64_t[::1] rank = ranks_of(ranks, rows)
    cdef const uint8_t[::1] flags = flags_of(comparable, rows)
    cdef bint by_rank = bool(event_time)
    cdef int64_t distinct = 0
    positions = np.empty(rows, dtype=np.int64)
    winners = np.empty(rows, dtype=np.int64)
    state_ranks = np.empty(rows, dtype=np.int64)
    state_comparable = np.empty(rows, dtype=np.uint8)
    resets = np.empty(rows, dtype=np.uint8)
    numbers = np.empty(rows, dtype=np.uint32)
    cdef int64_t[::1] position_view = positions, winner_view = winners, rank_view = state_ranks
    cdef uint8_t[::1] comparable_view = state_comparable, reset_view = resets
    cdef uint32_t[::1] number_view = numbers
    cdef States states
    if rows:
        states.position = &position_view[0]
        states.winner = &winner_view[0]
        states.rank = &rank_view[0]
        states.comparable = &comparable_view[0]
        states.reset = &reset_view[0]
        states.number = &number_view[0]
        with nogil:
            distinct = apply_all(
                &index.slots, rows, &kind[0], &rank[0], &flags[0], by_rank, &states
            )
    cdef Fold merged = Fold.__new__(Fold)
    merged.index = index
    merged.number = numbers
    merged.event_time = by_rank
    merged.keys_position = positions[:distinct].copy()
    merged.winner = winners[:distinct].copy()
    merged.rank = state_ranks[:distinct].copy()
    merged.comparable = state_comparable[:distinct].copy()
    merged.reset = resets[:distinct].copy()
    return merged


def kinds_of(kinds, rows):
    kinds = checked(kinds, rows, np.uint8, "kinds")
    if rows and kinds.max() > NATURAL:
        row = int(np.argmax(kinds > NATURAL))
        raise UserError("unknown kind of log entry", row=row, kind=int(kinds[row]))
    return kinds


def ranks_of(ranks, rows):
    return np.zeros(rows, np.int64) if ranks is None else checked(ranks, rows, np.int64, "ranks")


def flags_of(flags, rows):
    return np.ones(rows, np.uint8) if flags is None else checked(flags, rows, np.uint8, "flags")


def checked(values, rows, kind, what):
    values = np.ascontiguousarray(values, dtype=kind)
    if len(values) != rows:
        raise UserError(f"one of {what} is needed for each key", keys=rows, given=len(values))
    return values


# --- core ---------------------------------------------------------------------------------------

cdef int64_t apply_all(
    const Slots *slots, int64_t rows, const uint8_t *kind, const int64_t *rank,
    const uint8_t *comparable, bint event_time, States *states,
) noexcept nogil:
    """Apply every entry in order; returns the number of distinct keys."""
    cdef uint32_t first[BATCH]
    cdef int64_t distinct = 0
    cdef int64_t start = 0
    cdef int64_t row, key
    cdef int i, count
    while start < rows:
        count = batch_size(start, rows)
        link_batch(slots, start, count, first)
        for i in range(count):
            row = start + i
            if first[i] == <uint32_t>row:
                key = distinct
                distinct += 1
                states.number[row] = <uint32_t>key
                states.position[key] = row
                states.comparable[key] = 0      # no state yet: any entry wins
                states.reset[key] = 0
            else:
                key = states.number[first[i]]
            if event_time:
                apply_by_rank(states, key, row, kind[row], rank[row], comparable[row])
            else:
                states.winner[key] = row if kind[row] == DATA else DELETED
                states.rank[key] = rank[row] if comparable[row] else 0
                states.comparable[key] = comparable[row] != 0
                states.reset[key] |= kind[row] == NATURAL
        start += BATCH
    return distinct


cdef inline void apply_by_rank(
    States *states, int64_t key, int64_t row, uint8_t kind, int64_t rank, bint comparable
) noexcept nogil:
    if kind == NATURAL:
        states.winner[key] = DELETED
        states.rank[key] = 0
        states.comparable[key] = 0              # so that the next entry wins
        states.reset[key] = 1
    elif not (comparable and states.comparable[key] and rank < states.rank[key]):
        states.winner[key] = row if kind == DATA else DELETED
        states.rank[key] = rank if comparable else 0
        states.comparable[key] = comparable


cdef void find_numbers(
    const Slots *slots, const uint32_t *number, const ColumnView *probes, int64_t *out
) noexcept nogil:
    cdef int64_t row
    find_all(slots, probes, out)
    for row in range(probes.length):
        if out[row] >= 0:
            out[row] = number[out[row]]
