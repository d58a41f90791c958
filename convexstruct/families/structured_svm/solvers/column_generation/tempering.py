r"""Tempering: an entropic proximal point method on the dual of a structural SVM, the start of column generation.

Labellings carry weights q_i(y) ~ exp(<Theta, f(x_i, y)> + B E_i(y)), at first uniform, and each stage minimises

    F(w) = lam/2 |w|^2 + sum_i c_i {tau [ln Z_i(Theta + w/tau, B + 1/tau) - ln Z_i(Theta, B)] - <w, f(x_i, y_i)>}

by L-BFGS in the variables w_k (lam + v_k / tau)^1/2, with one sum over all labellings an evaluation; then
Theta += w / tau, B += 1 / tau, tau *= shrink. v_k is 0 where features have about the same size. Else it is the variance
of feature k where all labels are equally probable, so that F curves about alike along all variables, whatever the units
of the features. Every evaluation gives a lower bound, since the new q is a dual point. Unlike plain annealing, with
Theta = B = 0, the stages converge at temperatures at which F is still smooth.

Slack scaling and the zero-one loss have no such sums over labellings: there the tempering works on margin scaling with
the node losses, to find a start and first pools, and its bounds are not used.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import scipy

from convexstruct import deadline
from convexstruct.arrays import Labels, Point, Vector
from convexstruct.core.certificates import magnitude
from convexstruct.core.iterate import Iterate
from convexstruct.core.solution import Solution
from convexstruct.families.structured_svm.problem import StructuredSVM
from convexstruct.families.structured_svm.solvers.example_blocks import starting_w
from convexstruct.features.graphs.feature_sizes import even

#: tau of the first stage, in units of the largest node loss, and its factor from stage to stage.
TEMPERATURE, SHRINK = 0.25, 0.8
#: A stage is poor if it leaves more than this share of the gap primal - lower bound. Exact stages leave about
#: `SHRINK`.
POOR_SHARE = 0.9
#: Stages without lower bounds, as under slack scaling, cannot be judged: so many are taken.
UNJUDGED_STAGES = 6
#: After a poor stage the pools take over if their rounds are cheap. Else the next stage has twice the L-BFGS steps, and
#: they take over once a stage with so many times the steps of the first is poor.
LONGEST_STAGE = 8


class Temper:
    """The state of the stages: the last w with P(w) and its most violated labels, the best w so far, and q by its
    natural parameters Theta = ``theta`` and B = ``loss``.

    steps, most : `ColumnGeneration`'s steps and stages. switch : the relative gap at which the stages end. patient :
    whether a poor stage is followed by a longer one; where features differ much in size it always is.
    """

    def __init__(
        self, problem: StructuredSVM, start: Solution | None, steps: int, most: int, switch: float, *, patient: bool
    ) -> None:
        self.problem, self.most, self.switch = problem, most, switch
        self.smooth = problem.scaling == "margin" and not problem.loss.zero_one
        self.theta, self.loss = np.zeros(problem.dimension), 0.0
        uneven = not even(problem.features.sample)
        self.patient = patient or uneven
        self._variances = problem.uniform_variances() if uneven else np.zeros(problem.dimension)
        self.w = starting_w(problem, start)
        self.tau = TEMPERATURE * float(problem.loss.costs.max(initial=0.0))
        found = problem.most_violated(self.w)
        self.calls = 1
        self.value, self.labels = found.value, found.labels
        self.best, self.best_w = self.value, self.w
        self.bound = 0.0
        self._witness: tuple[Vector, float] | None = None
        self._gap = np.inf
        self.stages = 0
        self._steps, self._longest = steps, LONGEST_STAGE * steps
        self.finished = self.tau <= 0 or not problem.oracle.summable  # the loss is 0, or the oracle has no sums

    def stage(self) -> None:
        """One stage of the entropic proximal point method."""
        problem, features, tau = self.problem, self.problem.features, self.tau
        before = problem.softened(self.theta, self.loss)[0]
        new_loss = self.loss + 1.0 / tau
        bound, at = self.bound, None
        unit = 1.0 / np.sqrt(problem.lam + self._variances / tau)  # of each weight

        def objective(scaled: Vector) -> tuple[float, Vector]:
            nonlocal bound, at
            deadline.check()
            w = scaled * unit
            theta = self.theta + w / tau
            log_partition, psi, lost = problem.softened(theta, new_loss)
            if not np.isfinite(log_partition):
                return np.inf, np.zeros(len(w))  # the step is too long: scores overflow
            if self.smooth:
                value = problem.best_on_ray(psi, lost)
                if value > bound:
                    bound, at = value, theta
            rise = tau * (log_partition - before)
            value = 0.5 * problem.lam * float(w @ w) + rise - float(problem.truth_joint @ w)
            return value, unit * (problem.lam * w - psi)

        box = None
        if features.associative:
            box = scipy.optimize.Bounds(np.where(features.nonnegative, 0.0, -np.inf), np.inf)
        found = scipy.optimize.minimize(
            objective, self.w / unit, jac=True, method="L-BFGS-B", bounds=box,
            options={"maxiter": self._steps, "ftol": 0.0, "gtol": 0.0},
        )  # fmt: skip
        if not np.isfinite(found.x).all():  # no step is short enough: the squares of features overflow
            self.finished = True
            return
        self.w = problem.project(found.x * unit)
        self.theta, self.loss = self.theta + self.w / tau, new_loss
        self.tau *= SHRINK
        if at is not None:
            self.bound, self._witness = bound, (at, new_loss)
        worst = problem.most_violated(self.w)
        self.calls += int(found.nfev) + 2
        self.value, self.labels = worst.value, worst.labels
        if self.value < self.best:
            self.best, self.best_w = self.value, self.w
        self.stages += 1
        self._judge()

    def _judge(self) -> None:
        """Decide whether the stages end, and how many steps the next one has."""
        gap = self.best - self.bound
        poor = self.smooth and gap > POOR_SHARE * self._gap
        stuck = (
            poor and not (self.patient and self._steps < self._longest)
            if self.smooth
            else self.stages >= UNJUDGED_STAGES
        )
        if poor:
            self._steps = min(2 * self._steps, self._longest)
        near = gap <= self.switch * magnitude(self.problem, self.best)
        self.finished = near or stuck or self.stages >= self.most
        self._gap = gap

    def samples(self, many: int, rng: np.random.Generator) -> Iterator[Labels]:
        """Labellings of all examples drawn from q."""
        features = self.problem.features
        node = features.node_scores(self.theta) + self.loss * self.problem.loss.costs
        edge = features.edge_scores(self.theta)
        for _ in range(many):
            deadline.check()
            yield self.problem.oracle.sample(node, edge, rng)

    def shown(self) -> Iterate:
        witness: Point | None = {"labels": np.zeros((0, self.problem.features.n_nodes), dtype=np.int64)}
        if self._witness is not None:
            theta, loss = self._witness
            n = self.problem.n_examples
            witness = {"gibbs": theta[None], "gibbs_loss": np.array([loss]), "gibbs_shares": np.ones((1, n))}
        return Iterate({"w": self.w}, witness, self.value, self.bound, self.calls)
