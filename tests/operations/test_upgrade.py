"""Upgrade of tables of versions 0 to 5: the rows stay, and version 6 can be written."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import pyhudi
from pyhudi.api.table import Table
from pyhudi.engine import LocalEngine
from pyhudi.options import parse_options
from pyhudi.storage.filesystem import FileSystem
from pyhudi.storage.memory import MemoryFileSystem
from pyhudi.table.properties import format_properties, parse_properties
from tests.cli.test_commands import answer, run
from tests.support.filesystems import every_stop
from tests.support.foreign import foreign_table, row_counts

OPTIONS = {"hoodie.index.type": "SIMPLE"}
OLD = ("mor_v3", "mor_v4", "mor_v5")


def opened(path: Path) -> pyhudi.Table:
    return pyhudi.open_table(path, options=OPTIONS)


def content(root: Path) -> dict[str, bytes]:
    files = (path for path in root.rglob("*") if path.is_file())
    return {str(path): path.read_bytes() for path in files if "lock" not in path.name}


def properties(root: Path) -> dict[str, str]:
    return parse_properties((root / ".hoodie" / "hoodie.properties").read_bytes())


def edit(root: Path, *without: str, **updates: str) -> None:
    """Change the properties; dots in names are written as `__`."""
    changed = properties(root) | {name.replace("__", "."): text for name, text in updates.items()}
    left = {name: text for name, text in changed.items() if name not in without}
    (root / ".hoodie" / "hoodie.properties").write_bytes(format_properties(left))


def as_version_0(root: Path) -> None:
    """The properties as version 0 wrote them: name, type and payload."""
    stays = ("hoodie.table.name", "hoodie.table.type", "hoodie.compaction.payload.class")
    edit(root, *(name for name in properties(root) if name not in stays))


def reopen_newest(root: Path) -> str:
    """Make the newest commit a write that died before its commit point."""
    newest = max((root / ".hoodie").glob("*.deltacommit"))
    newest.unlink()
    return newest.name.partition(".")[0]


def rows_of(table: pyhudi.Table) -> pa.Table:
    return table.scan(with_meta=False).to_arrow()


@pytest.mark.parametrize("name", OLD)
def test_an_upgraded_table_has_its_rows_and_is_written(name: str, tmp_path: Path) -> None:
    root = foreign_table(name, tmp_path)
    table = opened(root)
    version, before = table.config.version, table.scan().to_arrow()
    files = {path for path in content(root) if "hoodie.properties" not in path}
    preview = table.upgrade(6, dry_run=True)
    done = table.upgrade(6)
    assert (done.from_version, done.to_version) == (version, 6)
    assert preview.dry_run and preview.properties == done.properties
    assert done.properties["hoodie.table.version"] == "6"
    assert files <= content(root).keys()
    assert table.config.version == 6 and not table.config.metadata_partitions
    assert row_counts(table.scan().to_arrow()) == row_counts(before)
    assert table.doctor().is_healthy and not table.doctor().findings
    rows = rows_of(table)
    report = table.upsert(rows.slice(0, 3))
    assert (report.matched, report.new) == (3, 0)
    assert row_counts(rows_of(table)) == row_counts(rows)
    assert table.config.metadata_partitions == {"files"}
    table.metadata.rebuild()
    table.compact()
    assert row_counts(rows_of(table)) == row_counts(rows)
    assert not table.doctor().findings


@pytest.mark.parametrize("name", OLD)
def test_an_upgraded_table_states_what_version_6_needs(name: str, tmp_path: Path) -> None:
    root = foreign_table(name, tmp_path)
    before = properties(root)
    opened(root).upgrade(6)
    after = properties(root)
    listing = "hoodie.table.metadata.partitions"
    changed = {key for key in before if after.get(key) != before[key]}
    assert changed <= {"hoodie.table.version", listing} and listing not in after
    assert after["hoodie.timeline.layout.version"] == "1"
    assert after["hoodie.table.timeline.timezone"] == "LOCAL"
    assert after["hoodie.table.base.file.format"] == "PARQUET"
    assert after["hoodie.datasource.write.hive_style_partitioning"] == "false"
    assert after["hoodie.table.keygenerator.class"].endswith(".SimpleKeyGenerator")
    assert after["hoodie.table.checksum"].isdigit()


def test_columns_that_version_0_does_not_state_are_required(tmp_path: Path) -> None:
    root = foreign_table("mor_v5", tmp_path)
    rows = rows_of(opened(root))
    as_version_0(root)
    table, before = opened(root), content(root)
    assert table.config.version == 0
    with pytest.raises(pyhudi.UserError, match="record_key, partition_by"):
        table.upgrade(6)
    with pytest.raises(pyhudi.UserError, match="no such columns"):
        table.upgrade(6, record_key="nowhere", partition_by="partition")
    with pytest.raises(pyhudi.UserError, match="differs from the one computed"):
        table.upgrade(6, record_key="ts", partition_by="partition")
    assert content(root) == before
    table.upgrade(6, record_key="id", partition_by="partition", ordering="ts")
    assert table.config.record_key_fields == ("id",)
    assert table.config.ordering_fields == ("ts",)
    assert table.config.key_generator_name == "SimpleKeyGenerator"
    assert row_counts(rows_of(table)) == row_counts(rows)
    assert table.upsert(rows.slice(0, 2)).matched == 2
    assert not table.doctor().findings


def test_columns_that_contradict_the_properties_are_refused(tmp_path: Path) -> None:
    root = foreign_table("mor_v5", tmp_path)
    table, before = opened(root), content(root)
    for given in ({"record_key": "name"}, {"partition_by": ["id"]}, {"ordering": "id"}):
        with pytest.raises(pyhudi.UserError, match="contradicts"):
            table.upgrade(6, **given)  # type: ignore[arg-type]
    assert content(root) == before


def test_hive_style_paths_of_old_tables_are_recognised(tmp_path: Path) -> None:
    rows = pa.table({"id": ["a", "b"], "city": ["x:y", "z"], "ts": [1, 1]})
    encoded = {
        "hoodie.datasource.write.hive_style_partitioning": "true",
        "hoodie.datasource.write.partitionpath.urlencode": "true",
    }
    made = pyhudi.create_table(
        tmp_path / "t", rows.schema, record_key="id", partition_by="city", ordering="ts",
        version=6, options=encoded,
    )  # fmt: skip
    made.bulk_insert(rows)
    as_version_0(tmp_path / "t")
    table = opened(tmp_path / "t")
    report = table.upgrade(6, record_key="id", partition_by="city")
    assert report.metadata_dropped and not (tmp_path / "t/.hoodie/metadata").exists()
    assert table.config.hive_style and table.config.url_encoded
    assert table.upsert(rows).matched == 2
    assert row_counts(rows_of(table)) == row_counts(rows)


@pytest.mark.parametrize("name", ["mor_v5", "cow_v6"])
def test_an_upgrade_without_a_target_gives_the_version_of_new_tables(
    name: str, tmp_path: Path
) -> None:
    if name == "cow_v6":
        root = tmp_path / "t"
        rows = pa.table({"id": ["a"], "v": [1]})
        pyhudi.create_table(root, rows, record_key="id", version=6).insert(rows)
    else:
        root = foreign_table(name, tmp_path)
    before = row_counts(rows_of(opened(root)))
    new = pyhudi.create_table(tmp_path / "new", pa.schema({"id": pa.string()}), record_key="id")
    report = opened(root).upgrade()
    assert report.to_version == new.config.version == opened(root).config.version == 9
    assert row_counts(rows_of(opened(root))) == before
    with pytest.raises(pyhudi.UserError):
        opened(root).upgrade()


def test_other_versions_are_no_target_and_new_tables_need_no_upgrade(tmp_path: Path) -> None:
    root = foreign_table("mor_v4", tmp_path)
    table, before = opened(root), content(root)
    for to in (5, 7, 10, 0, True, "6"):
        with pytest.raises(pyhudi.UserError, match="unsupported target version"):
            table.upgrade(to)  # type: ignore[arg-type]
    assert content(root) == before
    table.upgrade(6)
    before = content(root)
    for dry_run in (True, False):
        with pytest.raises(pyhudi.UserError, match="needs no upgrade"):
            table.upgrade(6, dry_run=dry_run)
    assert content(root) == before


def test_a_failed_write_is_rolled_back(tmp_path: Path) -> None:
    root = foreign_table("mor_v5", tmp_path)
    failed = reopen_newest(root)
    table = opened(root)
    before = row_counts(table.scan().to_arrow())
    assert table.upgrade(6, dry_run=True).rolled_back == (failed,)
    assert table.timeline.pending
    assert table.upgrade(6).rolled_back == (failed,)
    assert not table.timeline.pending
    assert row_counts(table.scan().to_arrow()) == before
    assert not table.doctor().findings


def test_pending_services_are_named_and_nothing_changes(tmp_path: Path) -> None:
    root = foreign_table("mor_v5", tmp_path)
    (root / ".hoodie" / "20990101000000000.compaction.requested").write_bytes(b"")
    (root / ".hoodie" / "20990101000000001.clean.requested").write_bytes(b"")
    table, before = opened(root), content(root)
    for dry_run in (True, False):
        with pytest.raises(
            pyhudi.UserError, match=r"0\.compaction\.requested, .*1\.clean\.requested"
        ):
            table.upgrade(6, dry_run=dry_run)
    assert content(root) == before


def test_a_write_that_is_alive_is_named_and_nothing_changes(tmp_path: Path) -> None:
    root = foreign_table("mor_v5", tmp_path)
    alive = reopen_newest(root)
    (root / ".hoodie" / ".heartbeat").mkdir()
    (root / ".hoodie" / ".heartbeat" / alive).touch()
    table, before = opened(root), content(root)
    with pytest.raises(pyhudi.UserError, match=f"{alive}.deltacommit.inflight"):
        table.upgrade(6)
    assert content(root) == before


@pytest.mark.parametrize("version", ["4", "5"])
def test_the_folder_of_null_partition_values_before_version_5_is_refused(
    tmp_path: Path, version: str
) -> None:
    root = foreign_table(f"mor_v{version}", tmp_path)
    some = next(path.parent for path in root.rglob(".hoodie_partition_metadata"))
    (root / "default").mkdir()
    metafile = (some / ".hoodie_partition_metadata").read_bytes()
    (root / "default" / ".hoodie_partition_metadata").write_bytes(metafile)
    if version == "4":
        with pytest.raises(pyhudi.UserError, match="null partition values"):
            opened(root).upgrade(6)
        assert properties(root)["hoodie.table.version"] == "4"
        accepting = OPTIONS | {"hoodie.skip.default.partition.validation": "true"}
        pyhudi.open_table(root, options=accepting).upgrade(6)
    else:  # it has rows of the text "default"
        opened(root).upgrade(6)
    assert properties(root)["hoodie.table.version"] == "6"


def test_a_table_that_could_not_be_written_is_not_upgraded(tmp_path: Path) -> None:
    root = foreign_table("mor_v5", tmp_path)
    edit(root, hoodie__partition__metafile__use__base__format="true")
    before = content(root)
    with pytest.raises(pyhudi.UnsupportedTableError, match="metafiles"):
        opened(root).upgrade(6)
    assert content(root) == before


def test_a_refused_write_names_the_upgrade(tmp_path: Path) -> None:
    table = opened(foreign_table("mor_v3", tmp_path))
    rows = rows_of(table)
    for attempt in (lambda: table.upsert(rows), table.compact, table.metadata.rebuild):
        with pytest.raises(pyhudi.UnsupportedTableError) as refused:
            attempt()
        assert "table.upgrade()" in str(refused.value)


def test_an_upgrade_cut_short_anywhere_leaves_a_table_that_is_read_and_upgraded(
    tmp_path: Path,
) -> None:
    root = foreign_table("mor_v5", tmp_path)
    reopen_newest(root)
    rows = row_counts(opened(root).scan().to_arrow())
    fs = MemoryFileSystem()
    for path in (path for path in root.rglob("*") if path.is_file()):
        fs.replace(str(path.relative_to(root)), path.read_bytes())
    fs.replace(".hoodie/metadata/files/.gone", b"an old metadata table")

    def open_(store: FileSystem) -> Table:
        return Table(store, options=parse_options(OPTIONS), engine=LocalEngine(1))

    for stop in every_stop(fs, lambda store: open_(store).upgrade(6)):
        table = open_(stop.fs)
        assert table.config.version in (5, 6)
        assert row_counts(table.scan().to_arrow()) == rows, stop
        if table.config.version == 5:
            table.upgrade(6)
        assert table.config.version == 6 and not table.timeline.pending, stop
        table.upsert(rows_of(table).slice(0, 1))
        assert not table.doctor().findings, stop


def test_the_command_reports_confirms_and_upgrades(tmp_path: Path) -> None:
    root = foreign_table("mor_v4", tmp_path)
    before = content(root)
    preview = answer("table", "upgrade", root, "--dry-run")
    assert isinstance(preview, dict) and (preview["from_version"], preview["dry_run"]) == (4, True)
    unanswered = run("table", "upgrade", root)
    assert unanswered.returncode == 2 and "cannot be undone" in unanswered.stderr
    assert content(root) == before
    done = answer("table", "upgrade", root, "--yes", "--to", 6)
    assert isinstance(done, dict) and done["to_version"] == 6
    again = run("table", "upgrade", root, "--yes", "--to", 6)
    assert again.returncode == 2 and "needs no upgrade" in again.stderr
