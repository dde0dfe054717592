"""The commands: each method of Commands is one, its arguments are those of the JSON request."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

from tests.interop.apache_hudi import tables
from tests.interop.apache_hudi.session import Session
from tests.interop.apache_hudi.validate import validate

PROCEDURES = {
    "compact": "run_compaction",
    "clean": "run_clean",
    "rollback": "rollback_to_instant",
    "savepoint": "create_savepoint",
    "restore": "rollback_to_savepoint",
    "cluster": "run_clustering",
    "archive": "archive_commits",
    "metadata_create": "create_metadata_table",
    "metadata_init": "init_metadata_table",
    "metadata_delete": "delete_metadata_table",
}
FROM_PROPERTIES = {
    "hoodie.table.recordkey.fields": "recordkey.field",
    "hoodie.table.partition.fields": "partitionpath.field",
    "hoodie.table.precombine.field": "precombine.field",
    "hoodie.table.ordering.fields": "precombine.field",
    "hoodie.table.type": "table.type",
    "hoodie.table.keygenerator.class": "keygenerator.class",
    "hoodie.datasource.write.hive_style_partitioning": "hive_style_partitioning",
}
WRITING = {
    **{f"hoodie.{verb}.shuffle.parallelism": "2" for verb in ("upsert", "insert", "delete")},
    "hoodie.bulkinsert.shuffle.parallelism": "2",
    "hoodie.embed.timeline.server": "false",
    "hoodie.write.markers.type": "DIRECT",
}
PLANNING = ("hoodie.metadata.enable", "hoodie.enable.data.skipping")
"""Options that index look-ups take from the session while a read is planned."""

VECTORIZED = "spark.sql.parquet.enableVectorizedReader"
"""Queries of changes switch it off for the whole session; then floats widen in another way."""


class Commands:
    """The commands of one session."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def read(
        self,
        path: str,
        query: str = "snapshot",
        as_of: str | None = None,
        begin: str | None = None,
        end: str | None = None,
        mdt: str | bool | None = None,
        where: str | None = None,
        select: str | list[str] | None = None,
        order: str | None = None,
        out: str | None = None,
        conf: dict[str, str] | None = None,
    ) -> dict[str, Any]:
        """Rows of a query, stored in the Parquet file `out`, and the number of files scanned."""
        options = {
            "hoodie.datasource.query.type": query,
            "as.of.instant": as_of,
            "hoodie.datasource.read.begin.instanttime": begin,
            "hoodie.datasource.read.end.instanttime": end,
            "hoodie.metadata.enable": mdt and str(mdt in (True, "on")).lower(),
            **(conf or {}),
        }
        rows = self._load(path, {k: v for k, v in options.items() if v is not None})
        if where:
            rows = rows.where(where)
        if select:
            rows = rows.selectExpr(*([select] if isinstance(select, str) else select))
        if order:
            rows = rows.orderBy(*order.split(","))
        answer: dict[str, Any] = {"schema": rows.schema.jsonValue()}
        if out:
            return {**answer, "rows": self._session.save(rows, out), "out": out}
        return {**answer, "rows": rows.count()}

    def scanned(self, path: str, where: str, conf: dict[str, str] | None = None) -> dict[str, Any]:
        """Rows that pass a filter and the number of file slices that Spark opened for them."""
        found, plan = _executed(self._load(path, conf or {}).where(where))
        return {"rows": len(found), "files": _opened(plan), "plan": plan.toString()}

    def counted(
        self, path: str, wheres: list[str], conf: dict[str, str] | None = None
    ) -> dict[str, Any]:
        """Of each filter the number of rows that pass it, by one scan of the whole table, and the
        number of file slices that Spark opened for it."""
        bits = (f"if({where}, {1 << n}L, 0L)" for n, where in enumerate(wheres))
        passed, plan = _executed(self._load(path, conf or {}).selectExpr(" + ".join(bits)))
        masks = [row.getLong(0) for row in passed]
        rows = [sum(mask >> n & 1 for mask in masks) for n in range(len(wheres))]
        return {"rows": rows, "files": _opened(plan)}

    def _load(self, path: str, options: dict[str, str]) -> Any:
        spark = self._session.spark
        spark.conf.unset(VECTORIZED)
        for name in PLANNING:
            if name in options:
                spark.conf.set(name, options[name])
            else:
                spark.conf.unset(name)
        return spark.read.format("hudi").options(**options).load(path)

    def write(
        self,
        path: str,
        rows: str | list[str],
        operation: str = "upsert",
        mode: str = "append",
        conf: dict[str, str] | None = None,
    ) -> dict[str, Any]:
        """One commit of the rows in Parquet files; keys and partitioning are the table's."""
        known = tables.properties(path)
        options = {
            "hoodie.datasource.write.operation": operation,
            "hoodie.table.name": known.get("hoodie.table.name", Path(path).name),
            **WRITING,
            **{
                f"hoodie.datasource.write.{option}": known[name]
                for name, option in FROM_PROPERTIES.items()
                if name in known
            },
            **tables.writer_options(path, self._session.version),
            **(conf or {}),
        }
        frame = self._session.spark.read.parquet(*([rows] if isinstance(rows, str) else rows))
        before = tables.instants(path)
        frame.write.format("hudi").options(**options).mode(mode).save(path)
        return {"new_instants": sorted(tables.instants(path) - before)}

    def service(
        self,
        path: str,
        name: str,
        args: dict[str, Any] | None = None,
        conf: dict[str, str] | None = None,
    ) -> dict[str, Any]:
        """A table service by its SQL procedure; args are the procedure's own parameters."""
        procedure = PROCEDURES.get(name, name)
        given = dict(args or {})
        calls = [given]
        more = dict(conf or {})
        if procedure == "run_compaction":
            more = {"hoodie.compact.inline.max.delta.commits": "1", **more}
            if "op" not in given:
                calls = [{**given, "op": op} for op in ("schedule", "run")]
        before = tables.instants(path)
        with self._catalogued(path) as table, self._session_options(path, more):
            results = [self._procedure(procedure, table, call) for call in calls]
        return {"results": results, "new_instants": sorted(tables.instants(path) - before)}

    def sql(
        self, path: str, text: str, out: str | None = None, conf: dict[str, str] | None = None
    ) -> dict[str, Any]:
        """A SQL statement, in which {table} is the table at path."""
        with self._catalogued(path) as table, self._session_options(path, conf or {}):
            rows = self._session.spark.sql(text.replace("{table}", table))
            if out:
                return {"rows": self._session.save(rows, out), "out": out}
            return {"results": [row.asDict(recursive=True) for row in rows.collect()]}

    def statements(
        self, items: list[dict[str, Any]], name: str, sources: dict[str, str] | None = None
    ) -> dict[str, Any]:
        """The rows or the error of SQL statements, each on the table at its path.

        items: `text`, `path` and, if there are any, `parameters` and `conf`.  name: of the table
        in all of them.  sources: files of Parquet by the names of views of their rows.
        """
        spark = self._session.spark
        for view, file in (sources or {}).items():
            spark.read.parquet(file).createOrReplaceTempView(view)
        outcomes = []
        for path, of_path in groupby(items, key=itemgetter("path")):
            with self._catalogued(path, name):
                outcomes += [self._outcome(**item) for item in of_path]
        return {"outcomes": outcomes}

    def _outcome(
        self, path: str, text: str, parameters: Any = None, conf: dict[str, str] | None = None
    ) -> dict[str, Any]:
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        with self._session_options(path, conf or {}):
            try:
                rows = self._session.spark.sql(text, args=parameters).collect()
            except (PySparkException, Py4JError) as failed:
                return {"error": str(failed).strip()[:400]}
            return {"rows": [list(row) for row in rows]}

    def _procedure(self, name: str, table: str, args: dict[str, Any]) -> list[dict[str, Any]]:
        shown = [f"table => '{table}'", *(f"{k} => {_literal(v)}" for k, v in args.items())]
        rows = self._session.spark.sql(f"CALL {name}({', '.join(shown)})").collect()
        return [row.asDict(recursive=True) for row in rows]

    @contextmanager
    def _catalogued(self, path: str, name: str = "the_table") -> Iterator[str]:
        """A name of the table in the catalogue; CREATE TABLE rewrites hoodie.properties."""
        spark = self._session.spark
        spark.sql(f"DROP TABLE IF EXISTS {name}")
        try:
            with tables.unchanged_properties(path):
                spark.sql(f"CREATE TABLE {name} USING hudi LOCATION '{path}'")
            yield name
        finally:
            spark.sql(f"DROP TABLE IF EXISTS {name}")

    @contextmanager
    def _session_options(self, path: str, more: dict[str, str]) -> Iterator[None]:
        options = {**tables.writer_options(path, self._session.version), **more}
        for key, value in options.items():
            self._session.spark.conf.set(key, value)
        try:
            yield
        finally:
            for key in options:
                self._session.spark.conf.unset(key)

    def hfile(
        self,
        path: str,
        lookup: list[str] | None = None,
        reader: str = "default",
        avro: bool = False,
        cells: bool = True,
        check: str | None = None,
        absent: list[str] | None = None,
    ) -> dict[str, Any]:
        """Cells of an HFile; with avro=True also by the reader of metadata tables.

        check: a file of expected cells, one "base64 key, space, base64 value" a line, against
        which a scan, point look-ups, sorted look-ups and look-ups of `absent` are verified.
        """
        return self._session.call(
            "hfile", path=path, lookup=lookup, reader=reader, avro=avro, cells=cells, check=check,
            absent=absent or [],
        )  # fmt: skip

    def log(self, path: str, records: bool = True) -> dict[str, Any]:
        """Blocks of a log file."""
        return self._session.call("log", path=path, records=records)

    def timeline(self, path: str, content: bool = True) -> dict[str, Any]:
        """Properties and instants of the active timeline, each with its decoded metadata."""
        return self._session.call("timeline", path=path, content=content)

    def archive(self, path: str) -> dict[str, Any]:
        """Instants of the archived timeline, each with its decoded metadata."""
        return self._session.call("archive", path=path)

    def rli(self, path: str, keys: list[str]) -> dict[str, Any]:
        """Locations of record keys by the record index; absent keys are left out."""
        return self._session.call("rli", path=path, keys=keys)

    def listing(self, path: str, source: str = "mdt") -> dict[str, Any]:
        """Partitions and files, from the metadata table ("mdt") or the file system ("fs")."""
        return self._session.call("listing", path=path, source=source)

    def slices(self, path: str) -> dict[str, Any]:
        """File groups and file slices of the file system view."""
        return self._session.call("slices", path=path)

    def mdt(self, path: str, partition: str | None = None) -> dict[str, Any]:
        """Merged records of one partition of the metadata table, or of all."""
        partitions = [partition] if partition else tables.metadata_partitions(path)
        return self._session.call("mdt", path=path, partitions=partitions)

    def hive_sync(self, path: str, conf: dict[str, str]) -> dict[str, Any]:
        """Sync the table by HiveSyncTool in mode hms; conf: the options of the tool."""
        jvm = self._session.jvm
        properties, hadoop = jvm.java.util.Properties(), jvm.org.apache.hadoop.conf.Configuration()
        hadoop.set("hive.metastore.uris", conf["hoodie.datasource.hive_sync.metastore.uris"])
        given = {
            "hoodie.datasource.hive_sync.mode": "hms",
            "hoodie.datasource.meta.sync.base.path": path,
            **conf,
        }
        for name, value in given.items():
            properties.setProperty(name, value)
        tool = jvm.org.apache.hudi.hive.HiveSyncTool(properties, hadoop)
        try:
            tool.syncHoodieTable()
        finally:
            tool.close()
        return {}

    def manifest(self, path: str, absolute: bool) -> dict[str, Any]:
        """Write the manifest of the newest snapshot by ManifestFileWriter (1.x)."""
        hudi = self._session.jvm.org.apache.hudi
        hadoop = self._session.jvm.org.apache.hadoop.conf.Configuration()
        client = hudi.common.table.HoodieTableMetaClient.builder().setBasePath(path)
        conf = hudi.storage.hadoop.HadoopStorageConfiguration(hadoop)
        writer = hudi.sync.common.util.ManifestFileWriter.builder()
        writer.setMetaClient(client.setConf(conf).build()).build().writeManifestFile(absolute)
        return {}

    def query(self, text: str, out: str) -> dict[str, Any]:
        """Rows of a statement of SQL, stored in the Parquet file `out`."""
        return {"rows": self._session.save(self._session.spark.sql(text), out), "out": out}

    def validate(self, path: str, rows: str | None = None) -> dict[str, Any]:
        """Verify the metadata table against the storage, and the record index against the rows.

        rows: a file in which `read` stored all rows of the newest snapshot, instead of a scan.
        """
        return validate(self._session, path, rows)


def _executed(frame: Any) -> tuple[Any, Any]:
    """The rows of a frame and the plan, whose metrics are those of this execution."""
    plan = frame._jdf.queryExecution().executedPlan()
    return plan.executeCollect(), plan


def _opened(plan: Any) -> int:
    leaves = plan.collectLeaves()
    metrics = [leaves.apply(n).metrics() for n in range(leaves.size())]
    return sum(m.apply("numFiles").value() for m in metrics if m.contains("numFiles"))


def _literal(value: Any) -> str:
    text = str(value)
    is_bare = text.lower() in ("true", "false") or (text.isdigit() and len(text) < 10)
    return text if is_bare else f"'{text}'"
