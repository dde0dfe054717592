"""Layers merged a chunk at a time give what a dict gives that is written layer by layer."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyhudi.metadata.hfile_slices import DeleteLayer, Layer, ValueLayer
from pyhudi.metadata.record_index.k_way_merge import UnsortedError, merged_chunks

KEYS = st.binary(min_size=1, max_size=2)
LAYERS = st.lists(
    st.one_of(
        st.tuples(st.dictionaries(KEYS, st.binary(max_size=3), max_size=20), st.integers(1, 6)),
        st.frozensets(KEYS, max_size=8),
    ),
    max_size=6,
)


class Values(ValueLayer):
    """Entries in batches of a size."""

    def __init__(self, entries: list[tuple[bytes, bytes]], size: int) -> None:
        self._entries, self._size = entries, size

    def batches(self) -> Iterator[pa.RecordBatch]:
        for start in range(0, len(self._entries), self._size):
            keys, values = zip(*self._entries[start : start + self._size], strict=True)
            columns = [pa.array(keys, pa.binary()), pa.array(values, pa.binary())]
            yield pa.record_batch(columns, ["key", "value"])


class Deletes(DeleteLayer):
    """Keys that end here, as they come."""

    def __init__(self, keys: list[bytes]) -> None:
        self.keys = pa.array(keys, pa.binary())


@given(LAYERS)
def test_the_newest_value_of_each_key_comes_in_key_order(layers: list[object]) -> None:
    want: dict[bytes, bytes] = {}
    found: list[Layer] = []
    for layer in layers:
        if isinstance(layer, frozenset):
            found.append(Deletes(list(layer)))
            want = {k: v for k, v in want.items() if k not in layer}
        else:
            assert isinstance(layer, tuple)
            entries, size = layer
            found.append(Values(sorted(entries.items()), size))
            want |= entries
    got: list[tuple[bytes, bytes]] = []
    for keys, values in merged_chunks(found, lambda values, _: values):
        assert len(keys)
        got += zip(keys.to_pylist(), values.to_pylist(), strict=True)
    assert got == sorted(want.items())


@pytest.mark.parametrize("size", [1, 2, 9])
def test_keys_that_do_not_ascend_are_not_merged(size: int) -> None:
    layer = Values([(b"a", b"1"), (b"c", b"1"), (b"b", b"1"), (b"d", b"1")], size)
    with pytest.raises(UnsortedError):
        list(merged_chunks([layer], lambda values, _: values))
