"""The packages of the extra ``data`` are needed by some formats only."""

import subprocess
import sys

import numpy as np
import pytest

HIDE = """
import sys
for name in ("pyarrow", "pooch", "requests", "arff"):
    sys.modules[name] = None
"""


def run(code: str, *arguments: str) -> str:
    result = subprocess.run([sys.executable, "-c", HIDE + code, *arguments], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return result.stdout


def test__without_the_extra__arrays_and_digits__are_read(tmp_path):
    np.save(tmp_path / "data.npy", np.eye(4))
    np.savez(tmp_path / "data.npz", X=np.eye(4))
    (tmp_path / "data-idx2-ubyte").write_bytes(b"\0\0\x08\x02\0\0\0\x04\0\0\0\x04" + bytes(16))
    code = """
import numpy as np
from sdlgm.data import find_file, load_data, open_batches, open_rows, read_codes, rows_of, write_codes, write_table
folder = sys.argv[1]
for name in ("data.npy", "data.npz", "data-idx2-ubyte"):
    assert load_data(f"{folder}/{name}").X.shape == (4, 4)
    assert sum(len(batch) for batch in open_batches(f"{folder}/{name}", size=3)) == 4
assert open_rows(f"{folder}/data.npy")[1:3].shape == (2, 4)
assert rows_of(iter([np.eye(4)]))[0:4].shape == (4, 4)
assert load_data("digits").X.shape == (1797, 64)
import scipy.sparse as sp
write_codes(f"{folder}/codes.npz", sp.csr_matrix(np.eye(3, dtype=int)))
assert read_codes(f"{folder}/codes.npz").shape == (3, 3)
write_table(f"{folder}/out.npy", np.eye(2))
"""
    run(code, str(tmp_path))


def test__without_the_extra__estimator__is_fitted():
    code = """
import numpy as np
from sdlgm import SDLGM
X = np.random.default_rng(0).random((30, 4))
model = SDLGM(n_components=4, max_active=2, hidden=(3,), max_iter=2, batch_size=10, random_state=0)
print(model.fit_transform(X).shape)
"""
    assert run(code).strip() == "(30, 4)"


@pytest.mark.parametrize(
    ("name", "content", "package"),
    [
        ("data.parquet", "PAR1", "pyarrow"),
        ("data.csv", "a,b\n1,2\n", "pyarrow"),
        ("data.arff", "@relation r\n@attribute a {0,1}\n@attribute b numeric\n@data\n1,2\n", "arff"),
    ],
)
def test__without_the_extra__other_formats__say_how_to_install_it(tmp_path, name, content, package):
    (tmp_path / name).write_text(content)
    code = """
from sdlgm.data import load_data, open_batches
from sdlgm.errors import MissingDependencyError
for read in (load_data, lambda path: list(open_batches(path))):
    try:
        read(sys.argv[1])
    except MissingDependencyError as error:
        print(error)
"""
    expected = f"{package} is not installed; install it with: pip install 'sdlgm[data]'"
    assert run(code, str(tmp_path / name)).splitlines() == [expected] * 2


def test__without_the_extra__download_and_writers__say_how_to_install_it(tmp_path, monkeypatch):
    monkeypatch.delenv("SDLGM_DATA", raising=False)
    code = """
import numpy as np
from pathlib import Path
from sdlgm.data import fetch, find_file, write_table
from sdlgm.errors import MissingDependencyError
assert find_file("mnist", "train-images-idx3-ubyte") is None
folder, X = Path(sys.argv[1]), np.eye(2)
for call, *arguments in [(fetch, "mnist"), (write_table, folder / "t.csv", X), (write_table, folder / "t.parquet", X)]:
    try:
        call(*arguments)
    except MissingDependencyError as error:
        print(error)
assert not list(folder.iterdir())
"""
    assert run(code, str(tmp_path)).count("pip install 'sdlgm[data]'") == 3


def test__import__data__loads_no_heavy_package():
    code = """
import sdlgm.data
heavy = ("torch", "sklearn", "numba", "pyarrow", "matplotlib", "pooch", "requests", "arff", "pandas")
print([name for name in heavy if name in sys.modules and sys.modules[name] is not None])
"""
    result = subprocess.run([sys.executable, "-c", "import sys" + code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
