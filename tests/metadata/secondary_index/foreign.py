"""Secondary indexes in tables of Apache Hudi 1.0 and 1.1."""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from pathlib import Path

import pyhudi
from pyhudi.api.table import Table
from pyhudi.metadata.hfile_slices import DeleteLayer, MapSlice, layers
from pyhudi.metadata.payloads import MetadataPartition
from tests.support.fixtures import fixtures
from tests.support.inside import state_of

INDEXES = (
    ("mor_avro_v8_trips_8i3u1d", "rider_idx"),
    ("cow_v9_txns_nonpart_meta", "merchant_idx"),
    ("cow_v9_txns_nonpart_meta", "txn_date_idx"),
    ("mor_avro_v9_txns_simple_meta", "merchant_idx"),
    ("mor_avro_v9_txns_simple_meta", "txn_date_idx"),
)


@dataclass(frozen=True)
class ForeignEntries:
    """keys: (file group, key) of each stored entry."""

    table: Table
    group_count: int
    keys: list[tuple[int, str]]


QUERIES = Path(__file__).parents[2] / "golden" / "queries"


def foreign_table(folder: Path, name: str) -> Table:
    ours = QUERIES / f"{name}.zip"
    found = ours if ours.exists() else fixtures() / "tables" / f"{name}.zip"
    with zipfile.ZipFile(found) as archive:
        archive.extractall(folder)
    root = next(path.parent for path in folder.rglob(".hoodie") if "__MACOSX" not in path.parts)
    return pyhudi.open_table(root)


def foreign_entries(folder: Path, name: str, index: str) -> ForeignEntries:
    table = foreign_table(folder, name)
    metadata = state_of(table).metadata
    assert metadata is not None
    partition = MetadataPartition(
        f"secondary_index_{index}", f"secondary-index-{index.replace('_', '-')}-"
    )
    slices = metadata.slices(partition)
    found: list[tuple[int, str]] = []
    for number, file_slice in enumerate(slices):
        for layer in layers(metadata.log.fs, MapSlice.of(file_slice, number, metadata.valid)):
            assert not isinstance(layer, DeleteLayer)  # all logs are compacted
            for batch in layer.batches():
                found += [(number, key.decode()) for key in batch.column(0).to_pylist()]
    return ForeignEntries(table, len(slices), found)
