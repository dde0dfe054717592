"""The short forms of the sweeps over a failing disk and a failing object store."""

from __future__ import annotations

import pytest

from tests.crash.disk import run_with_shim
from tests.crash.store import sweep
from tests.support.faulty import faulty
from tests.support.object_stores import shared_s3


@pytest.mark.parametrize("arguments", [
    ("faults", "--every", "134", "--operations", "upsert", "compact"),
    ("power", "--every", "120", "--operations", "upsert", "clean"),
    ("reads",),
], ids=["faults", "power", "reads"])  # fmt: skip
def test_a_failing_disk_leaves_the_old_rows_or_the_new(arguments: tuple[str, ...]) -> None:
    done = run_with_shim(*arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    trials = int(done.stdout.splitlines()[-1].split()[0])
    assert trials > 3


def test_a_failing_object_store_leaves_the_old_rows_or_the_new() -> None:
    pytest.importorskip("obstore", reason="obstore is not installed")
    with faulty(shared_s3().options["endpoint"]) as proxy:
        totals = sweep(proxy, every=41, seed=1, operations=["upsert"])
    assert not totals.problems, "\n".join(totals.problems)
    assert totals.trials >= 2
