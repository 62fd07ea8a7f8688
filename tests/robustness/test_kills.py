"""Killed processes leave whole files, and are continued to the same end."""

import sys

import pytest

from robustness import kills

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="POSIX signals")


def test__try_kills__some_kills__lose_no_file_and_resume_to_the_same(tmp_path):
    found = kills.try_kills(10, seed=0, folder=tmp_path)
    assert found.kills == 10
    assert found.lost_files == 0
    assert found.unequal_resumes == 0
    assert found.most_iterations_lost <= kills.EVERY


def test__count_lost__damaged_files__are_counted(tmp_path):
    """The measurement notices what it is there for."""
    for work in kills._works(tmp_path):
        assert work.count_lost() == 0
        work.do()
        assert work.count_lost() == 0
        assert work.is_equal()
        for path in work.folder.rglob("*.*"):
            whole = path.read_bytes()
            path.write_bytes(whole[: len(whole) // 2])
            assert work.count_lost() > 0, path
            path.unlink()
            assert work.count_lost() > 0, path
            path.write_bytes(whole)
        work.clear()
        assert work.count_lost() == 0
