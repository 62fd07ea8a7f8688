"""Read the parameters of an estimator from its source.

Importing an estimator imports torch, which takes seconds. Help must appear at once, so the source is parsed and not
imported. A test compares the result with the classes.
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from sdlgm.cli._numpydoc import parse_parameters

_PACKAGE = "sdlgm"
_SOURCE = Path(__file__).parents[1]


@dataclass(frozen=True)
class Parameter:
    """A parameter of an estimator's constructor."""

    name: str
    types: tuple[str, ...]
    """Members of the annotation other than choices and None, as they are written, such as ``("int",)``."""
    choices: tuple[str, ...]
    """Texts that are allowed: those of a ``Literal``, or for ``str`` those in the type of the docstring's entry."""
    default: object
    summary: str
    """The first sentence of its documentation."""


def read_parameters(estimator: str) -> tuple[Parameter, ...]:
    """Return the parameters of a class that ``sdlgm.estimators`` exports, in the order of its signature."""
    module, definition = class_of(estimator)
    documented = parse_parameters(ast.get_docstring(definition) or "")
    arguments = _constructor(definition).args
    parameters = []
    for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        name = argument.arg
        if argument.annotation is None or default is None or name not in documented:
            raise TypeError(f"{module}: {name} needs an annotation, a default and an entry in the docstring")
        entry = documented[name]
        types, choices = _types_and_choices(module, argument.annotation)
        if "str" in types and not choices:
            choices = tuple(re.findall(r'"(\w+)"', entry.type.partition("default=")[0]))
        if choices:
            types = tuple(kind for kind in types if kind != "str")
        parameters.append(Parameter(name, types, choices, value_of(module, default), entry.summary))
    return tuple(parameters)


def class_of(estimator: str) -> tuple[str, ast.ClassDef]:
    """Return the definition of a class that ``sdlgm.estimators`` exports, and its module."""
    module, definition = _find(f"{_PACKAGE}.estimators", estimator)
    if not isinstance(definition, ast.ClassDef):
        raise TypeError(f"{module}: {estimator} is not a class")
    return module, definition


def _constructor(definition: ast.ClassDef) -> ast.FunctionDef:
    for node in definition.body:
        if isinstance(node, ast.FunctionDef) and node.name == "__init__":
            return node
    raise TypeError(f"{definition.name} has no constructor of its own")


@cache
def _tree(module: str) -> ast.Module:
    path = _SOURCE.joinpath(*module.split(".")[1:])
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return ast.parse(path.read_text(encoding="utf-8"))


def _find(module: str, name: str) -> tuple[str, ast.stmt]:
    """Return the statement that defines a name, and its module. Imports from this package are followed."""
    for node in _tree(module).body:
        match node:
            case ast.ClassDef() if node.name == name:
                return module, node
            case ast.Assign(targets=[ast.Name(id=found)]) | ast.AnnAssign(target=ast.Name(id=found)) if found == name:
                return module, node
            case ast.ImportFrom(module=str(source)) if source.split(".")[0] == _PACKAGE:
                for alias in node.names:
                    if (alias.asname or alias.name) == name:
                        return _find(source, alias.name)
            case _:
                pass
    raise LookupError(f"{module} neither defines {name} nor imports it from {_PACKAGE}")


def _types_and_choices(module: str, annotation: ast.expr) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Split an annotation into types other than None and the texts of its literals."""
    types: list[str] = []
    choices: list[str] = []
    for member in _members(module, annotation):
        match member:
            case ast.Subscript(value=ast.Name(id="Literal"), slice=ast.Tuple(elts=values)):
                choices += [str(ast.literal_eval(value)) for value in values]
            case ast.Subscript(value=ast.Name(id="Literal"), slice=value):
                choices.append(str(ast.literal_eval(value)))
            case ast.Constant(value=None):
                pass
            case _:
                types.append(ast.unparse(member))
    return tuple(types), tuple(choices)


def _members(module: str, annotation: ast.expr) -> Iterator[ast.expr]:
    """Yield the members of a union, with aliases replaced by what they stand for."""
    match annotation:
        case ast.BinOp(op=ast.BitOr()):
            yield from _members(module, annotation.left)
            yield from _members(module, annotation.right)
        case ast.Constant(value=str(quoted)):
            yield from _members(module, ast.parse(quoted, mode="eval").body)
        case ast.Name(id=name):
            value = constant(module, name)
            if value is None:
                yield annotation
            else:
                yield from _members(*value)
        case _:
            yield annotation


def constant(module: str, name: str) -> tuple[str, ast.expr] | None:
    """Return the expression that a name stands for, and its module. None if it is not assigned in this package."""
    try:
        source, definition = _find(module, name)
    except LookupError:
        return None
    if isinstance(definition, ast.Assign | ast.AnnAssign) and definition.value is not None:
        return source, definition.value
    return None


def value_of(module: str, expression: ast.expr) -> Any:
    """Evaluate a default or a bound: a literal, a power such as 10**4, or the name of a constant."""
    match expression:
        case ast.BinOp(op=ast.Pow(), left=base, right=exponent):
            return value_of(module, base) ** value_of(module, exponent)
        case ast.Name(id=name):
            found = constant(module, name)
            return ast.literal_eval(expression) if found is None else value_of(*found)
        case _:
            return ast.literal_eval(expression)
