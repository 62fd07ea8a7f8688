"""The structure of the package: which part imports which, and what no file may do."""

import ast
import inspect
import subprocess
import sys
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "sdlgm"
FILES = sorted(SOURCE.rglob("*.py"))

# Which parts of the package a part may import, beside itself. ``sdlgm`` is the public API in ``__init__``.
MAY_IMPORT = {
    "_version": set(),
    "errors": set(),
    "_files": {"errors"},
    "_signals": set(),
    "_optional": {"errors"},
    "_limits": {"errors"},
    "_user_errors": {"errors"},
    "_fileheader": {"errors", "_files", "_limits"},
    "_progress": set(),
    "_tensorfile": {"errors", "_files", "_fileheader", "_limits", "_version"},
    "_kernels": set(),
    "model": {"_kernels"},
    "gradients": {"model"},
    "nn": {"model", "gradients"},
    "codec": {"errors", "_files", "_limits", "_optional", "_kernels", "model"},
    "train": {"errors", "_files", "_progress", "_signals", "_tensorfile", "_version", "model", "gradients"},
    "data": {"errors", "_files", "_limits", "_optional"},
    "estimators": {
        "errors",
        "_fileheader",
        "_files",
        "_limits",
        "_optional",
        "_progress",
        "_signals",
        "_user_errors",
        "_tensorfile",
        "_version",
        "_kernels",
        "model",
        "gradients",
        "codec",
        "train",
        "data",
    },
    "sdlgm": {"errors", "_version", "estimators"},
    "report": {"sdlgm", "data", "errors", "_files", "_optional", "_progress"},
    "cli": {
        "sdlgm",
        "codec",
        "data",
        "report",
        "estimators",
        "_files",
        "errors",
        "_fileheader",
        "_optional",
        "_progress",
        "_signals",
        "_user_errors",
        "_version",
    },
}

# The layers inside ``model``, from the bottom up. A file imports files of its own layer or of layers below it.
MODEL_LAYERS = [
    {"arrays", "autograd"},
    {"shards"},
    {"noise"},
    {"codes"},
    {"gradient"},
    {"likelihoods"},
    {"networks"},
    {"modules"},
]


def name_of(path: Path) -> str:
    """Return the dotted name of a module."""
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {name_of(path): path for path in FILES}


def runtime_nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """Iterate over all nodes that are executed, imports in functions included, those of type checkers left out."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            for other in node.orelse:
                yield from (other, *runtime_nodes(other))
            continue
        yield node
        yield from runtime_nodes(node)


def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def imported_names(nodes: Iterator[ast.AST], path: Path) -> Iterator[tuple[str, str | None]]:
    """Iterate over what is imported: the module, and for "from" imports the name as well."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from ((alias.name, None) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield from ((str(node.module), alias.name) for alias in node.names)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] == "import_module":
            # Computed names cannot be followed; in sdlgm they are those of optional packages.
            yield from ((str(name.value), None) for name in node.args[:1] if isinstance(name, ast.Constant))


def imported_modules(path: Path) -> set[str]:
    """Return the modules of sdlgm that a file imports at run time, wherever in the file."""
    found = set()
    for module, name in imported_names(runtime_nodes(parse(path)), path):
        submodule = f"{module}.{name}"
        imported = submodule if submodule in MODULES else module
        if imported.split(".")[0] == "sdlgm":
            found.add(imported)
    return found - {name_of(path)}


def part_of(module: str) -> str:
    return module.split(".")[1] if "." in module else "sdlgm"


def paths(*parts: str) -> list[Path]:
    return [path for path in FILES if part_of(name_of(path)) in parts]


every_file = pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))


@every_file
def test__imports__every_file__stay_below(path):
    own, imported = part_of(name_of(path)), imported_modules(path)
    assert imported <= set(MODULES)
    assert {part_of(module) for module in imported} <= MAY_IMPORT[own] | {own}


@pytest.mark.parametrize("path", paths("model"), ids=lambda path: str(path.relative_to(SOURCE)))
def test__imports__files_of_the_model__stay_below(path):
    def layer(module: str) -> int:
        parts = module.split(".")
        (number,) = [number for number, names in enumerate(MODEL_LAYERS) if parts[2] in names]
        return number

    if name_of(path) == "sdlgm.model":
        return  # the face of the package
    inside = {module for module in imported_modules(path) if part_of(module) == "model"}
    # A bare ``from sdlgm.model import name`` would hide which file the name is from.
    assert "sdlgm.model" not in inside
    assert all(layer(module) <= layer(name_of(path)) for module in inside), inside
    # Siblings within a layer do not know each other.
    own = name_of(path).split(".")[2]
    assert {module.split(".")[2] for module in inside if layer(module) == layer(name_of(path))} <= {own}


def test__imports__of_all_modules__have_no_cycle():
    graph = {name: imported_modules(path) & set(MODULES) for name, path in MODULES.items()}
    try:
        order = list(TopologicalSorter(graph).static_order())
    except CycleError as error:
        pytest.fail(f"import cycle: {' -> '.join(reversed(error.args[1]))}")
    assert len(order) == len(FILES)


def top_level(path: Path) -> set[str]:
    return {module.split(".")[0] for module, _ in imported_names(ast.walk(parse(path)), path)}


@pytest.mark.parametrize(
    ("part", "packages"),
    [
        ("_kernels", {"numpy", "numba"}),
        ("model", {"torch", "numpy", "jaxtyping"}),
        ("gradients", {"torch", "numpy", "jaxtyping"}),
        ("nn", {"torch"}),
    ],
)
def test__imports__kernels_model_and_gradients__are_arrays_only(part, packages):
    type_checking = {"_typeshed"}
    for path in paths(part):
        assert top_level(path) <= packages | type_checking | set(sys.stdlib_module_names) | {"sdlgm"}, path


def test__imports__private_names_of_scikit_learn__are_in_one_file():
    users = set()
    for path in FILES:
        for module, name in imported_names(ast.walk(parse(path)), path):
            parts = [*module.split("."), *([name] if name else [])]
            if parts[0] == "sklearn" and any(part.startswith("_") for part in parts):
                users.add(str(path.relative_to(SOURCE)))
    assert users == {"estimators/_compat.py"}


@pytest.mark.parametrize("name", ["train/trainer.py", "train/loop.py"])
def test__trainer_and_loop__types__are_stated(name):
    """No attribute is guessed at run time, and nothing is of any type."""
    for node in ast.walk(parse(SOURCE / name)):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("getattr", "hasattr"):
            assert ast.unparse(node.func) == "getattr", ast.unparse(node)
            assert len(node.args) == 2, ast.unparse(node)
        assert not (isinstance(node, ast.Name) and node.id == "Any"), f"line {node.lineno}"
        assert not (isinstance(node, ast.Attribute) and node.attr == "Any"), f"line {node.lineno}"


@every_file
def test__files__every_one__load_no_code_from_files(path):
    tree = parse(path)
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


def public_callables() -> dict[str, object]:
    """Return the public functions, and the public methods of public classes, that sdlgm defines itself."""
    import sdlgm
    import sdlgm.data
    import sdlgm.nn
    import sdlgm.report

    found: dict[str, object] = {}
    for package in (sdlgm, sdlgm.data, sdlgm.nn, sdlgm.report):
        for name in package.__all__:
            value = getattr(package, name)
            if inspect.isfunction(value):
                found[name] = value
            elif inspect.isclass(value) and not issubclass(value, Exception):
                for method_name, method in inspect.getmembers(value, inspect.isfunction):
                    own = (method.__module__ or "").startswith("sdlgm.")
                    if own and not method_name.startswith("_"):
                        found[f"{name}.{method_name}"] = method
    return found


@pytest.mark.parametrize("name", sorted(public_callables()))
def test__docstring__public_callable__has_parameters_and_returns(name):
    function = inspect.unwrap(public_callables()[name])
    documentation, signature = inspect.getdoc(function) or "", inspect.signature(function)
    assert documentation, f"{name} has no docstring"
    if set(signature.parameters) - {"self", "cls"}:
        assert "Parameters\n----------" in documentation, f"{name} does not document its parameters"
    if signature.return_annotation not in (None, "None", inspect.Signature.empty):
        assert "Returns\n-------" in documentation, f"{name} does not document its result"
