"""`enable(spark)`: `format("pyhudi")` of a session runs as `hudi.read` and `hudi.upsert` do, and
statements about tables of Hudi as by `hudi.sql` (`session_sql`).

Spark passes no columns to a Python data source and gives its writer no shuffle.  In an enabled
session `spark.read`, `df.write` and `df.writeStream` are objects of subclasses that record the
format and the options; calls of any other format go to PySpark unchanged.  The property
`spark.pyhudi.enabled` of the session marks it, so sessions that Spark clones for streams are
enabled as well.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from typing import Any, Final, cast

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType, _parse_datatype_string
from pyspark.sql.utils import to_str

from pyhudi.errors import OptionError, UserError
from pyhudi.spark.error_lines import line_first
from pyhudi.spark.frames import is_connect
from pyhudi.spark.session_sql import Settings, disable_sql, enable_sql
from pyhudi.spark.source.frame_saves import batch_function, load_frame, save_frame

_ENABLED: Final = "spark.pyhudi.enabled"
_PARTITION_FIELD: Final = "hoodie.datasource.write.partitionpath.field"
_LOCK: Final = threading.Lock()
_originals: dict[tuple[type, str], Any] = {}
"""Properties of PySpark's classes while they are replaced."""


def enable(
    spark: SparkSession,
    *,
    folder: str | os.PathLike[str] | None = None,
    options: Mapping[str, Any] | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> None:
    """Run `format("pyhudi")` of a session by Spark's Parquet reader and its executors, and
    statements of `spark.sql` about tables of Hudi as `pyhudi.spark.sql` does.

    The format: of `spark.read`, `df.write` and `df.writeStream` in Python.  Without it the data
    source gives the same rows, slower.  Needs no PySpark 4: it provides the format on PySpark 3.5
    as well.
    SQL: statements whose tables are fresh views (`register_views`), tables of Spark's catalog with
    the provider hudi, hudi.`path`, or children of `folder`; all others go to Spark unchanged.
    options, storage_options: of tables in SQL.
    `disable` undoes it.  Raises UserError for a session of Spark Connect.
    """
    if is_connect(spark):
        raise UserError(
            "Spark Connect sessions cannot be enabled",
            hint="use pyhudi.spark.read, pyhudi.spark.upsert and pyhudi.spark.sql",
        )
    frame = type(spark.range(1))
    with _LOCK:
        _replace(SparkSession, "read", _Reader, lambda session: session)
        _replace(frame, "write", _Writer, lambda given: given.sparkSession)
        _replace(frame, "writeStream", _StreamWriter, lambda given: given.sparkSession)
    spark.conf.set(_ENABLED, "true")
    place = None if folder is None else os.fspath(folder)
    enable_sql(spark, Settings(place, options, storage_options))


def disable(spark: SparkSession) -> None:
    """Undo `enable`: `format("pyhudi")` of the session is the Python data source again, and all
    statements are Spark's."""
    spark.conf.unset(_ENABLED)
    disable_sql(spark)


def _replace(
    owner: type, name: str, mixin: type, session_of: Callable[[Any], SparkSession]
) -> None:
    """Replace a property of a PySpark class by one that checks whether the session is enabled."""
    if (owner, name) in _originals:
        return
    original: property = vars(owner)[name]
    read = cast(Callable[[Any], Any], original.fget)

    def get(self: Any) -> Any:
        found = read(self)
        if session_of(self).conf.get(_ENABLED, None) == "true":
            found.__class__ = _subclass(mixin, type(found))
        return found

    _originals[owner, name] = original
    setattr(owner, name, property(get, doc=original.__doc__))


_subclasses: dict[type, type] = {}


def _subclass(mixin: type, base: type) -> type:
    if base not in _subclasses:
        _subclasses[base] = type(base.__name__, (mixin, base), {"__doc__": base.__doc__})
    return _subclasses[base]


class _Recorded:
    """A reader or writer that records its format and options.

    The state is in `__dict__`, as PySpark's `__init__` has run before the class is changed.
    """

    def _given(self) -> dict[str, str]:
        found: dict[str, str] = self.__dict__.setdefault("_pyhudi_options", {})
        return found

    def _record(self, options: Mapping[str, Any]) -> None:
        for name, value in options.items():
            text = to_str(value)
            if text is not None:
                self._given()[name.lower()] = text

    def _is_ours(self, format: str | None = None, *_: Any, **options: Any) -> bool:
        name = options.get("format") or format or self.__dict__.get("_pyhudi_format")
        return str(name or "").lower() == "pyhudi"

    def format(self, source: str) -> Any:
        self.__dict__["_pyhudi_format"] = source
        return super().format(source)  # type: ignore[misc]

    def option(self, key: str, value: Any) -> Any:
        self._record({key: value})
        return super().option(key, value)  # type: ignore[misc]

    def options(self, **options: Any) -> Any:
        self._record(options)
        return super().options(**options)  # type: ignore[misc]

    def _at(self, path: Any) -> dict[str, str]:
        """All options, with the path.  Raises UserError for several paths."""
        if isinstance(path, (list, tuple)):
            if len(path) != 1:
                raise UserError("a read has one table", paths=len(path))
            path = path[0]
        return self._given() if path is None else {**self._given(), "path": path}


class _Reader(_Recorded):
    def schema(self, schema: Any) -> Any:
        self.__dict__["_pyhudi_schema"] = schema
        return super().schema(schema)  # type: ignore[misc]

    @line_first()
    def load(
        self, path: Any = None, format: str | None = None, schema: Any = None, **options: Any
    ) -> DataFrame:
        if format is not None:
            self.format(format)
        if not self._is_ours():
            found: DataFrame = super().load(path, None, schema, **options)  # type: ignore[misc]
            return found
        if schema is not None:
            self.schema(schema)
        self._record(options)
        columns = self.__dict__.get("_pyhudi_schema")
        if isinstance(columns, str):
            columns = cast(StructType, _parse_datatype_string(columns))
        return load_frame(self._spark, self._at(path), columns)  # type: ignore[attr-defined]


class _Writer(_Recorded):
    def mode(self, saveMode: str | None) -> Any:
        if saveMode is not None:
            self.__dict__["_pyhudi_mode"] = saveMode
        return super().mode(saveMode)  # type: ignore[misc]

    def partitionBy(self, *cols: Any) -> Any:
        names = cols[0] if len(cols) == 1 and isinstance(cols[0], (list, tuple)) else cols
        self.__dict__["_pyhudi_partition"] = ",".join(names)
        return super().partitionBy(*cols)  # type: ignore[misc]

    @line_first()
    def save(
        self,
        path: str | None = None,
        format: str | None = None,
        mode: str | None = None,
        partitionBy: Any = None,
        **options: Any,
    ) -> None:
        if format is not None:
            self.format(format)
        if not self._is_ours():
            super().save(path, None, mode, partitionBy, **options)  # type: ignore[misc]
            return
        self.mode(mode)
        if partitionBy is not None:
            self.partitionBy(partitionBy)
        self._record(options)
        save_frame(self._df, {**self._modes(), **self._at(path)})  # type: ignore[attr-defined]

    def saveAsTable(self, name: str, *args: Any, **options: Any) -> None:
        if self._is_ours(*args, **options):
            raise _no_catalog_table("saveAsTable", name)
        super().saveAsTable(name, *args, **options)  # type: ignore[misc]

    def insertInto(self, tableName: str, overwrite: bool | None = None) -> None:
        if self._is_ours():
            raise _no_catalog_table("insertInto", tableName)
        super().insertInto(tableName, overwrite)  # type: ignore[misc]

    def _modes(self) -> dict[str, str]:
        """Options for the save mode and `partitionBy`; Spark's default mode is errorifexists."""
        mode = self.__dict__.get("_pyhudi_mode", "errorifexists")
        stated = self._given().get("savemode")
        if stated is not None and mode == "overwrite" != stated.strip().lower():
            raise OptionError(
                "saveMode conflicts with mode()", option="saveMode", value=stated, mode=mode
            )
        by = self.__dict__.get("_pyhudi_partition")
        known = self._given().get(_PARTITION_FIELD)
        if by is not None and known is not None and known != by:
            raise OptionError(
                "option conflicts with partitionBy()",
                option=_PARTITION_FIELD,
                value=known,
                partition_by=by,
            )
        return {"savemode": mode, **({} if by is None else {_PARTITION_FIELD: by})}


def _no_catalog_table(method: str, name: str) -> UserError:
    return UserError(
        f'{method} does not support format("pyhudi")',
        table=name,
        reason="Spark's catalog keeps no tables of Python data sources",
        hint="use .save(path), and pyhudi.spark.register_views(spark, {name: path}) for SQL",
    )


class _StreamWriter(_Recorded):
    def outputMode(self, outputMode: str) -> Any:
        self.__dict__["_pyhudi_output"] = outputMode
        return super().outputMode(outputMode)  # type: ignore[misc]

    @line_first()
    def start(
        self,
        path: str | None = None,
        format: str | None = None,
        outputMode: str | None = None,
        partitionBy: Any = None,
        queryName: str | None = None,
        **options: Any,
    ) -> Any:
        if format is not None:
            self.format(format)
        above = cast(Any, super())
        if not self._is_ours():
            return above.start(path, None, outputMode, partitionBy, queryName, **options)
        if outputMode is not None:
            self.outputMode(outputMode)
        self.options(**options)
        complete = str(self.__dict__.get("_pyhudi_output") or "").lower() == "complete"
        batches = batch_function(self._at(path), overwrite=complete)
        above.foreachBatch(batches)
        return above.start(queryName=queryName)
