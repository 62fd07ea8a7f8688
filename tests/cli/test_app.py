import shlex
import subprocess
import sys

import pytest
from typer.main import get_command

from commands import run
from sdlgm import __version__
from sdlgm.cli import app


def commands(group=None, path=()):
    group = group or get_command(app)
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, (*path, name))
        else:
            yield (*path, name), command


NAMES = [name for name, _ in commands()]


def test__commands__all__are_registered():
    assert {" ".join(name) for name in NAMES} == {
        "demo",
        "fit",
        "encode",
        "decode",
        "evaluate",
        "sample",
        "report",
        "detect",
        "classify fit",
        "classify predict",
        "classify evaluate",
        "classify report",
        "count fit",
        "count predict",
        "count evaluate",
        "data list",
        "compress",
        "decompress",
        "info",
        "data fetch",
    }


@pytest.mark.parametrize(("name", "command"), list(commands()), ids=[" ".join(name) for name in NAMES])
def test__help__examples__are_valid_command_lines(name, command):
    examples = [shlex.split(line)[1:] for line in command.help.splitlines() if line.startswith("$ ")]
    assert examples or name == ("data", "list")
    for example in examples:
        assert tuple(example[1 : len(name) + 1]) == name
        command.make_context(name[-1], example[len(name) + 1 :])


def test__version__option__is_printed():
    assert run("--version").output.strip() == __version__


@pytest.mark.parametrize("arguments", [["--help"], ["fit", "--help"], ["count", "fit", "--help"]])
def test__help__of_commands__does_not_import_torch(arguments):
    code = (
        "import sys\nfrom sdlgm.cli import app\n"
        f"app({arguments!r}, standalone_mode=False)\n"
        "assert not {'torch', 'sklearn', 'numba', 'numpy'} & set(sys.modules)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("name", ["fit", "classify fit", "count fit"])
def test__help__in_80_columns__has_the_whole_names_of_the_options(name):
    output = run(*name.split(), "--help", COLUMNS="80").output
    assert "…" not in output
    command = dict(commands())[tuple(name.split())]
    for parameter in command.params:
        for option in (*parameter.opts, *parameter.secondary_opts):
            if option.startswith("--"):
                assert f" {option} " in output
