"""How many labellings are written out; that they are right is asked wherever an oracle is compared with them."""

from __future__ import annotations

import numpy as np
import pytest

from convexstruct.features.graphs.pairwise import read_pairwise
from convexstruct.features.graphs.pairwise_loss import read_loss
from convexstruct.marginals.enumeration import MOST_LABELLINGS
from convexstruct.marginals.pairwise_enumeration import enumerate_pairwise, n_labellings


def test_too_many_labellings_are_refused_with_their_exact_number() -> None:
    features = read_pairwise(np.ones((52, 1)), [np.zeros(50, dtype=int), [0, 1]], 4)
    assert n_labellings(features) == 4**50 + 16  # beyond 64 bits
    loss = read_loss("hamming", features)
    with pytest.raises(
        ValueError, match=f"{4**50 + 16} labellings, wanted at most {MOST_LABELLINGS} .*'marginals'.*'n_slack_cuts'"
    ):
        enumerate_pairwise(features, loss)
    part = features.some([1])
    with pytest.raises(ValueError, match="16 labellings, wanted at most 15"):
        enumerate_pairwise(part, read_loss("hamming", part), limit=15)
    assert enumerate_pairwise(part, read_loss("hamming", part), limit=16).n_rows == 16
