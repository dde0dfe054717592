from typing import Any

import numpy as np
import pyarrow as pa

PLAIN: int
QUOTED: int
ESCAPED: int
FINE: int
UNCLOSED: int
RESIDUE: int

class CsvFields:
    starts: np.ndarray
    ends: np.ndarray
    lines: np.ndarray
    faults: np.ndarray
    first: np.ndarray
    fields: np.ndarray
    consumed: int
    line_count: int
    def __init__(
        self,
        data: Any,
        separator: int,
        quote: int,
        escape: int,
        comment: int,
        multi_line: bool,
        is_end: bool,
    ) -> None: ...

def texts(data: Any, places: np.ndarray, quote: int, escape: int) -> pa.Array: ...
