r"""Iterative proportional fitting on a junction tree, for tables without a penalty (Deming and Stephan 1940).

A table of the model is multiplied by the ratio of the data's marginal m_c to the model's,

    theta_c  <-  theta_c + ln (m_c / p_c),        p <- p m_c / p_c,

which maximises the likelihood over that table alone: P never rises, and Z never changes, because p stays normalised.
Tables are fitted along a walk around the junction tree that passes each separator once each way (Jirousek and
Preucil 1995): at each clique p's marginal is up to date, and so a sweep over all tables costs one pass over the tree
instead of one inference for each table. Where every clique of the tree is the scope of a table the model is
*decomposable*, and the first sweep gives the closed form: each clique's conditional is that of the data.

Where m is 0 theta would be minus infinity; p of such an entry is multiplied by `LEAST_RATIO` in each sweep instead.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from convexstruct import deadline
from convexstruct.arrays import Index, Tensor, Vector
from convexstruct.core.iterate import Iterate
from convexstruct.core.solution import Solution
from convexstruct.families.log_linear.existence import no_maximum
from convexstruct.families.log_linear.markov_field import MarkovRandomField
from convexstruct.families.log_linear.penalty import Penalty
from convexstruct.junction_trees import JunctionTree
from convexstruct.validation.arguments import sentence

#: The least ratio m_c / p_c in one update: where m_c is 0, theta falls by 37 nats a sweep instead of becoming -inf.
LEAST_RATIO = 1e-16
#: Sweeps in a row that did not halve the residual, after which it is attributed to rounding.
PATIENCE = 5


def parameters_of_rows(problem: MarkovRandomField) -> Index | None:
    """The parameter of each entry of the tables (T,) if each entry has a parameter of its own; else None."""
    design = problem.factors.design
    square = design.shape[0] == design.shape[1] == design.nnz and (design.data == 1.0).all()
    own = square and (np.diff(design.indptr) == 1).all() and len(np.unique(design.indices)) == design.shape[1]
    return design.indices.astype(np.intp) if own else None


def decomposable(problem: MarkovRandomField) -> bool:
    """Whether every clique of the junction tree is the scope of a table with one parameter for each entry."""
    scopes = {frozenset(scope) for scope in problem.factors.scopes}
    cliques = problem.inference.tree.cliques
    return parameters_of_rows(problem) is not None and all(frozenset(clique) in scopes for clique in cliques)


@dataclass(frozen=True)
class ProportionalFitting:
    """Iterative proportional fitting: monotone; linear convergence, one sweep if the model is decomposable. No
    options."""

    def iterate(self, problem: MarkovRandomField, start: Solution | None = None) -> Iterator[Iterate]:
        """Yield theta after each sweep; ``start`` gives the first.

        Raises
        ------
        ValueError
            If there is a penalty, or the tables share parameters or have features.
        """
        own = parameters_of_rows(problem)
        if problem.penalty != Penalty() or own is None:
            came = "shared parameters or features" if own is None else repr(problem.penalty)
            raise sentence(f"problem has {came}, wanted tables without a penalty for ProportionalFitting: use LBFGS")
        direction = problem.runaway()
        message = "" if direction is None else no_maximum(problem.factors, direction)
        theta = np.zeros(problem.dimension) if start is None else np.array(start.point["theta"], dtype=np.float64)
        walk, moments = Walk(problem, theta), problem.moments
        log_partition = problem.inference.sums(problem.factors.design @ theta).log_partition
        weight = problem.scale.C * problem.mass
        idle, least = 0, np.inf
        for sweep in range(1, 10**9):
            away = walk.sweep(theta, moments, own)
            value = weight * (log_partition - float(theta @ moments))
            residual = float(away.max(initial=0.0))
            idle, least = (0, residual) if residual < 0.5 * least else (idle + 1, least)
            ended = idle >= PATIENCE or residual == 0.0
            bound = value - weight * float(np.abs(theta) @ away)
            said = message or ("what is left of the moments is rounding" if ended else "")
            point = {"theta": theta.copy()}
            yield Iterate(point, point, value, bound, sweep, done=ended, message=said)
            if ended:
                return


class Walk:
    """The clique tables of p, and the walk around the tree."""

    def __init__(self, problem: MarkovRandomField, theta: Vector) -> None:
        self.tree, self.factors = problem.inference.tree, problem.factors
        start = problem.polytope.start
        z = problem.gibbs(theta)
        self.tables: list[Tensor] = [
            z[start[c] : start[c + 1]].reshape([self.tree.cards[v] for v in clique]).copy()
            for c, clique in enumerate(self.tree.cliques)
        ]
        self.held: list[list[int]] = [[] for _ in self.tree.cliques]
        for f, scope in enumerate(self.factors.scopes):
            self.held[self.tree.clique_of(scope)].append(f)
        self.steps = _around(self.tree)

    def sweep(self, theta: Vector, moments: Vector, own: Index) -> Vector:
        """Fit every table once; theta is changed. Returns how far each entry's marginal was from the moments (d,)."""
        away = np.zeros(len(theta))
        for before, c, first in self.steps:
            deadline.check()
            if before >= 0:
                self._pass(before, c)
            if not first:
                continue
            for f in self.held[c]:
                scope, shape = self.factors.scopes[f], self.factors.shapes[f]
                rows = own[self.factors.start[f] : self.factors.start[f + 1]]
                model, wanted = self._marginal(c, scope), moments[rows].reshape(shape)
                away[rows] = np.abs(model - wanted).ravel()
                ratio = np.maximum(np.divide(wanted, model, out=np.ones(shape), where=model > 0), LEAST_RATIO)
                theta[rows] += np.log(ratio).ravel()
                self.tables[c] *= self._along(ratio, scope, c)
        return away

    def _pass(self, before: int, after: int) -> None:
        """Give clique ``after`` the marginal that ``before`` has of their shared variables."""
        below = after if self.tree.parent[after] == before else before
        shared = self.tree.separators[below]
        new, old = self._marginal(before, shared), self._marginal(after, shared)
        ratio = np.divide(new, old, out=np.zeros_like(new), where=old > 0)
        self.tables[after] *= self._along(ratio, shared, after)

    def _marginal(self, c: int, scope: tuple[int, ...]) -> Tensor:
        """p of the variables in ``scope``, in that order of axes."""
        clique = self.tree.cliques[c]
        summed = self.tables[c].sum(axis=tuple(i for i, v in enumerate(clique) if v not in scope))
        kept = [v for v in clique if v in scope]
        return np.asarray(np.transpose(summed, [kept.index(v) for v in scope]))

    def _along(self, table: Tensor, scope: tuple[int, ...], c: int) -> Tensor:
        """A table over ``scope``, with axes that broadcast against the table of clique c."""
        clique = self.tree.cliques[c]
        moved = table.transpose([scope.index(v) for v in clique if v in scope])
        return moved[tuple(slice(None) if v in scope else np.newaxis for v in clique)]


def _around(tree: JunctionTree) -> list[tuple[int, int, bool]]:
    """(from, to, whether ``to`` is visited for the first time) along a walk that passes each separator twice; from = -1
    at the root."""
    below: list[list[int]] = [[] for _ in tree.parent]
    for c in range(tree.n_cliques - 1, 0, -1):
        below[tree.parent[c]].append(c)
    steps, path = [(-1, 0, True)], [0]
    while path:
        here = path[-1]
        if below[here]:
            path.append(below[here].pop())
            steps.append((here, path[-1], True))
        else:
            path.pop()
            if path:
                steps.append((here, path[-1], False))
    return steps
