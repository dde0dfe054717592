"""Apache Hudi reads what pyhudi wrote by each merge rule; its snapshot of a merge-on-read table
is merged by itself."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pyhudi
from tests.support.apache_hudi import VERSIONS, ApacheHudi
from tests.support.merge_model import RULES, SCHEMA, TOAST, Model, Row, Rule

pytestmark = pytest.mark.interop

LACKS = {
    "0.15.0": {"python function", "event time of several columns"},
    "1.2.0": {"python function", "first value"},
}
"""Rules that a release does not have."""
CASES = [(version, name) for version in VERSIONS for name in sorted(RULES.keys() - LACKS[version])]
KINDS = [("cow", "avro", "record"), ("mor", "avro", "record"), ("mor", "parquet", "bloom")]


def batches(rule: Rule) -> list[list[Row]]:
    """Rows with duplicates and deletes; late ones too, where the rule compares."""
    r = random.Random(7)
    found = []
    for number in range(6):
        begin = 0 if rule.order else number * 10
        found.append([_row(r, begin, 14 * number + at) for at in range(14)])
    return found


def _row(r: random.Random, begin: int, number: int) -> Row:
    time = begin + r.randrange(9)
    return {
        "id": f"k{r.randrange(10)}",
        "ts": time,
        "lsn": r.randrange(3),
        "_event_lsn": time,
        # as many digits each, as 0.15.0 compares them in logs as text; none twice, as it takes the
        # base file's record, not a logged one, of equal sequences
        "_event_seq": f"{r.randrange(10, 14)}.{r.randrange(10, 14)}{number:02d}",
        "_change_operation_type": r.choice(["c", "u", "u", "u", "d"]),
        "Op": r.choice([None, "I", "U", "U", "D"]),
        "name": r.choice([None, "x", "y", "gone", TOAST]),
        "price": r.choice([None, 1.0, 2.5]),
        "tags": r.choice([None, [], ["p"], ["p", None]]),
        "addr": r.choice([None, {"city": "k", "zip": None}, {"city": None, "zip": 7}]),
        "_hoodie_is_deleted": r.choice([None, False, False, False, True]),
    }


def texts(rows: list[Row]) -> list[str]:
    return sorted(json.dumps({name: row[name] for name in SCHEMA.names}) for row in rows)


@pytest.mark.covering(1)
@pytest.mark.parametrize(("kind", "log", "index"), KINDS)
@pytest.mark.parametrize(("apache", "name"), CASES, indirect=["apache"])
def test_apache_hudi_reads_what_each_rule_wrote(
    name: str, kind: str, log: str, index: str, tmp_path: Path, apache: ApacheHudi
) -> None:
    rule = RULES[name]
    path = tmp_path / "t"
    options: dict[str, Any] = {**rule.table_options, "hoodie.logfile.data.block.format": log}
    table = pyhudi.create_table(
        path, SCHEMA, record_key="id", ordering=rule.ordering, table_type=kind, index=index,
        version=6, options=options,
    )  # fmt: skip
    model = Model(rule)
    for number, batch in enumerate(batches(rule)):
        model.upsert(batch)
        table.upsert(pa.Table.from_pylist(batch, SCHEMA))
        if number == 3:
            model.rows.pop("k1", None)
            table.delete(keys=["k1"])
    assert texts(table.scan().to_arrow().to_pylist()) == texts(list(model.rows.values()))
    found = apache.read(path, mdt="on").to_pylist()
    assert texts(found) == texts(list(model.rows.values()))
