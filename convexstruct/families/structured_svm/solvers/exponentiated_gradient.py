r"""Exponentiated gradient on the dual (Bartlett, Collins, Taskar, McAllester 2005; Collins, Globerson, Koo, Carreras,
Bartlett 2008; paper 1, "Exponentiated gradient algorithm", corrected). With alpha_i = c_i q_i, c_i = C omega_i,

    q_i(y) <- q_i(y) exp(eta (E_i(y) - <w, df_i(y)>)) / Z_i,        w = (sum_i c_i E_q df_i)_+ / lam.

The logarithm of q_i is linear in features and loss, q_i(y) ~ exp(<Theta, f(x_i, y)> + B E_i(y)), and the step is

    Theta <- Theta + eta w,    B <- B + eta:

an update of log-potentials, with one sum over all labellings a step. The Gibbs measure q is the witness.

**Corrected.** The slides add eta (E_c - <w, df_c>) to the *marginals* mu_c and exponentiate that; it belongs to the
log-potentials. They also start on the truth, mu(y_i) = 1; but a multiplicative step leaves what is 0 at 0: the truth is
a fixed point. Here q starts uniform.

**Step.** D(q') >= D(q) + <grad D(q), q' - q> - (1/eta) sum_i c_i KL(q'_i, q_i) makes the dual value rise by at least
(1/eta) sum_i c_i KL(q_i, q'_i), and D* - D_T <= (1/(eta T)) sum_i c_i KL(q*_i, q^0_i), as on the slides. It holds for
eta <= lam / (R^2 sum_i c_i), R the largest distance of two labellings' features (a length: the slides' R, an inner
product, is its square already). Here eta is found by trial: doubled after a step, halved until the condition holds. For
a group of examples, sum_i c_i is over the group alone, and steps are longer.

**Groups.** With ``groups`` > 1 the examples of a group share Theta_g, B_g, and the groups take steps in turn; with one
example a group this is the online version of the paper. The witness holds one Gibbs measure a group, so the certificate
needs one sum over all examples for each group.

Needs margin scaling with node losses, and exact sums.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from convexstruct import deadline
from convexstruct.arrays import Index, Point, Vector
from convexstruct.core.iterate import Iterate
from convexstruct.core.options import at_least, positive, read_options, seed
from convexstruct.core.quasi_newton import SEARCH_TRIALS
from convexstruct.core.solution import Solution
from convexstruct.families.structured_svm.problem import StructuredSVM
from convexstruct.families.structured_svm.solvers.example_blocks import ExampleBlock, at_zero, example_blocks
from convexstruct.inference.exact import Sums
from convexstruct.tolerances import ROUNDING

#: The factor on eta after an accepted step: it undoes the halving of a rejected one.
STEP_GROWTH = 2.0


@dataclass(frozen=True)
class ExponentiatedGradient:
    """Options.

    groups : parts of the data that step in turn; 1 is the batch version, N the online version.
    step : eta to begin with, in units of lam / (R^2 sum c) for the R met first.
    seed : of the groups, and of their order.
    """

    groups: int = 1
    step: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        read_options(self, groups=at_least(1), step=positive, seed=seed)

    def iterate(self, problem: StructuredSVM, start: Solution | None = None) -> Iterator[Iterate]:
        """One iterate a pass over the groups. A ``start`` is used if its witness is one Gibbs measure. ValueError if
        there are no sums over labellings with weights exp(<Theta, f> + B E)."""
        if problem.scaling != "margin" or problem.loss.zero_one:
            kind = "zero-one loss" if problem.loss.zero_one else "slack scaling"
            raise ValueError(
                f"problem has {kind}, wanted margin scaling with node losses: use NSlack or BlockFrankWolfe"
            )
        if not problem.oracle.summable:
            raise ValueError("problem has inference without sums over labellings, wanted 'exact': use BlockFrankWolfe")
        rng = np.random.default_rng(self.seed)
        size = None if self.groups == 1 else -(-problem.n_examples // min(self.groups, problem.n_examples))
        theta, loss = _measure(problem, start)
        groups = [Group(block, theta, loss) for block in example_blocks(problem, size, rng)]
        for group in groups:
            group.eta *= self.step
        if not all(group.eta > 0.0 for group in groups):
            yield at_zero(problem)
            return
        psi = np.sum([group.psi for group in groups], axis=0)
        calls = 1
        while True:
            w = problem.project(psi) / problem.lam
            lost = sum(group.lost for group in groups)
            held = [(group.block.examples, group.theta, group.loss) for group in groups]

            def witness(held: list[tuple[Index, Vector, float]] = held) -> Point:
                return as_gibbs(problem, held)

            tried = [group.tried for group in groups]
            calls += 1
            done = all(group.stuck for group in groups)
            value, bound = problem.primal({"w": w}), problem.dual_value(psi, lost)
            yield Iterate({"w": w}, witness, value, bound, calls, done=done)
            if done:
                return
            for at in rng.permutation(len(groups)):
                deadline.check()
                psi = groups[at].step(psi)
            calls += max(group.tried - before for group, before in zip(groups, tried))


def as_gibbs(problem: StructuredSVM, held: list[tuple[Index, Vector, float]]) -> Point:
    """The dual witness of Gibbs measures, each given as (examples, Theta, B) for examples of its own."""
    shares = np.zeros((len(held), problem.n_examples))
    for row, (examples, _, _) in zip(shares, held):
        row[examples] = 1.0
    thetas, losses = np.array([theta for _, theta, _ in held]), np.array([loss for _, _, loss in held])
    return {"gibbs": thetas, "gibbs_loss": losses, "gibbs_shares": shares}


def _measure(problem: StructuredSVM, start: Solution | None) -> tuple[Vector, float]:
    """(Theta, B) of a start that holds one measure; uniform otherwise."""
    witness = (start.dual_point if start is not None else None) or {}
    if len(witness.get("gibbs", ())) == 1 and set(witness) == {"gibbs", "gibbs_loss", "gibbs_shares"}:
        return np.asarray(witness["gibbs"][0], dtype=np.float64), float(witness["gibbs_loss"][0])
    return np.zeros(problem.dimension), 0.0


class Group:
    """Examples that share a measure (Theta, B), and c-weighted means under it: psi, lost."""

    def __init__(self, block: ExampleBlock[StructuredSVM], theta: Vector, loss: float) -> None:
        self.block, self.theta, self.loss = block, theta, loss
        self.tried, self.stuck = 0, False
        problem, part = block.whole, block.part
        self._truth = self._wide(part.features.joint(part.features.truth, block.ceiling))
        self._take(self._sums(theta, loss))
        met = np.sqrt((block.differences(part.decode(-theta[: part.dimension])).power(2)).sum(axis=1))
        radius = max(float(np.max(met)), float(np.linalg.norm(self.psi)) / float(block.ceiling.sum()), 1e-12)
        self.eta = problem.lam / (radius**2 * float(block.ceiling.sum()))

    def _wide(self, vector: Vector) -> Vector:
        return np.pad(vector, (0, self.block.whole.dimension - len(vector)))

    def _sums(self, theta: Vector, loss: float) -> Sums:
        part = self.block.part
        own = theta[: part.dimension]
        node = part.features.node_scores(own) + loss * part.loss.costs
        return part.oracle.sums(node, self.block.part.features.edge_scores(own), self.block.ceiling)

    def _take(self, sums: Sums) -> None:
        part = self.block.part
        self.joint = self._wide(part.features.adjoint(sums.node, sums.edge))
        self.lost = float((sums.node * part.loss.costs).sum())
        self.psi = self._truth - self.joint
        self.log_partition = float(self.block.ceiling @ sums.log_partition)

    def step(self, psi: Vector) -> Vector:
        """One step, given the sum of psi over all groups; returns the new sum."""
        problem = self.block.whole
        w = problem.project(psi) / problem.lam
        before = (self.psi, self.joint, self.lost, self.log_partition)
        value = problem.dual_value(psi, 0.0)
        for _ in range(SEARCH_TRIALS):
            deadline.check()
            theta, loss = self.theta + self.eta * w, self.loss + self.eta
            self._take(self._sums(theta, loss))
            self.tried += 1
            moved = psi + self.psi - before[0]
            rise, by_psi = self.lost - before[2], self.psi - before[0]
            # KL(q', q) = E_q'[ln q' - ln q]
            divergence = self.eta * (float(w @ self.joint) + self.lost) - (self.log_partition - before[3])
            curved = problem.dual_value(moved, 0.0) - value + float(w @ by_psi)  # D less its tangent, <= 0
            if -curved <= divergence / self.eta + ROUNDING * abs(value):
                self.theta, self.loss = theta, loss
                self.stuck = rise - float(w @ by_psi) <= 0.0
                self.eta *= STEP_GROWTH
                return moved
            self.eta *= 0.5
        self.psi, self.joint, self.lost, self.log_partition = before
        self.stuck = True
        return psi
