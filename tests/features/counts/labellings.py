"""Random labellings for the tests of feature maps."""

from __future__ import annotations

import numpy as np

from convexstruct.arrays import Labels
from convexstruct.features.counts.counts import Examples


def random_labels(examples: Examples, rng: np.random.Generator) -> Labels:
    """A labelling drawn uniformly, flat (P,); observed positions have their true labels."""
    return np.where(examples.free, rng.integers(examples.cards), examples.truth)
