import inspect
import typing

import pytest
from sklearn.utils._param_validation import StrOptions

import sdlgm
from sdlgm.cli import _signatures
from sdlgm.cli._signatures import Parameter, read_parameters

ESTIMATORS = ["SDLGM", "SDLGMClassifier", "SDLGMCounter"]


def literals(annotation) -> set[str]:
    """Return the texts of all ``Literal`` members of an annotation."""
    if typing.get_origin(annotation) is typing.Literal:
        return set(typing.get_args(annotation))
    return set().union(*map(literals, typing.get_args(annotation)))


@pytest.mark.parametrize("name", ESTIMATORS)
def test__read_parameters__estimator__is_its_signature(name):
    estimator = getattr(sdlgm, name)
    expected = inspect.signature(estimator).parameters
    found = {parameter.name: parameter for parameter in read_parameters(name)}
    assert list(found) == list(expected)
    for parameter in found.values():
        default = expected[parameter.name].default
        assert parameter.default == default
        assert type(parameter.default) is type(default)
        assert set(parameter.choices) >= literals(expected[parameter.name].annotation)


@pytest.mark.parametrize("name", ESTIMATORS)
def test__read_parameters__choices__are_those_that_the_estimator_accepts(name):
    constraints = getattr(sdlgm, name)._parameter_constraints
    for parameter in read_parameters(name):
        allowed = [
            constraint.options for constraint in constraints[parameter.name] if isinstance(constraint, StrOptions)
        ]
        if parameter.choices and allowed:
            assert set(parameter.choices) == set().union(*allowed), parameter.name


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package with an estimator whose annotations and defaults are written in all ways that are supported."""
    (tmp_path / "estimators").mkdir()
    (tmp_path / "estimators" / "__init__.py").write_text("from sdlgm.estimators._some import Some\n")
    (tmp_path / "estimators" / "_some.py").write_text(
        '''
from typing import Literal
from sdlgm.shared import Kind as KindName, SIZE

Colour = Literal["red", "green"]
Shade: object = Literal["dark"] | Colour

class Some(Base):
    """Do something.

    Parameters
    ----------
    number : int or None
        A number. More.
    colour, shade, kind, direct : str
        A colour.
    mixed : float or "auto"
    spelled : {"one", "two"}, default="one"
    free : str, default="any"
    size : tuple of int
    custom : object
    """

    def __init__(
        self,
        *,
        number: int | None = None,
        colour: Colour = "red",
        shade: Shade | None = None,
        kind: KindName | Literal["third"] = "third",
        direct: Literal["only"] = "only",
        mixed: float | Literal["auto"] = -0.5,
        spelled: str = "one",
        free: str = "any",
        size: tuple[int, ...] = SIZE,
        custom: "module.Type | Other | str" = "any",
    ): ...
'''
    )
    (tmp_path / "shared.py").write_text(
        'from typing import Literal\nKind = Literal["first", "second"]\nSIZE = (3, 4)\n'
    )
    monkeypatch.setattr(_signatures, "_SOURCE", tmp_path)
    monkeypatch.setattr(_signatures, "_tree", _signatures._tree.__wrapped__)
    return tmp_path


def test__read_parameters__aliases_imports_and_constants__are_followed(package):
    assert read_parameters("Some") == (
        Parameter("number", ("int",), (), None, "A number."),
        Parameter("colour", (), ("red", "green"), "red", "A colour."),
        Parameter("shade", (), ("dark", "red", "green"), None, "A colour."),
        Parameter("kind", (), ("first", "second", "third"), "third", "A colour."),
        Parameter("direct", (), ("only",), "only", "A colour."),
        Parameter("mixed", ("float",), ("auto",), -0.5, ""),
        Parameter("spelled", (), ("one", "two"), "one", ""),
        Parameter("free", ("str",), (), "any", ""),
        Parameter("size", ("tuple[int, ...]",), (), (3, 4), ""),
        Parameter("custom", ("module.Type", "Other", "str"), (), "any", ""),
    )


def test__read_parameters__parameter_without_documentation__raises(package):
    path = package / "estimators" / "_some.py"
    path.write_text(path.read_text().replace("    size : tuple of int\n", ""))
    with pytest.raises(TypeError, match="size needs"):
        read_parameters("Some")


def test__read_parameters__unknown_name__raises(package):
    with pytest.raises(LookupError, match="Other"):
        read_parameters("Other")
