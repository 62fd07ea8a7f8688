"""Small files that state or unpack to gigabytes are refused, and none takes 2 GiB of memory."""

import sys

import pytest

from robustness.bombs import BOMBS, HONEST
from robustness.memory import READ, measure_readers

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the peak of the memory is read from /proc")

LIMIT = 2**31
# Memory of a reader whatever the file, such as modules that it imports.
SLACK = 2**25
# Honest files that are read by every run of the tests: two processes each take seconds to start.
QUICK = ("npz", "parquet", "codes_part")


def test__readers__bombs__are_named_errors_in_little_memory(tmp_path):
    """One process reads all of them, since imports take longer than the files."""
    written, files = {}, []
    for name, bomb in BOMBS.items():
        if (bomb.write, bomb.file) not in written:  # several readers open the same file
            folder = tmp_path / name
            folder.mkdir()
            written[bomb.write, bomb.file] = bomb.make(folder)
        files.append((bomb.reader, written[bomb.write, bomb.file]))
    measured = dict(zip(BOMBS, measure_readers(files), strict=True))
    assert {name: file for name, file in measured.items() if not file.is_named or file.peak_bytes >= LIMIT} == {}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in QUICK else pytest.mark.slow) for name in HONEST]
)
def test__reader__honest_file__takes_no_more_than_it_estimates(name, tmp_path):
    """With the memory that the file really takes as the limit, it is refused: the estimate is not below it."""
    file = [(HONEST[name].reader, HONEST[name].make(tmp_path))]
    (read,) = measure_readers(file)
    assert read.outcome == READ, read
    taken = read.peak_bytes - read.start_bytes
    assert taken > 2 * SLACK, "the file is too small to tell"
    (refused,) = measure_readers(file, max_memory=str(taken - SLACK))
    assert refused.is_named, (read, refused)
    assert "SDLGM_MAX_MEMORY" in str(refused.error)


def test__variable__larger_limit__lets_the_file_through(tmp_path):
    bomb = HONEST["npz"]
    file = [(bomb.reader, bomb.make(tmp_path))]
    (refused,) = measure_readers(file, max_memory="100M")
    (read,) = measure_readers(file, max_memory="1G")
    assert (refused.outcome, read.outcome) == ("DataError", READ)
