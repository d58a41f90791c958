r"""The double loop (paper 4, 20.5): belief propagation for the moments inside, L-BFGS on theta outside.

    minimise over theta   C [M ln Z_B(theta) - <theta, s>] + lam/2 |theta|^2,      gradient  C [M E_b f - s] + lam theta

ln Z_B is the Bethe approximation at the beliefs b to which the messages converge (`belief_propagation`); at a fixed
point E_b f is its gradient. On trees both are exact. Elsewhere the function need not be convex, and as theta moves the
messages may converge to another fixed point or not at all. A theta at which they do not converge is never accepted: the
line search returns towards the last one at which they do. If it finds no step, or meets such a theta in three rounds in
a row, the run ends with a message that says so.

With tree weights (``entropy="tree_reweighted"``) ln Z_B is convex in theta, is at least ln Z, and its fixed point is
unique; factors then have at most two variables.

Neither is a bound on the likelihood's optimum from below: the status is UNCERTIFIED.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np

from convexstruct.arrays import Matrix, Vector
from convexstruct.core.iterate import Iterate
from convexstruct.core.options import at_least, read_options
from convexstruct.core.solution import Solution
from convexstruct.families.log_linear.approximate_field import ApproximateField, finite_tables
from convexstruct.families.log_linear.markov_field import MarkovRandomField
from convexstruct.families.log_linear.solvers.descent import Here
from convexstruct.families.log_linear.solvers.lbfgs import descent
from convexstruct.oracles.loopy.belief_propagation import DAMPING, ROUNDS, Beliefs, factor_graph, propagate
from convexstruct.oracles.loopy.tree_reweighted import spanning_trees
from convexstruct.validation.arguments import choice, number, sentence

#: theta counts as stationary, to 5 digits, where the penalty's conjugate gap is below this share of the objective.
STATIONARY = 1e-10
#: Rounds in a row whose line search met messages that did not converge, after which the run ends: theta would then move
#: only in tiny steps along the border of convergence.
FAILED_ROUNDS = 3


@dataclass(frozen=True)
class DoubleLoop:
    """entropy : "bethe" or "tree_reweighted". damping : the share of old messages that is kept, from 0 to below 1.
    rounds : rounds of messages for each theta, at most."""

    entropy: str = "bethe"
    damping: float = DAMPING
    rounds: int = ROUNDS

    def __post_init__(self) -> None:
        choice("entropy", self.entropy, ("bethe", "tree_reweighted"))
        object.__setattr__(self, "damping", number("damping", self.damping, least=0, below=1))
        read_options(self, rounds=at_least(1))

    def iterate(
        self, problem: MarkovRandomField | ApproximateField, start: Solution | None = None
    ) -> Iterator[Iterate]:
        """Yield each theta with its approximate objective; it bounds nothing."""
        if problem.penalty.l1:
            raise sentence(
                f"problem has l1 = {problem.penalty.l1:g}, wanted 0: the double loop ends by the gradient "
                "of a smooth objective; PseudoLikelihood, ImportanceSampling and ContrastiveDivergence take |theta|_1"
            )
        inner, strikes, lost = _Approximate(problem, self), 0, 0
        theta = np.zeros(problem.dimension) if start is None else np.array(start.point["theta"], dtype=np.float64)
        begin = Here.at(inner, theta)
        for here, _ in chain([(begin, 1)], descent(inner, begin)):
            failed = inner.calls - inner.met
            strikes, lost = strikes + 1 if failed > lost else 0, failed
            # R(theta) + R*(-gradient) + <theta, gradient> vanishes where theta is stationary, and nowhere else
            gap = here.value - here.lower_bound(problem.penalty)
            stationary = math.isfinite(gap) and gap <= STATIONARY * abs(here.value)
            if stationary or strikes == FAILED_ROUNDS:
                break
            yield self._iterate(inner, here)
        lower = inner.calls > inner.met and not stationary
        said = ", and it ends where lower values are that do not let them converge" if lower else ""
        yield replace(self._iterate(inner, here, said), done=True)

    def _iterate(self, inner: _Approximate, here: Here, ended: str = "") -> Iterate:
        said = f"an approximation, no bound: {self.entropy} entropy; messages converged at {inner.met} of "
        said += f"{inner.calls} parameters{ended}"
        return Iterate({"theta": here.theta}, None, here.value, -math.inf, inner.calls, message=said)


class _Approximate:
    """The approximate objective with the interface that L-BFGS needs; messages start from the last that converged."""

    def __init__(self, field: MarkovRandomField | ApproximateField, options: DoubleLoop) -> None:
        factors = field.factors
        self.field, self.options, self.penalty = field, options, field.penalty
        self.graph = factor_graph(factors.cards, factors.scopes)
        self.rho: Vector | None = None
        self.messages: Matrix | None = None
        self.calls = self.met = 0
        if options.entropy == "tree_reweighted":
            trees = spanning_trees(factors.n_variables, factors.scopes)
            if trees is None:
                raise sentence("problem has a factor of more than two variables, wanted pairs for tree weights")
            self.rho = trees.rho

    @property
    def dimension(self) -> int:
        return self.field.factors.dimension

    def value_and_gradient(self, theta: Vector) -> tuple[float, Vector]:
        """Infinite where messages do not converge."""
        found = self._beliefs(theta)
        field = self.field
        self.calls += 1
        if not found.converged[0]:
            return math.inf, np.full(self.dimension, np.nan)
        self.met += 1
        self.messages = found.messages
        return field.fit(theta, float(found.log_partition[0]), field.factors.moments(found.entries[0]))

    def curvature(self, theta: Vector) -> Vector:
        """C M times the variances of the features, as if factors did not depend on one another."""
        beliefs = self._beliefs(theta).entries[0]
        return self.field.scale.C * self.field.mass * self.field.factors.variances(beliefs)

    def _beliefs(self, theta: Vector) -> Beliefs:
        options = self.options
        flat = finite_tables(self.field.factors, theta)
        return propagate(self.graph, flat, self.messages, self.rho, damping=options.damping, rounds=options.rounds)
