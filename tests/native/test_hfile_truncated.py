"""Files truncated in place while they are open: an error, never the end of the process (SIGBUS)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import pyhudi
from pyhudi.errors import CorruptFileError

SCHEMA = pa.schema([("id", pa.string()), ("v", pa.int64())])

HFILE = """
import os, sys, pyarrow as pa, pyhudi
from pyhudi.errors import CorruptFileError
keys = [f"key-{i:06d}" for i in range(50_000)]
with pyhudi.HFileWriter(sys.argv[1], compression="none") as writer:
    writer.add(pa.array(keys), pa.array(keys))
reader = pyhudi.HFileReader(sys.argv[1], cache_bytes=0)
os.truncate(sys.argv[1], 4096)
calls = {
    "get_many": lambda: reader.get_many(pa.array(keys)),
    "scan": lambda: sum(batch.num_rows for batch in reader.scan()),
    "prefix": lambda: sum(batch.num_rows for batch in reader.prefix(b"key-04")),
    "verify": lambda: reader.verify(),
}
try:
    calls[sys.argv[2]]()
except CorruptFileError as error:
    print(error)
"""


@pytest.mark.parametrize("call", ["get_many", "scan", "prefix", "verify"])
def test_an_hfile_truncated_while_open_is_an_error(tmp_path: Path, call: str) -> None:
    command = [sys.executable, "-c", HFILE, str(tmp_path / "index.hfile"), call]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, f"ended by {done.returncode}: {done.stderr[-300:]}"
    assert "truncated in place" in done.stdout


def test_a_base_file_truncated_between_plan_and_read_is_an_error(tmp_path: Path) -> None:
    table = pyhudi.create_table(str(tmp_path / "t"), SCHEMA, record_key="id")
    keys = [str(i) for i in range(20_000)]
    table.bulk_insert(pa.table({"id": keys, "v": range(20_000)}, schema=SCHEMA))
    (base,) = (tmp_path / "t").glob("*.parquet")
    scan = table.scan()
    os.truncate(base, base.stat().st_size // 2)
    with pytest.raises(CorruptFileError):
        scan.to_arrow()
    scan = table.scan(["v"])
    with pytest.raises(CorruptFileError):
        scan.to_arrow()
