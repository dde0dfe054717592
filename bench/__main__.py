"""Every bench without Spark, one after the other: `python -m bench [--smoke]`.

--smoke runs each at a small size, to see that it works; its figures mean nothing.
"""

from __future__ import annotations

import multiprocessing
import runpy
import subprocess
import sys
import tempfile

import pyarrow as pa

import pyhudi

SMALL: dict[str, list[str]] = {
    "hfile_lookup": ["--smoke"],
    "record_index": ["--smoke"],
    "seek_vs_scan": ["--smoke"],
    "index_growth": ["--smoke"],
    "lookup_service": ["--smoke"],
    "bloom_and_keys": ["--smoke"],
    "avro_decode": ["--rows", "20000"],
    "base_file": ["--rows", "20000", "--repeat", "1"],
    "snapshot_read": ["--rows", "20000", "--repeat", "1"],
    "position_read": ["--smoke"],
    "incremental_read": ["--smoke"],
    "local_upsert": ["--smoke"],
    "sql_merge": ["--smoke"],
    "rewrite_limit": ["--smoke"],
    "bloom_upsert": ["--smoke"],
    "index_kinds": ["--smoke"],
    "upsert_memory": ["--smoke"],
    "stream_load": ["--smoke"],
    "ingest": ["--smoke"],
    "secondary_index": ["--smoke"],
    "many_writers": ["--smoke"],
    "many_commits": ["--smoke"],
    "many_partitions": ["--smoke"],
    "file_statistics": ["--smoke"],
    "shapes": ["--smoke"],
    "empty_touch": ["--smoke"],
    "file_sizing": ["--smoke"],
    "services_cost": ["--smoke"],
    "services_share": ["--smoke"],
    "changes_read": ["--smoke"],
    "table_lookup": ["--smoke"],
    "compaction": ["--smoke"],
    "hudi_rs": ["--smoke"],
    "engines": ["--smoke"],
}


def main() -> int:
    """Run them; the number that failed."""
    is_small, failed = "--smoke" in sys.argv[1:], 0
    if is_small:
        import_the_library()
    for name, small in SMALL.items():
        print(f"== {name}", flush=True)
        if is_small:
            failed += exit_status_of_copy(name, small) != 0
        else:
            failed += subprocess.run([sys.executable, "-m", f"bench.{name}"]).returncode != 0
    return failed


def import_the_library() -> None:
    """All that a write and a read import, which takes longer than most small benches."""
    with tempfile.TemporaryDirectory() as folder:
        rows = pa.table({"id": ["a"]})
        table = pyhudi.create_table(f"{folder}/t", rows.schema, record_key="id")
        table.upsert(rows)
        table.to_arrow()


def exit_status_of_copy(name: str, arguments: list[str]) -> int | None:
    """The exit status of a bench that runs in a copy of this process."""
    sys.argv = [name, *arguments]
    copy = multiprocessing.get_context("fork").Process(
        target=runpy.run_module,
        args=(f"bench.{name}",),
        kwargs={"run_name": "__main__", "alter_sys": True},
    )
    copy.start()
    copy.join()
    return copy.exitcode


if __name__ == "__main__":
    sys.exit(main())
