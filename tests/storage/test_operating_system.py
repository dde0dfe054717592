"""What the package does on systems that are not POSIX, on this machine without parts of it.

`tests/support/other_platform.py` takes the parts away, in processes of its own.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import pyhudi
from tests.support import other_platform

ROOT = Path(__file__).parents[2]
PLATFORMS = ("windows", "no-links")
HERE_ONLY = re.compile(
    r"\bfcntl\b|\bos\.link\b|O_CLOEXEC|O_DIRECTORY|O_BINARY|os\.pread\b|os\.open\(|['\"]/proc/"
    r"|setitimer|import resource\b|os\.replace\(|os\.unlink\("
)
ELSEWHERE = {"cli/app.py": "os.open("}  # the null device, which is everywhere
LIFE = """
import sys
from tests.support import other_platform
other_platform.become(sys.argv[1])
import threading
import pyarrow as pa, pyhudi
from pyhudi.storage.local import LocalFileSystem
from pyhudi.storage.operating_system import machine_id, process_started

if sys.argv[1] == "windows":
    assert (machine_id(), process_started(1)) == ("", "")
rows = pa.table({"id": list(range(200)), "city": ["a", "b"] * 100, "fare": [1.0] * 200})
for kind in ("cow", "mor"):
    place = f"{sys.argv[2]}/{kind}"
    table = pyhudi.create_table(
        place, rows.schema, record_key="id", partition_by=["city"], table_type=kind,
        options={"hoodie.clean.commits.retained": 1},
    )
    table.insert(rows)
    writers = [
        threading.Thread(target=lambda n=n: pyhudi.open_table(place).upsert(
            rows.slice(50 * n, 50).set_column(2, "fare", pa.array([2.0] * 50))
        ))
        for n in range(3)
    ]
    for each in writers:
        each.start()
    held = table.scan().to_batches()
    first = next(iter(held))
    for each in writers:
        each.join()
    table.delete(where="id >= 190")
    if kind == "mor":
        table.compact()
    table.clean()
    found = pyhudi.open_table(place).to_arrow().sort_by("id").to_pydict()
    assert found["id"] == list(range(190))
    assert found["fare"] == [2.0] * 150 + [1.0] * 40
    assert not table.index.verify().faults
    savepoint = table.savepoint("s")
    table.insert_overwrite(rows.slice(0, 4))
    table.restore(savepoint.instant)
    assert pyhudi.open_table(place).count() == 190
    mutex = LocalFileSystem(place).mutex(".hoodie/other.lock")
    assert not mutex.is_held() and mutex.acquire(1)
    other = LocalFileSystem(place).mutex(".hoodie/other.lock")
    assert other.is_held() and not other.acquire(0.05)
    mutex.release()
    assert not other.is_held()
print("lived")
"""


@pytest.mark.parametrize("platform", PLATFORMS)
def test_a_table_lives_on(platform: str, tmp_path: Path) -> None:
    assert run("-c", LIFE, platform, str(tmp_path)).splitlines()[-1] == "lived"


@pytest.mark.parametrize("platform", PLATFORMS)
def test_the_contract_of_a_file_system_holds_on(platform: str) -> None:
    plugin = ("-m", "pytest", "-p", "no:xdist", "-p", other_platform.__name__)
    # Folders are synced where that can be done; the last test asserts it.
    names = "local and not (first_that_stood)"
    out = run(*plugin, "-k", names, "tests/contracts/test_filesystem.py", platform=platform)
    assert re.search(r"^[2-9]\d passed", out, re.MULTILINE), out
    assert not re.search(r"[1-9]\d* (failed|skipped)", out), out


def test_a_new_file_replaces_none_without_links(tmp_path: Path) -> None:
    """Several threads publish under one name at a time; one is first, and its bytes remain."""
    code = """
import os, sys, threading
from tests.support import other_platform
other_platform.become("no-links")
from pyhudi.storage.local import LocalFileSystem
fs = LocalFileSystem(sys.argv[1])
for name in map(str, range(40)):
    start, won = threading.Barrier(6), []
    def create(n):
        start.wait()
        if fs.create(name, b"%d" % n):
            won.append(n)
    threads = [threading.Thread(target=create, args=(n,)) for n in range(6)]
    [each.start() for each in threads]
    [each.join() for each in threads]
    assert fs.read(name) == b"%d" % won[0] and len(won) == 1, won
assert sorted(os.listdir(sys.argv[1])) == sorted(map(str, range(40)))
"""
    run("-c", code, str(tmp_path))


def test_a_file_system_with_neither_links_nor_exclusive_renames_is_named(tmp_path: Path) -> None:
    code = """
import ctypes, errno, sys
from tests.support import other_platform
other_platform.become("no-links")
class Library:
    def renameat2(self, *_):
        ctypes.set_errno(errno.EINVAL)
        return -1
ctypes.CDLL = lambda *_, **__: Library()
import pyhudi
from pyhudi.storage.local import LocalFileSystem
try:
    LocalFileSystem(sys.argv[1]).create("a", b"1")
except pyhudi.StorageError as error:
    assert "no links and no exclusive renames" in str(error) and "use a folder" in str(error), error
    print("refused")
"""
    assert run("-c", code, str(tmp_path)).strip() == "refused"
    assert not os.listdir(tmp_path)


def test_a_file_that_is_open_is_replaced_and_removed_once_it_is_closed(tmp_path: Path) -> None:
    code = """
import sys, threading, time
from tests.support import other_platform
other_platform.become("windows")
from pyhudi.storage import operating_system
from pyhudi.storage.local import LocalFileSystem
import pyhudi
fs = LocalFileSystem(sys.argv[1])
for act in (lambda: fs.replace("a", b"2"), lambda: fs.delete(["a"])):
    fs.replace("a", b"1")
    file = fs.open("a")
    threading.Timer(0.2, file.close).start()
    began = time.monotonic()
    act()
    assert time.monotonic() - began > 0.1
fs.replace("a", b"1")
file = fs.open("a")
operating_system.OPEN_FILE_SECONDS = 0.1
try:
    fs.delete(["a"])
except pyhudi.StorageError as error:
    assert error.retryable and "busy" in str(error), error
    print("busy")
assert fs.read("a") == b"1"
"""
    assert run("-c", code, str(tmp_path)).strip() == "busy"


@pytest.mark.parametrize("platform", ["", "windows"])
def test_a_process_ends_after_its_time(platform: str) -> None:
    code = """
import sys, time
from tests.support import other_platform
if sys.argv[1]:
    other_platform.become(sys.argv[1])
from pyhudi.storage.operating_system import ends_after
with ends_after(30):
    print("in time", flush=True)
with ends_after(0.2):
    time.sleep(30)
print("too late")
"""
    done = subprocess.run(
        [sys.executable, "-c", code, platform], cwd=ROOT, capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)}, timeout=25,
    )  # fmt: skip
    assert done.returncode and done.stdout == "in time\n", done


def test_reads_of_several_threads_without_positional_reads(tmp_path: Path) -> None:
    code = """
import sys
from concurrent.futures import ThreadPoolExecutor
from tests.support import other_platform
other_platform.become("windows")
from pyhudi.storage.local import LocalFileSystem
fs = LocalFileSystem(sys.argv[1])
fs.create("a", bytes(range(256)) * 1000)
file = fs.open("a")
with ThreadPoolExecutor(8) as pool:
    for n, found in enumerate(pool.map(lambda n: file.read_at(n * 37, 500), range(4000))):
        assert found == (bytes(range(256)) * 1000)[n * 37 : n * 37 + 500]
"""
    run("-c", code, str(tmp_path))


def test_a_link_or_a_copy_has_the_content(tmp_path: Path) -> None:
    code = """
import os, sys
from pathlib import Path
from tests.support import other_platform
if sys.argv[1]:
    other_platform.become(sys.argv[1])
from pyhudi.storage.operating_system import link_or_copy
source, target = Path(sys.argv[2], "a"), Path(sys.argv[2], "b")
source.write_bytes(b"1")
link_or_copy(source, target)
assert target.read_bytes() == b"1" and sorted(os.listdir(sys.argv[2])) == ["a", "b"]
for other, kind in ((source, FileExistsError), (source.with_name("c"), FileNotFoundError)):
    try:
        link_or_copy(other, target)
    except kind:
        continue
    raise AssertionError(kind)
"""
    for n, platform in enumerate(("", *PLATFORMS)):
        (tmp_path / str(n)).mkdir()
        run("-c", code, platform, str(tmp_path / str(n)))


def test_a_drive_that_is_not_there_is_no_endless_loop() -> None:
    code = """
from pyhudi.storage.operating_system import make_folders
try:
    make_folders("Z:/trips")
except FileNotFoundError:
    print("no drive")
"""
    assert run("-c", code) == "no drive\n"


def test_other_modules_have_no_code_of_one_platform() -> None:
    package = Path(pyhudi.__file__).parent
    found = []
    for path in sorted(package.rglob("*.py")):
        name = str(path.relative_to(package))
        if name != "storage/operating_system.py":
            code = ast.unparse(ast.parse(path.read_text("utf-8")))  # without comments
            found += [
                f"{name}: {each}" for each in HERE_ONLY.findall(code) if ELSEWHERE.get(name) != each
            ]
    assert not found, found


def run(*arguments: str, platform: str = "") -> str:
    """A new process; its output.  Raises AssertionError with both outputs if it fails."""
    given = {"PYTHONPATH": str(ROOT), "PYHUDI_TEST_PLATFORM": platform}
    environment = {**os.environ, **{name: text for name, text in given.items() if text}}
    done = subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, env=environment, capture_output=True, text=True,
        timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout
