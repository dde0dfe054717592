"""Finder for rows that contain their own file group, such as rows from a scan."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from pyhudi.index.contract import Located, pair_groups, path_codes
from pyhudi.records import PARTITION_PATH
from pyhudi.storage.filesystem import FileSystem


@dataclass(frozen=True, slots=True)
class StatedFinder:
    """Returns the file group stated in each row.  column: of file ids."""

    column: str

    def locate(self, fs: FileSystem, rows: pa.Table) -> Located:
        path, paths = path_codes(rows.column(PARTITION_PATH))
        file, files = path_codes(rows.column(self.column))
        return Located(np.arange(rows.num_rows), *pair_groups(path, paths, file, files))
