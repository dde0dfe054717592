from typing import Any, Literal

import pyarrow as pa

class BloomFilter:
    kind: str
    bit_count: int
    hash_count: int
    entries: int
    entries_max: int
    def __init__(
        self,
        entries: int = 60_000,
        fpp: float = 1e-9,
        *,
        kind: Literal["SIMPLE", "DYNAMIC_V0"] | str = "DYNAMIC_V0",
        entries_max: int = 100_000,
    ) -> None: ...
    @property
    def key_count(self) -> int | None: ...
    @property
    def row_count(self) -> int: ...
    def add(self, keys: Any) -> None: ...
    def contains(self, keys: Any) -> pa.BooleanArray: ...
    def contains_one(self, key: bytes | str) -> bool: ...
    def copy(self) -> BloomFilter: ...
    def to_base64(self) -> str: ...
    @staticmethod
    def from_base64(
        text: str | bytes,
        kind: Literal["SIMPLE", "DYNAMIC_V0"] | str = "DYNAMIC_V0",
        *,
        entries_max: int = 100_000,
        path: str | None = None,
    ) -> BloomFilter: ...
