"""The ledger of long proofs: what is run next, what is stored, and its parts."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests import ledger
from tests.fuzz.targets import targets
from tests.ledger import Proof, judged, load, main, oldest_first

TESTS = Path(__file__).parent
KNOWN = [
    Proof("a/1-of-2", "echo 12 files, seed {seed}"),
    Proof("a/2-of-2", "echo found; echo seed {seed} is bad; exit 3"),
    Proof("b", "echo never", "$PYHUDI_NO_SUCH_SERVICE"),
]


def run(monkeypatch: pytest.MonkeyPatch, evidence: Path, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["ledger", "--evidence", str(evidence), *arguments])
    return main(KNOWN)


def test_next_is_what_was_never_run_and_then_the_oldest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    evidence = tmp_path / "evidence.json"
    assert run(monkeypatch, evidence, "--part", "next", "--seed", "7") == 0
    first = load(evidence)["a/1-of-2"]
    assert (first["outcome"], first["last"], first["seed"]) == ("passed", "12 files, seed 7", 7)
    assert len(first["commit"]) == 12 and first["tree"] and first["python"].startswith("Python 3")
    assert run(monkeypatch, evidence, "--part", "next") == 0
    assert list(load(evidence)) == ["a/1-of-2", "b"]  # second parts after all first ones
    assert run(monkeypatch, evidence, "--part", "next", "--seed", "8") == 1
    stored = load(evidence)
    assert list(stored) == [proof.name for proof in KNOWN]
    assert stored["b"]["outcome"] == "not run" and "PYHUDI_NO_SUCH" in stored["b"]["last"]
    dated = {name: {"date": f"2026-01-0{3 - n}"} for n, name in enumerate(stored)}
    assert [proof.name for proof in oldest_first(KNOWN, dated)] == ["b", "a/2-of-2", "a/1-of-2"]


def test_a_failure_is_stored_with_its_seed_and_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    evidence = tmp_path / "evidence.json"
    assert run(monkeypatch, evidence, "--part", "a", "--seed", "5") == 1
    failed = load(evidence)["a/2-of-2"]
    assert failed["outcome"] == "failed" and failed["last"] == "seed 5 is bad"
    assert failed["output"] == "found\nseed 5 is bad\n"
    assert run(monkeypatch, evidence, "--show") == 0
    assert "3 pieces: 1 failed, 1 never run, 1 passed" in capfd.readouterr().out
    assert run(monkeypatch, evidence, "--minutes", "0") == 0
    assert "b" not in load(evidence)
    with pytest.raises(SystemExit, match="no piece c"):
        run(monkeypatch, evidence, "--part", "c")


def test_tests_that_all_skipped_themselves_are_not_run() -> None:
    line = "0 passed, 0 failed, 2 skipped; 0 of them ran Apache Hudi; 2 left out: no HDFS here; 9"
    found = judged(0, f"ss\n{line} long forms are not part of this run\n2 skipped in 0.1s\n")
    assert found == {"outcome": "not run", "last": "no HDFS here"}
    some = judged(0, line.replace("0 passed", "3 passed") + "\n3 passed, 2 skipped in 0.1s\n")
    assert some["outcome"] == "passed" and some["last"].startswith("3 passed, 0 failed, 2 skipped")


def test_names_of_parts_differ_and_each_format_is_fuzzed() -> None:
    names = [proof.name for proof in ledger.proofs()]
    assert len(set(names)) == len(names)
    assert set(ledger.FUZZED) == {target.name for target in targets()}
    assert set(json.loads(ledger.EVIDENCE.read_text())) <= set(names)


def test_each_test_is_in_one_part() -> None:
    found = []
    for part in range(2):
        command = (
            f"{sys.executable} -m pytest -p no:xdist --collect-only --part={part}/2 {__file__}"
        )
        _, output = ledger._watched(command)
        found.append({line.partition("::")[2] for line in output.splitlines() if "::" in line})
    assert all(found) and found[0].isdisjoint(found[1])
    assert found[0] | found[1] == {name for name in globals() if name.startswith("test_")}
