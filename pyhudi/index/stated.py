"""Finder for rows that contain their own file group, such as rows from a scan."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from pyhudi.index.contract import Located, path_codes
from pyhudi.records import PARTITION_PATH, FileGroupId
from pyhudi.storage.filesystem import FileSystem


@dataclass(frozen=True, slots=True)
class StatedFinder:
    """Returns the file group stated in each row.  column: of file ids."""

    column: str

    def locate(self, fs: FileSystem, rows: pa.Table) -> Located:
        path, paths = path_codes(rows.column(PARTITION_PATH))
        file, files = path_codes(rows.column(self.column))
        width = max(1, len(files))
        used, homes = np.unique(path.astype(np.int64) * width + file, return_inverse=True)
        groups = tuple(FileGroupId(paths[p // width], files[p % width]) for p in used.tolist())
        return Located(np.arange(rows.num_rows), homes.astype(np.int32), groups)
