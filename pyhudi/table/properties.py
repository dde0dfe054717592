"""The properties of a table (hoodie.properties).

```
#Properties saved on <when>
#<when>
key=value          one line a key, ASCII; \\ : = # ! leading blanks and non-ASCII are escaped
hoodie.table.checksum=<CRC-32 of "<database>.<table>">
```

An update retains a copy in `hoodie.properties.backup` while it replaces the file, so that a
reader always finds one of the two.  Source: table_format 1.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum
from typing import Final, TypeVar

from pyhudi.errors import (
    CorruptFileError,
    FileMissingError,
    TableNotFoundError,
    UnsupportedTableError,
)
from pyhudi.filenames import (
    PARTITION_METAFILE,
    PROPERTIES,
    PROPERTIES_BACKUP,
    PROPERTIES_COPY,
)
from pyhudi.layouts.known import layout_of
from pyhudi.layouts.table_layout import TableLayout
from pyhudi.storage.filesystem import FileSystem
from pyhudi.storage.locks.table_lock import check_lease, check_lock

READABLE_VERSIONS: Final = (0, 1, 2, 3, 4, 5, 6, 8, 9)
METADATA_TRUSTED_FROM: Final = 6
"""Metadata tables of older versions are not read: the upgrade to 6 deletes them."""
OLDEST_WRITABLE_VERSION: Final = 6
"""Tables of older versions can be written after an upgrade to this one."""

MERGE_MODE: Final = "hoodie.record.merge.mode"
PAYLOAD_CLASS: Final = "hoodie.compaction.payload.class"
LEGACY_PAYLOAD_CLASS: Final = "hoodie.table.legacy.payload.class"
EVENT_TIME_ID: Final = "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5"
"""The merge strategy of event time; releases before 1.0 store it for every payload class."""
SLASHES: Final = "hoodie.datasource.write.slash.separated.date.partitioning"
CUSTOM_ID: Final = "00000000-0000-0000-0000-000000000000"
"""The merge strategy of a payload class without one."""


E = TypeVar("E", bound=Enum)


class TableType(Enum):
    COPY_ON_WRITE = "COPY_ON_WRITE"
    MERGE_ON_READ = "MERGE_ON_READ"


class MergeMode(Enum):
    """Which of two records with the same key is retained."""

    COMMIT_TIME = "COMMIT_TIME_ORDERING"
    EVENT_TIME = "EVENT_TIME_ORDERING"
    CUSTOM = "CUSTOM"


class KeyGeneratorKind(Enum):
    SIMPLE = "SIMPLE"
    COMPLEX = "COMPLEX"
    NON_PARTITION = "NON_PARTITION"
    TIMESTAMP = "TIMESTAMP"
    CUSTOM = "CUSTOM"
    GLOBAL_DELETE = "GLOBAL_DELETE"
    USER_PROVIDED = "USER_PROVIDED"  # custom code, pyhudi's included


GENERATOR_CLASSES: Final = {
    KeyGeneratorKind.SIMPLE: "SimpleKeyGenerator",
    KeyGeneratorKind.COMPLEX: "ComplexKeyGenerator",
    KeyGeneratorKind.NON_PARTITION: "NonpartitionedKeyGenerator",
    KeyGeneratorKind.TIMESTAMP: "TimestampBasedKeyGenerator",
    KeyGeneratorKind.CUSTOM: "CustomKeyGenerator",
    KeyGeneratorKind.GLOBAL_DELETE: "GlobalDeleteKeyGenerator",
    KeyGeneratorKind.USER_PROVIDED: "PythonKeys",
}
"""Short class names of key generators."""


@dataclass(frozen=True)
class TableConfig:
    """A table's properties: the raw text map and its interpretation.  Immutable.

    stamp: the first line of the file, which each writer changes; not a property.
    """

    properties: Mapping[str, str] = field(default_factory=dict)
    stamp: bytes = field(default=b"", compare=False)

    def _text(self, key: str, default: str = "") -> str:
        return self.properties.get(key) or default

    def _flag(self, key: str, default: bool) -> bool:
        return self._text(key, str(default)).strip().lower() == "true"

    def _names(self, *keys: str) -> tuple[str, ...]:
        for key in keys:
            names = tuple(n.strip() for n in self._text(key).split(",") if n.strip())
            if names:
                return names
        return ()

    @property
    def name(self) -> str:
        return self._text("hoodie.table.name")

    @property
    def database(self) -> str:
        return self._text("hoodie.database.name")

    @property
    def version(self) -> int:
        """Of a table that does not state it: 8 if its timeline has layout 2, else 0."""
        layout = self._text("hoodie.timeline.layout.version")
        return _integer(self.properties, "hoodie.table.version", 8 if layout == "2" else 0)

    @property
    def layout(self) -> TableLayout:
        """The layout of the table's files; timeline version 0 has the file names of 1."""
        version = self.version
        stated = _integer(
            self.properties, "hoodie.timeline.layout.version", 2 if version >= 8 else 1
        )
        return layout_of(version, max(1, stated))

    @property
    def table_type(self) -> TableType:
        return _member(TableType, self._text("hoodie.table.type", "COPY_ON_WRITE"))

    @property
    def is_merge_on_read(self) -> bool:
        return self.table_type is TableType.MERGE_ON_READ

    @property
    def record_key_fields(self) -> tuple[str, ...]:
        return self._names("hoodie.table.recordkey.fields")

    @property
    def partition_fields(self) -> tuple[str, ...]:
        """Column names, without the types that custom key generators append (`city:SIMPLE`)."""
        return tuple(n.split(":")[0] for n in self._names("hoodie.table.partition.fields"))

    @property
    def ordering_fields(self) -> tuple[str, ...]:
        return self._names("hoodie.table.ordering.fields", "hoodie.table.precombine.field")

    @property
    def payload_class(self) -> str:
        """Short name of the payload class, empty if the table has none."""
        text = self._text(PAYLOAD_CLASS) or self._text(LEGACY_PAYLOAD_CLASS)
        return text.rsplit(".", 1)[-1]

    @property
    def merge_mode(self) -> MergeMode:
        """As Apache Hudi 1.2.0 maps version-6 tables; table_format 7.3."""
        stated = self._text(MERGE_MODE)
        if stated:
            return _member(MergeMode, stated)
        match self.payload_class:
            case "OverwriteWithLatestAvroPayload":
                return MergeMode.COMMIT_TIME
            case "DefaultHoodieRecordPayload" | "EventTimeAvroPayload":
                return MergeMode.EVENT_TIME
            case "":
                return MergeMode.EVENT_TIME if self.ordering_fields else MergeMode.COMMIT_TIME
            case _:
                return MergeMode.CUSTOM

    @property
    def partial_update_mode(self) -> str | None:
        """Which values of the winning record are filled (version 9); None: none."""
        stated = self._text("hoodie.table.partial.update.mode").strip().upper()
        return None if stated in ("", "NONE") else stated

    @property
    def key_generator(self) -> KeyGeneratorKind:
        """The key generator: stated by type (1.x), by class (0.x), or implied by the fields."""
        stated = self._text("hoodie.table.keygenerator.type").removesuffix("_AVRO")
        if stated:
            known = KeyGeneratorKind.__members__
            return known.get(stated, KeyGeneratorKind.USER_PROVIDED)
        name = self.key_generator_name
        if not name:
            return implied_key_generator(self.record_key_fields, self.partition_fields)
        name = name.replace("AvroKeyGenerator", "KeyGenerator")
        kinds = (kind for kind, known in GENERATOR_CLASSES.items() if name == known)
        return next(kinds, KeyGeneratorKind.USER_PROVIDED)

    @property
    def key_generator_name(self) -> str:
        """The type or short class name in the properties; empty if absent."""
        stated = self._text("hoodie.table.keygenerator.type")
        return stated or self._text("hoodie.table.keygenerator.class").rsplit(".", 1)[-1]

    @property
    def hive_style(self) -> bool:
        return self._flag("hoodie.datasource.write.hive_style_partitioning", False)

    @property
    def url_encoded(self) -> bool:
        return self._flag("hoodie.datasource.write.partitionpath.urlencode", False)

    @property
    def has_slashes(self) -> bool:
        """Whether partition paths have slashes for the dashes of a date: `2026/11/21`."""
        return self._flag(SLASHES, False)

    @property
    def has_meta_columns(self) -> bool:
        return self._flag("hoodie.populate.meta.fields", True)

    @property
    def drops_partition_columns(self) -> bool:
        return self._flag("hoodie.datasource.write.drop.partition.columns", False)

    @property
    def timezone(self) -> str:
        return self._text("hoodie.table.timeline.timezone", "LOCAL")

    @property
    def archive_folder(self) -> str:
        return f".hoodie/{self._text('hoodie.archivelog.folder', 'archived')}"

    @property
    def metadata_partitions(self) -> frozenset[str]:
        return frozenset(self._names("hoodie.table.metadata.partitions"))

    @property
    def create_schema(self) -> str | None:
        return self._text("hoodie.table.create.schema") or None

    @property
    def base_file_format(self) -> str:
        older = self._text("hoodie.table.ro.file.format", "PARQUET")
        return self._text("hoodie.table.base.file.format", older).upper()

    @property
    def partition_metafile_in_base_format(self) -> bool:
        return self._flag("hoodie.partition.metafile.use.base.format", False)

    @property
    def cdc_enabled(self) -> bool:
        return self._flag("hoodie.table.cdc.enabled", False)

    @property
    def bootstrap_base_path(self) -> str | None:
        return self._text("hoodie.bootstrap.base.path") or None

    def changed(self, **updates: str | None) -> TableConfig:
        """A copy with some keys set (or removed: None).  Dots in keys are written as `__`."""
        return self.with_properties({k.replace("__", "."): v for k, v in updates.items()})

    def with_properties(self, updates: Mapping[str, str | None]) -> TableConfig:
        merged = dict(self.properties)
        for key, value in updates.items():
            if value is None:
                merged.pop(key, None)
            else:
                merged[key] = value
        return TableConfig(merged)


def _member(kind: type[E], text: str) -> E:
    try:
        return kind(text.strip().upper())
    except ValueError:
        raise UnsupportedTableError(
            f"the table has an unknown {kind.__name__}", found=text
        ) from None


def _integer(properties: Mapping[str, str], key: str, default: int) -> int:
    text = (properties.get(key) or "").strip()
    if not text:
        return default
    if not re.fullmatch(r"\d{1,4}", text):
        raise CorruptFileError("a table property is not a number", path=PROPERTIES, key=key)
    return int(text)


def implied_key_generator(
    record_key: tuple[str, ...], partition_by: tuple[str, ...]
) -> KeyGeneratorKind:
    """The generator that Apache Hudi infers: simple for one key and one partition field."""
    if not partition_by:
        return KeyGeneratorKind.NON_PARTITION
    if len(record_key) == 1 and len(partition_by) == 1:
        return KeyGeneratorKind.SIMPLE
    return KeyGeneratorKind.COMPLEX


def checksum(database: str, table: str) -> int:
    """Unsigned CRC-32 of `<database>.<table>`; the dot is always included."""
    return zlib.crc32(f"{database}.{table}".encode())


_ESCAPED: Final = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_CONTROL: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_CONTROL_CODES: Final = {char: code for code, char in _CONTROL.items()}
_SPECIAL: Final = re.compile(r"[\\:=#!]|\A |[^ -~]")
_SPECIAL_OF_KEY: Final = re.compile(r"[\\:=#! ]|[^ -~]")
_PROPERTY: Final = re.compile(r"((?:[^\\:= \t\f]+|\\.)*)[ \t\f]*[:=]?[ \t\f]*(.*)$", re.DOTALL)
_SURROGATE: Final = re.compile("[\ud800-\udfff]")


def _unescape(text: str) -> str:
    """Of text in Latin-1."""
    if "\\" not in text:
        return text

    def plain(match: re.Match[str]) -> str:
        code = match[1]
        if len(code) == 5:
            return chr(int(code[1:], 16))
        return _CONTROL.get(code, code)

    joined = _ESCAPED.sub(plain, text)
    if _SURROGATE.search(joined):  # pairs escaped as UTF-16 surrogates
        joined = joined.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return joined


def _escape(text: str, *, is_key: bool) -> str:
    return (_SPECIAL_OF_KEY if is_key else _SPECIAL).sub(_escaped, text)


def _escaped(match: re.Match[str]) -> str:
    char = match[0]
    if char in "\\:=#! ":
        return "\\" + char
    if char in _CONTROL_CODES:
        return "\\" + _CONTROL_CODES[char]
    units = char.encode("utf-16-be")
    return "".join(f"\\u{units[i]:02X}{units[i + 1]:02X}" for i in range(0, len(units), 2))


def parse_properties(data: bytes) -> dict[str, str]:
    """Java properties text: comments, `=` or `:` or blank separators, continuations, escapes."""
    properties: dict[str, str] = {}
    logical = ""
    for line in re.split(r"\r\n|\n|\r", data.decode("latin-1") + "\n"):
        line = line.lstrip(" \t\f") if not logical else logical + line.lstrip(" \t\f")
        logical = ""
        if not line or line[0] in "#!":
            continue
        if (len(line) - len(line.rstrip("\\"))) % 2:
            logical = line[:-1]
            continue
        match = _PROPERTY.match(line)
        if match:
            properties[_unescape(match[1])] = _unescape(match[2])
    return properties


def format_properties(properties: Mapping[str, str], *, now: datetime | None = None) -> bytes:
    """Properties text with sorted keys and Java's two comment lines."""
    at = now or datetime.now(UTC)
    lines = [
        f"#Updated at {at.isoformat()}",
        f"#{at.strftime('%a %b %d %H:%M:%S UTC %Y')}",
        *(
            f"{_escape(k, is_key=True)}={_escape(v, is_key=False)}"
            for k, v in sorted(properties.items())
        ),
    ]
    return ("\n".join(lines) + "\n").encode("ascii")


def is_valid(properties: Mapping[str, str]) -> bool:
    """Whether the checksum is correct (or missing) and the table has a name."""
    name = properties.get("hoodie.table.name")
    stated = properties.get("hoodie.table.checksum")
    if not name:
        return False
    return stated is None or stated == str(
        checksum(properties.get("hoodie.database.name", ""), name)
    )


def load_config(fs: FileSystem) -> TableConfig:
    """Read the properties, or their backup if an update was interrupted.

    Raises TableNotFoundError if neither exists, CorruptFileError if neither is valid.
    """
    found = False
    for path in (PROPERTIES, PROPERTIES_BACKUP):
        try:
            content = fs.read(path)
        except FileMissingError:
            continue
        found = True
        properties = parse_properties(content)
        if is_valid(properties):
            return TableConfig(properties, content.partition(b"\n")[0])
    if found:
        raise CorruptFileError(
            "hoodie.properties has no name or a wrong checksum", path=f"{fs.url}/{PROPERTIES}"
        )
    raise TableNotFoundError("no Hudi table at this path", path=fs.url, hint=_where_to_look(fs))


_DATA_FILES: Final = (".parquet", ".csv", ".json", ".avro", ".orc", ".arrow", ".feather")


def _where_to_look(fs: FileSystem) -> str:
    if fs.exists(PARTITION_METAFILE):
        return "this is a partition of a table: open the folder that contains .hoodie"
    if fs.url.endswith(_DATA_FILES):
        return "this is a file: open the folder of a table, or create one with pyhudi.create_table"
    return "create one with pyhudi.create_table"


def store_config(fs: FileSystem, config: TableConfig) -> TableConfig:
    """Replace hoodie.properties; the caller holds the table's lock.

    backup of the old content -> atomic replace -> read back -> copy for repairs -> backup
    removed, so that a Java writer can recover from an interruption at any point.  Raises LockError
    before the replacement if the lock was lost: the content is that of a former state.
    """
    check_lock(fs)
    properties = dict(config.properties)
    properties["hoodie.table.checksum"] = str(
        checksum(properties.get("hoodie.database.name", ""), properties["hoodie.table.name"])
    )
    updated = TableConfig(properties)
    content = format_properties(properties)
    old = fs.read(PROPERTIES) if fs.exists(PROPERTIES) else None
    if old is not None and is_valid(parse_properties(old)):
        fs.replace(PROPERTIES_BACKUP, old)
    check_lease(fs)
    fs.replace(PROPERTIES, content)
    if not is_valid(parse_properties(fs.read(PROPERTIES))):
        raise CorruptFileError("hoodie.properties has another content after its write", path=fs.url)
    fs.replace(PROPERTIES_COPY, content)
    fs.delete([PROPERTIES_BACKUP])
    return updated
