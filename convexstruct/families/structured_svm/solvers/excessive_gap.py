r"""The M3N dual by Nesterov's excessive gap technique (paper 2, E.1):
`convexstruct.families.regularized_risk.solvers.pragam` over marginals.

A dual point is a = the marginals of each example times C omega_i: a member of Q, the product of scaled local marginal
polytopes. On forests (and for inference="relaxed", whose problem is that of the local polytope) these are tables of
nodes and edges, else tables of the cliques of junction trees (`convexstruct.marginals.pairwise_tables`). With
Psi(a) = sum_i C omega_i f(x_i, y_i) - E_a f and w(a) = Psi_+(a) / lam,

    D(a) = <E, a> - |Psi_+(a)|^2 / (2 lam),     grad D = E + scores of every table's entries at w(a)

and the three mappings are projections onto Q (E.3, `convexstruct.oracles.polytope.local_polytope`):

    a_mu(w) = proj_Q(a_0 + g(w) / mu)  (23),     w(a)  (24),     V(a) = proj_Q(a + g(w(a)) / L)  (25)

with g(w) the gradient's formula at any w, and a_0 the uniform distribution of each example. The steps and the bound
(26), P(w_k) - D(a_k) <= mu_k Dmax, are those of Pragam; L is estimated by backtracking. Projections end at a finite
accuracy and are then repaired, so (26) holds up to that accuracy. The witness of clique tables is a mixture of
labellings that has them (`convexstruct.marginals.decomposition`). Needs margin scaling and node losses.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from convexstruct import deadline
from convexstruct.arrays import Point, Vector
from convexstruct.core.excessive_gap import FIRST_GUESS, GUESS_FALL, step_share
from convexstruct.core.iterate import Iterate
from convexstruct.core.options import positive, read_options
from convexstruct.core.rounds import Clock
from convexstruct.core.solution import Solution
from convexstruct.families.structured_svm.problem import StructuredSVM
from convexstruct.families.structured_svm.solvers.example_blocks import at_zero
from convexstruct.marginals.decomposition import greedy_mixture
from convexstruct.marginals.pairwise_polytope import is_forest
from convexstruct.marginals.pairwise_tables import clique_tables, node_and_edge_tables
from convexstruct.oracles.polytope.clique_tables import Tables
from convexstruct.oracles.polytope.local_polytope import project_tables


class Dual(NamedTuple):
    """A member of Q: its tables, one array a group; psi (d,) its Psi, loss its <E, a>."""

    tables: Tables
    psi: Vector
    loss: float

    def to(self, other: Dual, t: float) -> Dual:
        """(1 - t) self + t other."""
        tables = [(1.0 - t) * one + t * two for one, two in zip(self.tables, other.tables)]
        return Dual(tables, (1.0 - t) * self.psi + t * other.psi, (1.0 - t) * self.loss + t * other.loss)


@dataclass(frozen=True)
class ExcessiveGap:
    """Options. accuracy : the relative accuracy of the projections."""

    accuracy: float = 1e-8

    def __post_init__(self) -> None:
        read_options(self, accuracy=positive)

    def iterate(self, problem: StructuredSVM, start: Solution | None = None) -> Iterator[Iterate]:
        """One iterate a round; one in all where the features are 0 or their squares overflow. ValueError if the problem
        is not of margin scaling with node losses, or a graph is too wide for a junction tree."""
        if problem.scaling != "margin" or problem.loss.zero_one:
            raise ValueError("ExcessiveGap needs margin scaling and node losses; use ColumnGeneration")
        run = _Run(problem, self.accuracy)
        if 0.0 < run.L < math.inf:
            yield from run.rounds()
        else:  # there are no features, so that w = 0 is optimal; or their squares overflow, and so does every step
            yield at_zero(problem)


class _Run:
    def __init__(self, problem: StructuredSVM, accuracy: float) -> None:
        self.problem, self.accuracy = problem, accuracy
        self.clock = Clock("projection", "data")
        features = problem.features
        pairs = problem.oracle.relaxed or is_forest(features)
        self.tables = node_and_edge_tables(features) if pairs else clique_tables(features)
        self._multipliers: dict[str, Tables] = {}
        self.L = self._guess()
        self.calls = 0

    def rounds(self) -> Iterator[Iterate]:
        problem = self.problem
        centre = self.centre()
        w = self.weights(centre)
        a = self._step(centre)
        while self._excess(centre, a) > 0:
            deadline.check()
            self.L *= 2.0
            a = self._step(centre)
        mu, k = self.L, 1
        while True:
            found = problem.most_violated(w)
            self.calls += 1
            lower = problem.dual_value(a.psi, a.loss)
            message = f"L = {self.L:.6g}, mu = {mu:.6g}"
            yield Iterate(
                {"w": w}, partial(self._witness, a), found.value, lower, self.calls, self.clock.parts, message=message
            )
            smooth = self._project(centre, w, 1.0 / mu, "smooth")
            while True:
                deadline.check()
                tau = step_share(mu / self.L)
                middle = a.to(smooth, tau)
                after = self._step(middle)
                if self._excess(middle, after) <= 0:
                    break
                self.L *= 2.0
            w = (1.0 - tau) * w + tau * self.weights(middle)
            a, mu, k = after, (1.0 - tau) * mu, k + 1
            self.L *= GUESS_FALL

    def centre(self) -> Dual:
        """a_0: every example's uniform distribution."""
        structure = self.tables.structure
        level = [self.problem.ceiling[of] / math.prod(cards) for of, cards in zip(structure.component, structure.cards)]
        return self._dual([np.broadcast_to(each, shape[::-1]).T.copy() for each, shape in zip(level, structure.shapes)])

    def weights(self, a: Dual) -> Vector:
        """w(a), (24)."""
        return self.problem.project(a.psi) / self.problem.lam

    def _dual(self, tables: Tables) -> Dual:
        problem = self.problem
        with self.clock("data"):
            node, edge = self.tables.marginals(tables)
            psi = problem.truth_joint - problem.features.adjoint(node, edge)
            return Dual(tables, psi, float((node * problem.loss.costs).sum()))

    def _project(self, at: Dual, w: Vector, size: float, name: str) -> Dual:
        """proj_Q(at + size g(w)), started from the multipliers of the last projection with this ``name``."""
        problem = self.problem
        with self.clock("data"):
            node, edge = problem.scores(w)
            scores = self.tables.scores(node + problem.loss.costs, edge)
        with self.clock("projection"):
            found = project_tables(
                self.tables.structure, [table + size * score for table, score in zip(at.tables, scores)],
                scale=problem.ceiling, start=self._multipliers.get(name), tol=self.accuracy,
            )  # fmt: skip
            self._multipliers[name] = found.multipliers
        return self._dual(found.tables)

    def _step(self, at: Dual) -> Dual:
        """V(at), (25)."""
        return self._project(at, self.weights(at), 1.0 / self.L, "step")

    def _excess(self, at: Dual, to: Dual) -> float:
        """Positive if L is too small for this step: D lies below its tangent at ``at`` by at most
        |Psi(to) - Psi(at)|^2 / (2 lam), and L |to - at|^2 / 2 must be at least that."""
        turned = to.psi - at.psi
        moved = sum(float(np.sum((new - old) ** 2)) for new, old in zip(to.tables, at.tables))
        return float(turned @ turned) / self.problem.lam - self.L * moved

    def _guess(self) -> float:
        features = self.problem.features
        x, z = features.node_features, features.edge_features
        squares = float(x.data @ x.data if sp.issparse(x) else np.vdot(x, x))
        squares += features.n_edges if z is None else float(np.vdot(z, z))
        return FIRST_GUESS * squares / self.problem.lam

    def _witness(self, a: Dual) -> Point:
        features, c, polytope = self.problem.features, self.problem.ceiling, self.tables.polytope
        if polytope is None:
            node, edge = a.tables
            return {
                "node_marginals": node / c[features.example][:, None],
                "edge_marginals": edge / c[features.edge_example][:, None, None],
            }
        z = self.tables.flat(a.tables) / c[polytope.columns.example]
        labels, shares = greedy_mixture(polytope.columns, z, features.truth)
        return {"labels": labels, "label_shares": shares}
