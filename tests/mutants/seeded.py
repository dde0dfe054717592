"""The seeded bugs: what a careless hand could have written, and the tests that must object."""

from __future__ import annotations

from dataclasses import dataclass

CATCHERS = ("tests/mutants/test_catchers.py",)
DISK = ("tests/mutants/test_catchers.py", "-k", "synced")
STORE = ("tests/contracts/test_filesystem.py", "-k", "memory and (taken or root or create)")
VIEW = ("tests/table/test_view.py",)
BLOCKS = ("tests/read/test_blocks.py", "tests/read/test_scan.py")
ROLLBACK = ("tests/services/test_rollback.py",)
CLEAN = ("tests/services/test_cleaning.py",)
DOCTOR = ("tests/care/test_doctor.py",)
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


@dataclass(frozen=True)
class Mutant:
    """One change of one file; `old` stands in it exactly once."""

    name: str
    path: str
    old: str
    new: str
    tests: tuple[str, ...]


def _in(path: str, name: str, old: str, new: str, tests: tuple[str, ...]) -> Mutant:
    return Mutant(name, f"pyhudi/{path}", old, new, tests)


MUTANTS = (
    _in("storage/local.py", "skip the fsync of a replaced file",
        "                    os.fsync(file.fileno())\n", "                    pass\n", DISK),
    _in("storage/local.py", "skip the fsync of a new file",
        "            os.fsync(self._file.fileno())\n", "            pass\n", DISK),
    _in("storage/local.py", "skip the fsync of a folder",
        "        os.fsync(fd)\n", "        pass\n", DISK),
    _in("storage/local.py", "keep the checksum sidecar of a replaced file",
        "            _unlink(_sidecar(place))\n            _sync_folder",
        "            _sync_folder", CONFIG),
    _in("storage/local.py", "follow links out of the table",
        'if found != root and not found.startswith(root.rstrip("/") + "/"):', "if False:", LINKS),
    _in("storage/memory.py", "create over a taken name",
        "            if name in self.store.files:\n                return False\n", "", STORE),
    _in("storage/filesystem.py", "allow steps out of the root",
        'if ".." in parts or "." in parts:', "if False:", STORE),
    _in("storage/filesystem.py", "allow absolute paths",
        'if path.startswith("/") or "\\\\" in path or "\\0" in path:', "if False:",
        STORE),
    _in("table/listing.py", "take the table's own folder for a partition",
        'return path.split("/")[0] != HOODIE', "return True", (*MARKERS, *ROLLBACK)),
    _in("table/view.py", "believe what is not completed",
        "return self.start is not None and time < self.start and time not in self.pending",
        "return True", VIEW),
    _in("table/view.py", "see instants after the limit",
        "if self.limit is not None and time > self.limit:",
        "if self.limit is not None and time >= self.limit:", VIEW),
    _in("table/view.py", "count a pending write before the start as archived",
        "time < self.start and time not in self.pending", "time < self.start", VIEW),
    _in("table/view.py", "the oldest slice for the newest",
        "times = sorted(base_at.keys() | logs_at.keys(), reverse=True)\n    if not logs_at:",
        "times = sorted(base_at.keys() | logs_at.keys())\n    if not logs_at:",
        VIEW),
    _in("read/blocks.py", "ignore rollback blocks",
        'by_instant.pop(block.target_instant or "", None)', "pass", BLOCKS),
    _in("read/blocks.py", "believe blocks of pending writes",
        "            if visibility.sees(InstantTime(time)):\n                by_instant",
        "            if True:\n                by_instant", BLOCKS),
    _in("read/blocks.py", "take the attempt with fewest blocks",
        "return max(attempts.items(), key=lambda item: (len(item[1]), item[0]))[1]",
        "return min(attempts.items(), key=lambda item: (len(item[1]), item[0]))[1]", BLOCKS),
    _in("read/slices.py", "drop a delete block",
        "                yield _deletes(content, placed.path, needed, rules)\n",
        "                continue\n", ("tests/read/test_outcome.py",)),
    _in("read/slices.py", "read a log that was cut short",
        "    if size_bytes < log.size_bytes:\n", "    if False:\n", CATCHERS),
    _in("read/changes.py", "off by one at the begin of a range",
        "if (instant.completed_at or instant.time) > since and",
        "if (instant.completed_at or instant.time) >= since and", CHANGES),
    _in("timeline/log.py", "complete over another writer's instant",
        '            raise WriteConflictError("another writer has completed this instant"',
        '            str("another writer has completed this instant"', TIME),
    _in("timeline/log.py", "start an instant twice",
        '            raise WriteConflictError("another writer has started this instant"',
        '            str("another writer has started this instant"', TIME),
    _in("timeline/log.py", "an empty commit file is an empty commit",
        "if instant.is_completed and not data.strip():", "if False:",
        CATCHERS),
    _in("timeline/clock.py", "time runs back with the clock",
        "    if after is None or now > after:\n        return now\n", "    return now\n", TIME),
    _in("timeline/payload.py", "read compressed plans",
        'if container.codec not in ("null", None):', "if False:", PLANNED),
    _in("timeline/payload.py", "count items that take no bytes",
        'if _least_width(schema["items"], known) == 0:', "if False:", PLANNED),
    _in("services/rollback_plan.py", "a rollback deletes files of other instants",
        "if name is None or name.instant != time:", "if name is None:",
        (*ROLLBACK, "tests/mutants/test_catchers.py")),
    _in("services/rollback_plan.py", "a rollback leaves the partition unchecked",
        "    if not is_partition(partition):\n        raise CorruptFileError(\"a rollback outside",
        "    if False:\n        raise CorruptFileError(\"a rollback outside", PLANNED),
    _in("services/rollback_plan.py", "a failed compaction takes the logs of later writes",
        "if not (is_log and failed.action is Action.COMPACTION):", "if True:", ROLLBACK),
    _in("services/rollback.py", "a rollback forgets the metadata table",
        'if "files" in config.metadata_partitions:\n        metadata_rollback(',
        'if False:\n        metadata_rollback(', CRASH),
    _in("services/rollback.py", "roll back a commit that others build on",
        "        _check_not_built_on(log, timeline, failed)\n", "",
        CATCHERS),
    _in("services/commit.py", "the index after the commit, where it may never come",
        "        metadata.finish(files.stats, files.index)\n", "",
        CRASH),
    _in("write/markers.py", "markers of one attempt hide another's files",
        "if file.instant == instant and marker.path not in written:",
        "if file.instant == instant and marker.path in written:", MARKERS),
    _in("write/markers.py", "leftovers of other instants are deleted",
        "if file.instant == instant and marker.path not in written:",
        "if marker.path not in written:", MARKERS),
    _in("table/cleaning.py", "clean the slice that readers of the earliest commit see",
        "return [s for s in older[1:] if s is not", "return [s for s in older[0:] if s is not",
        CLEAN),
    _in("table/cleaning.py", "clean what a savepoint holds",
        "str(file.name) in saved for file in piece.files", "False for file in piece.files", CLEAN),
    _in("table/cleaning.py", "keep one commit less",
        "chosen = done[len(done) - retained]", "chosen = done[len(done) - retained + 1 - 1 * "
        "(retained < 2)]", CLEAN),
    _in("formats/logfile.py", "believe one of a block's two lengths",
        "if _I64.unpack_from(tail)[0] != length + len(MAGIC):", "if False:", CATCHERS),
    _in("metadata/reader.py", "an index that lost a log is believed",
        "        if sizes.get(stat.path, -1) < stat.size_bytes:\n", "        if False:\n", DOCTOR),
    _in("metadata/slices.py", "rolled back entries of the index are believed",
        'by_instant.pop(block.target_instant or "", None)', "pass", PLANS),
    _in("metadata/slices.py", "entries count before their commit does",
        "elif _holds_data(block) and block.instant in valid:", "elif _holds_data(block):", PLANS),
    _in("table/config.py", "properties with a wrong checksum are believed",
        "    return stated is None or stated == str(", "    return True or stated == str(", CONFIG),
    _in("care/repair.py", "a repair gives rows up unasked",
        "and (allow_loss or not f.loses)", "and True", DOCTOR),
    _in("care/setaside.py", "a repair deletes without a copy",
        "            copy_file(fs, path, target)\n", "            pass\n", DOCTOR),
)  # fmt: skip
