"""The beginning of an elastic index: what it is made with, its first state, its end."""

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
    """What a new index is made with.  Raises IndexNotReadyError for a hash nobody registered."""
    name = rules.hash or JAVA
    return IndexRule(
        rules.growth or Growth.SEAL,
        name,
        fingerprint(name),
        rules.bucket_entries or ENTRIES,
        rules.group_load or LOAD,
    )


def anew(before: IndexRule | None, rules: IndexRules) -> IndexRule:
    """What an index that is made again is made with: as before, where the options say nothing."""
    if before is None:
        return new_rule(rules)
    kept = IndexRules(
        growth=rules.growth or before.growth,
        hash=rules.hash or before.hash,
        bucket_entries=rules.bucket_entries or before.entries,
        group_load=rules.group_load or before.load,
    )
    return new_rule(kept)


def check_rule(rule: IndexRule, rules: IndexRules) -> None:
    """Raise OptionError where the options ask for what the index was not made with."""
    kept = {
        "growth": (rules.growth, rule.growth),
        "hash": (rules.hash, rule.hash),
        "bucket.entries": (rules.bucket_entries, rule.entries),
        "load": (rules.group_load, rule.load),
    }
    for name, (asked, made) in kept.items():
        if asked is not None and asked != made:
            raise OptionError(
                "an index keeps what it was made with", option=f"pyhudi.index.elastic.{name}",
                value=getattr(asked, "value", asked), index=getattr(made, "value", made),
                hint="leave it out; table.index.rebuild() makes the index anew, as the options say",
            )  # fmt: skip


def first_state(
    fs: FileSystem, data: Timeline, rule: IndexRule, buckets: Sequence[Segment]
) -> IndexState:
    """The state of an index made of all the commits there are, as published.

    fs: rooted at the data table.  buckets: the one file group of each.
    """
    own, last = fs.sub(ROOT), data.commits.last
    state = IndexState(
        next_sequence(own),
        last.time if last else "",
        first_write(data),
        frozenset(data.commits.times),
        rule,
        (BucketGroup(0, tuple((segment,) for segment in buckets)),),
    ).grown()
    publish_state(own, state)
    return state


def check_alone(options: WriteOptions) -> None:
    """Raise OptionError where a record index is asked for beside an elastic one."""
    if options.keep_record_index:
        raise OptionError(
            "a table has an elastic index or a record index", value=True,
            option="hoodie.metadata.record.index.enable", hint="leave it out",
        )  # fmt: skip


def create_elastic(
    fs: FileSystem, config: TableConfig, data: Timeline, options: WriteOptions
) -> TableConfig:
    """An empty index for a table without commits; its properties then.  May be repeated."""
    check_alone(options)
    first_state(fs, data, new_rule(options.index_rules), [Segment()] * options.shard_count)
    return store_config(fs, config.with_properties(ELASTIC_PROPERTIES))


def drop_elastic(fs: FileSystem, config: TableConfig) -> TableConfig:
    """Take the index away: first from the properties, then its files."""
    if is_elastic(config):
        config = store_config(fs, config.with_properties(dict.fromkeys(ELASTIC_PROPERTIES)))
    fs.delete_folder(ROOT)
    return config
