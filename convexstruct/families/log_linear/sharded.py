"""Log-linear models whose examples are cut into shards.

Each shard gets the parameters and returns sums over its examples: log partition functions and expected features
(`ConditionalRandomField`), the same clamped to what is known (`HiddenField`), conditionals of some of the variables
(`PseudoLikelihood`), expected counts of some of the sequences (`HiddenMarkov`). The certificate is computed on the
whole problem. The data of a Markov random field enter through their moments, so that it has no examples to cut.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from itertools import pairwise
from typing import Any

import numpy as np

from convexstruct.arrays import Point, Vector
from convexstruct.core.mixtures import Mixture
from convexstruct.families.log_linear.approximate_field import ApproximateField
from convexstruct.families.log_linear.conditional import ConditionalRandomField
from convexstruct.families.log_linear.hidden import HiddenField
from convexstruct.families.log_linear.hidden_markov import HiddenMarkov
from convexstruct.families.log_linear.markov_field import MarkovRandomField
from convexstruct.families.log_linear.pseudolikelihood import Groups, PseudoLikelihood
from convexstruct.features.graphs.pairwise import PairwiseFeatures
from convexstruct.inference.baum_welch import Expected
from convexstruct.inference.exact import Inference
from convexstruct.inference.hidden_markov import HiddenMarkovModels
from convexstruct.inference.parallel import in_shards
from convexstruct.inference.sharded_oracle import Cut, ShardedInference
from convexstruct.inference.shards import Shards, cuts, fields_of
from convexstruct.rounding import Rounded
from convexstruct.validation.arguments import sentence


@dataclass(frozen=True, eq=False, repr=False)
class ShardedField(ConditionalRandomField):
    """``whole`` with its examples ``cut`` into shards."""

    whole: ConditionalRandomField = field(kw_only=True)
    cut: Cut = field(kw_only=True)

    @cached_property
    def oracle(self) -> Inference:
        return ShardedInference(self.whole, self.cut)

    def expectation(self, theta: Vector) -> tuple[float, Vector]:
        return _summed(self.cut.shards, "expectation", theta)

    def curvature(self, theta: Vector) -> Vector:
        return _total(_each(self.cut.shards, "curvature", theta), len(theta))

    def primal(self, point: Point) -> Rounded:
        return self.whole.primal(point)

    def enclosed(self, mixture: Mixture) -> tuple[Rounded, Vector, Vector]:
        return self.whole.enclosed(mixture)


@dataclass(frozen=True, eq=False, repr=False)
class ShardedHidden(HiddenField):
    """``whole`` with its examples or samples in ``shards``, each a `HiddenField` of some of them."""

    whole: HiddenField = field(kw_only=True)
    shards: Shards = field(kw_only=True)

    def unclamped(self, theta: Vector) -> tuple[float, Vector]:
        if isinstance(self.model, MarkovRandomField):  # one ln Z for all samples
            return self.whole.unclamped(theta)
        return _summed(self.shards, "unclamped", theta)

    def clamped(self, theta: Vector) -> tuple[float, Vector]:
        return _summed(self.shards, "clamped", theta)

    def curvature(self, theta: Vector) -> Vector:
        if isinstance(self.model, MarkovRandomField):
            return self.whole.curvature(theta)
        return _total(_each(self.shards, "curvature", theta), len(theta))


@dataclass(frozen=True, eq=False, repr=False)
class ShardedPseudo(PseudoLikelihood):
    """``whole`` with its targets in ``shards``, each the `PseudoLikelihood` of some of the targets."""

    whole: PseudoLikelihood = field(kw_only=True)
    shards: Shards = field(kw_only=True)

    @property
    def groups(self) -> Groups:
        return self.whole.groups

    def value_and_gradient(self, theta: Vector) -> tuple[float, Vector]:
        return _summed(self.shards, "value_and_gradient", theta)

    def curvature(self, theta: Vector) -> Vector:
        return _total(_each(self.shards, "curvature", theta), len(theta))


@dataclass(frozen=True, eq=False, repr=False)
class ShardedMarkov(HiddenMarkov):
    """``whole`` with its sequences in ``shards``, each a `HiddenMarkov` of some of them."""

    whole: HiddenMarkov = field(kw_only=True)
    shards: Shards = field(kw_only=True)

    def expected(self, models: HiddenMarkovModels) -> Expected:
        parts = self.shards.map("expected", models)
        return Expected(*(reduce(np.add, each) for each in zip(*parts)))

    def expectation(self, models: HiddenMarkovModels) -> Callable[[HiddenMarkovModels], Expected]:
        return self.expected


def _each(shards: Shards, method: str, theta: Vector) -> list[Any]:
    """``method`` of every shard at theta, without weights of edges where the shard has no edge."""
    return shards.map_each(method, [(theta[: part.dimension],) for part in shards.parts])


def _summed(shards: Shards, method: str, theta: Vector) -> tuple[float, Vector]:
    found = _each(shards, method, theta)
    return sum(part[0] for part in found), _total([part[1] for part in found], len(theta))


def _total(parts: list[Vector], dimension: int) -> Vector:
    """The sum (d,) of the parts; that of a shard without edges is shorter."""
    total = np.zeros(dimension)
    for part in parts:
        total[: len(part)] += part
    return total


@in_shards.register
def sharded_field(problem: ConditionalRandomField, executor: Executor, n_shards: int | None) -> ShardedField:
    """The same problem with its examples in shards of about as many nodes each."""
    problem = problem.whole if isinstance(problem, ShardedField) else problem

    def part(own: PairwiseFeatures, examples: slice, nodes: slice) -> ConditionalRandomField:
        return ConditionalRandomField(own, problem.scale, problem.weights[examples], problem.l1, problem.forbidden)

    cut = Cut.of(problem.features, part, executor, n_shards)
    return ShardedField(**fields_of(problem, ConditionalRandomField), whole=problem, cut=cut)


@in_shards.register
def sharded_hidden(problem: HiddenField, executor: Executor, n_shards: int | None) -> ShardedHidden:
    """The same problem with its examples in shards of about as many nodes, or its samples in shards of as many."""
    problem = problem.whole if isinstance(problem, ShardedHidden) else problem
    model, known = problem.model, problem.known
    if isinstance(model, ConditionalRandomField):
        conditional = model

        def part(own: PairwiseFeatures, examples: slice, nodes: slice) -> HiddenField:
            weights = conditional.weights[examples]
            return HiddenField(replace(conditional, features=own, weights=weights), known[nodes])

        shards = Cut.of(model.features, part, executor, n_shards).shards
    else:
        assert model.samples is not None
        assert model.weights is not None
        at = [slice(*each) for each in pairwise(cuts(np.ones(len(known), dtype=np.intp), n_shards))]
        of = [replace(model, samples=model.samples[some], weights=model.weights[some]) for some in at]
        shards = Shards(tuple(HiddenField(own, known[some]) for own, some in zip(of, at)), executor)
    return ShardedHidden(**fields_of(problem, HiddenField), whole=problem, shards=shards)


@in_shards.register
def sharded_pseudo(problem: PseudoLikelihood, executor: Executor, n_shards: int | None) -> ShardedPseudo:
    """The same problem with its targets in shards of about as many distinct conditionals each."""
    problem = problem.whole if isinstance(problem, ShardedPseudo) else problem
    sizes = np.bincount(problem.groups.variable, minlength=problem.factors.n_variables)[list(problem.targets)]
    at = pairwise(cuts(sizes, n_shards))
    parts = tuple(replace(problem, targets=problem.targets[low:high]) for low, high in at)
    return ShardedPseudo(**fields_of(problem, PseudoLikelihood), whole=problem, shards=Shards(parts, executor))


@in_shards.register
def sharded_markov(problem: HiddenMarkov, executor: Executor, n_shards: int | None) -> ShardedMarkov:
    """The same problem with its sequences in shards of about as many positions each."""
    problem = problem.whole if isinstance(problem, ShardedMarkov) else problem
    at = pairwise(cuts(problem.observed.chains.lengths, n_shards))
    parts = tuple(replace(problem, observed=problem.observed.some(slice(low, high))) for low, high in at)
    return ShardedMarkov(**fields_of(problem, HiddenMarkov), whole=problem, shards=Shards(parts, executor))


@in_shards.register(MarkovRandomField)
@in_shards.register(ApproximateField)
def no_examples(problem: MarkovRandomField | ApproximateField, executor: Executor, n_shards: int | None) -> Any:
    """ValueError: there is nothing to cut."""
    raise sentence(
        f"executor came with a {type(problem).__name__}, wanted None: its data enter through their moments, and ln Z "
        "is one sum over one graph, so that there are no examples to cut into shards"
    )
