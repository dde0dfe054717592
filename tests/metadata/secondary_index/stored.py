"""The live entries of a secondary index, read without its look-up."""

from __future__ import annotations

from pyhudi.metadata.hfile_slices import DeleteLayer, MapSlice, layers
from pyhudi.metadata.reader import MetadataTable
from pyhudi.metadata.secondary_index.definition import SecondaryIndex


def stored_keys(metadata: MetadataTable, index: SecondaryIndex) -> list[str]:
    found: set[bytes] = set()
    for number, file_slice in enumerate(metadata.slices(index.partition)):
        mine: set[bytes] = set()
        for layer in layers(metadata.log.fs, MapSlice.of(file_slice, number, metadata.valid)):
            if isinstance(layer, DeleteLayer):
                mine -= {key.encode() for key in layer.keys.to_pylist()}
                continue
            for batch in layer.batches():
                mine |= set(batch.column(0).to_pylist())
        assert not mine & found  # an entry is in one group
        found |= mine
    return [key.decode() for key in found]
