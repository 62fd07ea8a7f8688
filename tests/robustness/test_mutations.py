"""Random changes of files, counted."""

import pytest

from robustness import mutations
from robustness.mutations import Mutations, mutate, try_mutations
from robustness.targets import TARGETS, Target
from sdlgm.errors import DataError


def test__try_mutations__every_target__has_named_errors_only():
    found = try_mutations(10, seed=1)
    assert [row.target for row in found] == list(TARGETS)
    assert all(row.unnamed == 0 for row in found), found
    assert all(row.read + row.named_errors == row.tried == 10 for row in found)
    assert sum(row.read for row in found) > 0
    assert sum(row.named_errors for row in found) > 0


def test__try_mutations__reader_with_a_bug__is_counted(monkeypatch):
    outcomes = iter([None, DataError("refused"), IndexError("bug"), None])

    def read(_path):
        outcome = next(outcomes)
        if outcome is not None:
            raise outcome

    monkeypatch.setattr(mutations, "TARGETS", {"odd": Target(".odd", lambda path: path.write_text("odd"), read)})
    said = []
    assert try_mutations(4, seed=0, report=said.append) == [Mutations("odd", 4, 2, 1, 1)]
    assert said == ["odd", "odd: IndexError('bug')"]


@pytest.mark.parametrize(
    ("changes", "keep", "expected"),
    [
        ([(0.5, 1, b"X")], None, b"abcXef"),
        ([(0.0, 2, b"")], None, b"cdef"),
        ([(1.0, 3, b"!")], None, b"abcdef!"),
        ([], 0.5, b"abc"),
    ],
)
def test__mutate__changes__are_applied_in_order_and_then_cut(changes, keep, expected):
    assert mutate(b"abcdef", changes, keep) == expected
