from typing import Any

import pyarrow as pa

from pyhudi._native.avro.types import Node

class Decoder:
    root: Node

    def __init__(self, root: Node) -> None: ...
    def decode_framed(
        self, data: Any, count: int, wanted: list[int], path: str | None
    ) -> tuple[list[pa.Array], pa.Buffer | None, int]: ...
    def decode_column(
        self, values: pa.Array, wanted: list[int], path: str | None
    ) -> tuple[list[pa.Array], pa.Buffer | None, int]: ...
