import pyarrow as pa

from pyhudi._native.avro.types import Node

class Encoder:
    root: Node

    def __init__(self, root: Node) -> None: ...
    def encode_column(self, rows: pa.RecordBatch | pa.StructArray) -> pa.BinaryArray: ...
    def encode_framed(self, rows: pa.RecordBatch | pa.StructArray) -> bytes: ...
