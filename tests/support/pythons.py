"""Other releases of CPython: the wheel of each, an environment without extras, one for the tests.

    python -m tests.support.pythons 3.14            both environments; a table's life in the first
    python -m tests.support.pythons --fetch 3.14    the interpreter only; prints its path

The interpreter is python3.14 of the PATH where that is installed with its headers, else the build
of CPython that Maven has (org.bytedeco:cpython, 27 MB), kept in PYHUDI_CACHE (default
~/.cache/pyhudi).  build/py3.14 is then an environment with all extras whose package is this tree,
with the compiled core of the wheel beside that of other releases; build/bare3.14 has the wheel and
what it depends on.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Final

ROOT = Path(__file__).parents[2]
CACHE = Path(os.environ.get("PYHUDI_CACHE", Path.home() / ".cache" / "pyhudi")) / "cpython"
BUILDS: Final = {"3.12": "3.12.1-1.5.10", "3.13": "3.13.5-1.5.12", "3.14": "3.14.3-1.5.13"}
"""Of each release the version in Maven."""
_HEADER = "import sysconfig; print(sysconfig.get_paths()['include'])"
_LIFE = """\
import sys, tempfile
import pyarrow as pa
import pyhudi

assert sys.prefix in pyhudi.__file__, pyhudi.__file__
rows = pa.table({"id": list(range(1000)), "city": ["a", "b"] * 500, "fare": [1.0] * 1000})
for kind in ("cow", "mor"):
    place = tempfile.mkdtemp() + "/trips"
    table = pyhudi.create_table(
        place, rows.schema, record_key="id", partition_by=["city"], table_type=kind
    )
    table.insert(rows)
    table.upsert(rows.slice(0, 10).set_column(2, "fare", pa.array([2.0] * 10)))
    table.delete(where="id >= 990")
    if kind == "mor":
        table.compact()
    table.clean()
    table = pyhudi.open_table(place)
    found = table.to_arrow().sort_by("id").to_pydict()
    assert found["id"] == list(range(990)), len(found["id"])
    assert found["fare"] == [2.0] * 10 + [1.0] * 980
    assert table.count(where="city = 'a' and fare > 1.5") == 5
    assert table.lookup([7, 995])["found"].to_pylist() == [True, False]
    assert not table.index.verify().faults
print(f"{sys.version.split()[0]}: {table.count()} rows")
"""


def environment(release: str) -> Path:
    """The Python of the environment of the tests."""
    return ROOT / "build" / f"py{release}" / "bin" / "python"


def interpreter(release: str) -> Path:
    """A Python of this release that has its headers, fetched if the PATH has none.

    Raises SystemExit if Maven has no build for this machine.
    """
    if named := shutil.which(f"python{release}"):
        answer = subprocess.run([named, "-c", _HEADER], capture_output=True, text=True)
        if not answer.returncode and Path(answer.stdout.strip(), "Python.h").exists():
            return Path(named)
    place = CACHE / BUILDS[release]
    if not place.is_dir():
        _fetch(release, place)
    return place / "bin" / f"python{release}"


def _fetch(release: str, place: Path) -> None:
    system, machine = platform.system(), platform.machine()
    name = {"Linux": "linux", "Darwin": "macosx"}.get(system, system.lower())
    classifier = f"{name}-{machine if machine == 'x86_64' else 'arm64'}"
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as folder:
        artifact = f"org.bytedeco:cpython:{BUILDS[release]}:jar:{classifier}"
        copy = ["mvn", "-q", "-B", "dependency:copy", f"-Dartifact={artifact}"]
        if subprocess.run([*copy, f"-DoutputDirectory={folder}"]).returncode:
            raise SystemExit(f"no python{release} on the PATH, and Maven does not give {artifact}")
        (jar,) = Path(folder).glob("*.jar")
        zipfile.ZipFile(jar).extractall(folder)
        home = Path(folder, "org", "bytedeco", "cpython", classifier)
        (home / "bin" / f"python{release}").chmod(0o755)
        # Extension modules look for libraries in their own folder only.
        for library in home.glob("libffi.so.*"):
            modules = home / "lib" / f"python{release}" / "lib-dynload"
            (modules / library.name).symlink_to(os.path.relpath(library, modules))
        home.rename(place)


def prepare(release: str) -> None:
    """Build the wheel, install it twice and run a table's life in the bare environment."""
    build = ROOT / "build"
    tools = _venv(interpreter(release), build / f"py{release}")
    _run(tools, "-m", "pip", "install", "-q", "build", "setuptools>=77", "cython>=3.1", "numpy>=2")
    with tempfile.TemporaryDirectory() as folder:
        _run(tools, "-m", "build", "-q", "--wheel", "--no-isolation", "--outdir", folder, ROOT)
        (wheel,) = Path(folder).glob("*.whl")
        assert f"-cp{release.replace('.', '')}-" in wheel.name, wheel.name
        bare = build / f"bare{release}"
        shutil.rmtree(bare, ignore_errors=True)
        python = _venv(interpreter(release), bare)
        _run(python, "-m", "pip", "install", "-q", wheel)
        _run(python, "-I", "-W", "error::DeprecationWarning:pyhudi", "-c", _LIFE, cwd=folder)
        _run(tools, "-m", "pip", "install", "-q", f"{wheel}[cli,dev,spark]")
        _use_tree(tools, wheel)


def _use_tree(python: Path, wheel: Path) -> None:
    """Let an environment with the wheel import this tree and the core of the wheel.

    An editable install would do so too, but compile the core once more.
    """
    where = "import sysconfig; print(sysconfig.get_path('platlib'))"
    packages = Path(_output([str(python), "-c", where]))
    for name in ("pyhudi", "pyspark_pyhudi"):
        shutil.rmtree(packages / name, ignore_errors=True)
    (packages / "pyhudi.pth").write_text(f"{ROOT}\n")
    content = zipfile.ZipFile(wheel)
    for name in content.namelist():
        if name.endswith((".so", ".pyd")):
            (ROOT / name).unlink(missing_ok=True)  # never write into a mapped library
            content.extract(name, ROOT)


def _venv(python: Path, place: Path) -> Path:
    if not (place / "bin" / "python").exists():
        _run(python, "-m", "venv", place)
        _run(place / "bin" / "python", "-m", "pip", "install", "-q", "--upgrade", "pip")
    return place / "bin" / "python"


def _run(python: Path, *arguments: str | Path, cwd: str | Path = ROOT) -> None:
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    subprocess.run([python, *arguments], check=True, cwd=cwd, env=clean)


def _output(command: list[str]) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def main() -> None:
    *flags, release = sys.argv[1:]
    if release not in BUILDS or flags not in ([], ["--fetch"]):
        raise SystemExit(__doc__)
    if flags:
        print(interpreter(release))
    else:
        prepare(release)


if __name__ == "__main__":
    main()
