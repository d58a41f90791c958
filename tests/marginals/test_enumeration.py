"""How many labellings are written out; that they are right is asked wherever an oracle is compared with them."""

from __future__ import annotations

import pytest

from convexstruct.features.counts.hmm import HMMCounts
from convexstruct.marginals.enumeration import enumerate_counts, n_assignments


def test_too_many_assignments_say_how_many_and_what_serves_instead() -> None:
    features = HMMCounts.read([[0] * 6], [[0] * 6], 3, 1)
    assert enumerate_counts(features, limit=729).n_rows == 729
    with pytest.raises(ValueError, match=r"729 assignments .* at most 728: use the compact dual"):
        enumerate_counts(features, limit=728)
    features = HMMCounts.read([[0] * 200, [0]], [[0] * 200, [0]], 10, 1)
    assert n_assignments(features) == 10**200 + 10
    with pytest.raises(ValueError, match="about 1e200 assignments"):
        enumerate_counts(features)
