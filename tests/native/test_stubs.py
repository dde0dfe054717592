"""The stubs of the native modules state the functions and classes that the modules have."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
ACCEPTED = r"""
# Cython takes the arguments of a class in __cinit__, which has no signature at runtime.
pyhudi\._native\..*\.__init__
# functools.cache hides the parameters of a function from the stub test.
pyhudi\._native\.hfile\.costs\.lookup_costs
"""
SETTINGS = """
[tool.mypy]
ignore_missing_imports = true
follow_imports = "skip"

[[tool.mypy.overrides]]
module = ["numpy.*"]
follow_imports = "skip"
follow_imports_for_stubs = true

[[tool.mypy.overrides]]
module = ["pyhudi._native.*"]
follow_imports = "normal"
"""
"""What the native modules import is not analyzed: that would take ten times as long."""


def test_the_stubs_match_the_compiled_modules(tmp_path: Path) -> None:
    allowed = tmp_path / "accepted.txt"
    allowed.write_text(ACCEPTED)
    settings = tmp_path / "settings.toml"
    settings.write_text(SETTINGS)
    command = (
        sys.executable, "-m", "mypy.stubtest", "pyhudi._native", "--ignore-missing-stub",
        "--ignore-disjoint-bases", "--concise", "--mypy-config-file", str(settings),
        "--allowlist", str(allowed), "--ignore-unused-allowlist",
    )  # fmt: skip
    environment = os.environ | {"MYPYPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
