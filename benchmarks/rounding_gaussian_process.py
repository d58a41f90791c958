"""Trials of `benchmarks/rounding.py` for the kernel CRF: all labellings written out, scores as fractions.

K is a product of whole numbers times a power of two, so that it is positive semidefinite exactly. P(u) is then a
rational number plus logarithms of sums of exponentials, in 50 digits. The optimum is bounded from above by P at a point
that Newton's method has polished in 50 digits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import mpmath
import numpy as np

from benchmarks.exact import DIGITS, ERROR, Exactly, exactly, fraction, log_sum, number
from benchmarks.rounding import Trial
from convexstruct.core.driver import solve
from convexstruct.families.gaussian_process import GaussianProcessSequences
from convexstruct.oracles.enumeration import labellings

#: Dual points, and points, that are tried on each instance.
EACH = 50
#: Steps of Newton's method in many digits, from a point in double precision.
STEPS = 4


@dataclass
class Exact:
    """(32) of a small problem: K as fractions, and the counts of every labelling, sequence by sequence."""

    problem: GaussianProcessSequences
    kernel: Exactly
    each: list[Exactly]

    @classmethod
    def of(cls, problem: GaussianProcessSequences) -> Exact:
        s, n = problem.n_labels, problem.dimension
        kernel = np.zeros((n, n), dtype=object)
        cut = problem.n_inputs * s
        kernel[:cut, :cut] = np.kron(exactly(problem.gram.matrix), np.eye(s, dtype=object))
        kernel[cut:, cut:] = np.eye(n - cut, dtype=object) * exactly(problem.eta)
        each = []
        for places in np.split(problem.places, np.cumsum(problem.lengths)[:-1]):
            every = labellings([s] * len(places))
            rows, which = np.zeros((len(every), n), dtype=int), np.arange(len(every))[:, None]
            np.add.at(rows, (which, places * s + every), 1)
            np.add.at(rows, (which, cut + every[:, :-1] * s + every[:, 1:]), 1)
            each.append(rows.astype(object))
        return cls(problem, kernel, each)

    def value(self, u: Exactly) -> mpmath.mpf:
        """P(u) for u of fractions: off by `ERROR` of the logarithms at most."""
        t = self.kernel @ u
        rest = exactly(self.problem.lam) / 2 * (u @ t) - exactly(self.problem.truth) @ t
        every = [rows @ t for rows in self.each]
        return number(rest + sum(scores.max() for scores in every)) + sum(map(log_sum, every))

    def polished(self, u: Exactly) -> Exactly:
        """A point near the optimum, by Newton's method in the geometry of K from u, as fractions."""
        of_numbers = np.vectorize(number, otypes=[object])
        kernel, now, lam = of_numbers(self.kernel), of_numbers(u), mpmath.mpf(self.problem.lam)
        for _ in range(STEPS):
            left, mean = np.eye(len(u), dtype=object) * lam, 0 * now
            for rows in self.each:
                scores = rows @ (kernel @ now)
                weights = np.array([mpmath.exp(x - scores.max()) for x in scores])
                weights = weights / weights.sum()
                here = weights @ rows
                mean = mean + here
                left = left + ((rows.T * weights) @ rows - np.outer(here, here)) @ kernel
            right = lam * now - of_numbers(exactly(self.problem.truth)) + mean
            now = now - np.array(list(mpmath.lu_solve(mpmath.matrix(left.tolist()), mpmath.matrix(right.tolist()))))
        return np.array([fraction(x) for x in now], dtype=object)


def instance(rng: np.random.Generator, ordinary: bool) -> GaussianProcessSequences:
    """A few positions; kernels, variances and priors of any scale unless ``ordinary``."""
    s, d = int(rng.integers(1, 4)), int(rng.integers(1, 4))
    lengths = rng.integers(1, 4 if s < 3 else 3, size=int(rng.integers(1, 4)))
    factor = rng.integers(-3, 4, size=(d, 2))
    reach = 2 if ordinary else int(rng.choice([4, 60, 400]))
    power, other, prior = rng.integers(-reach, reach + 1, size=3).tolist()
    return GaussianProcessSequences.from_gram(
        np.ldexp((factor @ factor.T).astype(float), power),
        [rng.integers(s, size=int(length)) for length in lengths],
        s,
        places=[rng.integers(d, size=int(length)) for length in lengths],
        eta=float(np.ldexp(1.0, other)) * bool(rng.integers(4)),
        lam=float(np.ldexp(1.0, prior)),
    )


def trials(rng: np.random.Generator) -> Iterator[Trial]:
    """P at points, and D at dual points, near the optimum and of every size."""
    mpmath.mp.dps = DIGITS
    while True:
        ordinary = bool(rng.integers(2))
        problem = instance(rng, ordinary)
        exact = Exact.of(problem)
        n = problem.dimension
        best = np.zeros(n)
        if ordinary:
            best = solve(problem, max_iterations=200).point["u"]
        least = exact.value(exactly(best))
        if ordinary:
            least = min(least, exact.value(exact.polished(exactly(best))))
        scale = float(problem.lengths.sum() * max(1.0, np.log(problem.n_labels)))
        slack = abs(least) * ERROR
        for _ in range(EACH // 2):
            near = rng.random() < 0.5
            size = 10.0 ** rng.uniform(*((-17, 1) if near else (-300, 300)))
            u = best + size * rng.normal(size=n) if near else size * rng.normal(size=n)
            told = f"{problem.lengths} of {problem.n_labels}, eta {problem.eta:g}, lam {problem.lam:g}, |u| {size:.1g}"
            value = exact.value(exactly(u))
            claim = problem.primal({"u": u})
            usual = ordinary and near
            off = abs(value) * ERROR
            yield Trial("primal", claim, value - off, usual, scale, told)
            yield Trial("dual", problem.dual({"u": u}), min(least, value) + slack, usual, scale, told)
