"""Ingests of many tables in one process, described by a TOML file; each runs by itself.

```
[defaults]                        # flags of `pyhudi ingest run` for all tables
source-class = "JsonKafkaSource"
props = "kafka.properties"
continuous = true

[tables.trips]
target-base-path = "s3://lake/trips"
[tables.trips.properties]         # take precedence over those of the defaults and of props
"hoodie.streamer.source.kafka.topic" = "trips"
"hoodie.datasource.write.recordkey.field" = "id"
```
"""

from __future__ import annotations

import threading
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Final

from pyhudi.errors import OptionError, PyhudiError
from pyhudi.ingest.retries import Retries
from pyhudi.ingest.status import IngestState, IngestStatus, StatusReceiver
from pyhudi.ingest.streamer.properties import read_properties
from pyhudi.ingest.streamer.settings import IngestSettings

_SETTINGS: Final = {f.name for f in fields(IngestSettings)}
_RUN: Final = (
    "continuous",
    "min_sync_interval_seconds",
    "max_retry_count",
    "retry_interval_seconds",
)


@dataclass(frozen=True)
class TableIngest:
    """The ingest of one table of a file.  interval_seconds, retries: as for `Stream.run`."""

    name: str
    settings: IngestSettings
    continuous: bool = False
    interval_seconds: float = 0.0
    retries: Retries | None = None


def read_tables(path: str) -> list[TableIngest]:
    """The tables of a TOML file, in its order.

    Raises OptionError for a file that cannot be read, has no tables or unknown names, and for
    values of the wrong type.
    """
    try:
        content = tomllib.loads(Path(path).read_text("utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise OptionError(
            "the file of tables cannot be read", path=path, reason=str(error)
        ) from None
    defaults, tables = content.pop("defaults", {}), content.pop("tables", {})
    if content or not isinstance(tables, dict) or not tables or not isinstance(defaults, dict):
        raise OptionError(
            "not a file of tables",
            path=path,
            unknown=", ".join(content) or None,
            hint="it has [defaults] and [tables.NAME]",
        )
    folder = Path(path).parent
    return [_table(name, defaults, own, folder) for name, own in tables.items()]


def _table(name: str, defaults: Mapping[str, Any], own: Any, folder: Path) -> TableIngest:
    if not isinstance(own, dict):
        raise OptionError("a table of the file is not a section", table=name)
    flags = {key.replace("-", "_"): value for key, value in {**defaults, **own}.items()}
    flags.pop("properties", None)
    unknown = sorted(set(flags) - _SETTINGS - {"props", *_RUN})
    if unknown:
        raise OptionError(
            "unknown name in the file of tables",
            table=name,
            name=unknown[0],
            hint="names are the flags of `pyhudi ingest run`",
        )
    properties: dict[str, str] = {}
    for section in (defaults, own):
        if "props" in section:
            properties |= read_properties(str(folder / str(section["props"])))
        properties |= {key: _text(value) for key, value in section.get("properties", {}).items()}
    run = {key: flags.pop(key) for key in _RUN if key in flags}
    flags.pop("props", None)
    _check_types(name, flags, run)
    settings = replace(IngestSettings(properties, target_table=name), **flags)
    return TableIngest(
        name,
        settings,
        run.get("continuous", False),
        float(run.get("min_sync_interval_seconds", 0.0)),
        _retries(run),
    )


def _retries(run: Mapping[str, Any]) -> Retries | None:
    if not {"max_retry_count", "retry_interval_seconds"} & run.keys():
        return None
    count = run.get("max_retry_count", None if run.get("continuous") else 0)
    first = float(run.get("retry_interval_seconds", 1.0))
    return Retries(count, first, max(300.0, first))


def _check_types(table: str, flags: Mapping[str, Any], run: Mapping[str, Any]) -> None:
    numbers = (
        "source_limit", "max_bad_rows", "max_pending_compactions", "max_pending_clustering",
        *_RUN[1:],
    )  # fmt: skip
    for name, value in {**flags, **run}.items():
        if name in numbers:
            is_fine = isinstance(value, int | float) and not isinstance(value, bool)
        elif name in ("filter_dupes", "continuous", "disable_compaction"):
            is_fine = isinstance(value, bool)
        else:
            is_fine = isinstance(value, dict if name == "storage" else str)
        if not is_fine:
            raise OptionError(
                "a value of the file of tables has the wrong type",
                table=table,
                name=name,
                value=value,
            )


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


@dataclass
class _Worker:
    """One table's thread, and what became of it."""

    ingest: TableIngest
    stop: Callable[[], bool]
    receivers: Sequence[StatusReceiver]
    status: IngestStatus = field(init=False)
    thread: threading.Thread = field(init=False)

    def __post_init__(self) -> None:
        target = self.ingest.settings.target_base_path or self.ingest.name
        self.status = IngestStatus(target, self.ingest.settings.source_class or "")
        self.thread = threading.Thread(target=self._run, name=f"ingest {self.ingest.name}")

    def _receive(self, status: IngestStatus) -> None:
        self.status = status
        for receiver in self.receivers:
            receiver(status)

    def _run(self) -> None:
        """Run the ingest to its end; an error ends this table only."""
        try:
            settings, continuous = self.ingest.settings, self.ingest.continuous
            settings.stream().run(
                continuous=continuous,
                interval_seconds=self.ingest.interval_seconds,
                stop=self.stop,
                on_status=self._receive,
                retries=self.ingest.retries,
                services=settings.services() if continuous else None,
            )
        except BaseException as error:
            if self.status.state is not IngestState.FAILED:
                text = f"{type(error).__name__}: {error}"
                self._receive(replace(self.status, state=IngestState.FAILED, error=text))
            if not isinstance(error, PyhudiError | OSError):
                raise


def run_tables(
    ingests: Sequence[TableIngest],
    *,
    stop: Callable[[], bool] = lambda: False,
    on_status: Sequence[StatusReceiver] = (),
) -> dict[str, IngestStatus]:
    """Run ingests at once, a thread each; the last state of each by its name.

    An ingest that fails does not end the others.  stop, on_status: as for `Stream.run`; receivers
    are called from the threads.
    """
    workers = [_Worker(ingest, stop, on_status) for ingest in ingests]
    for worker in workers:
        worker.thread.start()
    for worker in workers:
        worker.thread.join()
    return {worker.ingest.name: worker.status for worker in workers}
