"""The first hour of a stranger: the wheel in an empty folder, then the pages of docs/start.

    python -m tests.newcomer.first_hour

Builds the wheel, installs it into a new environment with the extras that the pages name, without a
compiler, and runs the example of the README and every block of the pages in it, in an empty
folder.  S3 is a server of this machine.  Nothing but the wheel is importable there.
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
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.object_stores import environment_of, s3_server

ROOT = Path(__file__).parents[2]
PAGES = ("docs/start/tutorial.md", "docs/start/s3_tutorial.md")
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


def run() -> dict[str, float]:
    """Run the hour; seconds by step."""
    with tempfile.TemporaryDirectory(prefix="pyhudi-hour-") as name, s3_server() as server:
        folder = Path(name)
        hour = Hour(folder, clean_environment() | environment_of(server))
        hour.start_page("install")
        install(hour)
        example = BLOCK.findall((ROOT / "README.md").read_text("utf-8"))
        code = next(text for kind, text in example if kind == "python")
        hour.start_page("README")
        run_python(hour, "README.md", code)
        for page in PAGES:
            hour.start_page(page)
            run_page(hour, page)
        return hour.seconds


def clean_environment() -> dict[str, str]:
    """This environment without what would lead to the checkout or to a compiler."""
    dropped = ("PYTHONPATH", "VIRTUAL_ENV", "PYTHONHOME")
    found = {name: value for name, value in os.environ.items() if name not in dropped}
    return found | {"CC": "no-compiler-here", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}


def install(hour: Hour) -> None:
    """Build the wheel, and install it with the extras of the pages."""
    with_compiler = hour.environment
    hour.environment = {n: v for n, v in with_compiler.items() if n != "CC"}
    command = (sys.executable, "-m", "build", "-q", "--wheel", "--no-isolation")
    hour.step("build the wheel", *command, "--outdir", hour.folder, ROOT, cwd=hour.folder)
    hour.environment = with_compiler
    (wheel,) = hour.folder.glob("*.whl")
    assert wheel.stat().st_size <= WHEEL_BYTES_MAX, wheel.stat().st_size
    check_content(wheel)
    hour.step("environment", sys.executable, "-m", "venv", hour.folder / "venv")
    packages = f"{wheel}[{','.join(sorted(extras()))}]"
    hour.step("pip install", hour.bin / "pip", "install", "-q", packages)
    code = "import time; a = time.perf_counter(); import pyhudi; print(time.perf_counter() - a)"
    taken = min(float(hour.step("import", hour.bin / "python", "-c", code)) for _ in range(5))
    assert taken <= IMPORT_SECONDS_MAX, f"import pyhudi took {taken:.3f} s"
    answer = hour.step("doctor-env", hour.bin / "python", "-m", "pyhudi", "doctor-env", "--json")
    assert not json.loads(answer)["problems"]


def check_content(wheel: Path) -> None:
    """The wheel has compiled modules and their stubs, and no sources of C or tests."""
    names = zipfile.ZipFile(wheel).namelist()
    assert any(name.endswith(".so") for name in names)
    assert any(name.endswith("py.typed") for name in names)
    assert not [name for name in names if name.endswith((".c", ".cpp")) or "tests/" in name]


def extras() -> set[str]:
    """The extras that the pages tell a reader to install."""
    text = "".join((ROOT / page).read_text("utf-8") for page in PAGES)
    return {name for names in re.findall(r"pyhudi\[(.*?)\]", text) for name in names.split(",")}


def run_page(hour: Hour, page: str) -> None:
    """The blocks of Python as one program, then the lines of shell."""
    blocks = BLOCK.findall((ROOT / page).read_text("utf-8"))
    run_python(hour, page, "\n".join(text for kind, text in blocks if kind == "python"))
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


def main() -> None:
    began = time.monotonic()
    for name, spent in run().items():
        print(f"{spent:8.1f} s  {name}")
    print(f"{time.monotonic() - began:8.1f} s  in all")


if __name__ == "__main__":
    main()
