"""The entropic proximal method on a feature map of a user's own type, which cannot be cut between examples."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from convexstruct import GenerativeMargin
from convexstruct.arrays import Vector
from convexstruct.core.driver import solve
from convexstruct.datasets.generated.ring import EASY, ring
from convexstruct.families.generative_margin import EntropicProximal
from convexstruct.features.counts.bounds import Moments, excess, moments
from convexstruct.features.counts.part import can_part, part
from convexstruct.rounding import RoundedArray
from convexstruct.tolerances import HIGH, MID


class Foreign:
    """All members of a feature map, without its type."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


# what a certificate needs of every type


@excess.register
def _(features: Foreign, theta: Vector) -> RoundedArray:
    return excess(features.inner, theta)


@moments.register
def _(features: Foreign, theta: Vector, loss_weight: float, weights: Vector) -> Moments:
    return moments(features.inner, theta, loss_weight, weights)


def test_only_features_of_a_registered_type_can_be_cut() -> None:
    data = ring(3, 2, 3, EASY, 1, n_symbols=2)
    features = GenerativeMargin.hmm(data.symbols, data.states, 3, 2, eta=0.5).features
    foreign: Any = Foreign(features)
    assert can_part(features)
    assert not can_part(foreign)
    with pytest.raises(ValueError, match="features of type Foreign cannot be cut between examples"):
        part(foreign, 0, 1)


def test_many_examples_of_a_foreign_type_are_solved_without_a_pilot_run() -> None:
    data = ring(20, 3, 3, EASY, 3, n_symbols=2)
    own = GenerativeMargin.hmm(data.symbols, data.states, 3, 2, eta=0.5, loss="ring")
    features: Any = Foreign(own.features)
    foreign, options = GenerativeMargin(features, own.c, own.eta), EntropicProximal(pilot=1)
    known = solve(own, options, tol=HIGH)
    first = solve(foreign, options, tol=MID)
    again = solve(foreign, options, tol=MID, start=known)
    for found in (first, again):
        assert found.status.solved
        assert known.lower_bound <= found.primal
        assert np.isfinite(found.lower_bound)
        assert found.lower_bound <= known.primal
