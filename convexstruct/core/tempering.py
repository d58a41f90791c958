r"""Tempering: an entropic proximal point method on the dual of a maximum-margin problem.

    minimise over w     P(w) = lam/2 |w|^2 + sum_i c_i max_y [E_i(y) + <w, f_i(y) - f_i(y_i)>]

over the labellings y of example i, or the pieces of its loss. They carry weights q_i(y) ~ exp(<Theta, f_i(y)> +
B E_i(y)), at first uniform, and each stage minimises

    F(w) = lam/2 |w|^2 + sum_i c_i {tau [ln Z_i(Theta + w/tau, B + 1/tau) - ln Z_i(Theta, B)] - <w, f_i(y_i)>}

by L-BFGS in the variables w_k (lam + v_k / tau)^1/2, with one sum over all labellings an evaluation; then
Theta += w / tau, B += 1 / tau, tau *= shrink. v_k is 0 where features have about the same size. Else it is the variance
of feature k where all labels are equally probable, so that F curves about alike along all variables, whatever the units
of the features. Every evaluation gives a lower bound, since the new q is a dual point. Unlike plain annealing, with
Theta = B = 0, the stages converge at temperatures at which F is still smooth. The state is of the size of w.

**Many examples.** Where an evaluation reads files, stages are short and cool fast, until one is poor; and the first
ones are those of a sample of the examples, whose Theta, B and w differ little from those of all.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy

from convexstruct import deadline
from convexstruct.arrays import Vector
from convexstruct.core.certificates import magnitude
from convexstruct.core.solution import Solution

#: tau of the first stage, in units of the largest loss of a node, and its factor from stage to stage.
TEMPERATURE, SHRINK = 0.25, 0.8
#: The same factor where an evaluation is dear, until a stage is poor, and the L-BFGS steps of a stage.
FAST_SHRINK, FAST_STEPS = 0.5, 8
#: The relative gap at which a sample has done its part: how far its w is from that of all shows at about that.
SAMPLE_GAP = 1e-2
#: A stage is poor if it leaves more than this share of the gap primal - lower bound. Exact stages leave about
#: `SHRINK`.
POOR_SHARE = 0.9
#: Stages without lower bounds, as under slack scaling, cannot be judged: so many are taken.
UNJUDGED_STAGES = 6
#: After a poor stage the pools take over if their rounds are cheap. Else the next stage has twice the L-BFGS steps, and
#: they take over once a stage with so many times the steps of the first is poor.
LONGEST_STAGE = 8


class Temper:
    """The state of the stages: the last w with P(w), the best w so far, and q by its natural parameters Theta =
    ``theta`` and B = ``loss``.

    problem : with dimension, lam, truth_joint, which is sum_i c_i f_i(y_i), softened and best_on_ray as `StructuredSVM`
        has them; and value, unless `evaluate` is another. w : the first. unit : the largest loss of a node.
    variances : v (d,). steps, most : L-BFGS steps of a stage, and stages. switch : the relative gap at which they end.
    patient : whether a poor stage is followed by a longer one. smooth : whether q bounds P from below.
    least : (d,) the least entries of w. at : the first w in place of that one, with Theta and B, 0 by default.
    fast : whether stages are those of many examples.
    """

    def __init__(
        self, problem: Any, w: Vector, unit: float, variances: Vector, steps: int = 20, most: int = 40,
        *, switch: float = 0.0, patient: bool = True, smooth: bool = True, least: Vector | None = None,
        at: tuple[Vector, Vector, float] | None = None, fast: bool = False,
    ) -> None:  # fmt: skip
        self.problem, self.most, self.switch = problem, most, switch
        self.smooth, self.patient, self._variances = smooth, patient, variances
        self._box = None if least is None else scipy.optimize.Bounds(least, np.inf)
        self.theta: Vector
        self.w, self.theta, self.loss = (w, np.zeros(problem.dimension), 0.0) if at is None else at
        self._shrink, steps = (FAST_SHRINK, min(steps, FAST_STEPS)) if fast else (SHRINK, steps)
        # B is the sum of the 1 / tau of the stages that cooled by this factor from `TEMPERATURE` to here
        self.tau = unit / (1.0 / TEMPERATURE + unit * self.loss * (1.0 / self._shrink - 1.0))
        self.value, self.calls = self.evaluate(self.w), 1
        self.best, self.best_w = self.value, self.w
        self.bound = 0.0
        self.witness: tuple[Vector, float] | None = None  # Theta and B of the bound
        self._gap = np.inf
        self._log_partition: float | None = None  # sum_i c_i ln Z_i(Theta, B), once known
        self.stages = 0
        self._steps, self._longest = steps, LONGEST_STAGE * steps
        self.finished = self.tau <= 0

    def evaluate(self, w: Vector) -> float:
        """P(w)."""
        return float(self.problem.value(w))

    def stage(self) -> None:
        """One stage of the entropic proximal point method."""
        problem, tau = self.problem, self.tau
        if self._log_partition is None:
            self._log_partition, self.calls = problem.softened(self.theta, self.loss)[0], self.calls + 1
        before, known = self._log_partition, dict[float, float]()  # by the value of F
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
            known[value] = log_partition
            return value, unit * (problem.lam * w - psi)

        found = scipy.optimize.minimize(
            objective, self.w / unit, jac=True, method="L-BFGS-B", bounds=self._box,
            options={"maxiter": self._steps, "ftol": 0.0, "gtol": 0.0},
        )  # fmt: skip
        if not np.isfinite(found.x).all():  # no step is short enough: the squares of features overflow
            self.finished = True
            return
        self.w = found.x * unit if self._box is None else np.maximum(found.x * unit, self._box.lb)
        self.theta, self.loss = self.theta + self.w / tau, new_loss
        self._log_partition = known.get(float(found.fun)) if self._box is None else None
        self.tau *= self._shrink
        if at is not None:
            self.bound, self.witness = bound, (at, new_loss)
        self.value = self.evaluate(self.w)
        self.calls += int(found.nfev) + 1
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
            self._shrink = SHRINK
            self._steps = min(2 * self._steps, self._longest)
        near = gap <= self.switch * magnitude(self.problem, self.best)
        self.finished = near or stuck or self.stages >= self.most
        self._gap = gap


def beginning(first: Temper, start: Solution | None) -> tuple[Vector, Vector, float]:
    """(w, Theta, B) to begin with where an evaluation is dear: those to which ``first``, tempering on a sample, comes
    from the w of ``start``; if tempering found ``start``, its own."""
    left: Mapping[str, Any] = (start and start.dual_point) or {}
    if len(left.get("gibbs", ())) == len(left.get("gibbs_loss", ())) == 1:
        return first.w, left["gibbs"][0], float(left["gibbs_loss"][0])
    first.switch = SAMPLE_GAP
    while not first.finished:
        first.stage()
    return first.w, first.theta, first.loss
