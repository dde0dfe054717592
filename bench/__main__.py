"""Every bench without Spark, one after the other: `python -m bench [--smoke]`.

--smoke runs each at a small size, to see that it works; its figures mean nothing.
"""

from __future__ import annotations

import subprocess
import sys

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
    failed = 0
    for name, small in SMALL.items():
        print(f"== {name}", flush=True)
        arguments = small if "--smoke" in sys.argv[1:] else []
        failed += subprocess.run([sys.executable, "-m", f"bench.{name}", *arguments]).returncode > 0
    return failed


if __name__ == "__main__":
    sys.exit(main())
