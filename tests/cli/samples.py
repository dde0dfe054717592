"""Arguments with which each command runs for its JSON shape.

Name -> command lines that run before, and the arguments of the command.  The current folder has
trips (version 9, merge-on-read, partitioned by city, a log file), cow (version 6, a savepoint at
its first commit), rows.parquet, sample.hfile and sample.log.  FIRST and LAST are the first and the
last commit of cow, TRIPS_FIRST and TRIPS_LAST those of trips, PLANNED the instant that the last
command before has reported.
"""

from __future__ import annotations

_RETAIN = "--option hoodie.partition.ttl.strategy.days.retain=30"
_CLEAN = (
    "--option hoodie.clean.policy=KEEP_LATEST_FILE_VERSIONS"
    " --option hoodie.clean.fileversions.retained=1"
)
_SECONDARY = ("index create trips secondary --column driver --name by_driver",)
_INGEST = (
    "--source-class tests.support.row_sources:counting --hoodie-conf stop=3"
    " --hoodie-conf hoodie.datasource.write.recordkey.field=id --target-base-path"
)

WITHOUT_SAMPLE = {
    "doctor-env",  # depends on what is installed
    "index calibrate",  # fails on a busy machine
    "sync",  # needs a catalog: tests/cli/test_sync.py
}
"""Commands without a golden JSON shape."""
SAMPLES: dict[str, tuple[tuple[str, ...], str]] = {
    "bench": ((), "measured --rows 2000 --seconds 1"),
    "changes": ((), "trips 000"),
    "config diff": ((), "trips"),
    "config explain": ((), "hoodie.parquet.small.file.limit --table trips"),
    "config list": ((), "--contains hoodie.clean"),
    "delete": ((), "trips --key a --yes"),
    "diff": ((), "cow FIRST LAST"),
    "history": ((), "cow a"),
    "ingest once": ((), f"{_INGEST} new"),
    "ingest reset": ((), "trips 17 --yes"),
    "ingest run": ((), f"{_INGEST} new"),
    "ingest status": ((f"ingest once {_INGEST} new",), "new"),
    "ingest tables": ((), "tables.toml"),
    "locks": ((), "trips"),
    "manifest": ((), "trips"),
    "show": ((), "trips --where city='sf'"),
    "sql": ((), "trips select(count(*))as`n`from`trips`"),
    "stats amplification": ((), "trips"),
    "stats keys": ((), "trips"),
    "stats sizes": ((), "trips"),
    "write": ((), "cow rows.parquet"),
    "clean pins": ((), "trips"),
    "clean run": (("compaction run trips",), f"trips {_CLEAN}"),
    "clustering list": (("clustering schedule cow --sort-by fare",), "cow"),
    "clustering run": ((), "cow --sort-by fare"),
    "clustering schedule": ((), "cow --sort-by fare"),
    "clustering show": (("clustering schedule cow --sort-by fare",), "cow PLANNED"),
    "clustering unschedule": (("clustering schedule cow --sort-by fare",), "cow PLANNED"),
    "commits compare": ((), "trips cow"),
    "commits files": ((), "trips TRIPS_LAST"),
    "commits list": ((), "trips"),
    "commits show": ((), "trips TRIPS_FIRST"),
    "compaction list": (("compaction schedule trips",), "trips"),
    "compaction logs": ((), "trips --option hoodie.log.compaction.blocks.threshold=1"),
    "compaction run": ((), "trips"),
    "compaction schedule": ((), "trips"),
    "compaction show": (("compaction schedule trips",), "trips PLANNED"),
    "compaction unschedule": (("compaction schedule trips",), "trips PLANNED"),
    "demo": ((), "--engine local"),
    "doctor": ((), "cow"),
    "hfile dump": ((), "sample.hfile --limit 1"),
    "hfile lookup": ((), "sample.hfile a nothing"),
    "index compare": ((), "trips TRIPS_FIRST"),
    "index create": ((), "trips secondary --column driver"),
    "index drop": (_SECONDARY, "trips by_driver"),
    "index explain": ((), "trips a"),
    "index list": (_SECONDARY, "trips"),
    "index lookup": ((), "trips a nothing"),
    "index rebuild": ((), "trips"),
    "index repair": ((), "trips"),
    "index stats": ((), "trips"),
    "index verify": ((), "trips"),
    "log dump": ((), "sample.log --rows"),
    "metadata rebuild": ((), "cow"),
    "metadata verify": ((), "cow"),
    "repair": ((), "cow"),
    "report": ((), "trips --output report.html"),
    "restore run": ((), "cow FIRST --yes"),
    "rollback run": ((), "cow LAST --yes"),
    "savepoint create": ((), "trips --comment release"),
    "savepoint delete": ((), "cow FIRST"),
    "savepoint show": ((), "cow"),
    "serve": ((), "trips --writable trips --stop-after 0.1"),
    "services run": ((), "trips"),
    "table copy": ((), "trips copied"),
    "table gauges": ((), "trips"),
    "table create": ((), "new --like rows.parquet --record-key id"),
    "table downgrade": ((), "trips --to 6 --yes"),
    "table drop": ((), "trips --yes"),
    "table files": ((), "trips"),
    "table info": ((), "trips"),
    "table properties": ((), "cow"),
    "table schema": ((), "trips"),
    "table set": ((), "cow owner=ana --unset nothing"),
    "table sizes": ((), "trips"),
    "table upgrade": ((), "cow --to 9 --yes"),
    "timeline archive": ((), "cow"),
    "timeline show": ((), "trips"),
    "top": ((), "trips --count 1"),
    "ttl run": ((), f"trips {_RETAIN}"),
}
