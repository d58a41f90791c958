"""Paper 2, section 3, theorems 6 and 7: on the Hadamard instance a bundle method needs 1/(lam eps) rounds, exactly.

For every d = 2^k the rounds t = 1, 2, .. of qp-bmrm from w_0 = 0 are compared with the theorem's values

    J(w_t) = 1/(2 lam t),   J_t(w_t) = -1/(2 lam t),   gap 1/(lam t),          t < d

both evaluated by the problem: J at w_t, and J_t(w_t) as the adjoint at the mixture of the planes. The rounds that
qp-bmrm takes to a gap eps are shown beside those of ls-bmrm and of Pragam on the same problem. Pragam starts at a
vertex of the simplex; its usual alpha_0, the centre, would be the solution here.
"""

from __future__ import annotations

import math
from itertools import islice
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure

from convexstruct.arrays import Point, Vector
from convexstruct.core.certificates import certify
from convexstruct.core.experiment import Sheet
from convexstruct.core.iterate import Solver
from convexstruct.core.solution import Solution, Status
from convexstruct.core.trace import Trace
from convexstruct.datasets.generated.hadamard import hadamard
from convexstruct.families.regularized_risk.problem import RegularizedRisk
from convexstruct.families.regularized_risk.solvers.bmrm import LsBMRM, QpBMRM, theorem_5
from convexstruct.families.regularized_risk.solvers.pragam import Pragam, largest_distance
from convexstruct.plots import GREY, LOWER, UPPER, finish, panels

NAME = "hadamard"
PAPER = "paper 2, section 3, theorems 6 and 7"
TITLE = "Lower bound: rounds of bundle methods to a gap of eps on the Hadamard instance, beside 1/(lam eps)"
COLUMNS = (
    "d", "t", "J(w_t)", "1/(2 lam t)", "J_t(w_t)", "gap = eps", "1/(lam eps)", "theorem 5", "qp-bmrm", "ls-bmrm",
    "pragam", "pragam by (26)", "off",
)  # fmt: skip

LAM = 0.01
#: Largest exponent k of d = 2^k, and the most rounds that are run.
LARGEST, ROUNDS = 12, 256
QUICK = (7, 64)
#: Rounds Pragam may take to the smallest gap; it needs far fewer.
PRAGAM_ROUNDS = 2000


class Rounds(NamedTuple):
    """The rounds of a solver. value, bound (t,) : J(w_t) and the adjoint at its witness, evaluated by the problem."""

    value: Vector
    bound: Vector

    def to(self, eps: float) -> int | None:
        """Rounds until J(w_t) less the adjoint is at most eps, up to rounding; None if it never is."""
        within = np.flatnonzero(self.value - self.bound <= eps * (1 + 1e-9))
        return int(within[0]) + 1 if len(within) else None


def run(sheet: Sheet) -> None:
    """Run the three solvers for every d; nothing is drawn, so the seed changes nothing."""
    largest, most = sheet.pick((LARGEST, ROUNDS), QUICK)
    sizes = [2**k for k in range(1, largest + 1)]
    sheet.total, worst = len(sizes), 0.0
    for d in sizes:
        sheet.step(f"d = {d}")
        problem = instance(d)
        last = min(d - 1, most)
        qp, ls = follow(problem, QpBMRM(), last), follow(problem, LsBMRM(), last)
        pragam = follow(problem, Pragam(lipschitz=1.0 / LAM), PRAGAM_ROUNDS, corner(problem), 1.0 / (LAM * last))
        off = deviation(qp)
        worst = max(worst, off, deviation(ls))
        for t in [4**k for k in range(last.bit_length()) if 4**k <= last] if d == sizes[-1] else [last]:
            value, bound, eps = qp.value[t - 1], qp.bound[t - 1], 1.0 / (LAM * t)
            taken = (qp.to(eps), ls.to(eps), pragam.to(eps), promised(problem, eps))
            most_of_5 = math.floor(theorem_5(0.0, LAM, eps))
            sheet.add(d, t, value, 0.5 / (LAM * t), bound, value - bound, 1.0 / (LAM * eps), most_of_5, *taken, off)
    sheet.notes += [
        f"lam = {LAM:g}; J(w_t) and J_t(w_t) as the problem evaluates them; off: the largest relative deviation of "
        "either from the theorem over all rounds run; qp-bmrm, ls-bmrm, pragam: rounds to a gap of eps = 1/(lam t); "
        "by (26): after how many rounds Pragam must be there",
        f"theorem 6 holds exactly: over all d and rounds the largest relative deviation is {worst:.1e}; rounds to eps "
        "are 1/(lam eps), whatever the dimension; Pragam's stay below (26), which grows like its square root",
        "theorem 5, restored, allows 8/(lam eps) - 2 rounds here (G = H = 1, J(0) = 0): eight times what is needed",
        "ls-bmrm has the same iterates here: the planes are orthogonal, and its line search finds eta = 1/t",
        "counted are iterates from t = 1 on; (4) as printed also counts the start, w_0 = 0, at which J is 0 and below "
        "every J(w_t): with it the gap is 1/(2 lam t), half as much, and as slow",
        "Pragam starts from a corner of the simplex; from the middle, its default here, it starts at the solution",
    ]
    sheet.left_out(f"d above {2**largest} and rounds beyond {most} left out")
    if not sheet.quick and most < sizes[-1]:
        sheet.notes.append(
            f"rounds beyond {most} left out: at d = {sizes[-1]} a round costs a product with {sizes[-1]}^2 numbers"
        )
    sheet.figures[f"Gap against rounds, d = {d}, lam = {LAM:g}."] = picture(qp, pragam, problem)


def instance(d: int, lam: float = LAM) -> RegularizedRisk:
    """(14)."""
    return RegularizedRisk.pieces(hadamard(d), np.zeros(d), lam)


def corner(problem: RegularizedRisk) -> Solution:
    """alpha at the first vertex of the simplex, as a solution to start from."""
    alpha = np.zeros(problem.n_pieces)
    alpha[0] = 1.0
    point: Point = {"w": problem.primal_of(alpha)}
    dual = {"alpha": alpha}
    return Solution(point, dual, certify(problem, point, dual), Status.STALLED, Trace(), "a corner", "")


def follow(
    problem: RegularizedRisk, solver: Solver, rounds: int, start: Solution | None = None, gap: float = 0.0
) -> Rounds:
    """At most ``rounds`` rounds of a solver, fewer if its gap falls to ``gap``."""
    value, bound = [], []
    for iterate in islice(solver.iterate(problem, start), rounds):
        witness = iterate.dual_point() if callable(iterate.dual_point) else iterate.dual_point
        value.append(problem.primal(iterate.point))
        bound.append(problem.dual(witness) if witness is not None else -math.inf)
        if value[-1] - bound[-1] <= gap:
            break
    return Rounds(np.array(value), np.array(bound))


def deviation(rounds: Rounds) -> float:
    """The largest relative deviation of J(w_t) and J_t(w_t) from the theorem's +-1/(2 lam t)."""
    t = np.arange(1, len(rounds.value) + 1)
    scale = 2.0 * LAM * t
    return float(max(np.abs(rounds.value * scale - 1).max(), np.abs(rounds.bound * scale + 1).max()))


def promised(problem: RegularizedRisk, eps: float) -> int:
    """The first k at which 6 L Dmax / ((k + 1)(k + 2)) <= eps, alpha_0 a vertex; L = 1/lam, for |A| = 1."""
    alpha = corner(problem).dual_point
    assert alpha is not None
    wanted = 6.0 * largest_distance(problem, alpha["alpha"]) / (problem.lam * eps)
    return max(1, math.ceil(-1.5 + math.sqrt(0.25 + wanted)))


def picture(qp: Rounds, pragam: Rounds, problem: RegularizedRisk) -> Figure:
    """Gap against rounds beside 1/(lam t) and (26)."""
    figure, (axes,) = panels(size=(5.6, 3.6))
    t, k = (np.arange(1, len(each.value) + 1) for each in (qp, pragam))
    alpha = corner(problem).dual_point
    assert alpha is not None
    every = np.arange(1, promised(problem, 1.0 / (problem.lam * t[-1])) + 1)
    bound = 6.0 * largest_distance(problem, alpha["alpha"]) / (problem.lam * (every + 1.0) * (every + 2.0))
    axes.plot(t, qp.value - qp.bound, color=LOWER, lw=2.2, label="qp-bmrm")
    axes.plot(t, 1 / (problem.lam * t), color="black", lw=0.9, ls="--", label=r"$1/(\lambda t)$")
    axes.plot(k, np.maximum(pragam.value - pragam.bound, 1e-12), color=UPPER, lw=1.6, label="pragam, from a corner")
    axes.plot(every, bound, color=GREY, lw=0.9, ls=":", label="(26)")
    finish(axes, xscale="log", yscale="log", xlabel="rounds", ylabel="gap")
    return figure
