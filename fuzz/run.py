"""Fuzz the readers of files with atheris: `python fuzz/run.py TARGET -max_total_time=60`, or `make fuzz` for all.

Anything but an error of sdlgm, more than two gigabytes of memory, or ten seconds for one file is a finding; libFuzzer
then writes the file at fault to the working directory.
"""

import sys
import tempfile
from pathlib import Path

import atheris

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
with atheris.instrument_imports(include=["sdlgm"], exclude=["sdlgm._kernels"]):
    from fuzz_targets import TARGETS


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
