"""The table of option names: whole, and without doubt about any name."""

from __future__ import annotations

import csv
import logging
import re
from pathlib import Path

import pytest

from pyhudi.errors import OptionError
from pyhudi.options import parse_options
from pyhudi.options.meanings import meaning_of
from pyhudi.options.option_row import Fate
from pyhudi.options.registry import AREAS, BY_NAME
from pyhudi.options.settings import Options

GOLDEN = Path(__file__).parents[1] / "golden"
ROWS = [row for rows in AREAS.values() for row in rows]


def names_of_apache_hudi() -> dict[str, tuple[str, ...]]:
    """Every name of Apache Hudi 0.15.0 and 1.2.0, with its aliases."""
    with (GOLDEN / "options" / "names.tsv").open(encoding="utf-8") as lines:
        return {
            line["key"]: tuple(a.strip() for a in line["aliases"].split(",") if a.strip())
            for line in csv.DictReader(lines, delimiter="\t")
        }


def test_every_name_of_apache_hudi_has_a_fate() -> None:
    known = names_of_apache_hudi()
    expected = set(known) | {alias for aliases in known.values() for alias in aliases}
    assert sorted(expected - BY_NAME.keys()) == []


def test_an_alias_has_the_fate_of_its_name() -> None:
    apart = [
        (name, alias)
        for name, aliases in names_of_apache_hudi().items()
        for alias in aliases
        if BY_NAME[alias].to != BY_NAME[name].to or BY_NAME[alias].fate != BY_NAME[name].fate
    ]
    assert apart == []


def test_the_options_that_the_page_names_first_are_supported() -> None:
    page = (Path(__file__).parents[2] / "docs" / "options.md").read_text("utf-8")
    first = page.split("## The ten that matter first")[1].split("##")[0]
    names = re.findall(r"^\| `([\w.]+)`", first, re.MULTILINE)
    assert len(names) == 10
    assert all(BY_NAME[name].fate in (Fate.HONOURED, Fate.MAPPED) for name in names)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_row_says_what_its_fate_needs(row) -> None:
    if row.fate in (Fate.HONOURED, Fate.MAPPED, Fate.INGEST):
        assert row.value is not None
    else:
        assert row.value is None and row.to is None and row.note
    if row.to:
        target = Options()
        for part in row.to.split("."):
            target = getattr(target, part)  # raises where the field is gone
    for text in row.harmless:
        assert parse_options({row.name: text}) == Options()


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_every_option_has_a_meaning(row) -> None:
    assert len(meaning_of(row)) > 10


def test_an_unknown_name_says_which_one_was_meant() -> None:
    with pytest.raises(OptionError, match=r"did you mean .*hoodie\.parquet\.max\.file\.size"):
        parse_options({"hoodie.parquet.max.filesize": "1"})


def test_a_refused_name_says_why_and_what_to_use() -> None:
    with pytest.raises(OptionError, match=r"Java class.*hoodie\.index\.type"):
        parse_options({"hoodie.index.class": "org.example.Index"})


def test_an_impossible_value_says_what_is_allowed() -> None:
    with pytest.raises(OptionError, match="size such as 67108864 or 64mb"):
        parse_options({"hoodie.parquet.max.file.size": "many"})
    with pytest.raises(OptionError, match="from 1 to 10000"):
        parse_options({"hoodie.metadata.record.index.min.filegroup.count": "0"})


@pytest.mark.parametrize(
    ("text", "bytes_"), [("67108864", 67108864), ("64mb", 64 << 20), ("1.5 GB", 3 << 29)]
)
def test_sizes_are_bytes_or_carry_a_unit(text: str, bytes_: int) -> None:
    options = parse_options({"hoodie.parquet.max.file.size": text})
    assert options.write.sizing.file_bytes_max == bytes_


@pytest.mark.parametrize(("text", "seconds"), [("500", 0.5), ("2s", 2.0), ("3 min", 180.0)])
def test_durations_are_in_the_unit_of_the_name_or_carry_one(text: str, seconds: float) -> None:
    assert parse_options({"hoodie.write.lock.wait_time_ms": text}).write.lock_seconds == seconds


def test_names_that_describe_a_table_are_collected() -> None:
    request = parse_options(
        {
            "hoodie.table.name": "trips",
            "hoodie.datasource.write.table.name": "trips",
            "hoodie.datasource.write.storage.type": "merge_on_read",
            "hoodie.datasource.write.recordkey.field": "id, day",
            "hoodie.datasource.write.partitionpath.field": "",
            "hoodie.datasource.write.precombine.field": "ts",
            "hoodie.datasource.write.operation": "UPSERT",
            "hoodie.datasource.write.keygenerator.class": "org.example.ComplexKeyGenerator",
        }
    ).request
    assert (request.name, request.table_type) == ("trips", "MERGE_ON_READ")
    assert (request.record_key, request.partition_by) == (("id", "day"), ())
    assert (request.ordering, request.operation) == (("ts",), "upsert")
    assert request.key_generator == "COMPLEX"


def test_names_of_one_setting_may_not_disagree() -> None:
    with pytest.raises(OptionError, match=r"conflicting options.*hoodie\.table\.name=a"):
        parse_options({"hoodie.table.name": "a", "hoodie.datasource.write.table.name": "b"})


def test_names_without_effect_are_listed_and_logged_once(caplog) -> None:
    caplog.set_level(logging.INFO, logger="pyhudi")
    given = {"hoodie.datasource.hive_sync.jdbcurl": "jdbc", "hoodie.metrics.on": "true"}
    assert parse_options(given).ignored == tuple(given)
    assert len(caplog.records) == 1


def test_names_with_the_prefix_of_commit_metadata_are_retained() -> None:
    assert parse_options({"_job": 7}).write.commit_metadata == {"_job": "7"}
    given = {"hoodie.datasource.write.commitmeta.key.prefix": "my.", "my.job": "x"}
    assert parse_options(given).write.commit_metadata == {"my.job": "x"}


@pytest.mark.parametrize(
    "name",
    [
        "hoodie.memory.nonsense", "hoodie.metrics.nonsense", "hoodie.filesystem.view.nonsense",
        "hoodie.embed.timeline.server.nonsense", "hoodie.datasource.hive_sync.nonsense",
        "hoodie.datasource.meta.sync.nonsense",
    ],
)  # fmt: skip
def test_an_unknown_name_is_rejected_whatever_it_starts_with(name: str) -> None:
    with pytest.raises(OptionError, match="unknown option"):
        parse_options({name: "1"})


@pytest.mark.parametrize(
    "name",
    ["hoodie.write.ignore.failed", "hoodie.datasource.hive_sync.bucket_sync"],
)
def test_a_feature_that_is_missing_cannot_be_switched_on(name: str) -> None:
    assert parse_options({name: "false"}) == Options()
    with pytest.raises(OptionError, match="accepted: false"):
        parse_options({name: "true"})


def test_the_order_of_options_does_not_matter() -> None:
    given = {
        "hoodie.keep.max.commits": "5",
        "hoodie.keep.min.commits": "4",
        "hoodie.clustering.execution.strategy.class": "SparkSingleFileSortExecutionStrategy",
        "hoodie.clustering.plan.strategy.class": "SparkSingleFileSortPlanStrategy",
    }
    turned = dict(reversed(given.items()))
    assert parse_options(given) == parse_options(turned) != Options()


def test_strategies_of_clustering_that_do_not_fit_are_rejected() -> None:
    with pytest.raises(OptionError, match="SparkSingleFileSortPlanStrategy"):
        parse_options({"hoodie.clustering.execution.strategy.class":
                       "SparkSingleFileSortExecutionStrategy"})  # fmt: skip
