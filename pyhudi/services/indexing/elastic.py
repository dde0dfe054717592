"""Creation, maintenance and build of a table's elastic index.

```
keys, buckets, check    as for any index (`index.maintenance.rebuild`), next to the old files
swap                    files copied to their paths -> first state published -> properties updated
```

The caller holds the table's lock.  An interrupted build leaves the index unchanged.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyhudi.engine import Engine
from pyhudi.filenames import BaseFileName, join, new_write_token
from pyhudi.index.maintenance.rebuild import (
    BucketFile,
    Built,
    ReportProgress,
    build_files,
    copy_built,
    in_waves,
    silent,
)
from pyhudi.index.selection import BUILD_PROPERTY
from pyhudi.metadata.bootstrap import create_metadata, unlist
from pyhudi.metadata.elastic.compaction import tend
from pyhudi.metadata.elastic.create import (
    check_alone,
    check_rule,
    create_elastic,
    first_state,
    new_rule,
)
from pyhudi.metadata.elastic.state import ElasticFile, IndexRule, Segment, segment_name
from pyhudi.metadata.elastic.store import (
    ELASTIC_PROPERTIES,
    ROOT,
    check_one,
    is_elastic,
    newest_state,
    remove_outdated_states,
    state_names,
)
from pyhudi.metadata.file_writers import HFILE
from pyhudi.metadata.payloads import RECORD_INDEX
from pyhudi.metadata.record_index.hash_functions import KeyHash
from pyhudi.options import Options
from pyhudi.read.table_snapshot import TableState, load_state
from pyhudi.records import InstantTime
from pyhudi.storage.filesystem import FileSystem
from pyhudi.table.properties import TableConfig, load_config, store_config


def ready_elastic(fs: FileSystem, options: Options, engine: Engine) -> TableConfig:
    """Create or build a missing index, or compact and extend it; the updated properties.

    Raises IndexNotReadyError if it lacks commits of the table, OptionError if the options request
    another index.
    """
    state = load_state(fs, options.read)
    config, write_options = state.config, options.write
    check_one(config)
    check_alone(write_options)
    commits = state.timeline.commits
    fresh = not len(commits) and not state_names(fs.sub(ROOT))
    if fresh or (not is_elastic(config) and not len(commits)):
        return create_elastic(fs, config, state.timeline, write_options)
    if not is_elastic(config):
        build_elastic(
            state, new_rule(write_options.index_rules), write_options.bucket_count, engine, silent
        )
        return load_config(fs)
    newest = newest_state(fs, state.log, state.timeline)
    check_rule(newest.rule, write_options.index_rules)
    after = write_options.metadata_compact_after
    tend(fs, newest, state.timeline, compact_after=after, engine=engine)
    return config


def build_elastic(
    state: TableState, rule: IndexRule, bucket_count: int, engine: Engine, progress: ReportProgress
) -> Built:
    """Build, verify and publish the index of an existing table: one group of buckets.

    Raises IndexNotReadyError while a write is pending.
    """
    fs = state.fs
    config = create_metadata(fs, state.config, state.log, records=None)
    made = build_files(state, KeyHash.named(rule.hash, bucket_count), ROOT, engine, progress)
    last = state.timeline.commits.last
    time = InstantTime(last.time if last else "0")
    places = [_Place(fs.sub(ROOT), file, time) for file in made.files]
    segments = in_waves(engine, _placed, places, "swap", progress)
    first_state(fs, state.timeline, rule, segments)
    # open readers detect by these properties that they have to reload the index
    build = {BUILD_PROPERTY: new_write_token(bucket_count)}
    config = store_config(fs, config.with_properties({**build, **ELASTIC_PROPERTIES}))
    unlist(fs, config, RECORD_INDEX)
    made.forget(fs)
    remove_outdated_states(fs.sub(ROOT), state.log.load())
    return made.built


@dataclass(frozen=True, slots=True)
class _Place:
    fs: FileSystem
    file: BucketFile
    time: InstantTime


def _placed(task: _Place) -> Segment:
    """Copy a bucket's file to its path.  May run twice."""
    number, file = task.file.number, task.file.file
    if not task.file.entries:
        return Segment()
    file_id = segment_name(0, 0).file_id(number)
    name = BaseFileName(file_id, new_write_token(number), task.time, HFILE)
    copy_built(task.fs, file, join(RECORD_INDEX.path, str(name)))
    return Segment(ElasticFile(str(name), file.size_bytes, task.file.entries, 0))
