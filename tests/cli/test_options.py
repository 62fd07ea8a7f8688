import inspect

import pytest
from typer.main import get_command

import sdlgm
from commands import run, text
from sdlgm.cli import app
from sdlgm.cli._options import COMMON, PANELS, _option
from sdlgm.cli._signatures import Parameter, read_parameters

FITS = {"SDLGM": ("fit",), "SDLGMClassifier": ("classify", "fit"), "SDLGMCounter": ("count", "fit")}


def command_of(estimator: str):
    command = get_command(app)
    for name in FITS[estimator]:
        command = command.commands[name]
    return command


def parsed(estimator: str, *arguments: str) -> dict[str, object]:
    """Return the values that a command line gives the options of a fit."""
    context = command_of(estimator).make_context("fit", ["data", "--out", "model", *arguments])
    return context.params


def is_undecided(parameter: Parameter) -> bool:
    """Return whether a parameter is on, off or "auto": a switch, which is "auto" if it is not given."""
    return "bool" in parameter.types and parameter.default == "auto"


@pytest.mark.parametrize("estimator", FITS)
def test__fit__every_parameter_of_the_estimator__is_an_option_with_its_default(estimator):
    values = parsed(estimator)
    expected = dict(inspect.signature(getattr(sdlgm, estimator)).parameters)
    for name in ("random_state", "verbose"):
        del expected[name]
        assert name not in values
    assert values["seed"] == 0
    undecided = {parameter.name for parameter in read_parameters(estimator) if is_undecided(parameter)}
    for name, parameter in expected.items():
        default = None if name in undecided else parameter.default
        assert values[name] == default, name
        assert type(values[name]) is type(default), name


@pytest.mark.parametrize("estimator", FITS)
def test__fit__options__have_the_names_of_the_parameters(estimator):
    options = {option.name: option for option in command_of(estimator).params}
    for parameter in read_parameters(estimator):
        if parameter.name in ("random_state", "verbose"):
            continue
        dashed = parameter.name.replace("_", "-")
        assert options[parameter.name].opts == [f"--{dashed}"]
        assert options[parameter.name].secondary_opts == ([f"--no-{dashed}"] if parameter.types == ("bool",) else [])


@pytest.mark.parametrize("estimator", FITS)
def test__fit__choices__are_checked_by_the_command_line(estimator):
    chosen = [p for p in read_parameters(estimator) if p.choices and not is_undecided(p)]
    assert chosen
    for parameter in chosen:
        flag = f"--{parameter.name.replace('_', '-')}"
        for choice in parameter.choices:
            assert parsed(estimator, flag, choice)[parameter.name] == choice
        result = run(*FITS[estimator], "data", "--out", "model", flag, "nonsense", code=2)
        message = text(result.stderr)
        assert flag in message
        assert all(choice in message for choice in parameter.choices)


@pytest.mark.parametrize(
    ("estimator", "arguments", "expected"),
    [
        ("SDLGM", ["--hidden", "64,32"], {"hidden": (64, 32)}),
        ("SDLGM", ["--no-learn-prior", "--compile"], {"learn_prior": False, "compile": True}),
        ("SDLGM", ["--final-temperature", "0.5", "--seed", "7"], {"final_temperature": 0.5, "seed": 7}),
        ("SDLGMClassifier", ["--threshold", "0.3", "--max-active", "4"], {"threshold": 0.3, "max_active": 4}),
        ("SDLGMClassifier", ["--threshold", "cv"], {"threshold": "cv"}),
        ("SDLGMCounter", ["--patch-size", "8", "--patch-stride", "4,2"], {"patch_size": 8, "patch_stride": (4, 2)}),
    ],
)
def test__fit__options__are_converted(estimator, arguments, expected):
    values = parsed(estimator, *arguments)
    assert {name: values[name] for name in expected} == expected


@pytest.mark.parametrize("estimator", FITS)
def test__fit__settings__reach_the_estimator(estimator, monkeypatch, tmp_path):
    received = {}

    class StopError(Exception):
        pass

    def init(self, **settings):
        received.update(settings)
        raise StopError

    kind = getattr(sdlgm, estimator)
    names = list(inspect.signature(kind).parameters)
    monkeypatch.setattr(kind, "__init__", init)
    data = {"SDLGM": "digits", "SDLGMClassifier": tmp_path / "rows.csv", "SDLGMCounter": tmp_path / "rows.csv"}
    (tmp_path / "rows.csv").write_text("a,b\n1,0\n2,1\n")
    more = {"SDLGM": [], "SDLGMClassifier": ["--labels", "b"], "SDLGMCounter": ["--classes", "b"]}
    arguments = [data[estimator], "--out", tmp_path / "m", "--seed", 5, "--activation", "relu", *more[estimator]]
    run(*FITS[estimator], *arguments, code=1)
    assert set(received) == set(names)
    assert (received["random_state"], received["verbose"]) == (5, 1)
    stopping = {"SDLGM": "auto", "SDLGMClassifier": False}
    assert received.get("early_stopping") == stopping.get(estimator)


def test__fit__help__is_the_first_sentence_of_the_documentation():
    options = {option.name: option for option in command_of("SDLGM").params}
    summaries = {parameter.name: parameter.summary for parameter in read_parameters("SDLGM")}
    assert options["max_active"].help == summaries["max_active"]
    assert "--max-iter" in options["max_time"].help
    assert "--rate" in options["kl_warmup"].help
    assert "by default if rows are few" in options["early_stopping"].help
    assert "`" not in "".join(option.help or "" for option in options.values())


def test__panels__parameters__are_those_of_estimators():
    known = {parameter.name for estimator in FITS for parameter in read_parameters(estimator)}
    listed = [*COMMON, *(name for names in PANELS.values() for name in names)]
    assert set(listed) <= known
    assert len(set(listed)) == len(listed)


@pytest.mark.parametrize("estimator", FITS)
def test__fit__resume_without_checkpoint_dir__is_refused(estimator):
    assert "--checkpoint-dir" in run(*FITS[estimator], "data", "--out", "model", "--resume", code=2).stderr


def option(*types: str, choices: tuple[str, ...] = (), default: object = None):
    return _option(Parameter("some", types, choices, default, "Text."), {})


def test__option__type_that_only_python_can_give__is_left_out():
    made = option("Posterior", choices=("chain", "subset"), default="chain")
    assert made.default.metavar == "<name>"
    assert made.default.parser("subset") == "subset"
    assert option("int", "np.random.Generator").default.parser("3") == 3


def test__option__choices__are_completed_by_the_shell():
    made = option(choices=("chain", "cheap", "subset"), default="chain")
    assert made.default.autocompletion("ch") == ["chain", "cheap"]


def test__option__no_type_that_can_be_written__raises():
    with pytest.raises(TypeError, match="Posterior"):
        option("Posterior")
