"""Damaged files raise errors of sdlgm, whatever the bytes."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from robustness.targets import TARGETS

WORDS = [
    b"",
    b"\0",
    b"\xff" * 4,
    b"\xff\xff\xff\x7f",
    b"\0\0\0\0\0\0\1\0",
    b"-1",
    b"1e999",
    b"nan",
    b"null",
    b"9" * 20,
    b"[",
]


@st.composite
def changes(draw):
    """Draw replacements: a position as a share of the length, a number of bytes to remove, and bytes to insert."""
    places = st.tuples(st.floats(0, 1), st.integers(0, 12), st.one_of(st.sampled_from(WORDS), st.binary(max_size=8)))
    return draw(st.lists(places, min_size=1, max_size=4)), draw(st.sampled_from([None, None, None, 0.3, 0.8, 0.99]))


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.filterwarnings("ignore")  # numpy warns of extreme numbers
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(change=changes())
def test__changed_file__is_read_or_is_a_named_error(name, change):
    target = TARGETS[name]
    content = bytearray(target.valid)
    places, keep = change
    for share, length, new in places:
        start = int(share * len(content))
        content[start : start + length] = new
    target(bytes(content if keep is None else content[: int(keep * len(content))]))


@pytest.mark.parametrize("name", TARGETS)
def test__valid_file__is_read(name):
    TARGETS[name].read_bytes(TARGETS[name].valid)
