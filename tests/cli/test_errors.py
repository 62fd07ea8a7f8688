import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from commands import FAST, run
from sdlgm import SDLGM
from sdlgm._user_errors import is_user_error
from sdlgm.cli._errors import shows_once
from sdlgm.errors import DataError, MissingDependencyError, TrainingDivergedError

FIT = ["fit", "digits:train", *FAST]


def error_in(*frames: tuple[str, str]) -> Exception:
    """Return the error of functions in modules of these names, of which each calls the next."""
    function = None
    for module, statement in reversed(frames):
        names = {"__name__": module, "call": function, "DataError": DataError}
        exec(f"def function():\n    {statement}", names)
        function = names["function"]
    assert function is not None
    try:
        function()
    except Exception as error:
        return error
    raise AssertionError("no error")


@pytest.mark.parametrize(
    "frames",
    [
        [("sdlgm.model.slots", "raise DataError('x')")],
        [("sdlgm.train.loop", "raise OSError('x')")],
        [("sdlgm.train.loop", "raise MemoryError")],
        [("torch.nn.modules.linear", "raise RuntimeError('DefaultCPUAllocator: can\\'t allocate memory')")],
        [("sdlgm.estimators._distributed", "call()"), ("lightning_fabric.connector", "raise ValueError('strategy')")],
        [("sdlgm.estimators._sdlgm", "raise ValueError('x')")],
        [("sdlgm.estimators._inputs", "raise TypeError('x') from None")],
        [("sdlgm.estimators._base", "call()"), ("sklearn.utils.validation", "raise ValueError('x')")],
        [("sdlgm.estimators._base", "call()"), ("sklearn.utils.validation", "float('x')")],
        [("sklearn.utils.validation", "call()"), ("pandas.core.generic", "raise ValueError('x')")],
        [("sdlgm.data.tables", "float('x')")],
        [("sdlgm.data.tables", "call()"), ("json.decoder", "raise ValueError('x')")],
    ],
)
def test__is_user_error__files_data_and_settings__is_true(frames):
    assert is_user_error(error_in(*frames))


@pytest.mark.parametrize(
    "frames",
    [
        [("sdlgm.estimators._sdlgm", "float('x')")],
        [("sdlgm.estimators._sdlgm", "len()")],
        [("sdlgm.estimators._sdlgm", "raise KeyError('x')")],
        [("sdlgm.estimators._sdlgm", "raise RuntimeError('x')")],
        [("sdlgm.estimators._sdlgm", "call()"), ("numpy.lib", "raise ValueError('x')")],
        [("sdlgm.estimators._sdlgm", "call()"), ("sdlgm.model.slots", "raise ValueError('x')")],
        [("sdlgm.data.tables", "call()"), ("sdlgm._files", "raise ValueError('x')")],
        [("sdlgm.report.code_report", "raise ValueError('x')")],
        [("sdlgm.cli.count", "raise TypeError('x')")],
        [("elsewhere", "raise ValueError('x')")],
    ],
)
def test__is_user_error__bugs__is_false(frames):
    assert not is_user_error(error_in(*frames))


@pytest.mark.parametrize("error", [DataError("a\nb"), MissingDependencyError("a"), TrainingDivergedError("a")])
def test__command__user_error__is_one_line_with_code_two(monkeypatch, tmp_path, error):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr(SDLGM, "fit", fail)
    result = run(*FIT, "--out", tmp_path / "m", code=2)
    assert result.stderr == "error: a\n"
    assert result.stdout == ""


def bug(*_, **__):
    raise RuntimeError("[boom] of digits:train:\nmore")


def test__command__internal_error__is_named_with_code_one(monkeypatch, tmp_path):
    monkeypatch.setattr(SDLGM, "fit", bug)
    result = run(*FIT, "--out", tmp_path / "m", code=1)
    first, second = result.stderr.strip().splitlines()
    assert first == "internal error: RuntimeError: [boom] of digits:train:"
    assert "sdlgm --debug" in second
    assert "report" in second
    assert "Traceback" not in result.output


def test__command__numpy_error_inside__is_internal(monkeypatch, tmp_path):
    def fail(*_, **__):
        import numpy as np

        return np.zeros(2) + np.zeros(3)

    monkeypatch.setattr(SDLGM, "fit", fail)
    assert "internal error: ValueError: operands" in run(*FIT, "--out", tmp_path / "m", code=1).stderr


def test__debug__option_or_variable__shows_the_traceback(monkeypatch, tmp_path):
    monkeypatch.setattr(SDLGM, "fit", bug)
    for result in (
        run("--debug", *FIT, "--out", tmp_path / "m", code=1),
        run(*FIT, "--out", tmp_path / "m", code=1, SDLGM_DEBUG="1"),
    ):
        assert "Traceback" in result.stderr
        assert "in bug" in result.stderr
        assert "internal error: RuntimeError" in result.stderr
    assert "Traceback" not in run(*FIT, "--out", tmp_path / "m", code=1, SDLGM_DEBUG="0").stderr


def test__debug__user_error__shows_the_traceback_and_keeps_the_code(tmp_path):
    stderr = run("--debug", "fit", "missing.csv", "--out", tmp_path / "m", code=2).stderr
    assert "Traceback" in stderr
    assert stderr.splitlines()[-1].startswith("error: missing.csv")


@pytest.mark.filterwarnings("default")
def test__warning__of_the_library__is_one_line(monkeypatch, tmp_path):
    fit = SDLGM.fit

    def warn(self, X):
        warnings.warn("the bound did not improve\nadvice", ConvergenceWarning, stacklevel=2)
        return fit(self, X)

    monkeypatch.setattr(SDLGM, "fit", warn)
    result = run(*FIT, "--out", tmp_path / "m")
    assert "warning: the bound did not improve" in result.stderr.splitlines()
    assert "advice" not in result.stderr


def test__error__name_with_colons__is_printed_as_it_is(tmp_path):
    result = run("classify", "fit", "digits:train", "--out", tmp_path / "m", code=2)
    assert "digits:train: " in result.stderr


@pytest.mark.filterwarnings("default")
def test__warning__once_a_batch__is_shown_once(tmp_path):
    rng = np.random.default_rng(0)
    np.savetxt(tmp_path / "named.csv", rng.random((50, 3)), delimiter=",", header="a,b,c", comments="")
    np.save(tmp_path / "rows.npy", rng.random((100, 3)))
    run("fit", tmp_path / "named.csv", "--out", tmp_path / "m", *FAST)
    for command in (["encode", "--out", tmp_path / "codes.npz"], ["evaluate"]):
        stderr = run(command[0], tmp_path / "m", tmp_path / "rows.npy", *command[1:]).stderr
        assert stderr.count("does not have valid feature names") == 1


def test__shows_once__same_text_again__is_shown_once():
    shown = []
    show = shows_once(shown.append)
    for text in ("a", "b", "a"):
        show(UserWarning(text), UserWarning, "file", 1)
    assert [str(message) for message in shown] == ["a", "b"]
