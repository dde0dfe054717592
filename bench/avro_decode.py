"""How fast do Avro log blocks become Arrow columns, and back?  Peer: fastavro, in the same run.

    python -m bench.avro_decode [--rows 1000000] [--peer-rows 50000] [--repeat 5]

Ten flat fields, as a log block of a plain table has them, framed; then a nested row, and values of
the record index.  Prints the median of the repetitions, in processor time of this one thread (the
system's share included), and a hash of the encoded rows.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import statistics
import time
from collections.abc import Callable

import fastavro
import numpy as np
import pyarrow as pa

from pyhudi._native import AvroCodec
from pyhudi.formats.avro_schema import arrow_to_avro

SEED = 20_261_121


def flat(rows: int) -> pa.RecordBatch:
    rng = np.random.default_rng(SEED)
    moments = rng.integers(1_600_000_000_000_000, 1_800_000_000_000_000, rows)
    amounts = rng.random(rows)
    return pa.record_batch(
        {
            "id": pa.array([f"key-{i:012d}" for i in range(rows)]),
            "ts": pa.array(moments // 1000),
            "city": pa.array(["sf", "nyc", "paris"]).take(pa.array(rng.integers(0, 3, rows))),
            "rider": pa.array([f"rider-{i % 1000}" for i in range(rows)]),
            "qty": pa.array(rng.integers(-1000, 1000, rows), pa.int32()),
            "amount": pa.array(amounts, mask=amounts < 0.1),
            "score": pa.array(rng.random(rows), pa.float32()),
            "flag": pa.array(amounts < 0.5),
            "day": pa.array(rng.integers(0, 20_000, rows).astype(np.int32)).cast(pa.date32()),
            "at": pa.array(moments).cast(pa.timestamp("us", "UTC")),
        }
    )


def nested(rows: int) -> pa.RecordBatch:
    rng = np.random.default_rng(SEED)
    base = flat(rows)
    counts = pa.array(np.concatenate([[0], np.cumsum(rng.integers(0, 4, rows))]), pa.int32())
    items = base.column("rider").take(pa.array(rng.integers(0, rows, counts[-1].as_py())))
    return pa.record_batch(
        {
            "id": base.column("id"),
            "addr": pa.StructArray.from_arrays(
                [base.column("city"), base.column("qty")], names=["city", "zip"]
            ),
            "tags": pa.ListArray.from_arrays(counts, items),
            "price": base.column("qty").cast(pa.decimal128(12, 2)),
        }
    )


def locations(rows: int) -> pa.RecordBatch:
    rng = np.random.default_rng(SEED)
    bits = rng.integers(-(2**63), 2**63, (2, rows))
    location = pa.StructArray.from_arrays(
        [
            pa.array(["city=sf"]).take(pa.array(np.zeros(rows, np.int64))),
            pa.array(bits[0]),
            pa.array(bits[1]),
            pa.array(rng.integers(0, 20, rows), pa.int32()),
            pa.array([""]).take(pa.array(np.zeros(rows, np.int64))),
            pa.array(rng.integers(1_700_000_000_000, 1_700_000_100_000, rows)),
        ],
        names=["partition", "high", "low", "index", "file_id", "instant"],
    )
    return pa.record_batch({"key": pa.nulls(rows, pa.string()), "location": location})


def median(repeat: int, call: Callable[[], object]) -> float:
    seconds = []
    for _ in range(repeat):
        start = time.process_time()
        call()
        seconds.append(time.process_time() - start)
    return statistics.median(seconds)


def measure(name: str, batch: pa.RecordBatch, repeat: int, peer_rows: int) -> None:
    rows = batch.num_rows
    schema = arrow_to_avro(batch.schema, name="r", namespace="bench")
    codec = AvroCodec(schema)
    body = codec.encode_framed(batch)
    if not codec.decode_framed(body, rows).equals(batch):
        raise SystemExit(f"{name}: the rows do not come back")
    decode = rows / median(repeat, lambda: codec.decode_framed(body, rows))
    encode = rows / median(repeat, lambda: codec.encode_framed(batch))
    datums = codec.encode_column(batch.slice(0, peer_rows)).to_pylist()
    parsed = fastavro.parse_schema(json.loads(schema))

    def peer_decode() -> None:
        for data in datums:
            fastavro.schemaless_reader(io.BytesIO(data), parsed)

    read = [fastavro.schemaless_reader(io.BytesIO(data), parsed) for data in datums]

    def peer_encode() -> None:
        for row in read:
            fastavro.schemaless_writer(io.BytesIO(), parsed, row)

    peer_decoded = len(datums) / median(min(repeat, 3), peer_decode)
    peer_encoded = len(datums) / median(min(repeat, 3), peer_encode)
    digest = hashlib.sha256(body).hexdigest()[:12]
    print(
        f"{name:9} rows={rows} bytes/row={len(body) / rows:.0f} hash={digest}\n"
        f"  decode {decode / 1e6:6.2f} M/s  fastavro {peer_decoded / 1e6:.3f}"
        f"  ({decode / peer_decoded:.0f}x)\n"
        f"  encode {encode / 1e6:6.2f} M/s  fastavro {peer_encoded / 1e6:.3f}"
        f"  ({encode / peer_encoded:.0f}x)"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--peer-rows", type=int, default=50_000)
    parser.add_argument("--repeat", type=int, default=5)
    arguments = parser.parse_args()
    for name, make in (("flat", flat), ("nested", nested), ("locations", locations)):
        measure(name, make(arguments.rows), arguments.repeat, arguments.peer_rows)


if __name__ == "__main__":
    main()
