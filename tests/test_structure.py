"""The promises that the source itself must keep."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "sdlgm"
FILES = sorted(SOURCE.rglob("*.py"))

# Which parts of the package a part may import. Nothing imports upwards.
BASE = {"errors", "_files", "_optional", "_tensorfile"}
MAY_IMPORT = {
    "errors": set(),
    "_files": set(),
    "_kernels": set(),
    "_optional": {"errors"},
    "_tensorfile": BASE,
    "thresholds": set(),
    "model": {"_kernels"},
    "gradients": set(),
    "train": BASE | {"model", "gradients"},
    "estimators": BASE | {"_kernels", "data", "model", "gradients", "train", "thresholds"},
    "data": BASE,
    "report": BASE | {"data", "__init__"},
    "paper": BASE | {"data", "gradients", "model", "report", "thresholds", "__init__"},
    "cli": {"errors", "_optional", "data", "estimators", "report", "__init__"},
    "__init__": {"errors", "estimators"},
}


def part_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported_parts(path: Path) -> set[str]:
    """The parts of sdlgm that a file imports, wherever in the file."""
    parts = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names = [f"{node.module}.{alias.name}" for alias in node.names] if node.module == "sdlgm" else [node.module]
        else:
            continue
        for name in names:
            if name and name.split(".")[0] == "sdlgm":
                part = name.split(".")[1] if "." in name else "__init__"
                parts.add(part if part in MAY_IMPORT else "__init__")
    return parts


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test__imports__every_file__stay_below(path):
    own = part_of(path)
    assert imported_parts(path) <= MAY_IMPORT[own] | {own}


def test__imports__model_and_gradients__know_only_arrays():
    allowed = set(sys.stdlib_module_names) | {"torch", "numpy", "jaxtyping", "sdlgm"}
    for path in FILES:
        if part_of(path) in ("model", "gradients"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Import):
                    assert {alias.name.split(".")[0] for alias in node.names} <= allowed
                elif isinstance(node, ast.ImportFrom):
                    assert str(node.module).split(".")[0] in allowed


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test__files__every_one__load_no_code_from_files(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [alias.name for alias in node.names] + [getattr(node, "module", None) or ""]
            assert not {"pickle", "joblib", "dill", "shelve", "marshal", "cloudpickle"} & set(names), path
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            assert called not in {"eval", "exec", "torch.load", "torch.save", "joblib.load", "joblib.dump"}, path
            if called == "np.load":
                (allow,) = [keyword.value for keyword in node.keywords if keyword.arg == "allow_pickle"]
                assert isinstance(allow, ast.Constant)
                assert allow.value is False


@pytest.mark.parametrize("statement", ["import sdlgm", "import sdlgm.cli", "import sdlgm.data"])
def test__import__light_parts__leave_torch_alone(statement):
    code = f"{statement}; import sys; print('torch' in sys.modules, 'sklearn' in sys.modules or 'numba' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.split() == ["False", "False"]


def test__public_names__all__can_be_imported():
    import sdlgm

    for name in sdlgm.__all__:
        assert getattr(sdlgm, name) is not None
    with pytest.raises(AttributeError, match="no attribute"):
        _ = sdlgm.nonsense
