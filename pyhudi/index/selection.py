"""Selection of the index of a write.

In order of precedence: the option `hoodie.index.type`; the table's properties; the record index,
if the metadata table has one, or had one until a rebuild was interrupted.  There is no other
default.

Version 6 has no property for the index: it is an option of each writer.  Tables created by pyhudi
with an index other than the record index store it in their properties under the name of the option,
which Apache Hudi's Spark writer also reads.
Source: table_format 8.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Final

from pyhudi.errors import IndexNotReadyError, OptionError
from pyhudi.index.bucket import BucketRule, bucket_of_group
from pyhudi.metadata.elastic.store import PYHUDI_INDEX_TYPE
from pyhudi.metadata.payloads import RECORD_INDEX
from pyhudi.metadata.record_index.by_partition import (
    defined_by_partition,
    is_partitioned_record_index,
)
from pyhudi.options import BucketEngine, IndexKind, IndexRules, WriteOptions
from pyhudi.records import FileGroupId
from pyhudi.storage.filesystem import FileSystem
from pyhudi.table.properties import TableConfig
from pyhudi.table.version_record import index_not_ready

INDEX_TYPE: Final = "hoodie.index.type"
PARTITIONED_INDEX: Final = "hoodie.metadata.record.level.index.enable"
PARTITIONED_INDEX_VERSION: Final = 9
"""The oldest table version that a record index by partition can be created in."""
INDEX_SHADOW: Final = "pyhudi.index.shadow"
BUCKET_COUNT: Final = "hoodie.bucket.index.num.buckets"
BUCKET_FIELDS: Final = "hoodie.bucket.index.hash.field"
BUCKET_ENGINE: Final = "hoodie.index.bucket.engine"
BUILD_PROPERTY: Final = "pyhudi.index.build"
"""A property that changes with every build of a record index; other engines ignore it."""
BUILDING: Final = "unfinished"
"""Its value while a new index replaces the former one."""
_BUCKETS: Final = 256
"""Default number of buckets of a new table, as in Apache Hudi."""

_BY_OPTION: Final = {kind.option: kind for kind in IndexKind}


@dataclass(frozen=True, slots=True)
class IndexChoice:
    """kind: the index of a write; why: one clause for its report; bucket: for a bucket index."""

    kind: IndexKind
    why: str
    moves: bool
    bucket: BucketRule | None = None

    @property
    def is_global(self) -> bool:
        return self.kind.is_global

    @property
    def alike(self) -> Callable[[FileGroupId], Hashable] | None:
        """A function with equal values for file groups that exclude each other, those of one
        bucket; None where none do."""
        by_number = self.bucket is not None and not self.bucket.is_consistent
        return bucket_of_group if by_number else None


def choose_index(fs: FileSystem, config: TableConfig, options: WriteOptions) -> IndexChoice | None:
    """The index for a write, None where neither options nor the table state one.

    Raises OptionError for an index that conflicts with the table's buckets or its record index.
    """
    stored, listed = stored_index(config), listed_record_index(fs, config)
    if stored is not None and stored.is_record_index and not stored.traits.grows:
        stored = listed or stored
    if options.index is not None:
        kind, why = options.index, f"set by {INDEX_TYPE}"
        _check_places(config, kind, stored)
        if stored is not None and stored is not kind and _makes_groups(stored, kind):
            raise OptionError(
                "option conflicts with the index that assigns the table's file groups",
                option=INDEX_TYPE,
                value=kind.option,
                table=stored.option,
                hint=f"leave {INDEX_TYPE} out",
            )
    elif stored is not None:
        kind, why = stored, "stored in the table's properties"
    elif listed is not None:
        kind, why = listed, "the table has one"
    elif config.properties.get(BUILD_PROPERTY) == BUILDING:
        by_partition = defined_by_partition(fs, config)
        kind = IndexKind.PARTITIONED_RECORD if by_partition else IndexKind.RECORD
        why = "a rebuild of the record index was interrupted"
    elif options.keep_partitioned_index:
        kind, why = IndexKind.PARTITIONED_RECORD, f"set by {PARTITIONED_INDEX}"
    else:
        return None
    _check_record_index(kind, listed)
    traits, rules = kind.traits, options.index_rules
    bucket = bucket_rule(config, rules) if traits.names_places else None
    return IndexChoice(kind, why, traits.moves(rules, options.update_partition_path), bucket)


def listed_record_index(fs: FileSystem, config: TableConfig) -> IndexKind | None:
    """The kind of the record index that the metadata table has; None if it has none."""
    if RECORD_INDEX.path not in config.metadata_partitions:
        return None
    partitioned = is_partitioned_record_index(fs, config)
    return IndexKind.PARTITIONED_RECORD if partitioned else IndexKind.RECORD


def _check_record_index(kind: IndexKind, listed: IndexKind | None) -> None:
    """Raise OptionError for an index that cannot be used together with the table's record index:
    a record index of the other kind, or one that moves records out of an index by partition."""
    other = kind.is_record_index and listed not in (None, kind) and not kind.traits.grows
    moves = kind.is_global and listed is not None and listed.traits.by_partition
    if listed is not None and (other or moves):
        raise OptionError(
            "option conflicts with the kind of the table's record index",
            option=INDEX_TYPE,
            value=kind.option,
            table=listed.option,
            hint="leave it out, or convert the index with table.index.rebuild() and the option",
        )


def _makes_groups(*kinds: IndexKind) -> bool:
    """Whether one of the kinds assigns the file groups of a table."""
    return any(kind.traits.names_places for kind in kinds)


def store_kinds(choice: IndexChoice, options: WriteOptions) -> tuple[IndexKind, ...]:
    """The external indexes that a write updates: its own, and the shadow index.

    Raises OptionError for a shadow index that is the write's own index, that computes locations, or
    that is elastic: an elastic index is updated and compared wherever the table has it.
    """
    shadow = options.shadow
    if shadow is not None and (shadow is choice.kind or not _compares(shadow, choice.kind)):
        raise OptionError(
            "the shadow index must be a different index that looks up keys",
            option=INDEX_SHADOW,
            value=shadow.option,
            index=choice.kind.option,
        )
    return tuple(kind for kind in (choice.kind, shadow) if kind is not None and kind.is_store)


def _compares(shadow: IndexKind, kind: IndexKind) -> bool:
    """Whether a shadow index can be compared with the write's own index."""
    if shadow.traits.names_places or shadow.traits.grows:
        return False
    if shadow.traits.by_partition or kind.traits.by_partition:
        return False
    return not (shadow.is_record_index and kind.traits.grows)


def shadow_kinds(
    fs: FileSystem, config: TableConfig, options: WriteOptions
) -> tuple[IndexKind, ...]:
    """`store_kinds` of the index that `choose_index` selects; none where it selects none."""
    choice = choose_index(fs, config, options)
    return () if choice is None else store_kinds(choice, options)


def _check_places(config: TableConfig, kind: IndexKind, stored: IndexKind | None) -> None:
    """Raise OptionError for a record index of a table with an elastic one, or the reverse."""
    lists = RECORD_INDEX.path in config.metadata_partitions
    grows = stored is not None and stored.traits.grows
    other = grows or (lists and stored is None)
    if kind.is_record_index and other and kind.traits.grows != grows:
        raise OptionError(
            "option conflicts with the kind of the table's record index",
            option=INDEX_TYPE,
            value=kind.option,
            hint="leave it out, or convert the index with table.index.rebuild() and the option",
        )


def no_index(fs: FileSystem) -> IndexNotReadyError:
    """The error for a table whose index is unknown."""
    kinds = ", ".join(kind.option for kind in IndexKind)
    return index_not_ready(
        fs,
        "the table has no record index, and its properties state no other index",
        f"open it with options={{'{INDEX_TYPE}': ...}}: one of {kinds}; RECORD_INDEX is built "
        "by the first write",
    )


def stored_index(config: TableConfig) -> IndexKind | None:
    """The index stated in the table's properties."""
    own_type = config.properties.get(PYHUDI_INDEX_TYPE, "").strip().upper()
    text = config.properties.get(INDEX_TYPE, "").strip().upper()
    return _BY_OPTION.get(own_type) or _BY_OPTION.get(text)


def bucket_rule(config: TableConfig, rules: IndexRules) -> BucketRule:
    """How the table's keys are assigned to buckets.

    Raises OptionError where options and properties differ, where neither states the number of
    buckets, and for fields that are not in the record key.
    """
    engine = _engine(config, rules)
    stored = config.properties.get(BUCKET_COUNT)
    count = rules.bucket_count or (int(stored) if stored else None)
    if count is None:
        raise OptionError(
            "the table's properties do not state its number of buckets",
            option=BUCKET_COUNT,
            hint="pass the number that its other writers use",
        )
    stated = tuple(filter(None, config.properties.get(BUCKET_FIELDS, "").split(",")))
    fields = rules.bucket_fields or stated or config.record_key_fields
    if stored and (count, fields) != (int(stored), stated or config.record_key_fields):
        raise OptionError(
            "the table's buckets cannot be changed",
            option=BUCKET_COUNT,
            value=count,
            table=stored,
            fields=",".join(fields),
        )
    strange = [name for name in fields if name not in config.record_key_fields]
    if strange:
        raise OptionError(
            "hash fields must be record key fields",
            option=BUCKET_FIELDS,
            value=",".join(strange),
            record_key=",".join(config.record_key_fields),
        )
    return BucketRule(count, fields, engine is BucketEngine.CONSISTENT_HASHING)


def _engine(config: TableConfig, rules: IndexRules) -> BucketEngine:
    stored = config.properties.get(BUCKET_ENGINE, "").strip().upper()
    engine = rules.bucket_engine or BucketEngine(stored or "SIMPLE")
    if stored and engine.value != stored:
        raise OptionError(
            "option conflicts with the table's bucket engine",
            option=BUCKET_ENGINE,
            value=engine.value,
            table=stored,
            hint=f"leave {BUCKET_ENGINE} out",
        )
    if engine is BucketEngine.CONSISTENT_HASHING and not config.is_merge_on_read:
        raise OptionError(
            "consistent hashing requires a merge-on-read table, as in Apache Hudi",
            option=BUCKET_ENGINE,
            value=engine.value,
            hint="use SIMPLE, or a merge-on-read table",
        )
    return engine


def index_properties(kind: IndexKind, rules: IndexRules) -> dict[str, str | None]:
    """The properties of a new table that state its index; empty for the record index."""
    if kind.traits.is_default:
        return {}
    if kind.traits.is_extension:
        return {PYHUDI_INDEX_TYPE: kind.option}
    properties: dict[str, str | None] = {INDEX_TYPE: kind.option}
    if kind.traits.names_places:
        properties[BUCKET_ENGINE] = (rules.bucket_engine or BucketEngine.SIMPLE).value
        properties[BUCKET_COUNT] = str(rules.bucket_count or _BUCKETS)
        if rules.bucket_fields:
            properties[BUCKET_FIELDS] = ",".join(rules.bucket_fields)
    return properties
