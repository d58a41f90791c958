r"""Training over the local polytope, jointly over weights and shares: the default if inference="relaxed". Ours.

The maximum over the local polytope is a minimum over how node scores are shared out among forests
(`convexstruct.inference.forests`), so the relaxed problem is one joint minimisation over w and shares, with one
forward-backward a tree (after the convex dual of Meshi, Sontag, Jaakkola, Globerson 2010 and of Hazan, Urtasun 2010,
with trees in place of edges). Stages of an entropic proximal point method, as in `column_generation.tempering`:
minimise by L-BFGS

    F(w, shares) = lam/2 |w|^2 + sum_i c_i { tau sum over trees ln sum_y q(y) e^{score(y) / tau} - <w, f(x_i, y_i)> };

then q becomes the distributions at the minimum, and tau falls. At any (w, shares) the same expression with maxima in
place of the sums bounds the optimum from above. The trees' marginals, averaged at the nodes and with edges scaled until
they agree with them, are a dual point and bound it from below.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import scipy

from convexstruct import deadline
from convexstruct.arrays import Matrix, Point, Tensor, Vector
from convexstruct.core.iterate import Iterate
from convexstruct.core.solution import Solution
from convexstruct.families.structured_svm.problem import StructuredSVM
from convexstruct.families.structured_svm.witness import agreeing
from convexstruct.inference.forests import forests

#: tau of the first stage, in units of the largest node loss.
TEMPERATURE = 0.05
#: The factor on tau after a stage that L-BFGS has solved to rounding, and after one that took all its steps, since the
#: next is harder.
LEAP, SHRINK = 0.2, 0.7
#: The most L-BFGS steps of a stage, the pairs that L-BFGS keeps, and the most stages.
STEPS, MEMORY, STAGES = 100, 50, 60


@dataclass(frozen=True)
class RelaxedMargin:
    """No options."""

    def iterate(self, problem: StructuredSVM, start: Solution | None = None) -> Iterator[Iterate]:
        """One iterate at the first (w, shares) and one a stage, each with the best bounds so far. Of ``start`` w and
        the shares are used. ValueError if the problem is not one of inference="relaxed", or ``start`` does not fit it.
        """
        if not problem.oracle.relaxed:
            raise ValueError("problem is not the relaxed one, wanted StructuredSVM.read(..., inference='relaxed')")
        run = _Run(problem, start)
        yield run.shown(False)
        for stage in range(1, STAGES + 1):
            run.stage()
            yield run.shown(stage == STAGES or run.tau <= 0)


class _Run:
    """x = (w, shifts of the shares), the logits of q (``natural``, the sum of x / tau over stages), the best bounds."""

    def __init__(self, problem: StructuredSVM, start: Solution | None) -> None:
        self.problem, self.forests = problem, forests(problem.features)
        self.d, self.shape = problem.dimension, (len(self.forests.nodes), problem.features.n_labels)
        self.x = np.zeros(self.d + int(np.prod(self.shape)))
        if start is not None:
            point = problem.as_point(start.point)
            self.x[: self.d] = point["w"]
            self.x[self.d :] = np.ravel(point.get("shifts", np.zeros(self.shape)))
        self.natural, self.loss = np.zeros_like(self.x), 0.0
        self.tau = TEMPERATURE * float(problem.loss.costs.max(initial=0.0))
        self.calls = 1
        self.best, self.best_x = self._upper(self.x), self.x
        self.bound = 0.0
        self.marginals: tuple[Vector, Vector] | None = None

    def _point(self, x: Vector) -> Point:
        return {"w": self.problem.project(x[: self.d]), "shifts": x[self.d :].reshape(self.shape)}

    def _upper(self, x: Vector) -> float:
        return self.problem.primal(self._point(x))

    def _tables(self, x: Vector, loss: float) -> tuple[Matrix, Tensor]:
        """Node scores divided among the forests (sum P_f, S), and edge scores."""
        features = self.problem.features
        node = features.node_scores(x[: self.d]) + loss * self.problem.loss.costs
        return self.forests.shared(node, x[self.d :].reshape(self.shape)), features.edge_scores(x[: self.d])

    def _sums(self, shares: Matrix, edge: Tensor, weight: Vector) -> tuple[float, Matrix, Tensor]:
        """(sum of c ln Z over all trees, node marginals of every copy, edge marginals), weighted by ``weight`` (N,)."""
        own, of_edges = weight[self.forests.example], np.empty_like(edge)
        sums = self.forests.trees.sums(shares, self.forests.of_edges(edge), own)
        if edge.ndim == 2:
            of_edges = sums.edge
        else:
            of_edges[self.forests.edges] = sums.edge
        return float(own @ sums.log_partition), sums.node, of_edges

    def stage(self) -> None:
        problem, features, tau, c = self.problem, self.problem.features, self.tau, self.problem.ceiling
        before = self._sums(*self._tables(self.natural, self.loss), c)[0]
        loss = self.loss + 1.0 / tau

        def objective(x: Vector) -> tuple[float, Vector]:
            deadline.check()
            self.calls += 1
            log, of_copies, of_edges = self._sums(*self._tables(self.natural + x / tau, loss), c)
            w = x[: self.d]
            mean = self.forests.gather(of_copies) / self.forests.copies[:, None]
            gradient = np.concatenate((
                problem.lam * w + features.adjoint(mean, of_edges) - problem.truth_joint,
                self.forests.centred(of_copies).ravel(),
            ))  # fmt: skip
            value = 0.5 * problem.lam * float(w @ w) + tau * (log - before) - float(problem.truth_joint @ w)
            return value, gradient

        box = None
        if features.associative:
            low = np.full(len(self.x), -np.inf)
            low[: self.d][features.nonnegative] = 0.0
            box = scipy.optimize.Bounds(low, np.inf)
        found = scipy.optimize.minimize(
            objective, self.x, jac=True, method="L-BFGS-B", bounds=box,
            options={"maxiter": STEPS, "maxcor": MEMORY, "ftol": 0.0, "gtol": 0.0},
        )  # fmt: skip
        self.x = found.x
        self.natural, self.loss = self.natural + self.x / tau, loss
        self.tau *= LEAP if found.nit < STEPS else SHRINK
        upper = self._upper(self.x)
        if upper < self.best:
            self.best, self.best_x = upper, self.x
        self._look_below()

    def _look_below(self) -> None:
        """Take the dual point of q (see the module's text) if its dual value is the best so far."""
        problem, features = self.problem, self.problem.features
        shares, edge = self._tables(self.natural, self.loss)
        every = np.broadcast_to(edge, (features.n_edges, *edge.shape[-2:])) if edge.ndim == 2 else edge
        _, of_copies, of_edges = self._sums(shares, np.array(every), np.ones(problem.n_examples))
        mean = self.forests.gather(of_copies) / self.forests.copies[:, None]
        node, pairs = agreeing(features, mean, of_edges)
        weighted = node * problem.ceiling[features.example][:, None]
        edges = pairs * problem.ceiling[features.edge_example][:, None, None]
        psi = problem.truth_joint - features.adjoint(weighted, edges)
        value = problem.best_on_ray(psi, float((weighted * problem.loss.costs).sum()))
        if value > self.bound:
            self.bound, self.marginals = value, (node, pairs)

    def shown(self, done: bool) -> Iterate:
        witness: Point = {"labels": np.zeros((0, self.problem.features.n_nodes), dtype=np.int64)}
        if self.marginals is not None:
            witness = {"node_marginals": self.marginals[0], "edge_marginals": self.marginals[1]}
        return Iterate(self._point(self.best_x), witness, self.best, self.bound, self.calls, done=done)
