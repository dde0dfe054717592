"""Every tunable, in one place: frozen dataclasses, and the table from `hoodie.*` names to them.

A field carries its unit in its name, its default and the reason for it.  String keys are parsed
once, at the door (`parse_options`); an unknown name or an impossible value is an OptionError.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, Final

from pyhudi.errors import OptionError


class LogFormat(Enum):
    """Format of the data blocks that a merge-on-read write appends."""

    PARQUET = "parquet"
    AVRO = "avro"


class IndexKind(Enum):
    """How a write finds the file group of a key."""

    RECORD = "record"


class HolesPolicy(Enum):
    """What an incremental read does about a pending write before a completed one."""

    FAIL = "fail"
    BLOCK = "block"
    USE_TRANSITION_TIME = "use_transition_time"


@dataclass(frozen=True, slots=True)
class FileSizing:
    """How large base files become.  Used by write/assign."""

    file_bytes_max: int = 125_829_120  # a base file of this size is read in well under a second
    small_file_bytes: int = 104_857_600  # files below take inserts before new ones are opened
    record_bytes: int = 1024  # guess for a table without commits and without rows to measure
    rewrite_ratio_max: float = 4.0  # MOR: inserts join a small file at most this much larger

    def __post_init__(self) -> None:
        _positive("hoodie.parquet.max.file.size", self.file_bytes_max)
        _positive("hoodie.copyonwrite.record.size.estimate", self.record_bytes)


@dataclass(frozen=True, slots=True)
class BaseFileOptions:
    """How base files are encoded.  Used by formats/parquet."""

    codec: str = "zstd"  # smaller and faster to write than gzip; read by every Hudi reader
    codec_level: int | None = None  # None: 1 for zstd, else the codec's own default
    row_group_rows: int = 256 * 1024  # readers skip by row group; larger ones compress no better
    page_bytes: int = 1 << 20
    bloom_kind: str = "DYNAMIC_V0"
    bloom_entries: int = 60_000
    bloom_fpp: float = 1e-9
    bloom_entries_max: int = 100_000

    def __post_init__(self) -> None:
        if self.codec not in ("zstd", "gzip", "snappy", "lz4", "none"):
            raise OptionError(
                "a codec that not every Hudi reader knows",
                option="hoodie.parquet.compression.codec",
                value=self.codec,
                hint="use zstd, gzip, snappy, lz4_raw or uncompressed",
            )
        if self.bloom_kind not in ("SIMPLE", "DYNAMIC_V0"):
            raise OptionError(
                "unknown bloom filter", option="hoodie.bloom.index.filter.type",
                value=self.bloom_kind, hint="use SIMPLE or DYNAMIC_V0",
            )  # fmt: skip


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """What a write does with its rows.  Used by write/ and pipeline."""

    sizing: FileSizing = field(default_factory=FileSizing)
    base_file: BaseFileOptions = field(default_factory=BaseFileOptions)
    log_format: LogFormat = LogFormat.PARQUET  # several times faster to write and read than Avro
    combine_before_upsert: bool = True
    combine_before_insert: bool = False
    combine_before_delete: bool = True
    update_partition_path: bool = False  # a key that comes with another partition stays put
    index: IndexKind | None = None  # None: what the table has
    shard_count: int = 10  # record index groups of a new table, as Apache Hudi's default
    lock_seconds: float = 60.0
    metadata_enabled: bool = True
    commit_metadata: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How a table is read."""

    metadata_enabled: bool = True  # list through the metadata table where it is trusted
    data_skipping: bool = True  # leave out files that column statistics or blooms rule out
    holes: HolesPolicy = HolesPolicy.FAIL  # as Apache Hudi: rows must not be missed in silence
    partition_glob: str | None = None  # partitions whose changes are read; None: of all


@dataclass(frozen=True, slots=True)
class TableOptions:
    """Properties a new table gets that have no argument of their own."""

    hive_style: bool = False
    url_encoded: bool = False
    timezone: str = "UTC"
    payload_class: str | None = None


@dataclass(frozen=True, slots=True)
class Options:
    """All settings of one opened table.  `ignored` names options accepted without effect."""

    write: WriteOptions = field(default_factory=WriteOptions)
    read: ReadOptions = field(default_factory=ReadOptions)
    table: TableOptions = field(default_factory=TableOptions)
    ignored: tuple[str, ...] = ()


_UNITS: Final = {"": 1, "b": 1, "k": 1 << 10, "kb": 1 << 10, "m": 1 << 20, "mb": 1 << 20,
                 "g": 1 << 30, "gb": 1 << 30, "t": 1 << 40, "tb": 1 << 40}  # fmt: skip
_CODECS: Final = {"uncompressed": "none", "none": "none", "gzip": "gzip", "zstd": "zstd",
                  "snappy": "snappy", "lz4_raw": "lz4", "lz4": "lz4"}  # fmt: skip


def _positive(option: str, value: float) -> None:
    if value <= 0:
        raise OptionError("must be positive", option=option, value=value)


def _bytes(text: str) -> int:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-z]*)", text.strip().lower())
    if not match or match[2] not in _UNITS:
        raise ValueError("a size such as 67108864 or 64mb")
    return int(float(match[1]) * _UNITS[match[2]])


def _flag(text: str) -> bool:
    if text.strip().lower() not in ("true", "false"):
        raise ValueError("true or false")
    return text.strip().lower() == "true"


def _count(text: str) -> int:
    if not re.fullmatch(r"\d{1,9}", text.strip()):
        raise ValueError("a whole number")
    return int(text)


def _ratio(text: str) -> float:
    return float(text)


def _codec(text: str) -> str:
    if text.strip().lower() not in _CODECS:
        raise ValueError("one of " + ", ".join(sorted(_CODECS)))
    return _CODECS[text.strip().lower()]


def _log_format(text: str) -> LogFormat:
    return LogFormat(text.strip().lower())


def _holes(text: str) -> HolesPolicy:
    return HolesPolicy(text.strip().lower())


def _index(text: str) -> IndexKind:
    if text.strip().upper() not in ("RECORD_INDEX", "RECORD", "GLOBAL_RECORD_LEVEL_INDEX"):
        raise ValueError("RECORD_INDEX (other indexes are not written by this version)")
    return IndexKind.RECORD


def _millis(text: str) -> float:
    return _count(text) / 1000


def _timezone(text: str) -> str:
    if text.upper() not in ("UTC", "LOCAL"):
        raise ValueError("UTC or LOCAL")
    return text.upper()


def _text(text: str) -> str:
    return text


def _only(*allowed: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text.strip().lower() not in allowed:
            raise ValueError("only " + " or ".join(allowed))
        return text

    return parse


@dataclass(frozen=True, slots=True)
class _Row:
    """One `hoodie.*` name: where its value goes (dotted path in Options; None: only checked)."""

    parse: Callable[[str], Any]
    to: str | None


HONOURED: Final[Mapping[str, _Row]] = {
    "hoodie.parquet.max.file.size": _Row(_bytes, "write.sizing.file_bytes_max"),
    "hoodie.parquet.small.file.limit": _Row(_bytes, "write.sizing.small_file_bytes"),
    "hoodie.copyonwrite.record.size.estimate": _Row(_bytes, "write.sizing.record_bytes"),
    "hoodie.parquet.compression.codec": _Row(_codec, "write.base_file.codec"),
    "hoodie.parquet.page.size": _Row(_bytes, "write.base_file.page_bytes"),
    "hoodie.bloom.index.filter.type": _Row(_text, "write.base_file.bloom_kind"),
    "hoodie.index.bloom.num_entries": _Row(_count, "write.base_file.bloom_entries"),
    "hoodie.index.bloom.fpp": _Row(_ratio, "write.base_file.bloom_fpp"),
    "hoodie.bloom.index.filter.dynamic.max.entries": _Row(
        _count, "write.base_file.bloom_entries_max"
    ),
    "hoodie.logfile.data.block.format": _Row(_log_format, "write.log_format"),
    "hoodie.combine.before.upsert": _Row(_flag, "write.combine_before_upsert"),
    "hoodie.combine.before.insert": _Row(_flag, "write.combine_before_insert"),
    "hoodie.combine.before.delete": _Row(_flag, "write.combine_before_delete"),
    "hoodie.record.index.update.partition.path": _Row(_flag, "write.update_partition_path"),
    "hoodie.index.type": _Row(_index, "write.index"),
    "hoodie.metadata.record.index.min.filegroup.count": _Row(_count, "write.shard_count"),
    "hoodie.metadata.global.record.level.index.min.filegroup.count": _Row(
        _count, "write.shard_count"
    ),
    "hoodie.write.lock.wait_time_ms": _Row(_millis, "write.lock_seconds"),
    "hoodie.enable.data.skipping": _Row(_flag, "read.data_skipping"),
    "hoodie.read.timeline.holes.resolution.policy": _Row(_holes, "read.holes"),
    "hoodie.datasource.read.incr.path.glob": _Row(_text, "read.partition_glob"),
    "hoodie.metadata.enable": _Row(_flag, "read.metadata_enabled"),
    "hoodie.metadata.record.index.enable": _Row(_only("true"), None),
    "hoodie.metadata.global.record.level.index.enable": _Row(_only("true"), None),
    "hoodie.datasource.write.hive_style_partitioning": _Row(_flag, "table.hive_style"),
    "hoodie.datasource.write.partitionpath.urlencode": _Row(_flag, "table.url_encoded"),
    "hoodie.table.timeline.timezone": _Row(_timezone, "table.timezone"),
    "hoodie.datasource.write.payload.class": _Row(_text, "table.payload_class"),
    "hoodie.compaction.payload.class": _Row(_text, "table.payload_class"),
    "hoodie.write.table.version": _Row(_only("6"), None),
    "hoodie.write.auto.upgrade": _Row(_only("false"), None),
    "hoodie.write.concurrency.mode": _Row(_only("single_writer"), None),
}
"""Names with a meaning here, by the parser of their value and the field they set."""

WITHOUT_EFFECT: Final = (
    "hoodie.datasource.hive_sync.",
    "hoodie.datasource.meta.sync.",
    "hoodie.embed.timeline.server",
    "hoodie.filesystem.view.",
    "hoodie.memory.",
    "hoodie.metrics.",
    "hoodie.upsert.shuffle.parallelism",
    "hoodie.insert.shuffle.parallelism",
    "hoodie.bulkinsert.shuffle.parallelism",
    "hoodie.delete.shuffle.parallelism",
)
"""Prefixes of names that tune machinery this package does not have."""


def parse_options(given: Mapping[str, object] | None) -> Options:
    """Options from `hoodie.*` names.  Raises OptionError for a name or value not understood.

    A key that starts with `_` is copied into the commit's metadata, as Apache Hudi does.
    """
    options = Options()
    for name, value in (given or {}).items():
        text = str(value).lower() if isinstance(value, bool) else str(value)
        if name.startswith("_"):
            extra = {**options.write.commit_metadata, name: text}
            options = _set(options, "write.commit_metadata", extra)
        elif row := HONOURED.get(name):
            try:
                parsed = row.parse(text)
            except ValueError as error:
                raise OptionError(
                    "impossible value", option=name, value=text, hint=f"allowed: {error}"
                ) from None
            if row.to:
                options = _set(options, row.to, parsed)
        elif name.startswith(WITHOUT_EFFECT):
            options = replace(options, ignored=(*options.ignored, name))
        else:
            near = difflib.get_close_matches(name, HONOURED, n=2, cutoff=0.6)
            hint = f"did you mean {' or '.join(near)}?" if near else "it is not supported"
            raise OptionError("unknown option", option=name, hint=hint)
    return options


def _set(options: Any, path: str, value: Any) -> Any:
    """A copy of nested frozen dataclasses with one field set."""
    first, _, rest = path.partition(".")
    return replace(
        options, **{first: _set(getattr(options, first), rest, value) if rest else value}
    )
