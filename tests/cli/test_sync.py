"""`pyhudi sync` as a user calls it, with the metastore of the tests."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pyhudi.cli.app import run
from tests.support.fake_metastore import metastore
from tests.sync.test_entries import create


def call(words: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        run(words)
    output = capsys.readouterr()
    assert isinstance(ended.value.code, int)
    return ended.value.code, output.out, output.err


def test_a_table_is_registered(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    create(tmp_path / "trips")
    words = ["sync", str(tmp_path / "trips"), "--database", "lake", "--json"]
    with metastore() as (uri, handler):
        words += ["--option", f"hoodie.datasource.hive_sync.metastore.uris={uri}"]
        planned = json.loads(call([*words, "--dry-run"], capsys)[1])
        assert handler.tables == {} and planned["dry_run"]
        done = json.loads(call(words, capsys)[1])
        assert list(handler.tables) == [("lake", "trips")]
    assert done["entries"][0]["partitions_added"] == 3
    assert done["synced_instant"] == planned["synced_instant"]


def test_a_metastore_that_is_away_is_a_failure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    create(tmp_path / "trips")
    words = ["sync", str(tmp_path / "trips"), "--uri", "thrift://127.0.0.1:1"]
    code, _, errors = call(words, capsys)
    assert code == 1 and "cannot be reached" in errors
    code, _, errors = call([*words[:-1], "127.0.0.1:1"], capsys)
    assert code == 2 and "not the address" in errors


def test_the_event_of_the_newest_commit_is_sent(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    create(tmp_path / "trips")
    file = tmp_path / "events.jsonl"
    words = ["sync", str(tmp_path / "trips"), "--catalog", "openlineage", "--json"]
    assert call(words, capsys)[0] == 2
    words += ["--uri", f"file:{file}"]
    planned = json.loads(call([*words, "--dry-run"], capsys)[1])
    assert not file.exists()
    done = json.loads(call(words, capsys)[1])
    assert done["entries"][0]["events_sent"] == planned["entries"][0]["events_sent"] == 1
    facets = json.loads(file.read_text())["outputs"][0]["facets"]
    assert facets["version"]["datasetVersion"] == done["synced_instant"]


def test_a_manifest_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    create(tmp_path / "trips")
    words = ["manifest", str(tmp_path / "trips"), "--json"]
    urls = tmp_path / "trips/.hoodie/absolute-path-manifest/latest-snapshot.csv"
    names = tmp_path / "trips/.hoodie/manifest/latest-snapshot.csv"
    planned = json.loads(call([*words, "--dry-run"], capsys)[1])
    assert planned["dry_run"] and not urls.exists()
    done = json.loads(call(words, capsys)[1])
    assert done["base_files"] == planned["base_files"] == len(urls.read_text().splitlines()) > 0
    assert not names.exists()
    assert (
        json.loads(call([*words, "--names"], capsys)[1])["path"]
        == ".hoodie/manifest/latest-snapshot.csv"
    )
    assert {line.rsplit("/", 1)[1] for line in urls.read_text().splitlines()} == set(
        names.read_text().splitlines()
    )
