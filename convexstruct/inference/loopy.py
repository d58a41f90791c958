"""Oracles over the examples of `PairwiseFeatures` whose graphs are too wide for a junction tree.

    minimum_cut     exact: associative networks of two labels, all examples in one flow
    relaxed         the local polytope in place of all labellings: another problem, with a greater optimum

None of them sums over labellings, so that solvers which need sums (tempering, exponentiated gradient) refuse them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn

import numpy as np

from convexstruct.arrays import Labels, Matrix, Tensor, Vector
from convexstruct.features.graphs.pairwise import PairwiseFeatures
from convexstruct.inference.exact import Best, Inference, exact_inference
from convexstruct.oracles.loopy.linear_relaxation import linear_relaxation
from convexstruct.oracles.loopy.minimum_cut import messages, minimum_cut
from convexstruct.oracles.loopy.pairwise import Pairwise, pairwise
from convexstruct.validation.arguments import refuse


@dataclass(frozen=True, eq=False)
class LoopyInference:
    """One maximisation over all examples; it refuses sums, max-marginals and best labellings by loss.

    name : the value of the argument ``inference=``, a key of `MAXIMISE`. relaxed, summable : see `Inference`.
    """

    features: PairwiseFeatures
    name: str
    summable: bool = False

    @property
    def relaxed(self) -> bool:
        return self.name == "relaxed"

    def tables(self, node: Matrix, edge: Tensor) -> Pairwise:
        """The scores as the oracles of loopy graphs take them, one part an example."""
        return pairwise(node, self.features.edges, edge, self.features.example)

    def best(self, node: Matrix, edge: Tensor) -> Best:
        return MAXIMISE[self.name](self.tables(node, edge))

    def max_marginals(self, node: Matrix, edge: Tensor) -> NoReturn:
        self._refuse("max-marginals")

    def by_loss(self, node: Matrix, edge: Tensor, steps: Labels) -> NoReturn:
        self._refuse("best labellings by their loss")

    def sums(self, node: Matrix, edge: Tensor, share: Vector | None = None) -> NoReturn:
        self._refuse("sums over labellings")

    def sample(self, node: Matrix, edge: Tensor, rng: np.random.Generator) -> NoReturn:
        self._refuse("samples of labellings")

    def _refuse(self, what: str) -> NoReturn:
        raise ValueError(f"inference is {self.name!r}, which has no {what}, wanted 'exact'")


def _cut(scores: Pairwise) -> Best:
    """``labels`` is optimal up to the rounding of double precision; ``upper`` is a bound in real arithmetic."""
    cut = minimum_cut(scores)
    return Best(cut.scores, cut.labels, cut.upper, scores.moved(messages(scores, cut.flow)))


def _relaxed(scores: Pairwise) -> Best:
    """``upper`` is the optimum over the local polytope, ``labels`` what it is rounded to."""
    found = linear_relaxation(scores)
    return Best(found.scores, found.labels, found.upper, scores.moved(found.messages))


#: Maximisation over score tables, by name.
MAXIMISE: dict[str, Callable[[Pairwise], Best]] = {"minimum_cut": _cut, "relaxed": _relaxed}


def choose_oracle(features: PairwiseFeatures, inference: str) -> Inference:
    """The oracle over labellings of this name: "exact", "minimum_cut" or "relaxed". ValueError if no oracle has this
    name, or it does not fit the graphs: minimum cuts need an associative network of no more than two labels."""
    known = ("exact", *MAXIMISE)
    if not isinstance(inference, str) or inference not in known:
        refuse("inference", inference, f"one of {', '.join(known)}")
    if inference == "exact":
        return exact_inference(features)
    if inference == "minimum_cut" and not features.associative:
        raise ValueError(
            f"inference={inference!r} came with a network that is not associative, wanted associative=True"
        )
    if inference == "minimum_cut" and features.n_labels > 2:
        raise ValueError(f"inference='minimum_cut' came with {features.n_labels} labels, wanted two, or 'relaxed'")
    return LoopyInference(features, inference)
