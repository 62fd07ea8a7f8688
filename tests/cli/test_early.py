"""Errors about arguments and files come before the imports that take seconds."""

import json
import subprocess
import sys

import pytest

from commands import run
from sdlgm.cli import app

HEAVY = ("torch", "sklearn", "numba", "pandas", "pyarrow", "matplotlib")
OUT, TABLE = ("--out", "OUT"), ("--out", "OUT.csv")
MISTAKES = {
    "fit, no file": (("fit", "no.npy", *OUT), "no.npy: there is no such file"),
    "fit, no data set": (("fit", "nonsense", *OUT), "named data sets are"),
    "fit, no split": (("fit", "digits:nonsense", *OUT), "the splits are"),
    "fit, unknown format": (("fit", "WORDS", *OUT), "unknown kind of file"),
    "fit, out of range": (("fit", "digits", *OUT, "--max-active", "0"), "--max-active: 0 is out of range"),
    "fit, features": (("fit", "digits", *OUT, "--n-components", "0"), "--n-components: 0 is out of range"),
    "fit, unknown name": (("fit", "digits", *OUT, "--gradient", "nonsense"), "is not one of"),
    "fit, no folder": (("fit", "digits", "--out", "no/such/folder/m"), "make it first"),
    "encode, no model": (("encode", "no.sdlgm", "digits", "--out", "OUT.npz"), "no.sdlgm: there is no such file"),
    "encode, broken model": (("encode", "WORDS", "digits", "--out", "OUT.npz"), "damaged"),
    "encode, no file": (("encode", "MODEL", "no.csv", "--out", "OUT.npz"), "no.csv: there is no such file"),
    "decode, no codes": (("decode", "MODEL", "no.npz", *TABLE), "no.npz: there is no such file"),
    "decode, ending": (("decode", "MODEL", "no.npz", *OUT), "cannot write this kind of file"),
    "evaluate, no file": (("evaluate", "MODEL", "no.csv"), "no.csv: there is no such file"),
    "report, no file": (("report", "MODEL", "no.csv", *OUT), "no.csv: there is no such file"),
    "detect, no model": (("detect", "no.sdlgm", "digits", *TABLE), "no.sdlgm: there is no such file"),
    "detect, no file": (("detect", "MODEL", "no.csv", *TABLE), "no.csv: there is no such file"),
    "encode, ending": (("encode", "MODEL", "digits", *TABLE), "codes are written to a .npz file"),
    "encode, no folder": (("encode", "MODEL", "digits", "--out", "no/such/c.npz"), "make it first"),
    "encode, no folder but a file": (("encode", "MODEL", "digits", "--out", "OUT"), "is a file"),
    "decode, no folder": (("decode", "MODEL", "no.npz", "--out", "no/such/d.csv"), "make it first"),
    "report, no folder": (("report", "MODEL", "digits", "--out", "no/such/r.html"), "make it first"),
    "detect, ending": (("detect", "MODEL", "digits", *OUT), "cannot write this kind of file"),
    "detect, no folder": (("detect", "MODEL", "digits", "--out", "no/such/s.csv"), "make it first"),
    "detect, no folder for the model": (("detect", "MODEL", "digits", *TABLE, "--save", "no/such/m"), "make it first"),
    "sample, ending": (("sample", "MODEL", "--out", "OUT.npz"), "it is written as .npy or .csv or .parquet"),
    "sample, no folder": (("sample", "MODEL", "--out", "no/such/x.npy"), "make it first"),
    "classify fit, no folder": (("classify", "fit", "emotions", "--out", "no/such/m"), "make it first"),
    "classify predict, ending": (("classify", "predict", "MODEL", "emotions", *OUT), "cannot write this kind of file"),
    "classify predict, no folder": (("classify", "predict", "MODEL", "x", "--out", "no/p.csv"), "make it first"),
    "count fit, no folder": (("count", "fit", "x.npz", "--out", "no/such/m"), "make it first"),
    "count predict, ending": (("count", "predict", "MODEL", "x.csv", *OUT), "cannot write this kind of file"),
    "count predict, no folder": (("count", "predict", "MODEL", "x.csv", "--out", "no/p.csv"), "make it first"),
    "compress, no file": (("compress", "no.csv", "--model", "MODEL", *OUT), "no.csv: there is no such file"),
    "compress, ending": (("compress", "digits", "--model", "MODEL", *TABLE), "it is written as .sdl"),
    "compress, no folder but a file": (("compress", "digits", "--model", "MODEL", "--out", "OUT"), "is a file"),
    "compress, no folder": (("compress", "digits", "--model", "MODEL", "--out", "no/such/c.sdl"), "make it first"),
    "decompress, no file": (("decompress", "no.sdl", "--model", "MODEL", *TABLE), "no.sdl: there is no such file"),
    "info, no file": (("info", "no.sdl"), "no.sdl: there is no such file"),
    "sample, no model": (("sample", "no.sdlgm", *TABLE), "no.sdlgm: there is no such file"),
    "classify fit, no file": (("classify", "fit", "no.csv", *OUT), "no.csv: there is no such file"),
    "classify fit, out of range": (("classify", "fit", "emotions", *OUT, "--dropout", "2"), "--dropout: 2 is out of"),
    "classify predict, kind": (("classify", "predict", "MODEL", "emotions", *TABLE), "an SDLGMClassifier is needed"),
    "classify evaluate, no file": (("classify", "evaluate", "no.sdlgm", "emotions"), "there is no such file"),
    "classify report, kind": (("classify", "report", "MODEL", "emotions"), "an SDLGMClassifier is needed"),
    "count fit, no file": (("count", "fit", "no.npz", *OUT), "no.npz: there is no such file"),
    "count predict, kind": (("count", "predict", "MODEL", "x.csv", *TABLE), "an SDLGMCounter is needed"),
    "count evaluate, no model": (("count", "evaluate", "no.sdlgm", "x.csv"), "no.sdlgm: there is no such file"),
}


@pytest.fixture
def files(tmp_path) -> dict[str, str]:
    (tmp_path / "out").write_text("a file that is there")
    (tmp_path / "words.txt").write_text("some words that are neither data nor a model")
    document = {"format": "sdlgm-model", "version": 2, "document": {"estimator": "SDLGM"}}
    header = json.dumps({"__metadata__": {"sdlgm": json.dumps(document)}}).encode()
    (tmp_path / "model.sdlgm").write_bytes(len(header).to_bytes(8, "little") + header)
    names = {"WORDS": "words.txt", "MODEL": "model.sdlgm", "OUT": "out", "OUT.csv": "out.csv", "OUT.npz": "out.npz"}
    return {name: str(tmp_path / file) for name, file in names.items()}


@pytest.mark.parametrize("name", MISTAKES)
def test__mistake__every_command__is_an_error_with_code_two(files, name):
    arguments, message = MISTAKES[name]
    result = run(*(files.get(argument, argument) for argument in arguments), code=2)
    assert message in " ".join(result.stderr.replace("│", "").split())


def test__mistakes__together__import_nothing_heavy(files):
    """In one process, for the sake of time: the last one tells of all."""
    calls = [[files.get(argument, argument) for argument in arguments] for arguments, _ in MISTAKES.values()]
    code = f"""
import sys
from sdlgm.cli import app
for arguments in {calls!r}:
    try:
        app(arguments)
    except SystemExit as stop:
        assert stop.code == 2, arguments
    heavy = [name for name in {HEAVY} if name in sys.modules]
    assert not heavy, (arguments, heavy)
"""
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)


def test__commands__all_of_them__have_mistakes_here():
    known = {name.split(",")[0] for name in MISTAKES}
    for group in ("", "classify", "count"):
        members = app.registered_commands if not group else []
        typers = [one.typer_instance for one in app.registered_groups if (one.name or "") == group]
        members = [*members, *(command for one in typers for command in one.registered_commands)]
        names = {f"{group} {command.name or command.callback.__name__}".strip() for command in members}
        assert names - {"demo"} <= known
