"""Sections about what happened: the timeline, and what commits wrote."""

from __future__ import annotations

from pyhudi.markup import bytes_text, count_text, moment_text, plural, seconds_text
from pyhudi.report.charts import Column, Legend, column_chart, lane_chart, table
from pyhudi.report.facts import (
    BINS,
    CommitPoint,
    Part,
    TimedAction,
    TimelineFacts,
    Unavailable,
    WriteFacts,
)
from pyhudi.report.sections.states import empty, lead, note, unavailable


def timeline(facts: Part[TimelineFacts]) -> str:
    """Actions over time, durations, failures."""
    if isinstance(facts, Unavailable):
        return unavailable(facts.why)
    if not facts.instants:
        return empty("The timeline is empty: nothing has been written to this table.")
    pending = sum(lane.pending for lane in facts.lanes)
    parts = [
        lead(
            f"{plural(facts.instants, 'instant')} in the active timeline, "
            f"{count_text(pending)} of them pending; {plural(facts.rollbacks, 'rollback')}."
        ),
        lane_chart(facts.lanes, facts.first, facts.last),
        _durations(facts),
        _failures(facts),
    ]
    if facts.instants > BINS:
        parts.append(
            note(f"Each mark covers 1/{BINS} of the time; its height shows the number of instants.")
        )
    return "".join(parts)


def _durations(facts: TimelineFacts) -> str:
    timed = [action for action in facts.actions if action.seconds is not None]
    if not timed:
        return note("The timeline states no durations of the newest actions.")
    columns = [
        Column(
            moment_text(a.instant),
            a.seconds or 0.0,
            kind="s" if a.is_service else "b",
            note=a.action,
        )
        for a in timed
    ]
    legend = Legend((("b", "writes"), ("s", "services and rollbacks")))
    slowest = max(timed, key=_seconds)
    return column_chart(
        "durations", "Durations of actions", columns, form=seconds_text, legend=legend
    ) + note(
        f"The newest {count_text(len(timed))} actions with a known duration, from "
        f"{facts.durations_from}; the slowest is {slowest.action} "
        f"{moment_text(slowest.instant)} with {seconds_text(_seconds(slowest))}."
    )


def _seconds(action: TimedAction) -> float:
    return action.seconds or 0.0


def _failures(facts: TimelineFacts) -> str:
    if not facts.failures:
        return note("No failed write is recorded in the active timeline.")
    rows = [(moment_text(f.instant), f.what) for f in reversed(facts.failures)]
    caption = "Failed and undone writes, newest first"
    return table(caption, ("instant", "what happened"), rows, stacked=True)


def writes(facts: Part[WriteFacts]) -> str:
    """Rows and bytes by commit, write amplification."""
    if isinstance(facts, Unavailable):
        return unavailable(facts.why)
    unreadable = (
        note(f"{count_text(facts.unreadable)} of the newest commits cannot be read; see Findings.")
        if facts.unreadable
        else ""
    )
    if not facts.commits:
        return empty("No completed commit can be shown.") + unreadable
    ratio = facts.amplification
    amplified = (
        "no rows were changed"
        if ratio is None
        else f"{ratio:,.2f} rows were written for each row that was changed"
    )
    total = sum(c.bytes_written for c in facts.commits)
    return (
        lead(
            f"In the newest {count_text(len(facts.commits))} of {plural(facts.total, 'commit')}, "
            f"{amplified}; {bytes_text(total)} written."
        )
        + f'<div class="charts">{_rows(facts)}{_bytes(facts)}</div>'
        + unreadable
    )


def _rows(facts: WriteFacts) -> str:
    columns = [
        Column(moment_text(c.instant), c.written_rows, c.changed_rows, note=_note(c))
        for c in facts.commits
    ]
    legend = Legend((("a", "rewritten"), ("b", "changed")))
    return column_chart(
        "rows", "Rows written", columns, form=_rows_text, legend=legend, part="changed"
    )


def _note(commit: CommitPoint) -> str:
    if not commit.changed_rows:
        return commit.operation
    ratio = commit.written_rows / commit.changed_rows
    return f"{commit.operation}, amplification {ratio:,.2f}x"


def _bytes(facts: WriteFacts) -> str:
    columns = [
        Column(
            moment_text(c.instant),
            c.bytes_written,
            kind="b",
            note=f"{c.operation}, {count_text(c.files)} files",
        )
        for c in facts.commits
    ]
    return column_chart("bytes", "Bytes written", columns, form=bytes_text)


def _rows_text(count: float) -> str:
    return f"{count_text(round(count))} rows"
