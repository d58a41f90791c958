"""Labellings to try a feature map on."""

from __future__ import annotations

import numpy as np

from convexstruct.arrays import Labels
from convexstruct.features.counts.counts import Examples


def random_labels(examples: Examples, rng: np.random.Generator) -> Labels:
    """Any labelling as likely as any other; what is observed stays at the truth. Flat (P,)."""
    return np.where(examples.free, rng.integers(examples.cards), examples.truth)
