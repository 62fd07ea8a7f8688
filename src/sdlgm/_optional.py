"""Optional dependencies: import them when they are needed, or say which command installs them."""

from importlib import import_module
from types import ModuleType

from sdlgm.errors import MissingDependencyError


def optional_import(module: str, extra: str) -> ModuleType:
    """Import an optional module.

    Parameters
    ----------
    module : str
        Name of the module, such as ``"pyarrow.parquet"``.
    extra : str
        The extra of sdlgm that installs it, such as ``"data"``.

    Raises
    ------
    MissingDependencyError
        If the package is not installed. The message contains the command that installs it.

    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        package = module.partition(".")[0]
        if error.name is None or error.name.partition(".")[0] != package:
            raise  # installed, but one of its own dependencies is missing
        raise MissingDependencyError(
            f"{package} is not installed; install it with: pip install 'sdlgm[{extra}]'"
        ) from error
