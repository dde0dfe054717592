"""Arguments of other packages are answered with what they are called here."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pyhudi
from pyhudi.api.other_arguments import _NAMES

ROWS = pa.table({"id": ["a"], "fare": [1.5]})


@pytest.fixture
def table(tmp_path: Path) -> Any:
    pyhudi.upsert(tmp_path / "t", ROWS, record_key="id", version=9)
    return pyhudi.open_table(tmp_path / "t")


CALLS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "partition_cols": (
        lambda t: pyhudi.create_table("x", ROWS, record_key="id", partition_cols="c"),
        "create_table() has no argument 'partition_cols'; did you mean partition_by=?",
    ),
    "primary_key": (
        lambda t: pyhudi.create_table("x", ROWS, primary_key="id"),
        "create_table() has no argument 'primary_key'; did you mean record_key=?",
    ),
    "preCombineField": (
        lambda t: pyhudi.upsert("x", ROWS, record_key="id", preCombineField="c"),
        "upsert() has no argument 'preCombineField'; did you mean ordering=?",
    ),
    "mode": (
        lambda t: pyhudi.upsert("x", ROWS, mode="append"),
        "upsert() has no argument 'mode'; table.insert(rows) appends",
    ),
    "version of Delta Lake": (
        lambda t: pyhudi.open_table("x", version=3),
        "open_table() has no argument 'version'; it has path, options",
    ),
    "filters": (lambda t: t.scan(filters="fare > 1"), "scan() has no argument 'filters'; did you "
                "mean where=?"),
    "snapshot_id": (lambda t: t.scan(snapshot_id=1), "did you mean as_of=?"),
    "starting_version": (lambda t: t.changes(starting_version=1), "did you mean since=?"),
    "predicate": (lambda t: t.delete(predicate="fare > 1"), "did you mean where=?"),
    "merge_schema": (lambda t: t.upsert(ROWS, merge_schema=True), "did you mean schema_mode=?"),
    "updates": (lambda t: t.update(updates={"fare": 1}), "did you mean set=?"),
    "a typo": (lambda t: t.compact(dry_rum=True), "did you mean dry_run=?"),
    "a clause": (lambda t: t.merge(ROWS).when_matched_update(updates={}), "did you mean set=?"),
    "a service": (lambda t: t.services.run(dryrun=True), "did you mean dry_run=?"),
    "an index": (lambda t: t.index.verify(samples=3), "did you mean sample=?"),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_an_unknown_argument_leads_on(name: str, table: Any) -> None:
    call, text = CALLS[name]
    with pytest.raises(TypeError) as raised:
        call(table)
    assert text in str(raised.value)


def test_every_proposed_argument_exists() -> None:
    owners = (pyhudi, pyhudi.Table, pyhudi.open_table, type(pyhudi.Table.index))
    functions = [
        f for owner in owners for n in dir(owner)
        if not n.startswith("_") and inspect.isfunction(f := inspect.getattr_static(owner, n, None))
    ]  # fmt: skip
    functions += [pyhudi.create_table, pyhudi.upsert, pyhudi.read]
    known = {name for function in functions for name in inspect.signature(function).parameters}
    assert {name for names in _NAMES.values() for name in names} <= known


def test_signatures_and_documentation_stay() -> None:
    assert "record_key" in inspect.signature(pyhudi.create_table).parameters
    assert (pyhudi.Table.scan.__doc__ or "").startswith("Rows of a snapshot.")


@pytest.mark.parametrize("where", ["update", "merge", "index"])
def test_a_misspelled_column_names_the_near_one(where: str, table: Any) -> None:
    call: Callable[[], Any] = {
        "update": lambda: table.update(set={"fair": 1}),
        "merge": lambda: table.merge(ROWS).when_matched_update(set={"fair": 1.0}).execute(),
        "index": lambda: table.index.create("secondary", column="fair"),
    }[where]
    with pytest.raises(pyhudi.UserError, match=r"did you mean fare\?"):
        call()
