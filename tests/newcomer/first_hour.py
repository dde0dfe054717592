"""The first hour of three strangers: the wheel in an empty folder, then pages of the documentation.

    python -m tests.newcomer.first_hour [spark|laptop|s3 ...]

One replaces Apache Hudi's jar on Spark, one works with polars and DuckDB on a laptop, one operates
tables on S3.  Each installs the wheel into a new environment with the extras that its pages name,
without a compiler, and runs every block of the pages in it, in an empty folder.  S3 is a server of
this machine.  Nothing but the wheel is importable there.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
import zipfile
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.support.object_stores import environment_of, s3_server

ROOT = Path(__file__).parents[2]
WALKS: Final = {
    "spark": ("docs/start/spark_tutorial.md", "docs/coming_from/apache_hudi.md"),
    "laptop": ("README.md", "docs/start/tutorial.md", "docs/start/laptop_tutorial.md"),
    "s3": ("docs/start/s3_tutorial.md",),
}
"""Pages of each walk."""
BLOCK = re.compile(r"```(python|sh)\n(.*?)```", re.DOTALL)
PRINTED = re.compile(r"^ *print\(.*\)  # (.+)$", re.MULTILINE)
WHEEL_BYTES_MAX = 10 << 20
IMPORT_SECONDS_MAX = 0.15
STEP_SECONDS = 900


@dataclass
class Hour:
    """One run.  seconds: of each step, by name."""

    folder: Path
    environment: dict[str, str]
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def place(self) -> Path:
        """The folder where a reader types."""
        return self.folder / "empty"

    def start_page(self, page: str) -> None:
        """Begin in an empty folder."""
        if self.place.exists():
            self.place.rename(self.folder / f"before {Path(page).stem}")
        self.place.mkdir()

    @property
    def bin(self) -> Path:
        return self.folder / "venv" / "bin"

    def step(self, name: str, *command: str | Path, cwd: Path | None = None) -> str:
        """Run a command; its output.  Raises AssertionError with both outputs if it fails."""
        began = time.monotonic()
        done = subprocess.run(
            [str(word) for word in command], cwd=cwd or self.place, text=True,
            env=self.environment, capture_output=True, timeout=STEP_SECONDS,
        )  # fmt: skip
        self.seconds[name] = round(time.monotonic() - began, 1)
        assert done.returncode == 0, f"{name}: {done.stdout}\n{done.stderr}"
        return done.stdout


def walk(name: str, wheel: Path) -> dict[str, float]:
    """Take one walk; seconds by step."""
    with (
        tempfile.TemporaryDirectory(prefix=f"pyhudi-{name}-") as folder,
        s3_server() if name == "s3" else nullcontext() as server,
    ):
        store = environment_of(server) if server else {}
        hour = Hour(Path(folder), clean_environment() | store)
        hour.start_page("install")
        install(hour, wheel, extras(name))
        for page in WALKS[name]:
            hour.start_page(page)
            run_page(hour, page)
        return hour.seconds


def build_wheel(folder: Path) -> Path:
    """The wheel of this tree, without what it must not have."""
    command = (sys.executable, "-m", "build", "-q", "--wheel", "--no-isolation")
    subprocess.run([*command, "--outdir", folder, ROOT], check=True, cwd=folder)
    (wheel,) = folder.glob("*.whl")
    assert wheel.stat().st_size <= WHEEL_BYTES_MAX, wheel.stat().st_size
    check_content(wheel)
    return wheel


def clean_environment() -> dict[str, str]:
    """This environment without what would lead to the checkout or to a compiler."""
    dropped = ("PYTHONPATH", "VIRTUAL_ENV", "PYTHONHOME", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")
    found = {name: value for name, value in os.environ.items() if name not in dropped}
    return found | {"CC": "no-compiler-here", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}


def install(hour: Hour, wheel: Path, names: set[str]) -> None:
    """Install the wheel with these extras, and let it examine the environment."""
    hour.step("environment", sys.executable, "-m", "venv", hour.folder / "venv")
    packages = f"{wheel}[{','.join(sorted(names))}]"
    hour.step(
        f"pip install [{','.join(sorted(names))}]", hour.bin / "pip", "install", "-q", packages
    )
    code = "import time; a = time.process_time(); import pyhudi; print(time.process_time() - a)"
    taken = min(float(hour.step("import", hour.bin / "python", "-c", code)) for _ in range(5))
    assert taken <= IMPORT_SECONDS_MAX, f"import pyhudi took {taken:.3f} s of CPU"
    hour.environment["PATH"] = f"{hour.bin}:{hour.environment['PATH']}"  # activated
    answer = hour.step("doctor-env", hour.bin / "python", "-m", "pyhudi", "doctor-env", "--json")
    assert not json.loads(answer)["problems"]


def check_content(wheel: Path) -> None:
    """The wheel has compiled modules and their stubs, and no sources of C or tests."""
    names = zipfile.ZipFile(wheel).namelist()
    assert any(name.endswith(".so") for name in names)
    assert any(name.endswith("py.typed") for name in names)
    assert not [name for name in names if name.endswith((".c", ".cpp")) or "tests/" in name]


def extras(name: str) -> set[str]:
    """The extras that the pages of a walk tell a reader to install."""
    text = "".join((ROOT / page).read_text("utf-8") for page in WALKS[name])
    return {name for names in re.findall(r"pyhudi\[(.*?)\]", text) for name in names.split(",")}


def run_page(hour: Hour, page: str) -> None:
    """The blocks of Python as one program, then lines of shell; of the README the first block."""
    blocks = BLOCK.findall((ROOT / page).read_text("utf-8"))
    programs = [text for kind, text in blocks if kind == "python"]
    if page == "README.md":
        run_python(hour, page, programs[0])
        return
    run_python(hour, page, "\n".join(programs))
    for kind, text in blocks:
        for line in text.splitlines() if kind == "sh" else ():
            if line.startswith("pyhudi "):
                program, *words = shlex.split(line)
                hour.step(line, hour.bin / program, *words)


def run_python(hour: Hour, page: str, code: str) -> None:
    """Run the code; each comment after a print must be a line of the output."""
    program = hour.folder / f"{Path(page).stem}.py"
    program.write_text(code, "utf-8")
    command = (hour.bin / "python", "-W", "error::DeprecationWarning:pyhudi", program)
    lines = hour.step(page, *command).splitlines()
    checked = () if page == "README.md" else PRINTED.findall(code)
    assert not [text for text in checked if text not in lines], (page, lines)


def show(name: str, seconds: dict[str, float]) -> None:
    print(f"{sum(seconds.values()):8.1f} s  {name}")
    for step, spent in seconds.items():
        print(f"{spent:12.1f} s  {step}")


def main() -> None:
    names = sys.argv[1:] or list(WALKS)
    if unknown := set(names) - set(WALKS):
        raise SystemExit(f"no such walk: {', '.join(sorted(unknown))}; {', '.join(WALKS)}")
    with tempfile.TemporaryDirectory(prefix="pyhudi-wheel-") as folder:
        wheel = build_wheel(Path(folder))
        for name in names:
            show(name, walk(name, wheel))


if __name__ == "__main__":
    main()
