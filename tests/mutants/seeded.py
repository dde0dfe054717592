"""The seeded bugs: what a careless hand could have written, and the tests that must object."""

from __future__ import annotations

import re
from dataclasses import dataclass

CATCHERS = ("tests/mutants/test_catchers.py",)
DISK = ("tests/mutants/test_catchers.py", "-k", "synced")
STORE = ("tests/contracts/test_filesystem.py", "-k", "memory and (taken or root or create)")
VIEW = ("tests/table/test_view.py",)
BLOCKS = ("tests/formats/test_log_scan.py", "tests/read/test_scan.py")
ROLLBACK = ("tests/recovery/test_rollback.py",)
CLEAN = ("tests/services/test_cleaning.py",)
DOCTOR = ("tests/health/test_doctor.py",)
HOSTILE = ("tests/untrusted",)
LINKS = (*HOSTILE, "-k", "links")
PLANNED = (*HOSTILE, "-k", "plan or items")
LOGS = ("tests/formats/test_logfile.py", "tests/formats/test_logblock.py")
TIME = ("tests/timeline",)
PLANS = ("tests/metadata/test_slices.py", "tests/metadata/test_crash.py")
CONFIG = ("tests/table/test_config.py",)
CHANGES = ("tests/read/test_changes.py",)
MARKERS = ("tests/write/test_markers.py",)
MERGE = ("tests/read/test_merge.py", "tests/write/test_merging.py")
CRASH = ("tests/crash/test_every_stop.py", "-k", "old_rows and bulk_insert and cow")
HASHES = ("tests/native/test_hashing.py",)
KINDS = ("tests/index/test_kinds.py",)
BUCKETS = ("tests/index/test_kinds.py", "tests/index/test_bucket.py", "-k", "bucket")
LOCKS = ("tests/contracts/test_locks.py",)
TWICE = ("tests/timeline/test_timeline.py", "-k", "twice")
HISTORY = ("tests/timeline/test_history.py",)
CLEANED = ("tests/read/test_changes.py", "-k", "cleaned")
LATE = ("tests/concurrency/test_lost_lock.py", "-k", "published_after_its_rollback and cow")
ENDS = ("tests/timeline/test_completion_times.py",)
POSITIONS = ("tests/formats/test_record_positions.py",)
UNCOMMITTED = ("tests/metadata/test_uncommitted.py",)
SAVED = ("tests/concurrency/test_readers.py", "-k", "savepoint")
AGAIN = ("tests/concurrency/test_readers.py", "-k", "archival")
LISTED = ("tests/concurrency/test_readers.py", "-k", "9-store and many_writes")
INDEXED = ("tests/concurrency/test_readers.py", "-k", "9-metadata and many_writes")


@dataclass(frozen=True)
class Mutant:
    """One change of one file.  Its tokens contain those of `old` exactly once, however they are
    laid out."""

    name: str
    path: str
    old: str
    new: str
    tests: tuple[str, ...]


_TOKEN = re.compile(
    r'''\s+|\#[^\n]*|(?P<token>(?i:[rbf]{0,2})(?:"""(?:.|\n)*?"""|"(?:\\.|[^"\\\n])*"|'''
    r"""'(?:\\.|[^'\\\n])*')|\w+|[^\w\s])"""
)


def changed(source: str, old: str, new: str) -> str | None:
    """The source with `new` in place of `old`; None if the tokens of `old` are not there once."""
    tokens, sought = _tokens(source), [text for _, _, text in _tokens(old)]
    texts = [text for _, _, text in tokens]
    size = len(sought)
    places = [n for n in range(len(texts) - size + 1) if texts[n : n + size] == sought]
    if len(places) != 1:
        return None
    start, end = tokens[places[0]][0], tokens[places[0] + size - 1][1]
    return source[:start] + new.strip() + source[end:]


def _tokens(source: str) -> list[tuple[int, int, str]]:
    found = (m for m in _TOKEN.finditer(source) if m["token"])
    return [(m.start(), m.end(), m["token"]) for m in found]


def _in(path: str, name: str, old: str, new: str, tests: tuple[str, ...]) -> Mutant:
    return Mutant(name, f"pyhudi/{path}", old, new, tests)


MUTANTS = (
    _in("storage/local.py", "skip the fsync of a replaced file",
        "                    os.fsync(file.fileno())\n", "                    pass\n", DISK),
    _in("storage/local.py", "skip the fsync of a new file",
        "            os.fsync(self._file.fileno())\n", "            pass\n", DISK),
    _in("storage/operating_system.py", "skip the fsync of a folder",
        "        os.fsync(fd)\n", "        pass\n", DISK),
    _in("storage/local.py", "keep the checksum sidecar of a replaced file",
        "            remove(_sidecar(place))\n            sync_folder(",
        "            sync_folder(", CONFIG),
    _in("storage/local.py", "follow links out of the table",
        "if found != root and not found.startswith(root.rstrip(os.sep) + os.sep):", "if False:",
        LINKS),
    _in("storage/memory.py", "create over a taken name",
        "            if name in self.store.files:\n                return False\n", "", STORE),
    _in("storage/filesystem.py", "allow steps out of the root",
        'if ".." in parts or "." in parts:', "if False:", STORE),
    _in("storage/filesystem.py", "allow absolute paths",
        'if path.startswith("/"):', "if False:", STORE),
    _in("timeline/plans/checks.py", "take the table's own folder for a partition",
        'return HOODIE not in path.split("/")', "return True", (*MARKERS, *ROLLBACK)),
    _in("table/file_group_view.py", "believe what is not completed",
        "return self.start is not None and time < self.start and time not in self.unfinished",
        "return True", VIEW),
    _in("table/file_group_view.py", "see instants after the limit",
        "if self.limit is not None and time > self.limit:",
        "if self.limit is not None and time >= self.limit:", VIEW),
    _in("table/file_group_view.py", "count a pending write before the start as archived",
        "time < self.start and time not in self.unfinished", "time < self.start", VIEW),
    _in("table/file_group_view.py", "the oldest slice for the newest",
        "times = sorted(base_at.keys() | logs_at.keys(), reverse=True)\n    if unknown",
        "times = sorted(base_at.keys() | logs_at.keys())\n    if unknown",
        VIEW),
    _in("formats/log_scan.py", "ignore rollback blocks",
        'by_instant.pop(placed.block.target_instant or "", None)', "pass", BLOCKS),
    _in("formats/log_scan.py", "believe blocks of pending writes",
        "return placed.block.kind in _ROW_KINDS and is_committed(_instant_of(placed))",
        "return placed.block.kind in _ROW_KINDS", BLOCKS),
    _in("formats/log_scan.py", "take the attempt with fewest blocks",
        "return max(attempts.items(), key=lambda item: (len(item[1]), item[0]))[1]",
        "return min(attempts.items(), key=lambda item: (len(item[1]), item[0]))[1]", BLOCKS),
    _in("read/file_slice.py", "drop a delete block",
        "                yield _deletes(content, placed.path, needed, rules)\n",
        "                continue\n", ("tests/read/test_outcome.py",)),
    _in("read/file_slice.py", "read a log that was cut short",
        "    if size_bytes < log.size_bytes:\n", "    if False:\n", CATCHERS),
    _in("read/changes/incremental.py", "off by one at the begin of a range",
        "if i.position > since and seen.sees(i.time)]",
        "if i.position >= since and seen.sees(i.time)]", CHANGES),
    _in("timeline/instant_files.py", "complete over another writer's instant",
        "        if not self.fs.create(self.path(completed), content):\n",
        "        self.fs.create(self.path(completed), content)\n        if False:\n", TIME),
    _in("timeline/instant_files.py", "start an instant twice",
        "        if not self.fs.create(self.path(inflight), content):\n",
        "        self.fs.create(self.path(inflight), content)\n        if False:\n", TIME),
    _in("timeline/instant_files.py", "an empty commit file is an empty commit",
        "if instant.is_completed and not data.strip():", "if False:",
        CATCHERS),
    _in("timeline/clock.py", "time runs back with the clock",
        "return now if after is None or now > after else following(after)", "return now", TIME),
    _in("timeline/service_payloads.py", "read compressed plans",
        'if container.codec not in ("null", None):', "if False:", PLANNED),
    _in("timeline/service_payloads.py", "count items that take no bytes",
        'if _least_width(schema["items"], known) == 0:', "if False:", PLANNED),
    _in("timeline/plans/rollback.py", "a rollback deletes files of other instants",
        "if name is None or name.instant != time:", "if name is None:",
        (*ROLLBACK, "tests/mutants/test_catchers.py")),
    _in("timeline/plans/checks.py", "a plan leaves the partition unchecked",
        "    if not isinstance(text, str) or not is_partition(text):\n",
        "    if not isinstance(text, str):\n", PLANNED),
    _in("recovery/rollback_plan.py", "a failed compaction takes the logs of later writes",
        "if not (is_log and failed.action is Action.COMPACTION):", "if True:", ROLLBACK),
    _in("recovery/rollback.py", "a rollback forgets the metadata table",
        'if "files" in config.metadata_partitions:\n        rollback_metadata(',
        'if False:\n        rollback_metadata(', CRASH),
    _in("recovery/rollback.py", "roll back a commit that others build on",
        "        _check_not_built_on(log, timeline, failed)\n", "",
        CATCHERS),
    _in("operations/commit.py", "the index after the commit, where it may never come",
        "        metadata.finish(files.stats, index, secondary_stats=changed, computed="
        "files.computed)\n", "",
        CRASH),
    _in("transaction/markers.py", "markers of one attempt hide another's files",
        "if file.instant == instant and marker.path not in written:",
        "if file.instant == instant and marker.path in written:", MARKERS),
    _in("transaction/markers.py", "leftovers of other instants are deleted",
        "if file.instant == instant and marker.path not in written:",
        "if marker.path not in written:", MARKERS),
    _in("planning/cleaning.py", "clean the slice that readers of the earliest commit see",
        "return [s for s in older[1:] if s is not", "return [s for s in older[0:] if s is not",
        CLEAN),
    _in("planning/cleaning.py", "clean what a savepoint holds",
        "str(file.name) in saved for file in slice_.files", "False for file in slice_.files",
        CLEAN),
    _in("planning/cleaning.py", "keep one commit less",
        "chosen = done[len(done) - retained]", "chosen = done[len(done) - retained + 1 - 1 * "
        "(retained < 2)]", CLEAN),
    _in("formats/log_file.py", "believe one of a block's two lengths",
        "if _I64.unpack_from(tail)[0] != length + len(MAGIC):", "if False:", CATCHERS),
    _in("metadata/group_checks.py", "an index that lost a log is believed",
        "        if not is_whole:\n", "        if False:\n", DOCTOR),
    _in("metadata/reader.py", "archived entries of the index are not read as of an instant",
        "for each in self.valid | self.archived if", "for each in self.valid if",
        ("tests/properties/test_past.py::"
         "test_every_reader_of_the_past_agrees_with_what_was_written[8]",)),
    _in("formats/log_scan.py", "rolled back entries of the index are believed",
        'by_instant.pop(placed.block.target_instant or "", None)', "pass", PLANS),
    _in("formats/log_scan.py", "entries count before their commit does",
        "elif holds_committed_rows(placed, is_committed):",
        "elif placed.block.kind in _ROW_KINDS:", PLANS),
    _in("table/properties.py", "properties with a wrong checksum are believed",
        "    return stated is None or stated == str(", "    return True or stated == str(", CONFIG),
    _in("health/repair.py", "a repair gives rows up unasked",
        "and (allow_loss or not f.loses)", "and True", DOCTOR),
    _in("health/quarantine.py", "a repair deletes without a copy",
        "            copy_file(fs, path, target)\n", "            pass\n", DOCTOR),
    _in("_native/hashing.pyx", "characters above U+FFFF hash as one unit",
        "h = h * 31 + 0xD7C0 + (point >> 10)", "h = h * 31 + 0xD800 + (point >> 10)", HASHES),
    _in("_native/hashing.pyx", "a negative hash names a negative bucket",
        "return -hash if hash < 0 else hash", "return hash", HASHES),
    _in("_native/hashing.pyx", "Murmur3 forgets the length",
        "    h ^= <uint32_t>size\n    h = (h ^ (h >> 16))", "    h = (h ^ (h >> 16))", HASHES),
    _in("_native/bloom.pyx", "a bloom filter looks at one bit of eight",
        "return (row[bit >> 3] >> (bit & 7)) & 1", "return row[bit >> 3] & 1",
        ("tests/native/test_bloom.py",)),
    _in("_native/hfile/reader.pyx", "a truncated file is read on",
        "        if self._mapped is not None:\n            check_not_cut(",
        "        if False:\n            check_not_cut(", ("tests/native/test_hfile_truncated.py",)),
    _in("_native/keysort.pyx", "keys with nulls are sorted",
        "    if null_row >= 0:\n", "    if False:\n", ("tests/native/test_keys.py",)),
    _in("index/bucket.py", "the bucket of a key is not Java's",
        "np.uint32(31) + np.asarray(", "np.uint32(30) + np.asarray(", BUCKETS[1:2]),
    _in("index/bucket.py", "two file groups of one bucket are one",
        "        if (group.partition, number) in found:\n", "        if False:\n", BUCKETS),
    _in("index/bloom.py", "the greatest key of a range is outside it",
        "end = bisect_right(span, high.encode(), key=key_at)",
        "end = bisect_left(span, high.encode(), key=key_at)", KINDS),
    _in("index/bloom.py", "keys that Java orders otherwise are cut off by ranges",
        "    mask = probes.wide.copy()\n", "    mask = probes.wide & False\n",
        (*KINDS, "-k", "java_orders")),
    _in("storage/locks/lease.py", "a holder is robbed as soon as it is seen",
        "self.key, version) > self._lease_seconds", "self.key, version) >= 0.0",
        ("tests/storage/test_object_store.py", "-k", "holder")),
    _in("storage/locks/lease.py", "fencing tokens stand still",
        "token = 1 + (0 if found is None else _token(found[0]))",
        "token = 1 if found is None else _token(found[0])", LOCKS),
    _in("storage/locks/lease.py", "a lost lease is confirmed",
        "            if self.is_lost:\n                return False\n            before",
        "            if self.is_lost:\n                return True\n            before", LOCKS),
    _in("storage/locks/numbered_lease.py", "a late writer of a numbered lease wins",
        "        if numbers[-1] != mine:\n", "        if False:\n",
        (*LOCKS, "tests/storage/test_lock.py")),
    _in("storage/locks/table_lock.py", "a commit does not ask for its lock",
        "        if not gate.confirm():\n            raise lock_lost",
        "        if False:\n            raise lock_lost",
        ("tests/storage/test_object_store.py", "-k", "lost_the_lock")),
    _in("storage/object_store.py", "another's object counts as one's own",
        "                return found == token\n", "                return True\n",
        ("tests/storage/test_faulty_store.py", "-k", "win_over")),
    _in("storage/object_store.py", "a folder holds the folders below it as files",
        'if relative and relative not in folders and "/" not in relative:', "if own:",
        ("tests/contracts/test_filesystem.py", "-k", "object or s3")),
    _in("storage/listing_snapshot.py", "a folder of a walk is not there",
        "return place in self._walked or place in self._entries", "return place in self._walked",
        ("tests/storage/test_object_store.py", "-k", "walk")),
    _in("table/listing.py", "partitions inside others are passed over",
        "                found.append(folder)\n            todo",
        "                found.append(folder)\n                continue\n            todo",
        ("tests/table/test_listing.py",)),
    _in("write/files/cdc_logs.py", "an update is captured as a delete",
        'pc.if_else(partner.is_valid(), "u", "d")', 'pc.if_else(partner.is_valid(), "d", "d")',
        ("tests/write/test_cdc.py",)),
    _in("operations/commit.py", "a delete that misses a key does nothing",
        "            if planned.is_empty and not fitted.has_changed and request.advance is None:\n",
        "            if planned.is_empty or (planned.missing and planned.matched):\n",
        ("tests/history/test_check.py",)),
    _in("timeline/instant_files.py", "layout 2: the first of several completed files counts",
        "yield from ranked[:-1]", "yield from ranked[1:]", TWICE),
    _in("timeline/instant_files.py", "layout 2: a rollback leaves a second completed file",
        "self.fs.delete(map(self.path, self._completions(instant)))",
        "self.fs.delete(map(self.path, self._completions(instant)[:1]))", TWICE),
    _in("table/file_group_view.py", "layout 2: the instant of a log decides about its slice",
        "done = completions.get(time, time)", "done = time", VIEW),
    _in("table/file_group_view.py", "layout 2: logs belong to the oldest slice",
        "home = max((t for t in starts if t <= done), default=None)",
        "home = min((t for t in starts if t <= done), default=None)", VIEW),
    _in("timeline/history/rows.py", "layout 2: an archive file of another length is read",
        "if source.size() != file.size_bytes:", "if False:", HISTORY),
    _in("timeline/history/manifest.py", "layout 2: the oldest manifest replaces a lost version",
        "largest = max(manifest_numbers(fs, folder), default=0)",
        "largest = min(manifest_numbers(fs, folder), default=0)", HISTORY),
    _in("read/snapshot_availability.py", "layout 2: later cleans are not asked",
        "if until is None or instant.time > until:",
        "if until is None or instant.time <= until:", CLEANED),
    _in("timeline/late_commits.py", "layout 2: late commits are believed",
        "and len(states[instant.time, instant.action]) < _WHOLE", "and False", LATE),
    _in("timeline/late_commits.py", "layout 2: several completed files are not noticed",
        "for group in found.values() if len(group) > 1)",
        "for group in found.values() if len(group) > 3)", TWICE),
    _in("read/scan_plan.py", "layout 2: a cleaned range is read",
        "if limit is not None or moment.past is not None:", "if limit is not None:", CLEANED),
    _in("read/changes/snapshot_diff.py", "layout 2: a diff knows only the cleans of its past",
        "check_not_expired(state, moment, view, limit, groups=groups)",
        "check_not_expired(moment, moment, view, limit, groups=groups)", CLEANED),
    _in("timeline/timeline.py", "layout 2: new instants ignore completion times",
        "for i in self.instants for time in (i.time, i.completed_at) if time]",
        "for i in self.instants for time in (i.time,) if time]", ENDS),
    _in("timeline/instant_files.py", "layout 2: commits are written as JSON",
        "return to_avro(commit) if is_avro else commit.to_json()", "return commit.to_json()", ENDS),
    _in("formats/record_positions.py", "layout 2: a wrong number of positions is read",
        "    if len(rows) != count:\n", "    if False:\n", POSITIONS),
    _in("metadata/visible_instants.py", "layout 2: entries count before their commit completes",
        "completed - (data.pending.times -", "completed - (frozenset() -", UNCOMMITTED),
    _in("metadata/visible_instants.py", "layout 2: a pending savepoint hides its commit",
        "data.pending.times - data.where(None, State.COMPLETED).times", "data.pending.times",
        SAVED),
    _in("timeline/instant_files.py", "an archived plan that ran again is a late commit",
        "instant.time in gone and not self._is_leaving(instant, names)", "instant.time in gone",
        AGAIN),
    _in("table/listing.py", "files that were deleted during a listing are not missed",
        "if may_lack_files(self._timeline, self._log.load()):", "if False:", LISTED),
    _in("read/table_snapshot.py", "the metadata table may be newer than the timeline",
        "or not is_ahead(metadata, loaded):", "or True:", INDEXED),
)  # fmt: skip

MUTANTS += (
    _in(
        "transaction/finish.py",
        "finish: instant rolled back by another is not noticed",
        "    if undone or not any(i.time == mine.time for i in now):\n",
        "    if False:\n",
        ("tests/operations/test_lost_races.py", "-k", "rolled_back_before"),
    ),
    _in(
        "transaction/finish.py",
        "finish: metadata partitions changed during a write",
        "    if (config.version, config.metadata_partitions) != known:\n",
        "    if config.version != known[0]:\n",
        ("tests/operations/test_lost_races.py", "-k", "lost_and_leaves"),
    ),
    _in(
        "transaction/heartbeat.py",
        "heartbeat: pid reused counts as alive",
        "        return bool(self.started) and process_started(self.pid) == self.started\n",
        "        return bool(self.started) and bool(process_started(self.pid))\n",
        ("tests/concurrency/test_heartbeats.py", "-k", "crashed_one"),
    ),
    _in(
        "storage/locks/lease.py",
        "lease: confirm without a successful renewal",
        "            return self._write() and self._renewed > before\n",
        "            return self._write()\n",
        ("tests/storage/test_object_store.py", "-k", "confirmed_by"),
    ),
    _in(
        "recovery/rollback.py",
        "rollback: interrupted rollback of a commit others built on is continued",
        "        return newest is not None and newest.time == planned.time\n",
        "        return True\n",
        (*ROLLBACK, "-k", "others_built_on"),
    ),
    _in(
        "recovery/restore.py",
        "restore: archived later commits not checked",
        "    _check_none_archived(state, target)\n",
        "    pass\n",
        ("tests/recovery/test_restore.py", "-k", "later_commits"),
    ),
    _in(
        "recovery/restore.py",
        "restore v8/9: pending writes are not undone",
        "    return [*pending, *sorted(done",
        "    return [*sorted(done",
        ("tests/recovery/test_restore.py", "-k", "after_it_end"),
    ),
    _in(
        "planning/cleaning.py",
        "clean: replaced group of the earliest retained instant is deleted",
        "replaced_at >= retention.since:",
        "replaced_at > retention.since:",
        ("tests/services/test_cleaning.py", "-k", "earliest_retained"),
    ),
    _in(
        "services/cleaning.py",
        "clean: slice of a planned log compaction not held",
        "    actions = {Action.COMPACTION, Action.LOG_COMPACTION}\n    for pending in",
        "    actions = {Action.COMPACTION}\n    for pending in",
        ("tests/services/test_log_compaction.py", "-k", "another_machine"),
    ),
    _in(
        "services/archival.py",
        "archival v6: commit completed beside a pending write is archived",
        "        concurrent = _oldest_concurrent_commit(state.log, timeline)\n",
        "        concurrent = None\n",
        ("tests/concurrency/test_archival_with_writers.py",),
    ),
    _in(
        "services/archival.py",
        "archival v9: commit completed beside a pending write is archived",
        "    concurrent = completed_while_pending(timeline)\n",
        "    concurrent = None\n",
        ("tests/concurrency/test_archival_with_writers.py",),
    ),
    _in(
        "services/archival.py",
        "archival v9: instants not yet compacted in the metadata table are archived",
        "return completed_after(state.timeline, last.time) if has_history(state.log) "
        "else last.time\n",
        "    return None if has_history(state.log) else last.time\n",
        (
            "tests/services/test_history_archival.py",
            "tests/services/test_archival.py",
            "tests/read/test_archived_changes.py",
            "tests/read/test_archived_meanwhile.py",
        ),
    ),
    _in(
        "metadata/record_index/k_way_merge.py",
        "index tombstones dropped in a compaction of an elastic group",
        "    stays[at] = keeps_ended(keys.take(pa.array(at)))\n",
        "    stays[at] = False\n",
        ("tests/index/test_elastic.py", "tests/metadata/test_chunks.py"),
    ),
    _in(
        "metadata/writer.py",
        "record index: a key both put and ended gets a tombstone",
        "if len(new):\n            gone = gone.filter(pa.array(~KeyTable(new).contains(gone)))\n",
        "",
        ("tests/metadata", "tests/write/test_overwrite.py", "tests/index/test_contract.py"),
    ),
    _in(
        "formats/log_scan.py",
        "log scan: a damaged block of a committed write is skipped",
        "    return is_stated and is_committed(InstantTime(stated))\n",
        "    return False\n",
        (
            "tests/formats/test_log_scan.py",
            "tests/read/test_scan.py",
            "tests/read/test_damaged_files.py",
        ),
    ),
    _in(
        "formats/log_scan.py",
        "log scan: nested log compaction",
        "        final = replaced_by.get(time, time)\n",
        "        final = time\n",
        (
            "tests/formats/test_log_scan.py",
            "tests/services/test_log_compaction.py",
            "tests/read/test_scan.py",
        ),
    ),
    _in(
        "timeline/instant_files.py",
        "completion time: an old drawn time is used again",
        "        if drawn is None or (newest is not None and drawn <= newest):\n",
        "        if drawn is None:\n",
        ("tests/timeline/test_completion_times.py",),
    ),
    _in(
        "timeline/instant_files.py",
        "completion time: no wait for the clock",
        "            wait_until(at, self._clock, self.zone)\n",
        "            pass\n",
        ("tests/timeline/test_completion_times.py",),
    ),
    _in(
        "operations/versions/plan.py",
        "downgrade: savepoints with logs not checked",
        "    if to < 8 <= state.config.version:\n",
        "    if False:\n",
        ("tests/operations/test_version_change.py", "-k", "savepoints_on"),
    ),
    _in(
        "operations/versions/convert.py",
        "downgrade: logs of no commit stay",
        "    fs.delete(log.path for each in state.view().latest_slices() for log in each.logs)\n",
        "",
        ("tests/operations/test_version_change.py", "-k", "were_rolled"),
    ),
    _in(
        "ingest/stream.py",
        "ingest: source acknowledged before the commit",
        'with observed("ingest", operation=self.operation, table=self.table.path) as '
        "facts:\n"
        "            report = self._write(batch, before, start, schema)\n"
        "            facts.update(plain_facts(report))\n"
        "        if self.saves_checkpoint:",
        "batch.committed()\n"
        '        with observed("ingest", operation=self.operation, '
        "table=self.table.path) as facts:\n"
        "            report = self._write(batch, before, start, schema)\n"
        "            facts.update(plain_facts(report))\n"
        "        if False:",
        ("tests/ingest/test_running.py", "-k", "acknowledged_after"),
    ),
    _in(
        "services/duplicate_key_conflicts.py",
        "ingest: a concurrent advance of the checkpoint is not seen at commit",
        "    moved = None if context.advance is None else moved_by(state.log, since)\n",
        "    moved = None\n",
        ("tests/ingest/test_positions.py", "-k", "another_passes"),
    ),
    _in(
        "ingest/kafka/kafka_source.py",
        "kafka: expired messages are passed over silently",
        "            if p not in earliest or not earliest[p] <= offset <= ends[p]\n",
        "            if p not in earliest or not offset <= ends[p]\n",
        ("tests/ingest/kafka/test_kafka_gaps.py", "-k", "expired_before"),
    ),
    _in(
        "read/skipping/partition_values.py",
        "partition values: path unescaped though not encoded",
        "    return unquote(text) if config.url_encoded else text\n",
        "    return unquote(text)\n",
        (
            "tests/read/test_skipping.py",
            "tests/read/test_partitions.py",
            "tests/read/test_foreign.py",
            "tests/write/test_key_generators.py",
            "tests/write/test_timekeys.py",
        ),
    ),
    _in(
        "read/polars_filter.py",
        "polars: conditions on floats are pushed down",
        "    return None if pt.is_floating(field.type) or pt.is_nested(field.type) else field\n",
        "    return None if pt.is_nested(field.type) else field\n",
        ("tests/engines/test_polars.py", "tests/read/test_integrations.py"),
    ),
    _in(
        "read/polars_filter.py",
        "polars: literals that Arrow truncates are pushed down",
        "return found if found.to_pylist() == values else None  # Arrow truncates "
        "numbers and times",
        "    return found",
        ("tests/engines/test_polars.py", "tests/read/test_integrations.py"),
    ),
    _in(
        "engines/snapshot_parts.py",
        "engines: partition column of the file believed",
        "        if field.name in task.partition_values:\n",
        "        if False:\n",
        ("tests/engines/test_duckdb.py", "-k", "partition_values"),
    ),
    _in(
        "read/skipping/secondary_index.py",
        "secondary index used for time travel",
        "    if not is_newest:\n",
        "    if False:\n",
        (
            "tests/read/test_secondary_index.py",
            "tests/write/test_secondary_index.py",
            "tests/metadata/secondary_index",
        ),
    ),
    _in(
        "metadata/secondary_index/changes.py",
        "secondary index: a moved record ends its new entry",
        "    return EntryChanges(added, _without(ended, added))\n",
        "    return EntryChanges(added, ended)\n",
        (
            "tests/read/test_secondary_index.py",
            "tests/write/test_secondary_index.py",
            "tests/metadata/secondary_index",
            "tests/index/secondary",
        ),
    ),
    _in(
        "server/queries.py",
        "server: any table by path",
        "        if name.lower() not in self.tables:\n",
        "        if False:\n",
        ("tests/server/test_attacks.py", "-k", "not_served"),
    ),
    _in(
        "server/queries.py",
        "server: no limit of bytes",
        "        if rows < 0 or size < 0:\n",
        "        if rows < 0:\n",
        ("tests/server/test_attacks.py", "-k", "its_bytes"),
    ),
    _in(
        "server/query_pool.py",
        "server: no limit of concurrent queries",
        "        if not self._free.acquire(timeout=self.limits.seconds):\n",
        "        if not self._free.acquire(timeout=self.limits.seconds) and False:\n",
        ("tests/server/test_attacks.py", "-k", "no_place"),
    ),
    _in(
        "metadata/compaction.py",
        "metadata: compaction does not wait for a pending instant",
        "    if _blocking(since, data):\n        return None\n",
        "",
        (
            "tests/metadata",
            "tests/concurrency/test_conflicts.py",
            "tests/concurrency/test_lost_lock.py",
            "tests/concurrency/test_non_blocking.py",
        ),
    ),
    _in(
        "metadata/visible_instants.py",
        "metadata v6: commits complete in the metadata table alone are valid",
        "        if is_own(i.time)\n",
        "",
        ("tests/metadata/test_crash.py", "-k", "arrives"),
    ),
    _in(
        "transaction/conflicts.py",
        "conflicts: a clustering planned meanwhile",
        "        if groups := plans.compacting.keys() | plans.clustering.keys():\n",
        "        if groups := {*plans.compacting}:\n",
        ("tests/concurrency/test_conflicts.py", "-k", "clustering_was"),
    ),
    _in(
        "transaction/publication.py",
        "publish: content of the completed instant is not compared",
        "            if log.read(instant) != content:\n",
        "            if False:\n",
        ("tests/operations/test_lost_races.py", "-k", "another_writer"),
    ),
    _in(
        "recovery/rollback.py",
        "rollback: markers of an unseen write are not left",
        "        leave_markers_of_unseen(fs, done)\n",
        "",
        ("tests/recovery/test_rollback.py", "tests/recovery/test_rolled_back.py"),
    ),
    _in(
        "metadata/rollback.py",
        "metadata rollback of a compacted instant",
        "    if done is not None and last is not None and last.time > done:\n",
        "    if False:\n",
        ("tests/recovery/test_undo.py", "-k", "lost_commit"),
    ),
    _in(
        "engines/snapshot_parts.py",
        "engines: files of a filtered scan are given to the engine's reader",
        "by_engine = native and scan.plan.where is None",
        "by_engine = native",
        ("tests/engines/test_polars.py", "-k", "filtered_scan"),
    ),
    _in(
        "ingest/kafka/kafka_source.py",
        "kafka: offsets reported before end of read; report raises",
        "table.to_reader(), str(end), rejected, lambda: self._report(end),\n            _splits",
        "table.to_reader(), str(end), rejected, lambda: self._report(start),\n            _splits",
        ("tests/ingest/kafka/test_kafka_gaps.py", "-k", "states_the_position"),
    ),
)
