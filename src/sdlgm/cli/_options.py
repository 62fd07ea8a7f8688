"""Generate options from the signatures and docstrings of the estimators.

Names, defaults, choices and help are those of the library, so the two cannot differ.
"""

import functools
import inspect
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import typer
from rich.markup import escape

from sdlgm.cli._commands import Command, set_signature
from sdlgm.cli._ranges import read_ranges, violation
from sdlgm.cli._signatures import Parameter, read_parameters
from sdlgm.cli._values import FORMS, Form, choice_form, parser_of
from sdlgm.errors import SDLGMError

# The parameters in the main panel of the help, and those in panels of their own. Other parameters are in the panel
# "Switches" if they are on or off, and in "Model" if not. Switches have a second column of flags, which leaves little
# room for the help of other options in the same panel.
COMMON = (
    "n_components",
    "variant",
    "max_active",
    "likelihood",
    "decision",
    "threshold",
    "encoder",
    "max_iter",
    "max_time",
    "random_state",
    "checkpoint_dir",
    "resume",
)
PANELS = {
    "Training": (
        "gradient",
        "kl",
        "rate",
        "deviation",
        "n_samples",
        "temperature",
        "gate_temperature",
        "feature_temperature",
        "final_temperature",
        "kl_warmup",
        "batch_size",
        "learning_rate",
        "lr_decay",
        "dropout",
        "input_dropout",
        "weight_decay",
        "max_shift",
        "validation_fraction",
        "n_iter_no_change",
        "checkpoint_every",
    ),
    "Machines": ("device", "devices", "num_nodes", "strategy"),
}
_PANEL_ORDER = (None, "Model", *PANELS, "Switches")

_PATHS = {"os.PathLike[str]", "PathLike[str]", "Path"}


def with_settings(estimator: str) -> Callable[[Command], Command]:
    """Give a command an option for each parameter of an estimator.

    The command must have a parameter ``settings: dict[str, Any]``. It receives the arguments of the constructor.
    ``random_state`` is the option ``--seed``. ``verbose`` is not an option: a fit on the command line shows progress.

    Parameters
    ----------
    estimator : str
        Name of a class in `sdlgm.estimators`.

    """
    parameters = [parameter for parameter in read_parameters(estimator) if parameter.name != "verbose"]
    parameters.sort(key=lambda parameter: _PANEL_ORDER.index(_panel(parameter)))
    flags = {parameter.name: _flag(parameter.name) for parameter in parameters}
    options = {parameter.name: _option(parameter, flags) for parameter in parameters}
    undecided = {parameter.name: parameter.default for parameter in parameters if _is_undecided(parameter)}

    def decorate(command: Command) -> Command:
        @functools.wraps(command)
        def wrapped(**arguments: Any) -> None:
            settings = {name: arguments.pop(option.name) for name, option in options.items()}
            settings |= {name: default for name, default in undecided.items() if settings[name] is None}
            if settings["resume"] and settings["checkpoint_dir"] is None:
                raise typer.BadParameter("--resume needs --checkpoint-dir.")
            ranges = read_ranges(estimator)
            for name, value in settings.items():
                problem = violation(ranges.get(name, ()), value)
                if problem is not None:
                    raise SDLGMError(f"{flags[name]}: {problem}")
            command(**arguments, settings={**settings, "verbose": 1})

        own = inspect.signature(command).parameters.values()
        groups = [options.values() if parameter.name == "settings" else [parameter] for parameter in own]
        set_signature(wrapped, [parameter for group in groups for parameter in group])
        return wrapped

    return decorate


def _panel(parameter: Parameter) -> str | None:
    """Return the help panel of a parameter. None is the main one."""
    if parameter.name in COMMON:
        return None
    other = "Switches" if parameter.types == ("bool",) else "Model"
    return next((panel for panel, names in PANELS.items() if parameter.name in names), other)


def _flag(name: str) -> str:
    return "--seed" if name == "random_state" else f"--{name.replace('_', '-')}"


def _option(parameter: Parameter, flags: dict[str, str]) -> inspect.Parameter:
    """Return the parameter of a command that typer makes an option of."""
    if parameter.name == "random_state":
        info = typer.Option(0, help="Seed. The same seed gives the same model.")
        return inspect.Parameter("seed", inspect.Parameter.KEYWORD_ONLY, annotation=int, default=info)
    if "bool" in parameter.types:
        kind, forms, metavar = bool, [], ""
    elif _PATHS & set(parameter.types):
        kind, forms, metavar = Path, [], "<path>"
    else:
        kind, forms = str, _forms(parameter)
        metavar = f"<{'|'.join(form.metavar for form in forms)}>"
    default = _written(parameter.default) if forms else parameter.default
    if _is_undecided(parameter):
        default = None
    info = typer.Option(
        default,
        help=escape(_help(parameter, forms, flags)),
        rich_help_panel=_panel(parameter),
        metavar=metavar,
        parser=parser_of(forms) if forms else None,
        autocompletion=_completion(parameter.choices) if parameter.choices else None,
    )
    annotation = kind | None if default is None else kind
    return inspect.Parameter(parameter.name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=info)


def _is_undecided(parameter: Parameter) -> bool:
    """Return whether a switch is neither on nor off by default, but such as "auto"."""
    return "bool" in parameter.types and not isinstance(parameter.default, bool)


def _written(default: object) -> str | None:
    """Return a default as it is written on the command line."""
    if isinstance(default, tuple):
        return ",".join(map(str, default))
    return None if default is None else str(default)


def _completion(choices: Sequence[str]) -> Callable[[str], list[str]]:
    return lambda incomplete: [choice for choice in choices if choice.startswith(incomplete)]


def _forms(parameter: Parameter) -> list[Form]:
    """Return the ways to write a value. Types that only Python code can have are left out."""
    forms = [FORMS[kind] for kind in parameter.types if kind in FORMS]
    if parameter.choices:
        forms.append(choice_form(parameter.choices))
    if not forms:
        raise TypeError(f"{parameter.name}: no option can be made for the type {' | '.join(parameter.types)}")
    return forms


def _help(parameter: Parameter, forms: Sequence[Form], flags: dict[str, str]) -> str:
    """Return the summary of a parameter and, if the metavar does not say it, how to write its values.

    Names of parameters in the summary, such as ``variant="con"``, are replaced by options, such as --variant con.
    """

    def option(match: re.Match[str]) -> str:
        name, value = match.groups()
        if name not in flags:
            return match[0]
        return f"{flags[name]} {value}" if value else flags[name]

    summary = re.sub(r'``(\w+)(?:="?(\w+)"?)?``', option, parameter.summary).replace("`", "")
    if not forms or (not parameter.choices and len(forms) < 2):
        return summary
    values = " or ".join(form.description for form in forms)
    return f"{summary} {values[0].upper()}{values[1:]}.".lstrip()
