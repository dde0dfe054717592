"""Run seeds of the simulation.

    python -m tests.simulation --seed N [--trace] [--shrink]     one seed; shrinks for ten minutes,
                                                                 or for --seconds S
    python -m tests.simulation --seconds S [--first N]           fresh seeds for a time
    python -m tests.simulation --plan '{...}' [--trace]          a plan as a failing run prints it
    python -m tests.simulation --mutant WORD --count N           seeds that find a seeded bug

Each seed runs in a process of its own.  Exit status 3 if a promise did not hold, or if a run of
half an hour has never reached one of the rare events that it is there for.
"""

from __future__ import annotations

import argparse
import dataclasses
import faulthandler
import json
import multiprocessing
import os
import sys
import time
from collections import Counter

from tests.simulation.checks import SOMETIMES
from tests.simulation.hunt import hunted
from tests.simulation.run import Plan, Verdict, run, smaller

_LIMIT_SECONDS = 600.0  # of the wall clock, on a machine that may be busy
_LONG_SECONDS = 1800.0
_SHRINK_SECONDS = 600.0
_FORK = multiprocessing.get_context("fork")


def apart(plan: Plan) -> Verdict:
    """The verdict of a plan, from a process of its own."""
    ours, theirs = _FORK.Pipe(duplex=False)

    def work() -> None:
        faulthandler.dump_traceback_later(_LIMIT_SECONDS - 5)
        theirs.send(run(plan))
        os._exit(0)

    child = _FORK.Process(target=work, daemon=True)
    child.start()
    theirs.close()
    try:
        if ours.poll(_LIMIT_SECONDS):
            return ours.recv()
        return Verdict(plan, f"no end after {_LIMIT_SECONDS:.0f} s")
    except EOFError:
        return Verdict(plan, "the process died")
    finally:
        child.kill()
        child.join()


def shrunk(plan: Plan, seconds: float) -> Plan:
    """A plan that fails and does less, as far as single reductions lead within a time."""
    end, number, failed = time.monotonic() + seconds, 0, 0
    while failed < len(each := smaller(plan)) and time.monotonic() < end:
        candidate = each[number % len(each)]
        if apart(candidate).problem:
            plan, failed = candidate, 0
            print(f"smaller: {plan}", flush=True)
        else:
            number, failed = number + 1, failed + 1
    return plan


def as_json(plan: Plan) -> str:
    return json.dumps(dataclasses.asdict(plan))


def from_json(text: str) -> Plan:
    given = json.loads(text)
    return Plan(**{k: tuple(v) if isinstance(v, list) else v for k, v in given.items()})


def show(verdict: Verdict, *, trace: bool) -> None:
    if trace:
        print("\n".join(verdict.trace))
    print(verdict.plan)
    print(verdict.problem or f"holds; {verdict.commits} events, {len(verdict.trace)} calls")
    if verdict.problem:
        print("plan:", as_json(verdict.plan), flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--plan")
    parser.add_argument("--trace", action="store_true")
    parser.add_argument("--shrink", action="store_true")
    parser.add_argument("--seconds", type=float, default=0.0)
    parser.add_argument("--count", type=int, default=0, help="of seeds, instead of a time")
    parser.add_argument("--first", type=int, default=None, help="seed; default: by the clock")
    parser.add_argument("--faults", help="instead of those of the plan, with commas")
    parser.add_argument("--rate", type=float, help="of faults, for each call")
    parser.add_argument("--stop", action="store_true", help="at the first problem")
    parser.add_argument("--mutant", help="a word of names of tests.mutants")
    arguments = parser.parse_args()
    if os.environ.get("PYTHONHASHSEED") != "0":
        os.environ["PYTHONHASHSEED"] = "0"
        os.execv(sys.executable, [sys.executable, "-m", "tests.simulation", *sys.argv[1:]])
    if arguments.mutant is not None:
        first, missed = arguments.first or 1, 0
        for hunt in hunted(arguments.mutant, count=arguments.count, first=first):
            print(hunt, flush=True)
            missed += not hunt.problem
        return 3 if missed else 0
    if arguments.seed is not None or arguments.plan:
        plan = from_json(arguments.plan) if arguments.plan else Plan.of(arguments.seed)
        if arguments.faults is not None:
            plan = dataclasses.replace(plan, faults=tuple(arguments.faults.split(",")))
        if arguments.rate is not None:
            plan = dataclasses.replace(plan, rate=arguments.rate)
        if arguments.shrink:
            plan = shrunk(plan, arguments.seconds or _SHRINK_SECONDS)
        verdict = apart(plan)
        show(verdict, trace=arguments.trace)
        return 3 if verdict.problem else 0
    seed = int(time.time()) if arguments.first is None else arguments.first
    end, ran, events, problems = time.monotonic() + arguments.seconds, 0, 0, 0
    sometimes: Counter[str] = Counter()
    while ran < arguments.count or time.monotonic() < end:
        verdict = apart(Plan.of(seed + ran))
        ran, events = ran + 1, events + verdict.commits
        sometimes.update(verdict.sometimes)
        if verdict.problem:
            problems += 1
            show(verdict, trace=False)
            if arguments.stop:
                break
        if ran % 50 == 0:
            print(f"{ran} seeds from {seed}, {events} events, {problems} problems", flush=True)
    for name, count in sorted(sometimes.items()):
        print(f"{count:8} {name}")
    unreached = [name for name in SOMETIMES if not sometimes[name]]
    if unreached and arguments.seconds >= _LONG_SECONDS:
        problems += 1
        print("never reached:", ", ".join(unreached))
    print(f"simulation: {ran} seeds from {seed}, {events} events, {problems} problems")
    return 3 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
