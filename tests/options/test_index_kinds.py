"""What differs between kinds of index is a property of the kind, stated in one place."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from pyhudi.options import IndexKind, parse_options

PACKAGE = Path(__file__).parents[2] / "pyhudi"


def names_a_kind(node: ast.AST) -> bool:
    return any(
        isinstance(each, ast.Attribute)
        and isinstance(each.value, ast.Name)
        and each.value.id == "IndexKind"
        for each in ast.walk(node)
    )


def test_no_module_checks_which_kind_an_index_is() -> None:
    found = [
        f"{path.relative_to(PACKAGE)}:{node.lineno}"
        for path in sorted(PACKAGE.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Compare | ast.MatchValue) and names_a_kind(node)
    ]
    assert not found, "make it a property of options.indexes.IndexTraits:\n" + "\n".join(found)


TABLE = {
    "is_global": "record global_bloom global_simple rocksdb hbase elastic",
    "is_record_index": "record partitioned_record elastic",
    "by_partition": "partitioned_record",
    "is_store": "rocksdb hbase",
    "stores_entries": "record partitioned_record rocksdb hbase elastic",
    "is_default": "record",
    "grows": "elastic",
    "names_places": "bucket",
    "reads_filters": "bloom global_bloom",
    "names_deleted_keys": "bloom simple bucket",
    "rereads_undone": "hbase",
}


@pytest.mark.parametrize("name", TABLE)
def test_each_kind_has_its_properties(name: str) -> None:
    assert {k.value for k in IndexKind if getattr(k.traits, name)} == set(TABLE[name].split())


@pytest.mark.parametrize(
    ("given", "moving"),
    [
        ({}, "global_bloom global_simple"),
        (
            {"hoodie.record.index.update.partition.path": "true"},
            "record elastic global_bloom global_simple",
        ),
        ({"hoodie.bloom.index.update.partition.path": "false"}, "global_simple"),
        ({"hoodie.simple.index.update.partition.path": "false"}, "global_bloom"),
        ({"hoodie.hbase.index.update.partition.path": "true"}, "hbase global_bloom global_simple"),
    ],
)
def test_a_key_that_comes_with_another_partition_moves_where_the_kind_s_option_says(
    given: dict[str, str], moving: str
) -> None:
    write = parse_options(given).write
    moved = {
        kind.value
        for kind in IndexKind
        if kind.traits.moves(write.index_rules, write.update_partition_path)
    }
    assert moved == set(moving.split())


def test_new_keys_go_to_logs_where_the_index_finds_them_there() -> None:
    def logging(given: dict[str, str]) -> set[str]:
        rules = parse_options(given).write.index_rules
        return {kind.value for kind in IndexKind if kind.traits.logs_inserts(rules)}

    assert logging({}) == {"hbase"}
