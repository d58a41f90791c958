"""Trials of `benchmarks/rounding.py` for the kernel CRF: all labellings written out, scores as fractions.

K is a product of whole numbers times a power of two, so that it is positive semidefinite exactly. P(u) is then a
rational number plus logarithms of sums of exponentials, in 50 digits. The optimum is bounded from above by P at a point
that Newton's method has polished in 50 digits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise, product
from typing import Any

import mpmath
import numpy as np
from numpy.typing import NDArray

from benchmarks.rounding import Trial
from convexstruct.core.driver import solve
from convexstruct.families.gaussian_process import GaussianProcessSequences

DIGITS = 50
#: Dual points, and points, that are tried on each instance.
EACH = 50
#: Steps of Newton's method in many digits, from a point in double precision.
STEPS = 4


@dataclass
class Exact:
    """(32) of a small problem: K as fractions, and the counts of every labelling, sequence by sequence."""

    problem: GaussianProcessSequences
    kernel: NDArray[Any]
    each: list[NDArray[Any]]

    @classmethod
    def of(cls, problem: GaussianProcessSequences) -> Exact:
        s, n = problem.n_labels, problem.dimension
        kernel = np.full((n, n), Fraction(0), dtype=object)
        cut = problem.n_inputs * s
        for i in range(problem.n_inputs):
            for j in range(problem.n_inputs):
                for label in range(s):
                    kernel[i * s + label, j * s + label] = Fraction(float(problem.gram.matrix[i, j]))
        for k in range(cut, n):
            kernel[k, k] = Fraction(problem.eta)
        each, start = [], 0
        for length in problem.lengths.tolist():
            rows = []
            for labels in product(range(s), repeat=length):
                row = np.full(n, Fraction(0), dtype=object)
                for place, label in zip(problem.places[start : start + length].tolist(), labels):
                    row[place * s + label] += 1
                for before, label in pairwise(labels):
                    row[cut + before * s + label] += 1
                rows.append(row)
            each.append(np.array(rows))
            start += length
        return cls(problem, kernel, each)

    def value(self, u: NDArray[Any]) -> Any:
        """P(u) for u of fractions: off by 1e-45 of the logarithms at most."""
        t = self.kernel.dot(u)
        rest = Fraction(self.problem.lam) / 2 * u.dot(t) - exactly(self.problem.truth).dot(t)
        logs = mpmath.mpf(0)
        for rows in self.each:
            scores = rows.dot(t)
            largest = max(scores)
            rest += largest
            logs += mpmath.log(mpmath.fsum(mpmath.exp(number(score - largest)) for score in scores))
        return number(rest) + logs

    def polished(self, u: NDArray[Any]) -> NDArray[Any]:
        """A point near the optimum, by Newton's method in the geometry of K from u, as fractions."""
        kernel = mpmath.matrix(np.vectorize(number, otypes=[object])(self.kernel).tolist())
        truth, lam, n = mpmath.matrix(self.problem.truth.tolist()), mpmath.mpf(self.problem.lam), len(u)
        now = mpmath.matrix([number(x) for x in u])
        for _ in range(STEPS):
            t = kernel * now
            mean, second = mpmath.zeros(n, 1), mpmath.zeros(n)
            for rows in self.each:
                counts = mpmath.matrix([[int(x) for x in row] for row in rows])
                scores = counts * t
                largest = max(scores)
                weights = [mpmath.exp(x - largest) for x in scores]
                total = mpmath.fsum(weights)
                here = counts.T * mpmath.matrix([w / total for w in weights])
                spread = mpmath.diag([w / total for w in weights])
                mean += here
                second += counts.T * spread * counts - here * here.T
            step = mpmath.lu_solve(lam * mpmath.eye(n) + second * kernel, lam * now - (truth - mean))
            now -= step
        return np.array([fraction(x) for x in now], dtype=object)


def number(x: Fraction) -> Any:
    return mpmath.mpf(x.numerator) / x.denominator


def fraction(x: Any) -> Fraction:
    """An mpmath number as it is."""
    sign, man, exponent, _ = x._mpf_
    return Fraction(-man if sign else man) * (Fraction(2) ** int(exponent))


def exactly(values: NDArray[np.float64]) -> NDArray[Any]:
    return np.array([Fraction(x) for x in values.tolist()], dtype=object)


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
        slack = abs(least) * mpmath.mpf(10) ** (10 - DIGITS)
        for _ in range(EACH // 2):
            near = rng.random() < 0.5
            size = 10.0 ** rng.uniform(*((-17, 1) if near else (-300, 300)))
            u = best + size * rng.normal(size=n) if near else size * rng.normal(size=n)
            told = f"{problem.lengths} of {problem.n_labels}, eta {problem.eta:g}, lam {problem.lam:g}, |u| {size:.1g}"
            value = exact.value(exactly(u))
            claim = problem.primal({"u": u})
            usual = ordinary and near
            off = abs(value) * mpmath.mpf(10) ** (10 - DIGITS)
            yield Trial("primal", claim, value - off, usual, scale, told)
            yield Trial("dual", problem.dual({"u": u}), min(least, value) + slack, usual, scale, told)
