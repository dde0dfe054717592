"""The ledger of long proofs: pieces of ten minutes at most, and the last run of each.

    python -m tests.ledger                  all pieces, the oldest first
    python -m tests.ledger --part next      the oldest piece: never run, then by date
    python -m tests.ledger --part fuzz      one piece, or all pieces below a name
    python -m tests.ledger --minutes 60     the oldest pieces, until the time is up
    python -m tests.ledger --show           a table of all pieces

`tests/evidence.json` has a line a piece: the outcome (passed, failed, not run), the seed, the last
line printed, the minutes of the clock and of the processors, the load, the commit of main on which
the tree stands and whether the tree differed from it; minutes of the processors are without those
of a JVM that is killed at the end.  The line is written when the piece ends, so
an interrupted run goes on with the piece that is oldest.  A failure also stores the end of its
output; `--part NAME --seed N` repeats it.  Exit status 1 if a piece failed.

A piece is a shell command.  `{seed}` is a multiple of 1000, different for each piece and each day.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import re
import resource
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

ROOT = Path(__file__).parents[1]
EVIDENCE = ROOT / "tests" / "evidence.json"
MINUTES_MAX: Final = 90  # of the clock: other work may share the machine
OUTPUT_MAX, LINE_MAX = 6000, 400
VERSIONS = (6, 8, 9)
Entry = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Proof:
    """needs: a path below the project, or a variable as `$NAME`, without which it is not run."""

    name: str
    command: str
    needs: str = ""
    python: str = sys.executable


def parts(name: str, count: int, command: str, **given: str) -> Iterator[Proof]:
    """The command in parts; `{part}` is the number of one, from 0."""
    for part in range(count):
        yield Proof(f"{name}/{part + 1}-of-{count}", command.replace("{part}", str(part)), **given)


def tests(name: str, count: int, arguments: str, **given: str) -> Iterator[Proof]:
    command = f"pytest -p no:xdist --hypothesis-seed={{seed}} --part={{part}}/{count} {arguments}"
    return parts(name, count, "SEED={seed} {python} -m " + command, **given)


FUZZED = (
    "properties", "partition metadata", "markers", "commit (JSON)", "plan (Avro)", "commit (Avro)",
    "Avro block", "log", "base file", "HFile", "HFile, no checksums", "table: properties 1",
    *(f"table: commit {n}" for n in (1, 2, 3)), "table: log 1", "table: log 2", "table: listing 1",
    *(f"table: listing's logs {n}" for n in (1, 2, 3, 4)),
    *(f"table: index's logs {n}" for n in (1, 2, 3, 4)),
    "instants (layout 2)", "commit (Avro, all fields)", "bitmap", "positions in a header",
    "index definitions", "archive: version", "archive: manifest", "archive: file",
    *(f"table 9: commit {n}" for n in (1, 2, 3)), "table 9: log 1", "table 9: log 2",
    "table 9: properties 1",
)  # fmt: skip
SLOW: Mapping[str, int] = {
    "cli": 3, "concurrency": 3, "interop": 20, "properties": 2, "services": 4, "spark": 8,
    "write": 4,
}  # fmt: skip
"""Parts of the slow tests of these folders; tests/crash is in the every-stop sweeps."""
OTHERS = 8
"""Parts of the slow tests of all other folders."""
FETCH = {
    "azure": "azure --fetch", "hbase": "hbase --fetch", "hdfs": "hdfs --fetch",
    "s3a": "spark_s3 --fetch", "hudi_rs": "hudi_rs --build",
}  # fmt: skip
NEEDS = {
    "kafka": "$PYHUDI_KAFKA", "engines_local": "build/engines/bin/python",
    "outsiders": "$PYHUDI_HUDI_RS_TABLES",
}  # fmt: skip
SPECIAL = (
    "azure", "browser", "catalogs", "engines", "engines_local", "hbase", "hdfs", "hudi_rs", "kafka",
    "outsiders", "postgres", "s3a", "zookeeper",
)  # fmt: skip
"""Marks of tests that need a program which is fetched or installed: each is a piece."""
ORDINARY = f"slow and not ({' or '.join(SPECIAL)})"
SUITES = {
    "plain": (8, "not slow and not interop and not spark"),
    "interop": (4, "not slow and interop"),
    "spark": (4, "not slow and spark and not interop"),
}
OTHER_PYTHON = "build/py3.13/bin/python"
PYTHONS = ("3.12", "3.13", "3.14")
"""Releases of CPython beside that of the suite; the first piece of each makes its environment."""
CORE = "tests/native tests/formats tests/table tests/write tests/read"


def proofs() -> list[Proof]:
    return [*_histories(), *_sweeps(), *_formats(), *_faults(), *_kills(), *_suites(), *_slow()]


def _histories() -> Iterator[Proof]:
    """200 rounds of 500 operations; 500 random tables; seeds of the simulation; programs of SQL,
    also of two processes; the model."""
    yield from parts("history", 40, "{python} -m tests.history --seed {seed} --rounds 5 --ops 500")
    for version in VERSIONS:
        command = f"{{python}} -m tests.properties.table_machine --version {version} --minutes 9"
        yield from parts(f"properties/{version}", 3, command + " --seed {seed}")
    yield from parts("simulation", 6, "{python} -m tests.simulation --seconds 540 --first {seed}")
    yield from parts("sql/programs", 4, "{python} -m tests.sql.programs --seed {seed}")
    yield Proof("sql/concurrent", "{python} -m tests.sql.concurrent --seed {seed}")
    for version in (6, 9):
        yield Proof(f"model/{version}", f"{{python}} -m tests.model.run --version {version}")


def _sweeps() -> Iterator[Proof]:
    """Operations, services and version changes that stop at each of their steps."""
    where = "tests/crash tests/operations/test_version_change.py"
    for version in VERSIONS:
        arguments = f"-m 'slow or not slow' --table-version={version} {where}"
        yield from tests(f"every-stop/{version}", 8, arguments)


def _formats() -> Iterator[Proof]:
    """Damaged files of each format; random filters; random faults of the record index."""
    for target in FUZZED:
        command = f'{{python}} -m tests.fuzz.run --count 50000 --only "{target}" --seed {{seed}}'
        yield Proof(f"fuzz/{target}", command)
    yield from parts("sql/fuzz", 2, "{python} -m tests.sql.fuzz --count 10000 --seed {seed}")
    for part in range(4):
        command = "FILTERS=5000 SEED={seed} {python} -m pytest tests/read/test_generated_filters.py"
        yield Proof(f"filters/{part + 1}-of-4", command)
    command = "FILTERS=400 SEED={seed} {python} -m pytest tests/spark/test_generated_filters.py"
    yield Proof("filters/spark", command)
    for kind in ("cow", "mor"):
        command = f"{{python}} -m tests.index_faults --keys 2000000 --faults 1500 --kind {kind}"
        yield Proof(f"index-faults/{kind}", command + " --seed {seed}")
    yield Proof("sanitize", "make --no-print-directory -o build long-sanitize SEED={seed}")


def _faults() -> Iterator[Proof]:
    """Seeded bugs; a failing disk, lost power, a failing store, torn files."""
    yield from parts("mutants", 24, "{python} -m tests.mutants.run --part {part}/24")
    for version in (6, 9):
        given = f"--version {version} --seed $(({{seed}} + {{part}}))"
        for operation in ("insert", "upsert", "delete", "compact", "clean"):
            disk = f"{given} --operations {operation} --every 2"
            for sweep in ("faults", "power"):
                name = f"failing-disk/{version}/{sweep}/{operation}"
                yield from parts(name, 2, f"{{python}} -m tests.crash.disk {sweep} {disk}")
            store = f"{{python}} -m tests.crash.store {given} --operations {operation} --every 2"
            yield from parts(f"failing-store/{version}/{operation}", 2, store)
        yield from parts(f"torn/{version}", 4, f"{{python}} -m tests.crash.torn {given} --every 4")
    yield Proof("failing-disk/reads", "{python} -m tests.crash.disk reads")


def _kills() -> Iterator[Proof]:
    """Processes that are killed while they write; 360 kills and more in nine minutes."""
    for number in range(6):
        keep = f"build/chaos-{number}"
        command = (
            f"rm -rf {keep}; {{python}} -m tests.history --chaos --seed $(({{seed}} + {number})) "
            f"--minutes 9 --writers 8 --keep {keep} && "
            f"{{python}} -m tests.interop.same_rows {keep}/t"
        )
        yield Proof(f"chaos/local/{number + 1}-of-6", command)
    for store, count in (("s3", 2), ("hdfs", 2)):
        command = f"{{python}} -m tests.history --chaos --store {store} --writers 4 --minutes 9"
        fetch = "{python} -m tests.support.hdfs --fetch && " if store == "hdfs" else ""
        yield from parts(f"chaos/{store}", count, fetch + command + " --seed $(({seed} + {part}))")
    yield from parts(
        "kills/stream", 3, "{python} -m tests.spark.streaming_kill --kills 20 --seed {seed}"
    )
    for engine, count, kills in (("local", 2, 100), ("spark", 2, 50)):
        run = (
            f"{{python}} -m tests.ingest.kill_run %s --engine {engine} --kills {kills} --minutes 7"
        )
        given = f" --driver-kills {kills // 5} --seed {{seed}} --hudi"
        yield from parts(f"kills/files-{engine}", count, run % "files" + given)
        kafka = run % "kafka --servers $PYHUDI_KAFKA" + given
        yield from parts(f"kills/kafka-{engine}", count, kafka, needs="$PYHUDI_KAFKA")


def _suites() -> Iterator[Proof]:
    """The suite without Java on tables of older versions; what CI runs, on two Pythons; others;
    the example of dbt, in an environment that it makes."""
    for version in (6, 8):
        arguments = f"--table-version={version} -m '{SUITES['plain'][1]}' tests"
        yield from tests(f"version-{version}", 8, arguments)
    for name, given in (
        ("ci", {}),
        ("ci-3.13", {"python": OTHER_PYTHON, "needs": OTHER_PYTHON}),
    ):
        yield Proof(f"{name}/types", "{python} -m ruff check . && {python} -m mypy", **given)
        yield Proof(f"{name}/benches", "{python} -m bench --smoke", **given)
        for suite, (count, marks) in SUITES.items():
            yield from tests(f"{name}/{suite}", count, f"-m '{marks}' tests", **given)
    yield Proof("dbt", "make --no-print-directory -o build example-dbt")
    for release in PYTHONS:
        yield Proof(f"pythons/{release}/wheel", f"{{python}} -m tests.support.pythons {release}")
        python = f"build/py{release}/bin/python"
        arguments = f"-m '{SUITES['plain'][1]}' {CORE}"
        yield from tests(f"pythons/{release}/core", 4, arguments, python=python, needs=python)


def _slow() -> Iterator[Proof]:
    """Drawn turns and the SQL suite with Apache Hudi; the slow tests of each folder; those that
    need a program."""
    turns = "SEED=$(({seed} + {part})) {python} -m pytest -p no:xdist"
    for index in ("record", "bloom", "bucket"):
        command = f"{turns} tests/interop/test_drawn_turns.py -k {index}"
        yield from parts(f"turns/{index}", 5, command)
    statements = "tests/interop/test_sql_statements.py"
    for version in (6, 9):
        for kind in ("cow", "mor", "cow_ordered", "mor_ordered"):
            command = (
                f"{{python}} -m pytest -p no:xdist -m slow {statements} -k '[{kind}-{version}]'"
            )
            yield Proof(f"sql/apache-hudi/{version}/{kind}", command)
    for folder, count in SLOW.items():
        arguments = f"-m '{ORDINARY}' tests/{folder} --ignore={statements}"
        yield from tests(f"slow/{folder}", count, arguments)
    other = " ".join(f"--ignore=tests/{folder}" for folder in (*SLOW, "crash"))
    yield from tests("slow/others", OTHERS, f"-m '{ORDINARY}' tests {other}")
    for mark in SPECIAL:
        program = f"tests.support.{FETCH[mark]}; " if mark in FETCH else ""
        arguments = f"-p no:xdist -m {mark} tests --hypothesis-seed={{seed}}"
        needs = NEEDS.get(mark, "")
        python = needs if needs.startswith("build/") else sys.executable
        command = f"{program and '{python} -m ' + program}{{python}} -m pytest {arguments}"
        yield Proof(f"needs/{mark}", command, needs, python)
    for release in ("3.5", "4.0", "4"):
        python = f"build/pyspark/{release}/bin/python"
        arguments = "-m 'spark and not slow' tests/spark"
        yield from tests(f"pyspark-{release}", 3, arguments, needs=python, python=python)


# --- running ----------------------------------------------------------------------------------


def lacking(proof: Proof) -> str:
    """What of its needs is not there, or nothing."""
    is_variable = proof.needs.startswith("$")
    there = os.environ.get(proof.needs[1:]) if is_variable else (ROOT / proof.needs).exists()
    return "" if not proof.needs or there else f"no {proof.needs}"


def run(proof: Proof, seed: int) -> Entry:
    """Run a piece in a process group of its own; its output is printed as it comes."""
    tree = tree_state()
    entry: Entry = {"outcome": "not run", "seed": seed, "last": lacking(proof), **tree}
    began, used = time.monotonic(), _processor_seconds()
    if not entry["last"]:
        entry["python"], _ = _output([proof.python, "-V"])
        text = proof.command.replace("{seed}", str(seed)).replace("{python}", proof.python)
        status, output = _watched(text)
        entry |= judged(status, output)
        if tree_state() != tree:
            entry["tree"] = "changed during the run"
    return entry | {
        "minutes": round((time.monotonic() - began) / 60, 1),
        "processor_minutes": round((_processor_seconds() - used) / 60, 1),
        "date": dt.datetime.now(dt.UTC).strftime("%Y-%m-%d %H:%M"),
        "load": round(os.getloadavg()[1], 1),
    }


def judged(status: int, output: str) -> Entry:
    """The outcome by the exit status; tests that all skipped themselves are not run."""
    lines = [line.strip() for line in output.splitlines() if line.strip()] or ["no output"]
    last = lines[-1]
    counted = [line for line in lines if re.match(r"\d+ passed, \d+ failed, \d+ skipped; ", line)]
    if counted:
        last = counted[-1].partition("; 0 of them")[0].partition(" long forms")[0]
        skipped = re.match(r"0 passed, 0 failed, [1-9]", last)
        if status == 0 and skipped:
            reason = counted[-1].partition(" left out: ")[2].partition(";")[0]
            return {"outcome": "not run", "last": reason[:LINE_MAX]}
    if status == 0:
        return {"outcome": "passed", "last": last[:LINE_MAX]}
    plain = output.replace(f"{ROOT}/", "").replace(sys.base_prefix, "python")  # on any machine
    return {"outcome": "failed", "last": last[:LINE_MAX], "output": plain[-OUTPUT_MAX:]}


def _watched(command: str) -> tuple[int, str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(
        command, cwd=ROOT, shell=True, env=environment, stdout=subprocess.PIPE, text=True,
        stderr=subprocess.STDOUT, errors="replace", start_new_session=True,
    )  # fmt: skip
    assert process.stdout
    lines: list[str] = []
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # which ends the piece too
    signal.signal(signal.SIGALRM, lambda *_: os.killpg(process.pid, signal.SIGKILL))
    signal.alarm(MINUTES_MAX * 60)
    try:
        for line in process.stdout:
            sys.stdout.write(line)
            lines = [*lines[-200:], line]
        status = process.wait()
    except BaseException:
        os.killpg(process.pid, signal.SIGKILL)
        raise
    finally:
        signal.alarm(0)
    if status == -signal.SIGKILL:
        lines.append(f"killed, at the latest after {MINUTES_MAX} minutes\n")
    return status, "".join(lines)


def _processor_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _output(command: Sequence[str]) -> tuple[str, int]:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    return done.stdout.strip(), done.returncode


def tree_state() -> Entry:
    """The commit of main under the tree, and the files in which the tree differs from it."""
    base, status = _output(["git", "merge-base", "HEAD", "main"])
    if status:
        base, _ = _output(["git", "rev-parse", "HEAD"])
    ours = f":!{EVIDENCE.relative_to(ROOT)}"
    changed, _ = _output(["git", "diff", "--name-only", base, "--", ".", ours])
    new, _ = _output(["git", "ls-files", "--others", "--exclude-standard"])
    names = sorted({*changed.split(), *new.split()})
    return {"commit": base[:12], "tree": f"differs: {' '.join(names)[:200]}" if names else "clean"}


# --- the ledger -------------------------------------------------------------------------------


def load(path: Path) -> dict[str, Entry]:
    found: dict[str, Entry] = json.loads(path.read_text("utf-8")) if path.exists() else {}
    return found


def store(path: Path, name: str, entry: Entry, known: Sequence[Proof]) -> None:
    """Replace the line of a piece; lines of pieces that no longer exist go."""
    entries = load(path) | {name: entry}
    lines = [
        f"{json.dumps(proof.name)}: {json.dumps(entries[proof.name])}"
        for proof in known
        if proof.name in entries
    ]
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")


def oldest_first(known: Sequence[Proof], entries: Mapping[str, Entry]) -> list[Proof]:
    """Pieces never run, then the others by date; of each proof the first part, then the second
    ones: a short time shows something of all."""

    def key(proof: Proof) -> tuple[str, int]:
        part = re.search(r"/(\d+)-of-\d+$", proof.name)
        return entries.get(proof.name, {}).get("date", ""), int(part[1]) if part else 1

    return sorted(known, key=key)


def chosen(known: Sequence[Proof], entries: Mapping[str, Entry], part: str) -> list[Proof]:
    """Of all pieces the oldest first; those of a name, or one. Raises SystemExit if none is."""
    found = oldest_first(known, entries)
    if part == "next":
        return found[:1]
    found = [p for p in found if not part or p.name == part or p.name.startswith(part + "/")]
    if not found:
        raise SystemExit(f"no piece {part}; --show lists all")
    return found


def table(known: Sequence[Proof], entries: Mapping[str, Entry]) -> str:
    lines, outcomes, used = [], Counter[str](), 0.0
    for proof in known:
        entry = entries.get(proof.name, {"outcome": "never run"})
        outcomes[entry["outcome"]] += 1
        used += entry.get("processor_minutes", 0.0)
        facts = [str(entry.get(k, "")) for k in ("date", "commit", "processor_minutes", "last")]
        lines.append("  ".join([f"{proof.name:<36}", f"{entry['outcome']:<9}", *facts])[:180])
    counts = ", ".join(f"{count} {outcome}" for outcome, count in sorted(outcomes.items()))
    return "\n".join([*lines, f"{len(known)} pieces: {counts}; {used:.0f} processor minutes"])


def main(known: Sequence[Proof] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", default="")
    parser.add_argument("--minutes", type=float, default=float("inf"))
    parser.add_argument("--seed", type=int, help="of the first piece; default: by the day")
    parser.add_argument("--show", action="store_true")
    parser.add_argument("--evidence", type=Path, default=EVIDENCE)
    given = parser.parse_args()
    known = proofs() if known is None else known
    if given.show:
        print(table(known, load(given.evidence)))
        return 0
    base = dt.date.today().toordinal() % 2000 * 1_000_000
    places = {proof.name: place for place, proof in enumerate(known)}
    end, failed, ran = time.monotonic() + given.minutes * 60, [], 0
    for proof in chosen(known, load(given.evidence), given.part):
        if time.monotonic() >= end:
            break
        seed = base + 1000 * places[proof.name] if given.seed is None else given.seed
        print(f"== {proof.name}, seed {seed}", flush=True)
        entry = run(proof, seed)
        store(given.evidence, proof.name, entry, known)
        print(f"== {proof.name}: {entry['outcome']}, {entry['minutes']} minutes: {entry['last']}")
        ran += 1
        failed += [proof.name] if entry["outcome"] == "failed" else []
    print(f"{ran} pieces; failed: {', '.join(failed) or 'none'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
