"""The JSON shape of every command, which is promised and shown on the site's page of the commands.

    python -m tests.cli.golden

writes tests/golden/cli_json.json.  The shapes are those of real runs on small tables: `SAMPLES` has
the arguments of each command.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import pyhudi
from docs._build.command_help import SHAPES, Name, all_commands
from pyhudi.cli.app import run
from tests.cli.samples import SAMPLES

MAPS = {
    "seconds", "lookup", "checked", "faults", "fault_share_max", "extra", "set", "info", "labels"
}  # fmt: skip
"""Fields whose names are data."""
NUMBER_KEYS_MAX = 40
TABLES = """
[tables.new]
source-class = "tests.support.row_sources:counting"
target-base-path = "new"
[tables.new.properties]
stop = 3
"hoodie.datasource.write.recordkey.field" = "id"
"""


def shape(value: Any, field: str = "") -> Any:
    """The types of a JSON document."""
    match value:
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case None:
            return "null"
        case list():
            return [merged([shape(item) for item in value])] if value else []
    if field in MAPS:
        shapes = [shape(item) for item in value.values()]
        return {"<name>": merged(shapes)} if shapes else {}
    return {name: shape(item, name) for name, item in value.items()}


def merged(shapes: list[Any]) -> Any:
    """One shape of several values: alternatives are joined with " or "."""
    if all(isinstance(each, dict) for each in shapes):
        names = dict.fromkeys(name for each in shapes for name in each)
        return {n: merged([each[n] for each in shapes if n in each]) for n in names}
    if all(isinstance(each, list) for each in shapes):
        items = [item for each in shapes for item in each]
        return [merged(items)] if items else []
    words = {word for each in shapes if isinstance(each, str) for word in each.split(" or ")}
    if {"integer", "number"} <= words:
        words.discard("integer")
    others = [each for each in shapes if not isinstance(each, str) and each]
    order = ("string", "integer", "number", "boolean", "null")
    text = " or ".join(word for word in order if word in words)
    return merged(others) if others else text


def printed(words: list[str]) -> str:
    """What a command line prints on standard output; it must not fail."""
    output = io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(io.StringIO()) as errors:
        try:
            run(words)
        except SystemExit as ended:
            code = ended.code
    assert code in (0, 3), f"{words}: {errors.getvalue()}"
    return output.getvalue()


@cache
def prepared() -> Path:
    """A folder with the tables and files of the samples; see tests/cli/samples.py."""
    folder = Path(tempfile.mkdtemp(prefix="pyhudi-cli-"))
    rows = pa.table(
        {"id": ["a", "b", "c"], "city": ["sf", "sf", "la"], "driver": ["x", "y", "x"],
         "fare": [1.5, 2.0, 3.0], "ts": [1, 1, 1]}
    )  # fmt: skip
    made = pyhudi.create_table(
        folder / "trips", rows.schema, record_key="id", partition_by="city", ordering="ts",
        table_type="mor", version=9,
    )  # fmt: skip
    made.bulk_insert(rows)
    changed = pa.table({"id": ["a"], "city": ["sf"], "driver": ["y"], "fare": [9.0], "ts": [2]})
    made.upsert(changed)
    cow = pyhudi.create_table(
        folder / "cow", rows.schema, record_key="id", ordering="ts", version=6
    )
    cow.insert(rows)
    cow.savepoint("first")
    cow.upsert(changed)
    pq.write_table(rows, folder / "rows.parquet")
    (folder / "tables.toml").write_text(TABLES)
    with contextlib.chdir(folder):
        logs = list(folder.glob("trips/*/.*.log.*"))
        shutil.copy(logs[0], "sample.log")
        hfiles = sorted((folder / "trips/.hoodie/metadata").rglob("*.hfile"))
        shutil.copy(hfiles[0], "sample.hfile")
    return folder


@contextlib.contextmanager
def copied() -> Iterator[Path]:
    """A copy of the prepared folder as the current folder."""
    with tempfile.TemporaryDirectory(prefix="pyhudi-cli-") as place:
        folder = Path(place) / "here"
        shutil.copytree(prepared(), folder, copy_function=shutil.copy2)
        cache_before = os.environ.get("PYHUDI_CACHE")
        os.environ["PYHUDI_CACHE"] = str(Path(place) / "cache")
        try:
            with contextlib.chdir(folder):
                yield folder
        finally:
            if cache_before is None:
                del os.environ["PYHUDI_CACHE"]
            else:
                os.environ["PYHUDI_CACHE"] = cache_before


def instants() -> Mapping[str, str]:
    """Instants of the sample tables by their names in SAMPLES."""
    trips, cow = pyhudi.open_table("trips"), pyhudi.open_table("cow")
    times = [i.time for i in cow.timeline.commits]
    return {
        "FIRST": times[0], "LAST": times[-1],
        "TRIPS_FIRST": trips.timeline.commits.instants[0].time,
        "TRIPS_LAST": trips.timeline.commits.instants[-1].time,
    }  # fmt: skip


def json_shape(name: Name) -> Any:
    """The shape of the command's JSON document, from a run on the sample tables."""
    before, words = SAMPLES[" ".join(name)]
    with copied():
        known = dict(instants())
        for line in before:
            document = json.loads(printed([*_filled(line, known), "--json"]))
            if isinstance(document, dict) and isinstance(document.get("instant"), str):
                known["PLANNED"] = document["instant"]
        document = json.loads(printed([*name, *_filled(words, known), "--json"]))
    return shape(document)


def _filled(words: str, known: Mapping[str, str]) -> list[str]:
    return [known.get(word, word) for word in words.split()]


def has_shape(name: Name) -> bool:
    return SAMPLES.get(" ".join(name)) is not None


def main() -> None:
    names = [name for name, _ in all_commands() if has_shape(name)]
    SHAPES.write_text(json.dumps({" ".join(n): json_shape(n) for n in names}, indent=1) + "\n")
    shutil.rmtree(prepared())


if __name__ == "__main__":
    main()
