import pytest

from commands import FAST, run


@pytest.fixture(scope="session")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "model.sdlgm"
    run("fit", "digits:train", "--out", path, *FAST, "--seed", 3)
    return path
