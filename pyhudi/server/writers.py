"""Write permissions of clients, the outcome of each statement, and the audit log."""

from __future__ import annotations

import hashlib
import json
import logging
import re
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from pyhudi.api.table import Table
from pyhudi.errors import PyhudiError, UserError
from pyhudi.near_names import near_names
from pyhudi.server.query_pool import EndedError, WritePool
from pyhudi.server.writes import WriteLimits
from pyhudi.table.commit_facts import completed_commits

_log = logging.getLogger("pyhudi")
_audit_log = logging.getLogger("pyhudi.audit")
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
_FIRST_WORD: Final = re.compile(r"(?:[\s;(]++|--[^\n]*+|/\*.*?\*/)*+([A-Za-z]*+)", re.DOTALL)
_WORDS: Final = frozenset({"INSERT", "UPDATE", "DELETE", "MERGE"})
_AUDIT_CHARS: Final = 1000
_COMMITS: Final = 100
STATEMENT_KEY: Final = "_pyhudi_statement"
"""Of a commit's metadata: the id of the statement, which the audit line has too."""
WRITER_KEY: Final = "_pyhudi_writer"
"""Of a commit's metadata: the name of the client."""


@dataclass(frozen=True, slots=True)
class Writers:
    """Clients that may write, and the tables that they may write to.

    tables: names of served tables.  tokens: by the name of the client that has it: up to 64
    letters, digits and `.`, `_`, `-`, `@`.  audit: gets one line of JSON for each statement; None:
    the logger `pyhudi.audit`, at level INFO.
    """

    tables: Sequence[str]
    tokens: Mapping[str, str]
    limits: WriteLimits = field(default_factory=WriteLimits)
    audit: Callable[[str], None] | None = None


@dataclass(frozen=True, slots=True)
class Caller:
    """Who sends a request.  token: its number.  name: None if it may only read."""

    token: int
    name: str | None
    peer: str


class DeniedError(UserError):
    """The token does not allow the request."""


def is_write(text: str) -> bool:
    """Whether a statement is run as a write, by its first word; other statements run as queries,
    which write nothing."""
    found = _FIRST_WORD.match(text)
    return found is not None and found[1].upper() in _WORDS


class WriteRuns:
    """Runs writes of clients, each with its line of the audit.  Safe for threads.

    Raises UserError for writers that name no served tables, or whose names are no names.
    """

    def __init__(self, tables: Mapping[str, Table], writers: Writers) -> None:
        self._writers = writers
        self._tables = {name.lower(): table for name, table in tables.items()}
        self._writable = frozenset(name.lower() for name in writers.tables)
        _check(self._writable, self._tables, writers)
        self._pool = WritePool(self._tables, writers.limits, self._writable)

    def close(self) -> None:
        """End all writes; those without a commit are rolled back by the next write."""
        self._pool.close()

    def parameter_count(self, caller: Caller, text: str) -> int:
        """The number of parameters of a statement.  Raises as `run` does before it writes."""
        try:
            self._allow(caller, text)
            return self._pool.parameter_count(text)
        except PyhudiError as refused:
            self._record(caller, text, _Facts(), refused)
            raise

    def run(
        self,
        caller: Caller,
        text: str,
        parameters: bytes | None,
        *,
        is_cancelled: Callable[[], bool],
    ) -> int:
        """Run a statement; the number of rows inserted, updated and deleted.

        Raises DeniedError for a caller that may only read, UserError for statements that are not
        writes of a writable table and at the limits, else as the methods of `Table` do.  After a
        write that was ended the table is read, so that the error states whether it had committed.
        """
        facts = _Facts()
        metadata = {STATEMENT_KEY: facts.id, WRITER_KEY: str(caller.name)}
        try:
            self._allow(caller, text)
            found = self._pool.run(text, parameters, metadata, is_cancelled=is_cancelled)
            for some in found:
                facts.add(some)
        except EndedError as ended:
            instant = self._commit_of(facts)
            failed: PyhudiError = ended
            if facts.known:
                failed = _ended(ended, instant)
            self._record(caller, text, facts, failed, instant=instant)
            raise failed from None
        except PyhudiError as error:
            self._record(caller, text, facts, error)
            raise
        self._record(caller, text, facts, None)
        return facts.rows

    def _allow(self, caller: Caller, text: str) -> None:
        if caller.name is None:
            raise DeniedError(
                "the token allows queries only", hint="connect with the token of a writer"
            )
        if len(text) > self._writers.limits.statement_chars:
            raise UserError(
                "the statement is too long",
                characters=len(text),
                allowed=self._writers.limits.statement_chars,
                hint="bind values as parameters",
            )

    def _commit_of(self, facts: _Facts) -> str | None:
        """The instant of a statement whose process was ended."""
        table = self._tables.get(str(facts.known.get("table")).lower())
        if table is None:
            return None
        return next(
            (
                commit.instant
                for commit in completed_commits(table._fs, _COMMITS)
                if commit.metadata.extra.get(STATEMENT_KEY) == facts.id
            ),
            None,
        )

    def _record(
        self,
        caller: Caller,
        text: str,
        facts: _Facts,
        error: PyhudiError | None,
        *,
        instant: str | None = None,
    ) -> None:
        """Write the line of a statement: ASCII without control characters, whatever the text."""
        if error is None:
            outcome = "committed" if facts.known.get("instant") else "nothing to write"
        elif isinstance(error, EndedError):
            outcome = "committed" if instant else "ended"
        else:
            outcome = "refused" if isinstance(error, UserError) else "failed"
        line = {
            "time": facts.began,
            "id": facts.id,
            "who": caller.name,
            "from": caller.peer[:100],
            "statement": text[:_AUDIT_CHARS],
            "characters": len(text),
            "sha256": hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest(),
            "table": facts.known.get("table"),
            "operation": facts.known.get("operation") or facts.known.get("statement"),
            "instant": facts.known.get("instant") or instant,
            **{name: facts.known.get(name) for name in _COUNTS},
            "seconds": round(time.monotonic() - facts.clock, 3),
            "outcome": outcome,
            "error": None if error is None else str(error)[:_AUDIT_CHARS],
        }
        try:
            (self._writers.audit or _audit_log.info)(json.dumps(line))
        except (OSError, ValueError) as lost:  # the statement has run
            _log.error("a line of the audit was not written: %s; %s", lost, json.dumps(line))


_COUNTS: Final = ("inserted", "updated", "deleted")


@dataclass(slots=True)
class _Facts:
    """What is known about a run of a statement."""

    id: str = field(default_factory=lambda: secrets.token_hex(16))
    began: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="milliseconds"))
    clock: float = field(default_factory=time.monotonic)
    known: dict[str, Any] = field(default_factory=dict)

    def add(self, found: Mapping[str, Any]) -> None:
        self.known.update(found)

    @property
    def rows(self) -> int:
        return sum(int(self.known.get(name) or 0) for name in _COUNTS)


def _ended(ended: EndedError, instant: str | None) -> EndedError:
    if instant is not None:
        return EndedError(
            f"{ended.what}, after its commit", instant=instant, hint="do not repeat the statement"
        )
    return EndedError(f"{ended.what}, before its commit", hint="the next write rolls it back")


def _check(writable: frozenset[str], tables: Mapping[str, Table], writers: Writers) -> None:
    for name in writable:
        if name not in tables:
            near = near_names(name, tables)
            raise UserError(
                "no table of this name is served, so none is writable",
                table=name,
                hint=f"did you mean {near[0]}?" if near else f"served: {', '.join(tables)}",
            )
    if not writable or not writers.tokens:
        raise UserError("writers need tables and tokens", hint="pass both, or no writers")
    for name in writers.tokens:
        if not _NAME.fullmatch(name):
            raise UserError(
                "the name of a writer is not usable",
                name=ascii(name)[:80],
                hint="up to 64 letters, digits and . _ - @",
            )
