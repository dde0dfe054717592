"""Which index a write uses, and why.

asked for by `hoodie.index.type`  >  kept in the table's properties  >  the record index, if the
metadata table has one.  Nothing else is guessed.

Version 6 has no property for the index: it is an option of each writer.  Tables made here with
another index than the record index keep it in their properties under the option's own name,
where Apache Hudi's Spark writer finds it too.
Source: table_format 8.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Final

from pyhudi.errors import IndexNotReadyError, OptionError
from pyhudi.index.bucket import BucketRule, bucket_of_group
from pyhudi.metadata.elastic.store import OWN_INDEX_TYPE
from pyhudi.metadata.payloads import RECORD_INDEX
from pyhudi.options import BucketEngine, IndexKind, IndexRules, WriteOptions
from pyhudi.records import FileGroupId
from pyhudi.table.properties import TableConfig

INDEX_TYPE: Final = "hoodie.index.type"
INDEX_TEE: Final = "pyhudi.index.tee"
BUCKET_COUNT: Final = "hoodie.bucket.index.num.buckets"
BUCKET_FIELDS: Final = "hoodie.bucket.index.hash.field"
BUCKET_ENGINE: Final = "hoodie.index.bucket.engine"
_BUCKETS: Final = 256
"""Of a new table, as Apache Hudi's default."""

_BY_OPTION: Final = {kind.option: kind for kind in IndexKind}


@dataclass(frozen=True, slots=True)
class IndexChoice:
    """kind: the index of a write; why: one clause for its report; bucket: for that kind."""

    kind: IndexKind
    why: str
    moves: bool
    bucket: BucketRule | None = None

    @property
    def is_global(self) -> bool:
        return self.kind.is_global

    @property
    def alike(self) -> Callable[[FileGroupId], Hashable] | None:
        """Equal for file groups that a table must not have both of; None: each is its own."""
        by_number = self.bucket is not None and not self.bucket.is_consistent
        return bucket_of_group if by_number else None


def choose_index(config: TableConfig, options: WriteOptions) -> IndexChoice | None:
    """The index for a write, None where none is asked for and none known.

    Raises OptionError for an index that does not go with the table's buckets.
    """
    kept = kept_index(config)
    if options.index is not None:
        kind, why = options.index, f"asked for by {INDEX_TYPE}"
        _check_places(config, kind, kept)
        if kept is not None and kept is not kind and _makes_groups(kept, kind):
            raise OptionError(
                "the table's file groups are made by another index", option=INDEX_TYPE,
                value=kind.option, table=kept.option, hint=f"leave {INDEX_TYPE} out",
            )  # fmt: skip
    elif kept is not None:
        kind, why = kept, "kept in the table's properties"
    elif RECORD_INDEX.path in config.metadata_partitions:
        kind, why = IndexKind.RECORD, "the table has one"
    else:
        return None
    traits, rules = kind.traits, options.index_rules
    bucket = bucket_rule(config, rules) if traits.names_places else None
    return IndexChoice(kind, why, traits.moves(rules, options.update_partition_path), bucket)


def _makes_groups(*kinds: IndexKind) -> bool:
    """Whether one of the kinds decides which file groups a table has."""
    return any(kind.traits.names_places for kind in kinds)


def store_kinds(choice: IndexChoice, options: WriteOptions) -> tuple[IndexKind, ...]:
    """The indexes outside the table that a write keeps in step: its own, and the one beside it.

    Raises OptionError for a tee of an index with itself, of one that names a key's place, and of
    an elastic one, which is kept in step and compared wherever the table has it.
    """
    tee = options.tee
    if tee is not None and (tee is choice.kind or not _compares(tee, choice.kind)):
        raise OptionError(
            "the index beside has to be another one, that looks keys up", option=INDEX_TEE,
            value=tee.option, index=choice.kind.option,
        )  # fmt: skip
    return tuple(kind for kind in (choice.kind, tee) if kind is not None and kind.is_store)


def _compares(tee: IndexKind, kind: IndexKind) -> bool:
    """Whether an index can be compared with the one that answers."""
    if tee.traits.names_places or tee.traits.grows:
        return False
    return not (tee.is_record_index and kind.traits.grows)


def kinds_beside(config: TableConfig, options: WriteOptions) -> tuple[IndexKind, ...]:
    """`store_kinds` of what the table is written by; none where nobody says."""
    choice = choose_index(config, options)
    return () if choice is None else store_kinds(choice, options)


def _check_places(config: TableConfig, kind: IndexKind, kept: IndexKind | None) -> None:
    """A table has a record index or an elastic one, not both."""
    lists = RECORD_INDEX.path in config.metadata_partitions
    grows = kept is not None and kept.traits.grows
    other = grows or (lists and kept is None)
    if kind.is_record_index and other and kind.traits.grows != grows:
        raise OptionError(
            "the table keeps the places of its keys in another index", option=INDEX_TYPE,
            value=kind.option,
            hint="leave it out; or table.index.rebuild() makes the index anew, as the option says",
        )  # fmt: skip


def no_index(path: str) -> IndexNotReadyError:
    """The error for a table whose index nobody named."""
    kinds = ", ".join(kind.option for kind in IndexKind)
    return IndexNotReadyError(
        "the table has no record index, and it does not say which index its writers use",
        path=path,
        hint=f"open it with options={{'{INDEX_TYPE}': ...}}: one of {kinds}; RECORD_INDEX is built "
        "by the first write",
    )


def kept_index(config: TableConfig) -> IndexKind | None:
    """The index that the table's properties name."""
    own = config.properties.get(OWN_INDEX_TYPE, "").strip().upper()
    text = config.properties.get(INDEX_TYPE, "").strip().upper()
    return _BY_OPTION.get(own) or _BY_OPTION.get(text)


def bucket_rule(config: TableConfig, rules: IndexRules) -> BucketRule:
    """How the table's keys fall into buckets.

    Raises OptionError where options and properties differ, where the number of buckets of a
    table written by others is not given, and for fields that are not in the record key.
    """
    engine = _engine(config, rules)
    kept = config.properties.get(BUCKET_COUNT)
    count = rules.bucket_count or (int(kept) if kept else None)
    if count is None:
        raise OptionError(
            "the table does not say how many buckets it has", option=BUCKET_COUNT,
            hint="give the number its other writers use",
        )  # fmt: skip
    stated = tuple(filter(None, config.properties.get(BUCKET_FIELDS, "").split(",")))
    fields = rules.bucket_fields or stated or config.record_key_fields
    if kept and (count, fields) != (int(kept), stated or config.record_key_fields):
        raise OptionError(
            "the table's buckets cannot be changed", option=BUCKET_COUNT, value=count, table=kept,
            fields=",".join(fields),
        )  # fmt: skip
    strange = [name for name in fields if name not in config.record_key_fields]
    if strange:
        raise OptionError(
            "hash fields must be record key fields", option=BUCKET_FIELDS,
            value=",".join(strange), record_key=",".join(config.record_key_fields),
        )  # fmt: skip
    return BucketRule(count, fields, engine is BucketEngine.CONSISTENT_HASHING)


def _engine(config: TableConfig, rules: IndexRules) -> BucketEngine:
    kept = config.properties.get(BUCKET_ENGINE, "").strip().upper()
    engine = rules.bucket_engine or BucketEngine(kept or "SIMPLE")
    if kept and engine.value != kept:
        raise OptionError(
            "the table's buckets are of another engine", option=BUCKET_ENGINE, value=engine.value,
            table=kept, hint=f"leave {BUCKET_ENGINE} out",
        )  # fmt: skip
    if engine is BucketEngine.CONSISTENT_HASHING and not config.is_merge_on_read:
        raise OptionError(
            "consistent hashing is for merge-on-read tables, as with Apache Hudi",
            option=BUCKET_ENGINE, value=engine.value, hint="use SIMPLE, or a merge-on-read table",
        )  # fmt: skip
    return engine


def kept_properties(kind: IndexKind, rules: IndexRules) -> dict[str, str | None]:
    """What a new table's properties say of its index; nothing for the record index."""
    if kind.traits.is_default:
        return {}
    if kind.traits.is_extension:
        return {OWN_INDEX_TYPE: kind.option}
    kept: dict[str, str | None] = {INDEX_TYPE: kind.option}
    if kind.traits.names_places:
        kept[BUCKET_ENGINE] = (rules.bucket_engine or BucketEngine.SIMPLE).value
        kept[BUCKET_COUNT] = str(rules.bucket_count or _BUCKETS)
        if rules.bucket_fields:
            kept[BUCKET_FIELDS] = ",".join(rules.bucket_fields)
    return kept
