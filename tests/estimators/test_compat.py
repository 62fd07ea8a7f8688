"""The private names of scikit-learn, and constraints that follow a registry."""

import ast
from pathlib import Path

import pytest

import sdlgm
from sdlgm.estimators import _compat
from sdlgm.estimators._compat import Registered

SOURCE = Path(sdlgm.__file__).parent


def test__private_names_of_scikit_learn__only_compat__imports_them():
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.ImportFrom) or not str(node.module).startswith("sklearn"):
                continue
            parts = [*str(node.module).split("."), *(alias.name for alias in node.names)]
            assert path == Path(_compat.__file__) or not any(part.startswith("_") for part in parts), path


def test__registered__name_added_later__is_satisfied_and_listed():
    registry: dict[str, object] = {"first": 1}
    constraint = Registered(registry)
    assert constraint.is_satisfied_by("first")
    assert not constraint.is_satisfied_by("second")
    registry["second"] = 2
    assert constraint.is_satisfied_by("second")
    assert "'second'" in str(constraint)
    del registry["first"]
    assert not constraint.is_satisfied_by("first")


@pytest.mark.parametrize("value", [None, 1, ["first"], {"first": 1}])
def test__registered__no_string__is_not_satisfied(value):
    assert not Registered({"first": 1}).is_satisfied_by(value)
