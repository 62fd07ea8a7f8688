"""The combinatorial number system: codes within a budget as numbers from 0 on, without gaps.

Sets come in the order of their size n, and those of a size by

    C(c_1, 1) + C(c_2, 2) + .. + C(c_n, n)   with the features c_1 < c_2 < .. < c_n.

Counts of at most L0 become sets of L0 elements: the features in their order, with one of "off" for each slot left, and
the place of each added, are an increasing sequence below K + L0. Numbers are whole and of any size.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from math import comb


@dataclass(frozen=True)
class CodeNumbers:
    """The numbers of the codes of a model.

    Parameters
    ----------
    n_features : K.
    budget : L0, the largest sum of a code.
    sets : whether codes are sets of features, rather than counts.

    """

    n_features: int
    budget: int
    sets: bool

    @cached_property
    def _smaller(self) -> list[int]:
        """Number of sets with fewer than n features, for n from 0 to one above the budget."""
        sizes = range(min(self.budget, self.n_features) + 1)
        return [0, *accumulate(comb(self.n_features, size) for size in sizes)]

    @cached_property
    def n_codes(self) -> int:
        """How many codes there are."""
        return self._smaller[-1] if self.sets else comb(self.n_features + self.budget, self.budget)

    @property
    def n_bits(self) -> int:
        """Bits that any number has at most."""
        return (self.n_codes - 1).bit_length()

    def rank(self, features: Sequence[int]) -> int:
        """Return the number of a code, given its features in increasing order, each as often as it is present."""
        if self.sets:
            return self._smaller[len(features)] + _rank_of_subset(features)
        symbols = [0] * (self.budget - len(features)) + [feature + 1 for feature in features]
        return _rank_of_subset([symbol + place for place, symbol in enumerate(symbols)])

    def features(self, rank: int) -> list[int]:
        """Return the features of the code of a number below ``n_codes``."""
        if self.sets:
            size = next(n for n, more in enumerate(self._smaller[1:]) if rank < more)
            return _subset_of_rank(rank - self._smaller[size], size, self.n_features)
        elements = _subset_of_rank(rank, self.budget, self.n_features + self.budget)
        symbols = [element - place for place, element in enumerate(elements)]
        return [symbol - 1 for symbol in symbols if symbol]


def _rank_of_subset(elements: Sequence[int]) -> int:
    return sum(comb(element, place + 1) for place, element in enumerate(elements))


def _subset_of_rank(rank: int, size: int, n_elements: int) -> list[int]:
    """Return the increasing elements below ``n_elements`` of the subset with this size and number."""
    elements, element = [], n_elements
    for place in range(size, 0, -1):
        low, high = place - 1, element - 1  # the largest element with C(element, place) <= rank
        while low < high:
            middle = (low + high + 1) // 2
            if comb(middle, place) <= rank:
                low = middle
            else:
                high = middle - 1
        element = low
        rank -= comb(element, place)
        elements.append(element)
    return elements[::-1]
