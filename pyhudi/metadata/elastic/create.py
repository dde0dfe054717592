"""Creation of an elastic index: its rule, its first state, its removal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyhudi.errors import OptionError
from pyhudi.metadata.elastic.state import BucketGroup, IndexRule, IndexState, Segment
from pyhudi.metadata.elastic.store import (
    ELASTIC_PROPERTIES,
    ROOT,
    first_write,
    is_elastic,
    next_sequence,
    publish_state,
)
from pyhudi.metadata.record_index.hash_functions import JAVA, fingerprint
from pyhudi.options import Growth, IndexRules, WriteOptions
from pyhudi.storage.filesystem import FileSystem
from pyhudi.table.properties import TableConfig, store_config
from pyhudi.timeline.timeline import Timeline

ENTRIES: Final = 1_000_000
LOAD: Final = 0.8


def new_rule(rules: IndexRules) -> IndexRule:
    """The rule of a new index.  Raises IndexNotReadyError for a hash that is not registered."""
    name = rules.hash or JAVA
    return IndexRule(
        rules.growth or Growth.SEAL,
        name,
        fingerprint(name),
        rules.bucket_entries or ENTRIES,
        rules.group_load or LOAD,
    )


def rebuilt_rule(before: IndexRule | None, rules: IndexRules) -> IndexRule:
    """The rule of a rebuilt index: as before, where the options do not set a value."""
    if before is None:
        return new_rule(rules)
    merged = IndexRules(
        growth=rules.growth or before.growth,
        hash=rules.hash or before.hash,
        bucket_entries=rules.bucket_entries or before.entries,
        group_load=rules.group_load or before.load,
    )
    return new_rule(merged)


def check_rule(rule: IndexRule, rules: IndexRules) -> None:
    """Raise OptionError where an option differs from the rule of the existing index."""
    values = {
        "growth": (rules.growth, rule.growth),
        "hash": (rules.hash, rule.hash),
        "bucket.entries": (rules.bucket_entries, rule.entries),
        "load": (rules.group_load, rule.load),
    }
    for name, (requested, stored) in values.items():
        if requested is not None and requested != stored:
            raise OptionError(
                "the option cannot be changed for an existing index",
                option=f"pyhudi.index.elastic.{name}",
                value=getattr(requested, "value", requested),
                index=getattr(stored, "value", stored),
                hint="omit the option; table.index.rebuild() rebuilds the index with new options",
            )


def first_state(
    fs: FileSystem, data: Timeline, rule: IndexRule, buckets: Sequence[Segment]
) -> IndexState:
    """Publish and return the state of an index that covers all existing commits.

    fs: rooted at the data table.  buckets: the single file group of each bucket.
    """
    index_fs, last = fs.sub(ROOT), data.commits.last
    state = IndexState(
        next_sequence(index_fs),
        last.time if last else "",
        first_write(data),
        frozenset(data.commits.times),
        rule,
        (BucketGroup(0, tuple((segment,) for segment in buckets)),),
    ).grown()
    publish_state(index_fs, state)
    return state


def check_alone(options: WriteOptions) -> None:
    """Raise OptionError where a record index is requested in addition to an elastic one."""
    if options.keep_record_index:
        raise OptionError(
            "a table cannot have both an elastic index and a record index",
            value=True,
            option="hoodie.metadata.record.index.enable",
            hint="omit the option",
        )


def create_elastic(
    fs: FileSystem, config: TableConfig, data: Timeline, options: WriteOptions
) -> TableConfig:
    """Create an empty index for a table without commits; returns the stored properties.  May be
    repeated."""
    check_alone(options)
    first_state(fs, data, new_rule(options.index_rules), [Segment()] * options.bucket_count)
    return store_config(fs, config.with_properties(ELASTIC_PROPERTIES))


def drop_elastic(fs: FileSystem, config: TableConfig) -> TableConfig:
    """Remove the index: first from the table's properties, then its files."""
    if is_elastic(config):
        config = store_config(fs, config.with_properties(dict.fromkeys(ELASTIC_PROPERTIES)))
    fs.delete_folder(ROOT)
    return config
