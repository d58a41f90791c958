r"""Cutting planes with a slack for each example, and masters by a primal-dual interior point method: the default where
the loss rescales the slacks, or slacks are dear; `EntropicProximal` hands over to it where it gains too little. Ours in
this form; the constraint generation is that of `models.generative_margin.cuts`.

    each round    s_k = argmax_s a_k(s)'theta + b_k(s) of each example k; a row of the master where that is above eps_k
                  master: (P) of (2)-(5), (28)-(30), with the rows found so far

A decoding is all that the rows (3) ask of the oracle, so rows rescaled by the loss are as good as others; sums over
labellings, which the entropic method needs, would take a pass for each value of the loss.

**Master.** With s = E eps - A theta - b the room of the rows, E choosing their examples, and multipliers z of the rows,
y of eps >= 0, lam of (4) and kap of the limits R theta <= r of (30), Newton's method on

    -c + f'(theta) + A'z + R'kap + lam e^theta = 0,    eta w_k h'(eps_k) - (E'z)_k - y_k = 0,
    s z = eps y = (1 - 1'e^theta) lam = (r - R theta) kap = m,

for m that falls. eps is eliminated, since E'(z/s)E is diagonal, and a step is a Cholesky factor of d x d. What that
leaves of an example is the spread of its rows about their mean, weighted by z/s, and a little of the mean: summed so,
since a difference of the two sums of squares has no digits left where one z/s is 1e16 times another. All points are
strictly feasible: after a new row eps_k is raised above it. So each theta is a point of (P), and gives an upper
bound. Where the first equation holds, with mu = A'z, v = c - mu - R'kap - f' = lam e^theta > 0, as the dual wants.

Where c is 0 in a whole column that the truth uses, mu must be 0 there, which no point inside has. But one number added
to all theta of the column changes no row: far down it has no mass, and the first equation then says mu = 0. Rounding
is left, and the certificate takes it as 0.

A master is solved until its gap is half of that of (P), no further: theta is then well inside, where rows are better
than at a vertex, as with the analytic centre.

**The price of slacks.** At large eta the gap is that of the slacks, and while m is as large, a centre lies where c is
nothing: at theta of -m. So masters pay a share of eta, at first so much that the slacks cost as much as the rest, and
more whenever the gap of (P) at that price is small. Multipliers at a lower price are a member of script-D all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from convexstruct import deadline
from convexstruct.arrays import Index, Labels, Matrix, Point, Vector
from convexstruct.core.certificates import least_unit
from convexstruct.core.cholesky import solver
from convexstruct.core.iterate import Iterate
from convexstruct.core.options import at_least, read_options, share
from convexstruct.core.quasi_newton import SEARCH_TRIALS
from convexstruct.core.rounds import PATIENCE, Clock, Patience
from convexstruct.core.solution import Solution
from convexstruct.families.generative_margin.in_files import CountsInFiles
from convexstruct.families.generative_margin.member import Evaluation
from convexstruct.families.generative_margin.problem import GenerativeMargin
from convexstruct.families.generative_margin.slack_penalties import Linear
from convexstruct.families.generative_margin.solvers.warm_start import starting_theta
from convexstruct.marginals.triplets import sums_by

#: The most parameters: masters factor d x d matrices.
LARGEST_MASTER = 2000
#: m is this share of the mean of the products s z.
CENTRING = 0.5
#: A step goes this share of the way to where a room or a multiplier is 0.
TO_BORDER = 0.99
#: Minus theta of what neither c nor the truth uses, in units of the largest other theta and a nat: no labelling that
#: uses it is then the most violated.
RULED_OUT = 1e4
#: Minus the largest theta of a column without c, in nats: the mass of e^-100 is none, and sums keep their digits.
LOWERED = 100.0
#: Missing mass of each block at the start, in nats: far from the border of (4), which is steep.
FIRST_DELTA = 0.05
#: The price of the slacks grows by this factor where the gap of (P) at that price is below `NEAR` times its value.
GROWTH, NEAR = 3.0, 0.5
#: The largest gap that masters are asked for, in units of -c'theta at uniform distributions: where m is far larger,
#: theta goes to -m nats where c is small, and rows that hardly matter have z/s too small for a Cholesky factor.
ROUGHEST = 1e4


class _Multipliers(NamedTuple):
    """z of the rows (n,), y of eps >= 0 (K,), lam of (4) (B,), kap of the limits (R,)."""

    z: Vector
    y: Vector
    lam: Vector
    kap: Vector


@dataclass(frozen=True)
class CuttingPlanes:
    """Options.

    share : a master is solved until its gap is below this share of that of (P).
    max_steps : the most Newton steps of one master.
    """

    share: float = 0.5
    max_steps: int = 60

    def __post_init__(self) -> None:
        read_options(self, share=share, max_steps=at_least(1))

    def iterate(self, problem: GenerativeMargin, start: Solution | None = None) -> Iterator[Iterate]:
        """One iterate after each master; the run ends where `PATIENCE` rounds improved neither bound. Of ``start`` only
        theta is used.

        Raises
        ------
        ValueError
            If the problem caps its slacks or ties parameters, or the theta of ``start`` does not fit it.
        """
        _check(problem)
        master, clock = _Master(problem, starting_theta(problem, start)), Clock("master", "separation")
        patience = Patience(PATIENCE, least_unit(problem))
        best, upper, rounds = master.theta, np.inf, 0
        while True:
            with clock("separation"):
                found = problem.evaluate(master.theta)
                rounds += 1
                if found.value < upper:
                    best, upper = master.theta, found.value
            with clock("master"):
                gap = self.share * master.gap(found)
                master.add(found.labels, found.slack, gap)
                master.solve(gap, self.max_steps)
                master.improve()
            done = patience.ended(upper, master.bound)
            yield Iterate({"theta": best}, master.witness, upper, master.bound, rounds, clock.parts, done)


def suits(problem: GenerativeMargin) -> bool:
    """Whether the method takes the problem, whose examples are here, and can factor its matrices."""
    here = not isinstance(problem.counts, CountsInFiles)
    return here and problem.dimension <= LARGEST_MASTER and takes(problem)


def takes(problem: GenerativeMargin) -> bool:
    """Whether the objective has points strictly inside, and a new row leaves some inside: no cap, no ties."""
    if problem.general is None:
        return True
    of = problem.general.parameters.limits.of
    return not problem.capped and bool((of == np.arange(len(of))).all())


def _check(problem: GenerativeMargin) -> None:
    """ValueError for a problem that the method does not take."""
    if not takes(problem):
        assert problem.general is not None
        what = f"the penalty {problem.general.h.name}" if problem.capped else "tied parameters"
        raise ValueError(
            f"problem has {what}, wanted slacks without a cap and no ties: CuttingPlanes keeps to points strictly "
            f"inside; the formulation n_slack takes all, and EntropicProximal where no loss rescales the slacks"
        )


class _Master:
    """(P) with some of the rows (3): a point strictly inside, its multipliers, and the best lower bound so far.

    A (n, d), b (n,), example (n,) : the rows. price : the share of eta that slacks cost. bound, witness : the best
    lower bound, and the dual point that proves it.
    """

    def __init__(self, problem: GenerativeMargin, theta: Vector) -> None:
        self.problem, layout = problem, problem.layout
        self._blocks = sums_by(layout.block_of, len(layout.block_sizes))
        self._limits, self._right = np.zeros((0, problem.dimension)), np.zeros(0)
        if problem.general is not None:
            R, self._right = problem.general.parameters.limits.inequalities
            self._limits = R.toarray()
        self.price, self._full, self._least = 1.0, problem.eta * problem.examples.weights, np.inf
        self._h = Linear() if problem.general is None else problem.general.h
        if problem.general is None:
            self._unused = (problem.c == 0) & (problem.truth_counts == 0)  # mu <= c if no row uses them: none does
            self.theta = self._lowered(theta - FIRST_DELTA)
        else:
            self.theta = theta + FIRST_DELTA * (problem.general.parameters.limits.interior - theta)
        k = problem.n_examples
        self.eps = np.zeros(k)
        self.A, self.b, self.example = np.zeros((0, problem.dimension)), np.zeros(0), np.zeros(0, dtype=np.intp)
        self._round = np.zeros(0, dtype=np.intp)
        self._labels: list[Labels] = []
        some = float(problem.c.sum() + problem.eta) / problem.dimension
        blocks = np.ones(len(layout.block_sizes))
        self._at = _Multipliers(np.zeros(0), self._full, blocks, np.full(len(self._right), some))
        self.bound, self.witness = float(problem.dual({})), _nothing

    def add(self, labels: Labels, slack: Vector, gap: float) -> None:
        """The rows of ``labels`` that are above eps, which is raised above them; a master's gap is to be ``gap``."""
        first = not self._labels
        new = np.flatnonzero((slack > self.eps) | first)
        every, losses = self.problem.rows(labels)
        a, b = every[new].toarray(), losses[new]
        self.A, self.b = np.vstack((self.A, a)), np.append(self.b, b)
        self.example, self._round = np.append(self.example, new), np.append(self._round, np.full(len(new), self.n))
        self._labels.append(labels)
        m = gap / self._n_products
        unit = 1.0 if first else 0.1 * (slack[new] - self.eps[new])
        self.eps[new] = slack[new] + unit + m / self._paid[new]
        room = self.eps[new] - (a @ self.theta + b)
        self._at = self._at._replace(z=np.append(self._at.z, np.minimum(m / room, 0.1 * self._paid[new])))

    @property
    def _paid(self) -> Vector:
        """What a unit of each slack costs at the present price; (K,)."""
        return self.price * self._full

    def gap(self, found: Evaluation) -> float:
        """The gap of (P) at the present price, or its value or `ROUGHEST` if less, after ``found`` at theta; the price
        is raised if the gap is small."""
        slacks = float(self._full @ self._h.value(found.slack))
        if not self._labels:
            rest = max(abs(found.value - slacks), self.problem.trivial_value)
            self._pay(min(1.0, rest / slacks) if slacks > 0 else 1.0)
        self._least = min(self._least, found.value - (1.0 - self.price) * slacks)
        if self.price < 1.0 and self._least - self.bound <= NEAR * abs(self._least):
            self._pay(min(1.0, GROWTH * self.price))
            self._least = found.value - (1.0 - self.price) * slacks
        return min(self._least - self.bound, abs(self._least), ROUGHEST * self.problem.trivial_value)

    def _pay(self, price: float) -> None:
        """Change the price, and the multipliers of eps >= 0 as the second equation of the module wants."""
        y = self._at.y + (price - self.price) * self._full * self._h.slope(self.eps)
        self.price, self._at = price, self._at._replace(y=y)

    @property
    def n(self) -> int:
        """How many labellings of all examples the rows are of."""
        return len(self._labels)

    @property
    def _n_products(self) -> int:
        return len(self.b) + sum(map(len, self._at[1:]))

    def _lowered(self, theta: Vector) -> Vector:
        """theta with the largest of each column without c at -`LOWERED`, and what is unused ruled out."""
        if self.problem.general is None:
            for column in self.problem.ruled_out:
                theta[column] -= LOWERED + theta[column].max()
            theta[self._unused] = 0.0
            theta[self._unused] = -RULED_OUT * (1.0 + float(np.abs(theta).max()))
        return theta

    def _rooms(self, theta: Vector, eps: Vector) -> _Multipliers:
        """What each constraint has left, in the order of the multipliers."""
        mass = self.problem.layout.block_sum(np.exp(theta))
        return _Multipliers(
            eps[self.example] - self.A @ theta - self.b, eps, 1.0 - mass, self._right - self._limits @ theta
        )

    def solve(self, gap: float, max_steps: int) -> None:
        """Newton steps until the value of the master is within ``gap`` of the bound. Where eta is large, products of
        rooms and multipliers are below it long before the first equation of the module holds, without which no bound
        does."""
        problem, of = self.problem, self.problem.layout.block_of
        choose = sums_by(self.example, len(self.eps))
        diagonal = np.arange(problem.dimension)
        for _ in range(max_steps):
            deadline.check()
            room, at = self._rooms(self.theta, self.eps), self._at
            mass, slope, own = np.exp(self.theta), -problem.c, np.zeros(problem.dimension)
            value = -float(problem.c @ self.theta)
            if problem.general is not None:
                paid, rise, own = problem.general.parameters.extended(self.theta)
                slope, value = slope + rise, value + float(paid.sum())
            price = self._paid * self._h.slope(self.eps)
            products = float(sum(left @ each for left, each in zip(room, at)))
            if products <= gap:
                self.improve()
                if value + float(self._paid @ self._h.value(self.eps)) - self.bound <= gap:
                    return
            m = CENTRING * float(np.clip(products, 0.5 * gap, 2.0 * gap)) / self._n_products
            aim, ratio = _Multipliers(*(m / left for left in room)), [each / left for each, left in zip(at, room)]
            in_theta = slope + self.A.T @ aim.z + self._limits.T @ aim.kap + aim.lam[of] * mass
            in_eps = price - choose @ aim.z - aim.y
            of_rows, own_eps = choose @ ratio[0], self._paid * self._h.curvature(self.eps) + ratio[1]
            curved, share = of_rows + own_eps, own_eps / (of_rows + own_eps)
            mean = (choose * (ratio[0] / of_rows[self.example])) @ self.A
            apart = self.A - mean[self.example]
            roots, rest = apart * np.sqrt(ratio[0])[:, None], mean * np.sqrt(of_rows * share)[:, None]
            matrix = roots.T @ roots + rest.T @ rest
            matrix += self._limits.T @ (self._limits * ratio[3][:, None])
            steep = (self._blocks.multiply(mass[None])).toarray()
            matrix += steep.T @ (steep * ratio[2][:, None])
            matrix[diagonal, diagonal] += own + at.lam[of] * mass
            d_theta = solver(matrix)(-in_theta - mean.T @ (of_rows / curved * in_eps))
            if not np.isfinite(d_theta).all():
                return
            along = mean @ d_theta
            d_eps = (of_rows * along - in_eps) / curved
            falls = _Multipliers(
                apart @ d_theta + (share * along + in_eps / curved)[self.example],
                -d_eps, steep @ d_theta, self._limits @ d_theta,
            )  # fmt: skip
            steps = [goal - each + rate * fall for goal, each, rate, fall in zip(aim, at, ratio, falls)]
            primal = min(1.0, *(_longest(left, -fall) for left, fall in zip(room, falls)))
            dual = min(1.0, *(_longest(each, step) for each, step in zip(at, steps)))
            for _ in range(SEARCH_TRIALS):  # all but (4) is linear
                moved = self._rooms(self.theta + primal * d_theta, self.eps + primal * d_eps)
                if all((new > 0.5 * (1.0 - TO_BORDER) * old).all() for new, old in zip(moved, room)):
                    break
                primal *= 0.5
            else:
                return  # rounding leaves no room
            self.theta, self.eps = self._lowered(self.theta + primal * d_theta), self.eps + primal * d_eps
            self._at = _Multipliers(*(each + dual * step for each, step in zip(at, steps)))

    def improve(self) -> None:
        """Raise the bound by the multipliers, if they do: made to sum to what h allows, and shrunk towards 0."""
        problem = self.problem
        z = self._at.z
        total = np.bincount(self.example, weights=z, minlength=len(self.eps)) / self._full
        z = z * np.minimum(1.0, self._h.steepest / np.maximum(total, 1e-300))[self.example]
        mu, omega, mass = self.A.T @ z, float(self.b @ z), np.minimum(total, self._h.steepest)
        if problem.general is None:
            kap = np.zeros(0)
            t, bound = problem.best_on_segment(mu, omega)
        else:
            kap = self._at.kap[len(self._at.kap) - len(problem.general.parameters.limits.rows[1]) :]
            t, bound = problem.general.best_share(mu, omega, mass, kap)
        if bound > self.bound:
            self.bound, labels = bound, list(self._labels)
            shares = np.zeros((self.n, len(self.eps)))
            shares[self._round, self.example] = t * z / self._full[self.example]
            self.witness = _written(labels, shares, None if problem.general is None else t * kap)


def _longest(value: Vector, step: Vector) -> float:
    """How many steps keep value + step at (1 - `TO_BORDER`) of itself or above."""
    falls = step < 0
    return TO_BORDER * float(np.min(value[falls] / -step[falls], initial=np.inf))


def _nothing() -> Point:
    return {}


def _written(labels: list[Labels], shares: Matrix, kap: Vector | None) -> Callable[[], Point]:
    """A function that writes the dual point of labellings with ``shares``, whose sums are masses where h is free."""

    def write() -> Point:
        used = shares.any(axis=1)
        rows: Index = np.flatnonzero(used)
        found: Point = {
            "labels": np.stack([labels[j] for j in rows]) if len(rows) else np.zeros((0, len(labels[0])), int)
        }
        if kap is None:
            return {**found, "label_shares": shares[rows]}
        mass = shares.sum(axis=0)
        return {**found, "label_shares": shares[rows] / np.where(mass > 0, mass, 1.0), "mass": mass, "rows": kap}

    return write
