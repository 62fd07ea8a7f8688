"""Damaged files raise errors of sdlgm, whatever the bytes."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from robustness.mutations import KEPT, LONGEST_INSERTED, LONGEST_REMOVED, MOST_CHANGES, WORDS, mutate
from robustness.targets import TARGETS


@st.composite
def changes(draw):
    """Draw replacements: a position as a share of the length, a number of bytes to remove, and bytes to insert."""
    new = st.one_of(st.sampled_from(WORDS), st.binary(max_size=LONGEST_INSERTED))
    places = st.tuples(st.floats(0, 1), st.integers(0, LONGEST_REMOVED), new)
    return draw(st.lists(places, min_size=1, max_size=MOST_CHANGES)), draw(st.sampled_from(KEPT))


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.filterwarnings("ignore")  # numpy warns of extreme numbers
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(change=changes())
def test__changed_file__is_read_or_is_a_named_error(name, change):
    target = TARGETS[name]
    target(mutate(target.valid, *change))


@pytest.mark.parametrize("name", TARGETS)
def test__valid_file__is_read(name):
    TARGETS[name].read_bytes(TARGETS[name].valid)
