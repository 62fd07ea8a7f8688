"""The cache of compiled kernels: when it is used, where it is, and what an import touches."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import sdlgm
from sdlgm import _kernels
from sdlgm._kernels import functions

SOURCE = Path(sdlgm.__file__).parents[1]

HELPER = """
from sdlgm._kernels.compiler import inlined

@inlined
def shifted(x):
    return x + 1
"""
MAIN = """
from sdlgm._kernels.compiler import compiled
from tiny.helper import shifted

@compiled
def kernel(x):
    return 10 * shifted(x)
"""
SCRIPT = """
import json
from tiny.main import kernel
result, stats = kernel(1), kernel.stats
hits, misses = sum(stats.cache_hits.values()), sum(stats.cache_misses.values())
print(json.dumps({"result": result, "folder": stats.cache_path, "hits": hits, "misses": misses}))
"""

FULL_DISK = """
import errno
from numba.core.caching import IndexDataCacheFile
def save(*args):
    raise OSError(errno.ENOSPC, "No space left on device")
IndexDataCacheFile._save_data = save
"""


@pytest.fixture
def package(tmp_path) -> Path:
    """A package with one kernel, into which a function of another file is inlined."""
    folder = tmp_path / "source" / "tiny"
    folder.mkdir(parents=True)
    (folder / "__init__.py").touch()
    (folder / "helper.py").write_text(HELPER)
    (folder / "main.py").write_text(MAIN)
    return folder


def run(package: Path, script: str = SCRIPT) -> dict:
    """Call the kernel in a new process whose user has a cache folder beside the package."""
    command = [sys.executable, "-c", script]
    environment = environment_of(package)
    output = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    return json.loads(output)


def environment_of(package: Path) -> dict[str, str]:
    user = package.parents[1] / "user"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA_")}
    environment |= {"PYTHONPATH": os.pathsep.join([str(package.parent), str(SOURCE)])}
    return environment | {"HOME": str(user), "XDG_CACHE_HOME": str(user / "cache")}


def replace_in_place(path: Path, old: str, new: str) -> None:
    """Change a file but neither its size nor its time, as an installed wheel may do."""
    before, text = path.stat(), path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert path.stat().st_size == before.st_size


def test__cache__unchanged_package__is_used_by_the_next_process(package):
    expected = {"result": 20, "folder": str(package / "__pycache__")}
    assert run(package) == {**expected, "hits": 0, "misses": 1}
    assert run(package) == {**expected, "hits": 1, "misses": 0}


def test__cache__changed_helper_of_the_same_size_and_time__is_compiled_again(package):
    run(package)
    replace_in_place(package / "helper.py", "x + 1", "x + 2")
    changed = run(package)
    assert (changed["result"], changed["hits"], changed["misses"]) == (30, 0, 1)
    assert run(package)["hits"] == 1


def test__cache__read_only_package__is_in_the_folder_of_the_user(package):
    (package / "__pycache__").write_text("a file, so that nobody can write here, root included")
    first, second = run(package), run(package)
    assert first["folder"].startswith(str(package.parents[1] / "user"))
    assert (first["result"], second["result"], second["hits"]) == (20, 20, 1)
    replace_in_place(package / "helper.py", "x + 1", "x + 2")
    assert run(package)["result"] == 30


def test__cache__no_writable_folder__compiles_in_every_process(package):
    (package / "__pycache__").touch()
    (package.parents[1] / "user").touch()
    for _ in range(2):
        assert run(package) == {"result": 20, "folder": None, "hits": 0, "misses": 1}


def test__cache__full_disk__leaves_the_result_alone(package):
    assert run(package, FULL_DISK + SCRIPT)["result"] == 20
    assert run(package)["hits"] == 0


def test__cache__of_an_installation_that_cannot_be_written_to__is_read(package):
    run(package)
    assert run(package, FULL_DISK + SCRIPT) == {
        "result": 20,
        "folder": str(package / "__pycache__"),
        "hits": 1,
        "misses": 0,
    }


@pytest.mark.parametrize(
    "damage", [lambda content: content[:-1], lambda content: content[:99] + content[:1] + content[100:], lambda _: b""]
)
def test__cache__damaged_file__is_compiled_again_and_replaced(package, damage):
    run(package)
    (path,) = (package / "__pycache__").glob("*.nbc")
    path.write_bytes(damage(path.read_bytes()))
    again = run(package)
    assert (again["result"], again["misses"]) == (20, 1)
    assert run(package)["hits"] == 1


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="permissions as on Unix")
def test__cache__folder_that_others_can_write_to__is_not_trusted(package):
    (package / "__pycache__").write_text("a file")
    folder = Path(run(package)["folder"])
    folder.chmod(0o777)
    assert run(package) == {"result": 20, "folder": None, "hits": 0, "misses": 1}
    folder.chmod(0o755)
    assert run(package)["hits"] == 1


def test__cache__many_processes_at_once__all_get_the_code_of_their_types(package):
    """With an index for each function, the code of one type could end up under the name of another one."""
    script = """
import sys
import numpy as np
from tiny.main import kernel
for number in range(2):
    value = np.dtype(sys.argv[1 + number]).type(3)
    assert kernel(value) == 40, value
    assert isinstance(kernel(value), float) == sys.argv[1 + number].startswith("float")
"""
    types = ["int8", "float32", "int64", "float64"]
    orders = [(types[i], types[(i + 1) % 4]) for i in range(4)]
    for _ in range(2):
        processes = [
            subprocess.Popen([sys.executable, "-c", script, *order], env=environment_of(package)) for order in orders
        ]
        assert [process.wait() for process in processes] == [0] * 4
    names = [path.name for path in (package / "__pycache__").glob("main.kernel*")]
    assert len(names) == 4
    assert all(name.endswith(".nbc") for name in names)


def test__cache__code_of_earlier_sources__is_removed_when_it_is_old(package):
    run(package)
    (old,) = (package / "__pycache__").glob("*.nbc")
    replace_in_place(package / "helper.py", "x + 1", "x + 2")
    run(package)
    assert old.exists()  # another environment may use it
    os.utime(old, (0, 0))
    replace_in_place(package / "helper.py", "x + 2", "x + 3")
    run(package)
    assert not old.exists()
    assert len(list((package / "__pycache__").glob("*.nbc"))) == 2


@pytest.mark.parametrize(("prelude", "expected"), [("", "once for each version"), (FULL_DISK, "set NUMBA_CACHE_DIR")])
def test__compilation__longer_than_a_few_seconds__is_said_once(package, prelude, expected):
    script = """
import numpy as np
from sdlgm._kernels import cache
from tiny.main import kernel
kernel(1)
cache.PATIENCE = 0.0
kernel(np.float32(1)), kernel(np.float64(1))
"""
    command = [sys.executable, "-c", prelude + script]
    for messages in (1, 1 if prelude else 0):
        result = subprocess.run(command, env=environment_of(package), capture_output=True, text=True, check=True)
        assert result.stderr.count("compiling kernels") == messages
        assert (expected in result.stderr) == bool(messages)


def test__import__kernels_and_old_cache__deletes_nothing_and_writes_only_to_the_cache(tmp_path):
    folder = tmp_path / "sdlgm"
    shutil.copytree(SOURCE / "sdlgm" / "_kernels", folder / "_kernels", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("__init__.py", "_version.py", "errors.py"):
        shutil.copy(SOURCE / "sdlgm" / name, folder / name)
    cache = folder / "_kernels" / "__pycache__"
    cache.mkdir()
    for name in ("chains._draw-1.py311.nbi", "chains._draw-1.py311.1.nbc"):
        (cache / name).write_text("from an earlier version")
        os.utime(cache / name, (0, 0))
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    subprocess.run([sys.executable, "-c", "import sdlgm._kernels.functions"], env=environment, check=True)
    after = {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}
    assert before.items() <= after.items()
    assert {path.parent.name for path in after.keys() - before.keys()} <= {"__pycache__"}


def test__import__kernels__wait_for_their_first_use():
    code = "import sys; from sdlgm import _kernels; print('numba' in sys.modules, callable(_kernels.symbols))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.split() == ["False", "True"]


def test__kernels__names__are_those_of_functions():
    for name in functions.__all__:
        assert getattr(_kernels, name) is getattr(functions, name)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = _kernels.nonsense
