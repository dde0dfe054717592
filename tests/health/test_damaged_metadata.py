"""Damage to the metadata table: rows stay right, repair and rebuild are not refused."""

from __future__ import annotations

import random
from datetime import datetime, timedelta, tzinfo
from itertools import permutations

import pytest

from pyhudi.errors import IndexNotReadyError
from pyhudi.metadata.bootstrap import LISTED
from pyhudi.operations.create import create
from pyhudi.options import parse_options
from pyhudi.storage.memory import MemoryFileSystem
from pyhudi.table.properties import TableType, load_config, store_config
from pyhudi.timeline import clock
from pyhudi.write.table_creation import NewTable
from tests.health.metadata_damage import (
    DEFINITIONS,
    METADATA,
    OPTIONS,
    SCHEMA,
    TABLES,
    Totals,
    batch,
    change,
    check_rows,
    check_sound,
    copied,
    names_in,
    opened,
    rows,
    run,
    sound,
)


@pytest.mark.parametrize("count", [1, pytest.param(3, marks=pytest.mark.long)])
@pytest.mark.parametrize(
    ("first", "version", "kind"),
    [
        (0, 9, TableType.MERGE_ON_READ),
        (1, 8, TableType.COPY_ON_WRITE),
        (2, 6, TableType.MERGE_ON_READ),
    ],
)
def test_a_table_with_a_damaged_metadata_table_can_be_repaired(
    first: int, version: int, kind: TableType, count: int
) -> None:
    totals, table = Totals(), sound(version, kind)
    for turn in range(count):
        run(table, (first + turn) % 3, totals)
    assert not totals.bad


@pytest.mark.slow
def test_random_damage_to_metadata_tables() -> None:
    totals, tables = Totals(), [sound(*each) for each in TABLES]
    for seed in range(300):
        run(tables[seed % len(tables)], seed, totals)
    print(totals)
    assert not totals.bad


def _lose_last_commit(fs: MemoryFileSystem) -> None:
    """Of the metadata table's timeline; the table keeps it."""
    last = opened(fs).timeline.commits.last
    assert last is not None
    names = names_in(fs, f"{METADATA}.hoodie/")
    named = f"/{last.time}_", f"/{last.time}.deltacommit"
    (completed,) = (n for n in names if any(s in n for s in named) and n.endswith("commit"))
    fs.delete([completed])


@pytest.mark.parametrize(("version", "kind"), [TABLES[0], TABLES[-1]])
def test_no_partition_is_created_in_a_metadata_table_that_lacks_a_commit(
    version: int, kind: TableType
) -> None:
    fs = sound(version, kind).fs
    _lose_last_commit(fs)
    config = load_config(fs)
    listed = config.metadata_partitions - {"bloom_filters"}
    store_config(fs, config.with_properties({LISTED: ",".join(listed)}))
    with pytest.raises(IndexNotReadyError, match="lacks a commit"):
        opened(fs).upsert(batch(rows(range(3), 5000)))
    assert load_config(fs).metadata_partitions == listed


@pytest.mark.parametrize("version", [6, 9])
def test_a_later_partition_does_not_hide_a_lost_commit_of_the_metadata_table(version: int) -> None:
    fs = sound(version, TableType.MERGE_ON_READ).fs
    opened(fs).index.drop("bloom_filters")
    opened(fs).index.create("bloom_filters")
    _lose_last_commit(fs)
    with pytest.raises(IndexNotReadyError, match="lacks a commit"):
        opened(fs).upsert(batch(rows(range(3), 5000)))


@pytest.mark.parametrize("lost", [slice(0, 1), slice(None)])
def test_a_later_rollback_or_commit_does_not_hide_the_first_lost_commits(lost: slice) -> None:
    """Layout 1, whose metadata table was created before all commits; the refused write leaves a
    rollback there."""
    fs = MemoryFileSystem(root="lost-first")
    settings = parse_options({**OPTIONS, "hoodie.write.table.version": "6"})
    create(fs, NewTable(SCHEMA, "t", TableType.COPY_ON_WRITE, ("id",), ("part",), (), settings))
    content = rows(range(6), 100)
    for key, row in content.items():
        opened(fs).insert(batch({key: row}))
    times = [each.time for each in opened(fs).timeline.commits][lost]
    fs.delete([f"{METADATA}.hoodie/{time}.deltacommit" for time in times])
    check_rows(fs, content, "after the damage")
    with pytest.raises(IndexNotReadyError, match="lacks a commit"):
        opened(fs).upsert(batch(rows(range(3), 5000)))
    check_rows(fs, content, "after the refused write")


@pytest.mark.parametrize("version", [6, 9])
def test_a_delete_does_not_search_the_index_of_a_metadata_table_that_lacks_commits(
    version: int,
) -> None:
    table = sound(version, TableType.MERGE_ON_READ)
    fs, earlier = table.fs, table.earlier[1]
    for name in names_in(fs, METADATA):
        fs.delete([name])
    for name in names_in(earlier, METADATA):
        fs.replace(name, earlier.read(name))
    with pytest.raises(IndexNotReadyError, match="lacks a commit"):
        opened(fs).delete(keys=["k20"])


@pytest.mark.parametrize(("version", "kind"), [TABLES[0], TABLES[3], TABLES[5]])
def test_a_delete_leaves_no_row_where_any_file_of_the_record_index_is_lost(
    version: int, kind: TableType
) -> None:
    table = sound(version, kind)
    for lost in names_in(table.fs, f"{METADATA}record_index/"):
        fs, content = copied(table.fs), dict(table.rows)
        fs.delete([lost])
        change(fs, "delete", content)
        check_rows(fs, content, f"after the delete without {lost}")


@pytest.mark.parametrize(("version", "kind"), [TABLES[1], TABLES[2]])
def test_rows_are_right_where_any_log_of_the_metadata_table_is_another(
    version: int, kind: TableType
) -> None:
    table, pick = sound(version, kind), random.Random(version)
    logs = [name for name in names_in(table.fs, METADATA) if ".log." in name]
    for lost in (name for name in logs if "/files/" in name or "/record_index/" in name):
        fs, content, other = copied(table.fs), dict(table.rows), pick.choice(logs)
        fs.replace(lost, fs.read(other))
        check_rows(fs, content, f"with {other} as {lost}")
        change(fs, "delete", content)
        check_rows(fs, content, f"after the delete with {other} as {lost}")


@pytest.mark.parametrize(("version", "kind"), TABLES)
def test_no_key_is_lost_where_base_files_of_the_record_index_are_exchanged(
    version: int, kind: TableType
) -> None:
    """Their commit may be archived, so that no file tells their sizes."""
    table = sound(version, kind)
    found = names_in(table.fs, f"{METADATA}record_index/")
    for first, second in permutations([name for name in found if name.endswith(".hfile")], 2):
        fs, content = copied(table.fs), dict(table.rows)
        fs.replace(first, table.fs.read(second))
        change(fs, "upsert", content)
        check_rows(fs, content, f"after the upsert with {second} as {first}")
        change(fs, "delete", content)
        check_rows(fs, content, f"after the delete with {second} as {first}")


@pytest.mark.parametrize(("version", "kind"), TABLES[4:])
def test_filters_find_all_rows_where_files_of_the_secondary_index_are_exchanged(
    version: int, kind: TableType
) -> None:
    table = sound(version, kind)
    found = names_in(table.fs, f"{METADATA}secondary_index_of_w/")
    bases = [name for name in reversed(found) if name.endswith(".hfile")]
    for first, second in permutations(bases, 2):
        fs = copied(table.fs)
        fs.replace(first, table.fs.read(second))
        for w in {row[1] for row in table.rows.values()}:
            keys = opened(fs).scan(["id"], f"w = '{w}'").to_arrow()["id"].to_pylist()
            assert sorted(keys) == sorted(k for k, row in table.rows.items() if row[1] == w)
    assert not opened(fs).metadata.verify().is_healthy
    opened(fs).repair()
    check_sound(fs, table.rows)


def test_ranges_of_partitions_alone_are_rebuilt_without_their_definition() -> None:
    fs = sound(8, TableType.MERGE_ON_READ).fs
    fs.replace(DEFINITIONS, b"{}")
    config = load_config(fs)
    listed = config.metadata_partitions - {"column_stats"}
    store_config(fs, config.with_properties({LISTED: ",".join(listed)}))
    opened(fs).repair()
    opened(fs).upsert(batch(rows(range(3), 5000)))
    assert opened(fs).metadata.verify().is_healthy
    assert "secondary_index_of_w" not in load_config(fs).metadata_partitions


def test_a_metadata_table_built_by_a_clock_that_is_behind_has_every_commit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its creation completes after the newest commit, which another machine wrote."""
    fs = sound(9, TableType.COPY_ON_WRITE).fs

    class Behind(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]
            return datetime.now(tz) - timedelta(hours=1)

    with monkeypatch.context() as patch:
        patch.setattr(clock, "datetime", Behind)
        opened(fs).metadata.rebuild()
    opened(fs).upsert(batch(rows(range(3), 5000)))
