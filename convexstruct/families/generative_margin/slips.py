"""Mistakes that are easily made with a generative margin: eta, the loss, weights and masks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from convexstruct.core.slips import Slip, altered, moved
from convexstruct.families.generative_margin.problem import GenerativeMargin
from convexstruct.features.counts.hmm import HMMCounts


def slips(problem: GenerativeMargin) -> Iterator[Slip]:
    n, features = problem.n_examples, problem.features
    said = "with eta / K: are the slacks a mean over the examples, where their sum is wanted?"
    yield altered(said, problem, eta=problem.eta / n)
    yield altered(
        "with eta K: are the slacks a sum over the examples, where eta is of their mean?", problem, eta=problem.eta * n
    )
    said = "divided by the sums of its blocks it is optimal: do probabilities sum to 1, as (4) has it?"
    yield moved(said, "theta", problem.shift)
    for name, said in (
        ("h", "with the linear h of (2)"), ("f", "without f of (28)"), ("constraints", "without the constraints (30)"),
        ("rescaled", "without rescaling by the loss"),
    ):  # fmt: skip
        if getattr(problem, name) is not None:
            yield altered(f"{said}: is it left out?", problem, **{name: None})
    if not isinstance(features, HMMCounts):
        return
    table = np.zeros_like(features.loss_table)
    yield altered("without the loss of (3)", problem, features=replace(features, loss_table=table))
    if np.ptp(features.weights) > 0:
        ones = replace(features, weights=np.ones_like(features.weights))
        yield altered("with weights of 1: are the examples' weights left out?", problem, features=ones)
    if len(features.observed):
        none = replace(features, observed=np.zeros(0, dtype=np.intp))
        yield altered("with observed states decoded too: is the mask left out?", problem, features=none)
