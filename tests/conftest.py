"""Fixtures, and runtime checks of the shapes that the model's signatures promise."""

import signal

from jaxtyping import config, install_import_hook

# Before anything is imported from these packages: their jaxtyping annotations are checked at every call.
_hook = install_import_hook(["sdlgm.model", "sdlgm.gradients"], "beartype.beartype")

import numpy as np  # noqa: E402
import pytest  # noqa: E402
import torch  # noqa: E402
from sklearn.datasets import load_digits  # noqa: E402

from sdlgm import SDLGM  # noqa: E402
from sdlgm.model import Noise, arrays  # noqa: E402
from sdlgm.train import Trainer  # noqa: E402

SMALL = {"n_components": 16, "max_active": 5, "hidden": (32,), "gate_hidden": (8,), "max_iter": 60, "batch_size": 50}
CHECKED_STEPS = 5


@pytest.fixture(autouse=True, scope="session")
def interrupts():
    """Let SIGINT interrupt, in this process and in those that it starts, even if the tests run in the background."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True, scope="session")
def one_thread():
    torch.set_num_threads(1)


@pytest.fixture(autouse=True, scope="session")
def later_steps_unchecked():
    """Check shapes in the first steps of a fit only: later steps have the same shapes, and take half the time."""
    step = Trainer.step

    def partly_checked(trainer: Trainer, *args):
        config.update("jaxtyping_disable", trainer.iteration >= CHECKED_STEPS)
        try:
            return step(trainer, *args)
        finally:
            config.update("jaxtyping_disable", False)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Trainer, "step", partly_checked)
        yield


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


@pytest.fixture
def noise(generator) -> Noise:
    """Noise for whole batches."""
    return Noise(generator)


@pytest.fixture(scope="session")
def digits() -> np.ndarray:
    """Grey pictures in [0, 1], read-only as memory maps are."""
    X = (load_digits().data[:400] / 16).astype(np.float32)
    X.flags.writeable = False
    return X


@pytest.fixture(scope="session")
def measurements() -> np.ndarray:
    """Continuous columns of different units that depend on a few hidden causes."""
    rng = np.random.default_rng(0)
    causes = rng.integers(0, 2, (300, 4)) @ rng.normal(size=(4, 6))
    X = causes + 0.1 * rng.normal(size=(300, 6))
    X = X * np.array([1, 10, 100, 1e-3, 1, 1]) + np.array([0, 5, 1e6, 0, -3, 0])
    X.flags.writeable = False
    return X


@pytest.fixture(scope="session")
def small() -> dict:
    """Settings that fit in well under a second."""
    return dict(SMALL)


@pytest.fixture(scope="session")
def fitted(digits) -> SDLGM:
    return SDLGM(**SMALL, likelihood="bernoulli", random_state=0).fit(digits)


@pytest.fixture(scope="session")
def fitted_gaussian(measurements) -> SDLGM:
    return SDLGM(**SMALL, random_state=0).fit(measurements)


@pytest.fixture(params=["compiled", "plain"])
def loops(request, monkeypatch) -> str:
    """Run a test with the compiled kernels of the CPU, and with torch's operations, which other devices take."""
    if request.param == "plain":
        monkeypatch.setattr(arrays, "has_kernels", lambda tensor: False)
    return request.param
