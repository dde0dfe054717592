"""What a history must satisfy, from the diaries and the table's own timeline.

acknowledged    each acknowledged write is on the timeline, once, at the instant it was told
no lost update  each key holds what the latest instant that touched it left
snapshots       a read shows each write whole or not at all, and all that was acknowledged
                before it began
time travel     as of any instant the table is what the writes up to it make
incremental     the changes between two instants are the keys whose writes lie between
index           the record index and the rows agree, both ways
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from pyhudi.api import Table
from pyhudi.engine import LocalEngine
from pyhudi.errors import SnapshotExpiredError
from pyhudi.storage.filesystem import FileSystem
from pyhudi.timeline.archive import Archive
from pyhudi.timeline.stats import CommitMetadata
from tests.history.ops import PARTS, options_of

Choice = frozenset[str | None]  # operations that may have written a key last; None: it is absent
State = dict[str, Choice]


@dataclass(frozen=True, slots=True)
class Write:
    """A committed write: what it did to which keys."""

    instant: str
    op: str
    kind: str
    keys: tuple[str, ...]
    part: str
    certain: bool = True

    def touches(self, key: str) -> bool:
        return key in self.keys or (bool(self.part) and _part(key) == self.part)

    def apply(self, state: State) -> None:
        """A delete that did not find all its keys may have come before those were inserted,
        whatever its instant: it has deleted them or not."""
        if self.part:
            for key in [key for key in state if _part(key) == self.part]:
                state[key] = _ABSENT
        for key in self.keys:
            if self.kind == "delete":
                state[key] = _ABSENT if self.certain else state.get(key, _ABSENT) | _ABSENT
            elif self.kind != "delete_partitions":
                state[key] = frozenset([self.op])


_ABSENT: Choice = frozenset([None])


def folded(writes: Iterable[Write], until: str) -> State:
    """What the writes up to an instant make."""
    state: State = {}
    for write in writes:
        if write.instant <= until:
            write.apply(state)
    return state


def first_difference(held: dict[str, str], want: State) -> str | None:
    for key in sorted(held.keys() | want.keys()):
        if held.get(key) not in want.get(key, _ABSENT):
            return f"{key} is {held.get(key)}, not {sorted(map(str, want.get(key, _ABSENT)))}"
    return None


def _part(key: str) -> str:
    return f"p{int(key[1:]) % PARTS}"


@dataclass
class Verdict:
    """Problems found, and what was looked at."""

    problems: list[str] = field(default_factory=list)
    commits: int = 0
    reads: int = 0
    refused: int = 0
    conflicts: int = 0
    kills: int = 0

    def claim(self, holds: bool, problem: str) -> None:
        if not holds and len(self.problems) < 20:
            self.problems.append(problem)


def committed(
    table: Table, begun: dict[str, dict[str, Any]], missing: dict[str, int]
) -> list[Write]:
    """The writes on the timeline, oldest instant first.  missing: keys that an acknowledged one
    did not find."""
    state = table._state()
    found: list[tuple[str, CommitMetadata]] = [
        (str(each.time), each.metadata)
        for each in Archive(
            state.fs, layout=state.config.layout, folder=state.config.archive_folder
        ).commits
    ]
    found += [(str(i.time), state.log.commit(i)) for i in state.timeline.commits]
    writes = []
    for time, metadata in found:
        op = metadata.extra.get("_op")
        if op is not None:
            asked = begun[op]
            keys = tuple(f"k{k}" for k in asked["keys"])
            certain = missing.get(op) == 0
            writes.append(Write(time, op, asked["kind"], keys, asked["part"], certain))
    return sorted(writes, key=lambda write: write.instant)


def check(fs: FileSystem, lines: Iterable[dict[str, Any]], *, seed: int = 0) -> Verdict:
    """The verdict over a table that nobody works on any more."""
    lines, verdict = list(lines), Verdict()
    table = Table(fs, options=options_of(), engine=LocalEngine(1))
    begun = {line["op"]: line for line in lines if "kind" in line}
    missing = {line["op"]: line["missing"] for line in lines if "missing" in line}
    writes = committed(table, begun, missing)
    by_op = {write.op: write for write in writes}
    verdict.commits = len(writes)
    verdict.claim(len(by_op) == len(writes), "an operation has committed twice")
    acked: dict[str, float] = {}
    for line in lines:
        verdict.refused += "refused" in line
        verdict.conflicts += line.get("conflicts") or 0
        if "refused" in line:
            verdict.claim(line["op"] not in by_op, f"refused, yet committed: {line}")
        if line.get("instant"):
            mine = by_op.get(line["op"])
            verdict.claim(mine is not None, f"acknowledged and lost: {line}")
            verdict.claim(mine is None or mine.instant == line["instant"], f"moved: {line}")
            acked[line["op"]] = line["at"]
    _check_now(table, folded(writes, "9"), verdict)
    for line in lines:
        if line.get("kind") == "read":
            verdict.reads += 1
            _check_read(line, writes, by_op, acked, verdict)
    _check_past(table, writes, random.Random(seed), verdict)
    return verdict


def _check_now(table: Table, want: State, verdict: Verdict) -> None:
    found = table.scan(["id", "op"]).to_arrow().to_pylist()
    held = {row["id"]: row["op"] for row in found}
    verdict.claim(len(found) == len(held), "a key is there twice")
    wrong = first_difference(held, want)
    verdict.claim(wrong is None, f"now: {wrong}")
    checked = table.index.verify()
    verdict.claim(checked.is_exact, f"the record index: {checked}")


def _check_read(
    line: dict[str, Any],
    writes: list[Write],
    by_op: dict[str, Write],
    acked: dict[str, float],
    verdict: Verdict,
) -> None:
    """Each visible write is whole, but for what later visible ones made of it."""
    rows: dict[str, str] = line["rows"]
    verdict.claim(line["count"] == len(rows), f"a read saw a key twice: {line['op']}")
    unknown = {op for op in rows.values() if op not in by_op}
    verdict.claim(not unknown, f"a read saw what never committed: {sorted(unknown)[:3]}")
    seen = {op for op in rows.values() if op in by_op}
    seen |= {op for op, at in acked.items() if at < line["began"] and op in by_op}
    floor = max((by_op[op].instant for op in seen), default="")
    for op in seen:
        mine = by_op[op]
        if mine.kind == "delete" and not mine.certain:
            continue
        for key in mine.keys:
            shown = by_op.get(rows.get(key, ""))
            if shown is not None and shown.instant >= mine.instant:
                continue
            if shown is None and mine.kind in ("delete", "delete_partitions"):
                continue
            if shown is None and _may_be_gone(key, mine, writes):
                continue
            text = f"{line['op']}: {op} is visible, but {key} shows {rows.get(key)} (of {floor})"
            verdict.claim(False, text)


def _may_be_gone(key: str, after: Write, writes: list[Write]) -> bool:
    return any(
        write.instant > after.instant and write.touches(key)
        and (write.kind == "delete" or write.part)
        for write in writes
    )  # fmt: skip


def _check_past(table: Table, writes: list[Write], dice: random.Random, verdict: Verdict) -> None:
    """Time travel and changes at some instants whose files are still there."""
    kept = writes[-12:]
    for write in dice.sample(kept, min(4, len(kept))):
        try:
            found = table.scan(["id", "op"], as_of=write.instant).to_arrow().to_pylist()
        except SnapshotExpiredError:
            continue
        held = {row["id"]: row["op"] for row in found}
        wrong = first_difference(held, folded(writes, write.instant))
        verdict.claim(wrong is None, f"as of {write.instant}: {wrong}")
    if len(kept) < 3:
        return
    since, until = sorted(w.instant for w in dice.sample(kept, 2))
    new = {w.op for w in writes if since < w.instant <= until}
    state = folded(writes, until)
    want = {key: frozenset(op if op in new else None for op in ops) for key, ops in state.items()}
    try:
        rows = table.changes(since, until, columns=["id", "op"]).to_arrow().to_pylist()
    except SnapshotExpiredError:
        return
    held = {row["id"]: row["op"] for row in rows}
    wrong = first_difference(held, want)
    verdict.claim(wrong is None and len(rows) == len(held), f"changes {since}..{until}: {wrong}")
