"""Fuzz the readers of files with atheris: `python -m robustness.fuzz TARGET`, or `make fuzz` for all.

A finding is an error that is not of sdlgm, more than two gigabytes of memory, or ten seconds for one file. libFuzzer
then writes the file to the folder of `-artifact_prefix`.
"""

import sys
import tempfile
from pathlib import Path

import atheris  # pyright: ignore[reportMissingModuleSource]

ROOT = Path(__file__).resolve().parents[1]
COMPILED = ["sdlgm._kernels", *(f"sdlgm._kernels.{path.stem}" for path in (ROOT / "src/sdlgm/_kernels").glob("*.py"))]

with atheris.instrument_imports(include=["sdlgm"], exclude=COMPILED):  # pyright: ignore[reportAttributeAccessIssue]
    from robustness.targets import TARGETS


def main() -> None:
    name, *options = sys.argv[1:]
    target = TARGETS[name]
    with tempfile.TemporaryDirectory() as corpus:
        (Path(corpus) / "valid").write_bytes(target.valid)
        limits = ["-rss_limit_mb=2048", "-timeout=10"]
        atheris.Setup([sys.argv[0], corpus, *limits, *options], target)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
