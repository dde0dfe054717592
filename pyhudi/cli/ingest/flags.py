"""Flags of an ingest: those of Apache Hudi's streamer, and answers to the ones it does not have."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import click

from pyhudi.cli.help import CommandWithHelp
from pyhudi.cli.values import COUNT, Decorator, name_of, setting
from pyhudi.errors import OptionError
from pyhudi.ingest.streamer.properties import read_properties
from pyhudi.ingest.streamer.settings import OPERATIONS, IngestSettings

_SYNC: Final = "table.sync, or `pyhudi sync`, after the ingest"
REFUSED: Final[Mapping[str, str]] = {
    "--initial-checkpoint-provider": "a Java class cannot be called: pass --checkpoint",
    "--run-bootstrap": "bootstrapped tables are not written: bulk_insert the rows",
    "--bootstrap-overwrite": "bootstrapped tables are not written: bulk_insert the rows",
    "--bootstrap-index-class": "bootstrapped tables are not written: bulk_insert the rows",
    "--enable-hive-sync": f"catalogs are synchronized by {_SYNC}",
    "--enable-sync": f"catalogs are synchronized by {_SYNC}",
    "--force-empty-sync": f"catalogs are synchronized by {_SYNC}",
    "--sync-tool-classes": f"catalogs are synchronized by {_SYNC}",
    "--commit-on-errors": "a batch is written whole or not at all: pass --bad-rows",
    "--base-file-format": "tables have base files of Parquet: leave the flag out",
    "--post-write-termination-strategy-class": "a Java class cannot be called: end the process",
    "--merge-impl-classes": "a Java class cannot be called: use a merge mode, or merge= in Python",
    "--merge-mode": "pass --hoodie-conf hoodie.record.merge.mode=MODE",
    "--merge-strategy-id": "pass --hoodie-conf hoodie.record.merge.strategy.id=ID",
    "--config-hot-update-strategy-class": "a Java class cannot be called: restart the ingest",
    "--allow-commit-on-no-checkpoint-change": "an ingest without new rows makes no commit",
}
"""Flags of Apache Hudi's streamer that mean something else here, and what to do."""
WITHOUT_EFFECT: Final = frozenset(
    {"--spark-master", "--delta-sync-scheduling-weight", "--compact-scheduling-weight",
     "--delta-sync-scheduling-minshare", "--compact-scheduling-minshare",
     "--cluster-scheduling-weight", "--cluster-scheduling-minshare", "--ingestion-metrics-class"}
)  # fmt: skip
"""Flags with a value that tune components of Spark."""
_ALONE: Final = frozenset({"--retry-on-source-failures"})
"""Flags without a value that state what an ingest does anyway."""
_SAME: Final = {
    "--source-ordering-fields": "--source-ordering-field",
    "--target-path": "--target-base-path",
}


class StreamerCommand(CommandWithHelp):
    """A command that also answers the flags of Apache Hudi's streamer that it does not have."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, list(_known(args)))


def _known(words: list[str]) -> Iterator[str]:
    """The words without flags that have no effect.  Raises OptionError for refused flags."""
    rest = iter(words)
    for word in rest:
        flag, separator, value = word.partition("=")
        if flag in REFUSED:
            raise OptionError("the flag is not supported", flag=flag, hint=REFUSED[flag])
        if flag in _ALONE:
            continue
        if flag in WITHOUT_EFFECT:
            if not separator:
                next(rest, None)
            continue
        yield _SAME[flag] + separator + value if flag in _SAME else word


def properties_path(text: str) -> str:
    """A path or file: URL of a properties file."""
    return name_of(text)


_FLAGS: Final[tuple[Decorator, ...]] = (
    click.option("--props", type=properties_path, metavar="FILE",
                 help="Properties of the streamer, the table and the source's client."),
    click.option("--hoodie-conf", multiple=True, type=setting, metavar="NAME=VALUE",
                 help="One property; takes precedence over --props; may be repeated."),
    click.option("--source-class", type=name_of, metavar="CLASS",
                 help="JsonKafkaSource, ParquetDFSSource, ..., or a source of pyhudi by its name."),
    click.option("--target-base-path", type=name_of, metavar="PATH", help="The table."),
    click.option("--target-table", type=name_of, metavar="NAME", help="Name of a new table."),
    click.option("--table-type", type=click.Choice(["COPY_ON_WRITE", "MERGE_ON_READ"],
                 case_sensitive=False), help="Type of a new table."),
    click.option("--op", type=click.Choice(OPERATIONS, case_sensitive=False),
                 help="Operation; default: UPSERT."),
    click.option("--source-ordering-field", type=name_of, metavar="COLUMN",
                 help="Column whose greater value wins."),
    click.option("--source-limit", type=click.IntRange(min=1), metavar="N",
                 help="Rows of a batch from Kafka, bytes from other sources."),
    click.option("--checkpoint", type=name_of, metavar="TEXT",
                 help="Begin here; takes effect once, until another text is given."),
    click.option("--ignore-checkpoint", type=name_of, metavar="TEXT",
                 help="Read from the start; any text, takes effect once."),
    click.option("--filter-dupes", is_flag=True,
                 help="Insert only rows whose key is not in the table."),
    click.option("--transformer-class", type=name_of, metavar="CLASSES",
                 help="Transformers of Apache Hudi, or module:function, separated by commas."),
    click.option("--schemaprovider-class", type=name_of, metavar="CLASS",
                 help="FilebasedSchemaProvider, SchemaRegistryProvider, ..."),
    click.option("--payload-class", type=name_of, metavar="CLASS",
                 help="Payload class of a new table."),
    click.option("--bad-rows", type=name_of, metavar="HOW",
                 help="fail (default), skip, or the path of an error table."),
    click.option("--max-bad-rows", type=COUNT, help="Bad rows of a batch at most."),
    click.option("--disable-compaction", is_flag=True,
                 help="Plan and run no compaction of a merge-on-read table."),
    click.option("--max-pending-compactions", type=click.IntRange(min=1), metavar="N",
                 help="Planned compactions with which a continuous run waits; default: 5."),
    click.option("--max-pending-clustering", type=click.IntRange(min=1), metavar="N",
                 help="Planned clusterings with which a continuous run waits; default: 5."),
    click.option("--storage", multiple=True, type=setting, metavar="KEY=VALUE",
                 help="An option of the store, such as endpoint=URL; may be repeated."),
)  # fmt: skip


def stream_flags(function: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator: the flags that describe an ingest."""
    for decorate in reversed(_FLAGS):
        function = decorate(function)
    return function


def settings_of(flags: Mapping[str, Any]) -> IngestSettings:
    """The settings of parsed flags.  Raises OptionError."""
    others = dict(flags)
    props, stated = others.pop("props"), dict(others.pop("hoodie_conf"))
    properties = {**(read_properties(props) if props else {}), **stated}
    others["storage"] = dict(others["storage"])
    return IngestSettings(properties, **others)
