"""Prediction by models of joint labels: the most probable values of a sample's hidden labels."""

from __future__ import annotations

from typing import Any

import numpy as np

from convexstruct.arrays import Labels, Vector
from convexstruct.inference.factor_graphs import FactorInference
from convexstruct.validation.arguments import sentence
from convexstruct.validation.arrays import wholes


def completed(oracle: FactorInference, theta: Vector, examples: Any = None) -> list[Labels]:
    """The most probable completion of each sample, one array (n,) a sample.

    Parameters
    ----------
    oracle : of the factors. theta : (d,).
    examples : (m, n) samples, -1 where a label is to be predicted; None: one sample with every label open.

    Raises
    ------
    ValueError
        If the samples do not fit the factors, no completion of one is allowed, or the graph is too wide for exact
        inference.
    """
    cards = np.array(oracle.factors.cards)
    if examples is None:
        read = np.full((1, len(cards)), -1, dtype=np.int64)
    else:
        why = "one row a sample, one label a variable, -1 where it is to be predicted"
        read = wholes("examples", examples, ("samples", len(cards)), least=-1, why=why)
    if (read >= cards).any():
        v = int(np.flatnonzero((read >= cards).any(axis=0))[0])
        raise sentence(f"examples has label {read[:, v].max()} of variable {v}, wanted labels below {cards[v]}")
    return list(oracle.completed("examples", np.asarray(oracle.factors.design @ theta), read))
