from typing import Any

import numpy as np
import pyarrow as pa

NOTHING: int
FALSE: int
TRUE: int
INTEGER: int
NUMBER: int
TEXT: int
ESCAPED: int
OBJECT: int
LIST: int

class JsonNode:
    objects: int
    item_count: int
    fields: dict[str, JsonNode]
    item: JsonNode | None
    @property
    def kinds(self) -> np.ndarray: ...
    @property
    def places(self) -> np.ndarray: ...

class JsonRows:
    root: JsonNode
    rows: np.ndarray
    faults: dict[int, str]
    data: Any
    def __init__(self, data: Any, starts: np.ndarray, ends: np.ndarray) -> None: ...

def texts(data: Any, starts: np.ndarray, sizes: np.ndarray, escaped: np.ndarray) -> pa.Array: ...
