"""Random damage to the metadata table of a sound table: what is readable stays right and writable.

    python -m tests.health.metadata_damage --cases 500 --seed 1

Each case damages some of: files of the metadata table (lost, cut, empty, doubled, exchanged, of an
earlier state; no base files are exchanged: once its commit is archived, no file tells what is in
one), whole partitions, its timeline, properties that list partitions which do not exist, and the
definitions of indexes.  Then the table is written to, repaired or rebuilt, and written to again.
A write does the right thing or raises a typed error; repair and rebuild are never refused, and
after them the table is sound.  Exit status 3 if a case was not.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count

import pyarrow as pa

from pyhudi.api.table import Table
from pyhudi.engine import LocalEngine
from pyhudi.errors import PyhudiError, WriteConflictError
from pyhudi.metadata.bootstrap import LISTED
from pyhudi.operations.create import create
from pyhudi.options import parse_options
from pyhudi.storage.memory import MemoryFileSystem, MemoryStore
from pyhudi.table.properties import TableType, load_config, store_config
from pyhudi.write.table_creation import NewTable
from tests.crash.torn import Totals

SCHEMA = pa.schema({"id": pa.string(), "v": pa.int64(), "w": pa.string(), "part": pa.string()})
METADATA = ".hoodie/metadata/"
DEFINITIONS = ".hoodie/.index_defs/index.json"
OPTIONS = {
    "hoodie.metadata.record.index.min.filegroup.count": "2",
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.metadata.index.bloom.filter.enable": "true",
    "hoodie.metadata.compact.max.delta.commits": "3",
    "hoodie.table.services.enabled": "false",
    "hoodie.clean.commits.retained": "1",
    "hoodie.keep.min.commits": "2",
    "hoodie.keep.max.commits": "3",
}
UNKNOWN = ("bloom_filters", "secondary_index_x", "expr_index_x", "column_stats", "partition_stats",
           "record_index", "files", "made_up")  # fmt: skip
Rows = dict[str, tuple[int, str, str]]
NUMBERS = count()


def rows(ids: range, value: int) -> Rows:
    return {f"k{n}": (value + n, f"w{n % 3}", f"p{n % 2}") for n in ids}


def batch(of: Rows) -> pa.Table:
    columns = [list(of), *(list(column) for column in zip(*of.values(), strict=True))]
    return pa.table(columns, schema=SCHEMA)


def opened(fs: MemoryFileSystem) -> Table:
    return Table(fs, options=parse_options(OPTIONS), engine=LocalEngine(1))


def copied(fs: MemoryFileSystem) -> MemoryFileSystem:
    """The same files below another root, so that no cache knows them."""
    store, root = MemoryStore(), f"damaged-{next(NUMBERS)}"
    for name, content in fs.store.files.items():
        store.files[root + name[len(fs.root) :]] = content
    return MemoryFileSystem(store, root)


@dataclass(frozen=True)
class Sound:
    """A table with every kind of index, what is in it, and its earlier states."""

    fs: MemoryFileSystem
    rows: Rows
    earlier: list[MemoryFileSystem]


def sound(version: int, kind: TableType) -> Sound:
    fs = MemoryFileSystem(root=f"sound-{version}-{kind.value}-{next(NUMBERS)}")
    settings = parse_options({**OPTIONS, "hoodie.write.table.version": str(version)})
    create(fs, NewTable(SCHEMA, "t", kind, ("id",), ("part",), (), settings))
    content: Rows = {}
    earlier = []

    def upsert(ids: range, value: int) -> None:
        earlier.append(copied(fs))
        opened(fs).upsert(batch(rows(ids, value)))
        content.update(rows(ids, value))

    upsert(range(20), 100)
    if version > 6:
        opened(fs).index.create("secondary", "w", name="of_w")
    for n in range(4):
        upsert(range(n * 3, n * 3 + 8), 200 + n * 100)
    opened(fs).delete(keys=["k3"])
    del content["k3"]
    if kind is TableType.MERGE_ON_READ:
        opened(fs).compact()
    opened(fs).clean()
    opened(fs).archive()
    upsert(range(18, 24), 900)
    upsert(range(5), 1000)
    return Sound(fs, content, earlier)


# --- damage ---------------------------------------------------------------------------------------

Damage = Callable[[MemoryFileSystem, Sound, random.Random], str]


def names_in(fs: MemoryFileSystem, folder: str) -> list[str]:
    skip = len(fs.root) + 1
    found = [name[skip:] for name in fs.store.files]
    return [name for name in found if name.startswith(folder)]


def one_file(fs: MemoryFileSystem, table: Sound, pick: random.Random) -> str:
    names = names_in(fs, METADATA)
    if not names:
        return "nothing left"
    path = pick.choice(names)
    data = fs.read(path)
    how = pick.choice(["lost", "half", "empty", "doubled", "less one", "another"])
    if how == "lost":
        fs.delete([path])
    elif how == "another" and not path.endswith(".hfile"):
        fs.replace(path, fs.read(pick.choice(names)))
    else:
        fs.replace(path, {
            "half": data[: len(data) // 2], "empty": b"", "doubled": data * 2,
            "less one": data[:-1], "another": data[:-1],
        }[how])  # fmt: skip
    return f"{how}: {path}"


def one_folder(fs: MemoryFileSystem, table: Sound, pick: random.Random) -> str:
    folders = sorted({name.rpartition("/")[0] for name in names_in(fs, METADATA)})
    if not folders:
        return "nothing left"
    folder = pick.choice([*folders, METADATA.rstrip("/")])
    earlier = pick.choice([None, *table.earlier])
    for name in names_in(fs, folder + "/"):
        fs.delete([name])
    if earlier is None:
        return f"lost: {folder}"
    for name in names_in(earlier, folder + "/"):
        fs.replace(name, earlier.read(name))
    return f"earlier {table.earlier.index(earlier)}: {folder}"


def older_timeline(fs: MemoryFileSystem, table: Sound, pick: random.Random) -> str:
    names = sorted(n for n in names_in(fs, METADATA) if "/.hoodie/" in n and "commit" in n)
    gone = names[-pick.randrange(1, 6) :]
    if pick.random() < 0.3:
        gone = [pick.choice(names)] if names else []
    fs.delete(gone)
    return f"lost: {gone}"


def properties(fs: MemoryFileSystem, table: Sound, pick: random.Random) -> str:
    config = load_config(fs)
    listed = set(config.metadata_partitions)
    name = pick.choice(UNKNOWN)
    if name not in ("files", "record_index"):  # without them the table has another index
        listed ^= {name}
    store_config(fs, config.with_properties({LISTED: ",".join(sorted(listed))}))
    return f"listed: {sorted(listed)}"


def definitions(fs: MemoryFileSystem, table: Sound, pick: random.Random) -> str:
    if not fs.exists(DEFINITIONS):
        return "no definitions"
    how = pick.choice(["lost", "half", "empty", "{}", "list"])
    data = fs.read(DEFINITIONS)
    if how == "lost":
        fs.delete([DEFINITIONS])
    else:
        fs.replace(
            DEFINITIONS,
            {"half": data[: len(data) // 2], "empty": b"", "{}": b"{}", "list": b"[]"}[how],
        )
    return f"{how}: {DEFINITIONS}"


DAMAGES: dict[Damage, int] = {
    one_file: 6, one_folder: 3, older_timeline: 2, properties: 2, definitions: 1
}  # fmt: skip


# --- one case -------------------------------------------------------------------------------------


def scanned(fs: MemoryFileSystem, *, metadata: bool = True) -> list[tuple[str, int, str, str]]:
    options = OPTIONS if metadata else {**OPTIONS, "hoodie.metadata.enable": "false"}
    table = Table(fs, options=parse_options(options), engine=LocalEngine(1))
    found = table.scan(SCHEMA.names).to_arrow().to_pylist()
    return sorted(tuple(row[name] for name in SCHEMA.names) for row in found)


def expected(of: Rows) -> list[tuple[str, int, str, str]]:
    return sorted((key, *row) for key, row in of.items())


def check_rows(fs: MemoryFileSystem, content: Rows, when: str) -> None:
    for metadata in (False, True):
        try:
            found = scanned(fs, metadata=metadata)
        except PyhudiError:
            assert metadata, f"rows cannot be read {when}"
            continue
        assert found == expected(content), f"other rows {when}, metadata {metadata}"


def check_sound(fs: MemoryFileSystem, content: Rows) -> None:
    table = opened(fs)
    assert scanned(fs) == expected(content), "other rows at the end"
    findings = [f.what + " " + f.path for f in table.metadata.verify().findings]
    assert not findings, f"verify: {findings}"
    if table.config.metadata_partitions:
        found = table.lookup(["k0", "k3", "k7", "k99"]).to_pylist()
        homes = {row["record_key"]: row["partition_path"] for row in found if row["found"]}
        assert homes == {k: content[k][2] for k in ("k0", "k3", "k7", "k99") if k in content}
    for where, test in (
        ("w = 'w1'", lambda row: row[1] == "w1"),
        ("v > 900", lambda row: row[0] > 900),
    ):
        got = table.scan(["id"], where).to_arrow()["id"].to_pylist()
        assert sorted(got) == sorted(k for k, row in content.items() if test(row)), where


def write(fs: MemoryFileSystem, content: Rows, value: int) -> None:
    new = {**rows(range(2, 6), value), **rows(range(30, 32), value)}
    try:
        opened(fs).upsert(batch(new))
    except WriteConflictError:  # a clustering that the damage interrupted
        opened(fs).cluster()
        opened(fs).upsert(batch(new))
    content.update(new)


def run(table: Sound, seed: int, totals: Totals) -> None:
    pick = random.Random(seed)
    fs, content = copied(table.fs), dict(table.rows)
    done = [
        pick.choices(list(DAMAGES), list(DAMAGES.values()))[0](fs, table, pick)
        for _ in range(pick.choice([1, 1, 1, 2, 3]))
    ]
    cure = pick.choice(["repair", "rebuild", "repair"])
    step = "read"
    try:
        check_rows(fs, content, "after the damage")
        for verb in pick.sample(["upsert", "delete", "clean", "archive", "compact", "cluster"], 2):
            step = verb
            totals.outcomes[f"{verb} {change(fs, verb, content)}"] += 1
            check_rows(fs, content, f"after {verb}")
        step = cure
        if cure == "repair":
            opened(fs).repair()
        else:
            opened(fs).metadata.rebuild()
        step = "after the cure"
        check_rows(fs, content, "after the cure")
        write(fs, content, 3000)
        check_sound(fs, content)
        write(fs, content, 4000)
        check_sound(fs, content)
    except (PyhudiError, AssertionError) as error:
        totals.bad.append(
            f"seed {seed}: {done}; {cure}; {step}: {type(error).__name__} {error}"[:900]
        )
    totals.cases += 1


def change(fs: MemoryFileSystem, verb: str, content: Rows) -> str:
    table = opened(fs)
    try:
        if verb == "upsert":
            write(fs, content, 2000)
        elif verb == "delete":
            table.delete(keys=["k4", "k20"])
            content.pop("k4", None)
            content.pop("k20", None)
        elif verb == "cluster":
            table.cluster(["v"])
        else:
            getattr(table, verb)()
    except PyhudiError as error:
        return f"refused ({error.what})" if not error.hint else "refused"
    return "done"


TABLES = [
    (version, kind) for version in (6, 8, 9) for kind in TableType
]  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--cases", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=60)
    given = parser.parse_args()
    totals, tables = Totals(), [sound(*each) for each in TABLES]
    end = time.monotonic() + given.minutes * 60
    for seed in range(given.seed, given.seed + given.cases):
        known = len(totals.bad)
        run(tables[seed % len(tables)], seed, totals)
        for problem in totals.bad[known:]:
            print(TABLES[seed % len(tables)], problem, flush=True)
        if time.monotonic() > end:
            break
    print(totals)
    return 3 if totals.bad else 0


if __name__ == "__main__":
    sys.exit(main())
