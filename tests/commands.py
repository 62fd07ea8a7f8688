"""Run commands of the command line in tests."""

from typer.testing import CliRunner

from sdlgm.cli import app

FAST = ["--max-iter", "30", "--n-components", "16", "--max-active", "4", "--hidden", "32", "--gate-hidden", "8"]


def run(*arguments: object, code: int = 0, **environment: str):
    """Run a command, and assert its exit code."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], env=environment)
    assert result.exit_code == code, result.output
    return result


def text(output: str) -> str:
    """Return an output without line breaks and the frames of boxes."""
    return " ".join(output.replace("│", " ").split())
