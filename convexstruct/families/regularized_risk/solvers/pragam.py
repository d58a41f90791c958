r"""Pragam and Pragam-b (paper 2, algorithm 1; Nesterov's excessive gap technique): primal and adjoint together.

With d(alpha) = |alpha - alpha_0|^2 / 2, alpha_0 in Q, and L the Lipschitz constant of the adjoint's gradient,

    alpha_mu(w) = argmax_Q <A w + c, a> - mu d(a) = proj_Q(alpha_0 + (c + A w) / mu)                            (23)
    w(alpha)    = - A' alpha / lam                                                                              (24)
    V(alpha)    = argmax_Q <grad D, a> - L/2 |a - alpha|^2 = proj_Q(alpha + (c + A w(alpha)) / L)               (25)

    alpha_1 = V(alpha_0),  w_1 = w(alpha_0),  mu_1 = L;        tau_k = 2 / (k + 3),
    alpha^ = (1 - tau) alpha_k + tau alpha_mu(w_k),            w_{k+1} = (1 - tau) w_k + tau w(alpha^),
    alpha_{k+1} = V(alpha^),                                   mu_{k+1} = (1 - tau) mu_k

and J(w_k) - D(alpha_k) <= mu_k Dmax at every k, Dmax = max_Q d, because J smoothed by mu d stays below D. With the
tau_k above, mu_k = 6 L / ((k + 1)(k + 2)): that is (26).

L = |A|^2 / lam (section 4.1 of the paper leaves 1 / lam out). Where L is not computed it is estimated by backtracking.
The proof needs two inequalities: D(V) >= D(alpha^) + <grad D, V - alpha^> - L/2 |V - alpha^|^2, and
tau^2 / (1 - tau) <= mu / L. So L is doubled until the first holds, and tau solves the second with equality; mu_k Dmax
remains a bound on the gap.

`Pragam` is for risks without free offsets, `PragamB` for those with them. There Q has one equation for each offset,
(23) and (25) are the projections of appendix B, and J is minimised over the offsets.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator, eigsh

from convexstruct import deadline
from convexstruct.arrays import Point, Tensor, Vector
from convexstruct.core.excessive_gap import FIRST_GUESS, GUESS_FALL, step_share
from convexstruct.core.iterate import Iterate
from convexstruct.core.options import positive, read_options
from convexstruct.core.rounds import Clock
from convexstruct.core.solution import Solution
from convexstruct.families.regularized_risk.problem import RegularizedRisk
from convexstruct.families.regularized_risk.solvers.risk_projection import onto_q, starting_alpha
from convexstruct.validation.arguments import refuse

#: L is at least this times the largest offset over the largest share: a smaller L changes nothing beyond rounding.
LEAST_LIPSCHITZ = 1e-9


@dataclass(frozen=True)
class Pragam:
    """Pragam for risks without free offsets.

    lipschitz : L; None computes |A|^2 / lam, "estimate" finds L by backtracking during the run.
    """

    lipschitz: float | str | None = "estimate"

    def __post_init__(self) -> None:
        _check(self)

    def iterate(self, problem: RegularizedRisk, start: Solution | None = None) -> Iterator[Iterate]:
        """One iterate a round; alpha_0 is the dual point of ``start``, if it has one.

        Raises
        ------
        ValueError
            If the problem has free offsets.
        """
        if problem.n_biases:
            raise ValueError("Pragam takes a risk without free offsets; use PragamB for one with a bias")
        return _rounds(problem, self.lipschitz, start)


@dataclass(frozen=True)
class PragamB:
    """Pragam-b: for risks with a bias, or with free thresholds.

    lipschitz : as in `Pragam`.
    """

    lipschitz: float | str | None = "estimate"

    def __post_init__(self) -> None:
        _check(self)

    def iterate(self, problem: RegularizedRisk, start: Solution | None = None) -> Iterator[Iterate]:
        """One iterate a round; alpha_0 is the dual point of ``start``, if it has one.

        Raises
        ------
        ValueError
            If the problem has no free offsets.
        """
        if not problem.n_biases:
            raise ValueError("PragamB takes a risk with free offsets; use Pragam for one without a bias")
        return _rounds(problem, self.lipschitz, start)


def _rounds(problem: RegularizedRisk, lipschitz: float | str | None, start: Solution | None) -> Iterator[Iterate]:
    """The iterates. A w (``scores``) and A' alpha (``pull``) are updated, so a round takes three products with A."""
    clock = Clock("projection", "data")
    lam, c = problem.lam, problem.loss.offset
    known = lipschitz != "estimate"
    L = lipschitz_constant(problem) if lipschitz is None else _guess(problem)
    if known and lipschitz is not None:
        L = float(lipschitz)
    least, prox = _least(problem), starting_alpha(problem, start)
    w = problem.primal_of(prox)
    scores = problem.forward(w)
    while True:
        deadline.check()
        alpha, pull, excess = _gradient_step(problem, clock, prox, -lam * w, scores, L)
        if known or excess <= 0:
            break
        L *= 2.0
    mu, k, calls = L, 1, 3
    while True:
        b, primal = _primal(problem, w, scores)
        point: Point = {"w": w, "b": b} if problem.n_biases else {"w": w}
        lower = float(c @ alpha) - float(np.vdot(pull, pull)) / (2.0 * lam)
        yield Iterate(point, {"alpha": alpha}, primal, lower, calls, clock.parts, message=f"L = {L:.6g}, mu = {mu:.6g}")
        with clock("projection"):
            smooth = onto_q(problem, prox + (c + scores) / mu)
        with clock("data"):
            smooth_pull = problem.adjoint(smooth)
        calls += 1
        while True:
            deadline.check()
            tau = 2.0 / (k + 3) if known else step_share(mu / L)
            middle = (1.0 - tau) * alpha + tau * smooth
            middle_pull = (1.0 - tau) * pull + tau * smooth_pull
            there = -middle_pull / lam
            with clock("data"):
                there_scores = problem.forward(there)
            after, after_pull, excess = _gradient_step(problem, clock, middle, middle_pull, there_scores, L)
            calls += 2
            if known or excess <= 0:
                break
            L *= 2.0
        w, scores = (1.0 - tau) * w + tau * there, (1.0 - tau) * scores + tau * there_scores
        alpha, pull, mu, k = after, after_pull, (1.0 - tau) * mu, k + 1
        if not known:
            L = max(GUESS_FALL * L, least)


def _gradient_step(
    problem: RegularizedRisk, clock: Clock, at: Vector, at_pull: Tensor, scores: Vector, L: float
) -> tuple[Vector, Tensor, float]:
    """(V(at), A' V(at), the excess of |A' (V - at)|^2 / lam over L |V - at|^2): D is quadratic, so where the excess is
    positive, and only there, the first inequality above fails."""
    with clock("projection"):
        alpha = onto_q(problem, at + (problem.loss.offset + scores) / L)
    with clock("data"):
        pull = problem.adjoint(alpha)
    moved, turned = alpha - at, pull - at_pull
    return alpha, pull, float(np.vdot(turned, turned)) / problem.lam - L * float(moved @ moved)


def _primal(problem: RegularizedRisk, w: Tensor, scores: Vector) -> tuple[Vector, float]:
    """(b, J(w, b)), b the best free offsets."""
    values = scores + problem.loss.offset
    b = np.zeros(0)
    if problem.n_biases:
        b, _ = problem.offsets_at(values)
        values += problem.loss.bias_sign * b[problem.loss.bias_of]
    return b, 0.5 * problem.lam * float(np.vdot(w, w)) + float(problem.shares @ problem.losses(values))


def largest_distance(problem: RegularizedRisk, centre: Vector) -> float:
    """Dmax = max_Q d, alpha_0 = ``centre``; with free offsets an upper bound, for their equations are left out."""
    shares = problem.shares[problem.group]
    # |v - centre|^2 over a group's vertices v: share e_p, and 0 where there is a zero piece
    start = problem.loss.start[:-1]
    square = np.add.reduceat(centre**2, start)
    reach = square + np.maximum.reduceat(shares**2 - 2.0 * shares * centre, start)
    return 0.5 * float(np.sum(np.maximum(reach, square) if problem.loss.floor else reach))


def lipschitz_constant(problem: RegularizedRisk) -> float:
    """|A|_2^2 / lam, the largest eigenvalue of A'A by the iteration of Lanczos, to rounding."""
    d = problem.dimension

    def both(w: Vector) -> Vector:
        deadline.check()
        return np.ravel(problem.adjoint(problem.forward(w.reshape(problem.shape))))

    start = np.random.default_rng(0).normal(size=d)
    largest = float(np.linalg.norm(both(start)) / np.linalg.norm(start))
    if d > 1 and largest > 0:  # else that is the eigenvalue already, and eigsh refuses such a matrix
        operator = LinearOperator((d, d), matvec=both, dtype=np.float64)
        largest = float(eigsh(operator, k=1, v0=start, return_eigenvectors=False)[0])
    return max(largest / problem.lam, _least(problem))


def _guess(problem: RegularizedRisk) -> float:
    """A first L, probably too small: the share `FIRST_GUESS` of |X|_F^2 / lam."""
    X = problem.X
    squares = float(X.data @ X.data if sp.issparse(X) else np.vdot(X, X))
    return max(FIRST_GUESS * squares / problem.lam, _least(problem))


def _least(problem: RegularizedRisk) -> float:
    """Below this L the point (25) is that of L = 0 up to rounding."""
    unit = max(float(np.abs(problem.loss.offset).max()), 1.0) / float(problem.shares.max())
    return LEAST_LIPSCHITZ * unit


def _check(options: Pragam | PragamB) -> None:
    if options.lipschitz is None or (type(options.lipschitz) is str and options.lipschitz == "estimate"):
        return
    if isinstance(options.lipschitz, str):
        refuse("lipschitz", options.lipschitz, "a positive number, None, or 'estimate'")
    read_options(options, lipschitz=positive)
