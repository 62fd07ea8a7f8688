"""The internals of `sdlgm` that the reproduction uses are those that it states."""

import ast
import re
from pathlib import Path

import reproduction

FOLDER = Path(reproduction.__file__).parent
PUBLIC = {"sdlgm", "sdlgm.codec", "sdlgm.data", "sdlgm.errors", "sdlgm.nn"}


def imported_modules(path: Path) -> set[str]:
    """Return the modules of sdlgm that a file imports, wherever in the file."""
    modules = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            submodules = {name for name in names if is_module(name)}
            modules |= submodules | ({node.module} if names - submodules else set())
    return {name for name in modules if name.split(".")[0] == "sdlgm"}


def is_module(name: str) -> bool:
    import sdlgm

    path = Path(sdlgm.__file__).parents[1].joinpath(*name.split("."))
    return path.is_dir() or path.with_suffix(".py").exists()


def listed_as(module: str) -> str:
    """Return the entry of the list that covers a module: of the rooms of the model, the room."""
    parts = module.split(".")
    return ".".join(parts[:3]) if parts[1] == "model" else module


def test__internals__listed_in_the_docstring__are_those_imported():
    listed = re.findall(r"``(sdlgm\.[\w.]+)``", (reproduction.__doc__ or "").split("internals:")[1])
    imported = {module for path in FOLDER.rglob("*.py") for module in imported_modules(path)}
    assert set(listed) == {listed_as(module) for module in imported - PUBLIC}
    assert len(listed) == len(set(listed))


def test__internals__of_the_model__are_imported_in_one_place():
    parts = ("sdlgm.model", "sdlgm.gradients", "sdlgm.estimators", "sdlgm._tensorfile")
    users = {path.name for path in FOLDER.rglob("*.py") if any(m.startswith(parts) for m in imported_modules(path))}
    assert users == {"internals.py"}


def test__package__nothing_of_it__is_imported_by_sdlgm():
    import sdlgm

    for path in Path(sdlgm.__file__).parent.rglob("*.py"):
        assert "reproduction" not in {
            name.split(".")[0]
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            if isinstance(node, ast.Import | ast.ImportFrom)
            for name in [*(alias.name for alias in node.names), getattr(node, "module", None) or ""]
        }, path
