r"""Exponentiated gradient on the dual of a conditional random field (Collins, Globerson, Koo, Carreras, Bartlett 2008).

    q_i(y) <- q_i(y)^(1 - eta) e^(eta <w, f(x_i, y)>) / Z_i,     w = argmax_theta <Psi, theta> - R(theta) = S(Psi) / lam

is the multiplicative step along the gradient of D(q) = C sum_i omega_i H(q_i) - R*(Psi). With q_i(y) ~
e^<Theta, f(x_i, y)> it is Theta <- (1 - eta) Theta + eta w: an update of log-potentials, a damped iteration for the
fixed point Theta = w, at which q is optimal. The Gibbs measures are the witness. D rises for small enough eta: it
starts at 1, is halved until D rises, and doubled after each step, up to 1.

With ``groups`` > 1 the examples of a group share Theta_g, and the groups take steps in turn; with one example in each
group this is the online version. The witness then holds one Gibbs measure for each group, and the certificate costs one
sum over all examples for each. lam > 0 is needed, since w divides by it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from convexstruct import deadline
from convexstruct.arrays import Index, Point, Vector
from convexstruct.core.iterate import Iterate
from convexstruct.core.options import at_least, read_options, seed
from convexstruct.core.quasi_newton import SEARCH_TRIALS
from convexstruct.core.solution import Solution
from convexstruct.families.log_linear.conditional import ConditionalRandomField
from convexstruct.families.log_linear.penalty import Penalty


@dataclass(frozen=True)
class CRFExponentiatedGradient:
    """groups : number of parts of the data that take steps in turn; 1 is the batch version, N the online version.
    seed : of the groups and of their order."""

    groups: int = 1
    seed: int = 0

    def __post_init__(self) -> None:
        read_options(self, groups=at_least(1), seed=seed)

    def iterate(self, problem: ConditionalRandomField, start: Solution | None = None) -> Iterator[Iterate]:
        """Yield one iterate before each pass over the groups. A ``start`` is used if its witness is one Gibbs measure.

        Raises
        ------
        ValueError
            If lam is 0.
        """
        if not problem.penalty.lam:
            raise ValueError("problem has lam = 0, wanted a penalty with lam > 0: use OrthantWise or LBFGS")
        rng = np.random.default_rng(self.seed)
        theta = np.zeros(problem.dimension)
        if start is not None and start.dual_point is not None and len(start.dual_point.get("gibbs", ())) == 1:
            theta = np.array(start.dual_point["gibbs"][0], dtype=np.float64)
        parts = np.array_split(rng.permutation(problem.n_examples), min(self.groups, problem.n_examples))
        groups = [Group(problem.some(np.sort(part)), np.sort(part), theta) for part in parts]
        psi = np.sum([group.psi for group in groups], axis=0)
        calls = 1
        while True:
            w = _maximiser(problem.penalty, psi)
            loss, _ = problem.value_and_gradient(w)
            bound = sum(group.entropy for group in groups) - float(problem.penalty.conjugate(psi))
            calls, done = calls + 1, all(group.stuck for group in groups)
            held = [(group.examples, group.theta) for group in groups]

            def witness(held: list[tuple[Index, Vector]] = held) -> Point:
                return _mixture(problem, held)

            yield Iterate({"theta": w}, witness, loss + float(problem.penalty.value(w)), bound, calls, done=done)
            if done:
                return
            tried = 0
            for at in rng.permutation(len(groups)):
                deadline.check()
                group = groups[at]
                psi = group.step(psi, problem.penalty)
                tried = max(tried, group.tried)
            calls += tried


def _maximiser(penalty: Penalty, psi: Vector) -> Vector:
    return np.asarray(np.sign(psi) * np.maximum(np.abs(psi) - penalty.l1, 0.0) / penalty.lam)


def _mixture(problem: ConditionalRandomField, held: list[tuple[Index, Vector]]) -> Point:
    shares = np.zeros((len(held), problem.n_examples))
    for row, (examples, _) in zip(shares, held):
        row[examples] = 1.0
    return {"gibbs": np.array([theta for _, theta in held]), "gibbs_shares": shares}


class Group:
    """Some of the examples and their Gibbs measure.

    theta (d,): its parameters. entropy, psi : its part of the entropies' sum and of Psi in D. eta : the step.
    tried : trials of the last step. stuck : whether no step raised D.
    """

    def __init__(self, part: ConditionalRandomField, examples: Index, theta: Vector) -> None:
        self.part, self.examples, self.eta, self.tried, self.stuck = part, examples, 1.0, 0, False
        self._whole = len(theta)
        self.theta, self.entropy, self.psi = self._at(theta)

    def _at(self, theta: Vector) -> tuple[Vector, float, Vector]:
        own = theta[: self.part.dimension]  # a part without edges has no weights of edges
        loss, gradient = self.part.value_and_gradient(own)
        psi = np.zeros(self._whole)
        psi[: len(gradient)] = -gradient
        return theta, loss - float(own @ gradient), psi

    def step(self, psi: Vector, penalty: Penalty) -> Vector:
        """Take a step of this group; ``psi`` (d,) is the sum over all groups, and the new sum is returned."""
        target, rest = _maximiser(penalty, psi), psi - self.psi
        value = self.entropy - float(penalty.conjugate(psi))
        for trial in range(1, SEARCH_TRIALS + 1):
            theta, entropy, own = self._at((1.0 - self.eta) * self.theta + self.eta * target)
            self.tried = trial
            if entropy - float(penalty.conjugate(rest + own)) > value:
                self.theta, self.entropy, self.psi, self.stuck = theta, entropy, own, False
                self.eta = min(1.0, 2.0 * self.eta)
                return rest + own
            self.eta *= 0.5
        self.stuck, self.eta = True, 1.0  # what is left to gain is rounding
        return psi
