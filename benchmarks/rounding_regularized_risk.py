"""Trials of `RegularizedRisk`: small risks whose optimum is enumerated in rational arithmetic.

At an optimum each group has a set of pieces that are largest together. For every choice of such sets J is a quadratic
on an affine space, its least point there one linear system in fractions; the least J over all choices is the optimum,
and the multipliers of the right choice are an optimal alpha. Rounded to floats, optimum and alpha are the hardest
points: there both bounds are the optimum, but for rounding.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks.exact import ZERO, Exactly, exactly, floats, solved
from benchmarks.rounding import Trial
from convexstruct.arrays import Vector
from convexstruct.families.regularized_risk import RegularizedRisk

#: Powers of ten that scales are drawn from.
REACH = 300.0
#: A point is ordinary that is at most so many times as large as the optimum; beyond, sums of squares overflow.
FAR = 1e6


@dataclass(frozen=True)
class Exact:
    """A risk in fractions: each piece as its row over (w, b) and its offset, a zero piece last; the pieces of each
    group; the shares."""

    rows: Exactly
    offsets: Exactly
    groups: list[list[int]]
    shares: Exactly
    lam: Fraction
    n_weights: int
    floor: bool

    @classmethod
    def of(cls, problem: RegularizedRisk) -> Exact:
        """``problem`` as its floats say, the shares as real numbers."""
        loss, X = problem.loss, exactly(problem.X)
        rows = np.full((problem.n_pieces + 1, problem.dimension + problem.n_biases), ZERO)
        of_outputs = exactly(loss.combine).reshape(problem.n_pieces, len(X), loss.n_outputs)
        rows[:-1, : problem.dimension] = np.tensordot(of_outputs, X, axes=(1, 0)).reshape(problem.n_pieces, -1)
        if problem.n_biases:
            rows[range(problem.n_pieces), problem.dimension + loss.bias_of] = exactly(loss.bias_sign)
        n = loss.n_groups if loss.kind == "pieces" else len(X)
        shares = np.full(loss.n_groups, Fraction(1, n))
        if problem.weights is not None:
            omega = exactly(problem.weights)
            shares = (omega / omega.sum())[loss.example]
        groups = [list(range(i, j)) for i, j in itertools.pairwise(loss.start)]
        offsets = np.array([*exactly(loss.offset), ZERO], dtype=object)
        return cls(rows, offsets, groups, shares, Fraction(problem.lam), problem.dimension, loss.floor)

    def value(self, x: Exactly) -> Fraction:
        """J(w, b)."""
        pieces, w = self.rows @ x + self.offsets, x[: self.n_weights]
        tops = [max(pieces[[*group, -1] if self.floor else group]) for group in self.groups]
        found: Fraction = self.lam / 2 * (w @ w) + self.shares @ np.array(tops, dtype=object)
        return found

    def optimum(self) -> tuple[Fraction, Exactly, Exactly]:
        """(least J, (w, b) and alpha there)."""
        size = self.rows.shape[1]
        best: tuple[Fraction, Exactly, Exactly] | None = None
        for chosen in itertools.product(*(self._sets(group) for group in self.groups)):
            ties = sum(len(pieces) - 1 for pieces in chosen)
            found = self._least(chosen, size, ties) if ties <= size else None
            if found is not None and (best is None or found[0] < best[0]):
                best = found
        assert best is not None
        return best

    def _sets(self, group: list[int]) -> list[tuple[int, ...]]:
        """Every set of pieces that may be largest together; -1 stands for the zero piece."""
        every = [*group, -1] if self.floor else group
        return [pieces for k in range(1, len(every) + 1) for pieces in itertools.combinations(every, k)]

    def _least(
        self, chosen: Sequence[tuple[int, ...]], size: int, ties: int
    ) -> tuple[Fraction, Exactly, Exactly] | None:
        """The least of J where the chosen pieces are equal, were they the largest; None where it is not unique."""
        matrix, right = np.full((size + ties, size + ties), ZERO), np.full(size + ties, ZERO)
        matrix[range(self.n_weights), range(self.n_weights)] = self.lam
        at = size
        for share, (first, *others) in zip(self.shares, chosen):
            right[:size] -= share * self.rows[first]
            for p in others:
                matrix[at, :size] = matrix[:size, at] = self.rows[p] - self.rows[first]
                right[at] = self.offsets[first] - self.offsets[p]
                at += 1
        found = solved(matrix, right)
        if found is None:
            return None
        x, tied = found[:size], iter(found[size:])
        alpha = np.full(len(self.rows), ZERO)
        for share, (first, *others) in zip(self.shares, chosen):
            alpha[others] = parts = [next(tied) for _ in others]
            alpha[first] = share - sum(parts)
        return self.value(x), x, alpha[:-1]


def trials(rng: np.random.Generator) -> Iterator[Trial]:
    """Both bounds at the optimum rounded to floats, next to it, and far from it; one risk after another, for ever."""
    while True:
        kind = str(rng.choice(["ordinary", "ordinary", "scaled", "cancelling", "extreme"]))
        problem = _problem(rng, kind)
        exact = Exact.of(problem)
        least, x, alpha = exact.optimum()
        scale = 0.0
        if kind == "ordinary":  # a gap is relative to the larger bound, so to |optimum| at least; 1 is the data's size
            scale = max(abs(float(exact.value(0 * x))) or 1.0, abs(float(least)))
        told = f"{kind} {problem.loss.kind}, lam {problem.lam!r}, X {problem.X!r}, weights {problem.weights!r}"
        best = floats(x)
        for point in _near(rng, best):
            with np.errstate(over="ignore"):
                read = problem.as_point({"w": point[: problem.dimension]} | _offsets(problem, point))
            shown = exactly(np.append(read["w"], read.get("b", ())))
            bound = problem.primal(read)
            usual = kind == "ordinary" and bool(np.abs(point).max(initial=0.0) <= FAR * (1.0 + np.abs(best).max()))
            yield Trial("primal", bound, exact.value(shown), usual, scale, f"{told}, point {read}")
        for witness in _near(rng, floats(alpha), problem.shares[problem.group]):
            bound = problem.dual({"alpha": witness})
            yield Trial("dual", bound, least, kind == "ordinary", scale, f"{told}, alpha {witness.tolist()}")


def _offsets(problem: RegularizedRisk, point: Vector) -> dict[str, Vector]:
    return {"b": point[problem.dimension :]} if problem.n_biases else {}


def _near(rng: np.random.Generator, best: Vector, unit: Vector | None = None) -> Iterator[Vector]:
    """The optimum, one and many roundings away from it, scaled, at random, at the ends of what floats can say."""
    largest = np.finfo(float).max
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        tried = [
            best,
            np.nextafter(best, rng.choice([-np.inf, np.inf], size=best.shape)),
            best * (1 + 1e-15 * rng.normal(size=best.shape)),
            best * (1 + 10.0 ** rng.uniform(-12, 0) * rng.normal(size=best.shape)),
            best * rng.choice([0.5, 2.0, -1.0, 1e5]),
            np.zeros_like(best),
            rng.normal(size=best.shape) * 10.0 ** rng.uniform(-REACH, REACH),
            (np.ones_like(best) if unit is None else unit) * rng.random(best.shape) * rng.choice([1.0, 3.0]),
        ]
    yield from (np.clip(np.nan_to_num(point), -largest, largest) for point in tried)


def _problem(rng: np.random.Generator, kind: str) -> RegularizedRisk:
    """A risk of up to four pieces in up to four unknowns, of any loss, dense or sparse, with and without weights."""
    loss = str(rng.choice(["binary", "binary", "bias", "multiclass", "multilabel", "ordinal", "free", "pieces"]))
    n = {"multiclass": 2, "multilabel": 2, "free": 3, "pieces": 3}.get(loss, int(rng.integers(2, 4)))
    d = 1 if loss in ("multiclass", "multilabel", "free") else int(rng.integers(1, 3))
    X, lam = rng.normal(size=(n, d)), float(10.0 ** rng.uniform(-3, 1))
    weights = rng.uniform(0.2, 3.0, size=n) if rng.random() < 0.4 else None
    if kind == "scaled":  # columns, rows or all far from 1, and lam so that w matters, or not
        size = 10.0 ** rng.uniform(-REACH / 2, REACH / 2)
        X = X * (size if rng.random() < 0.5 else 10.0 ** rng.uniform(-20, 20, size=[(n, 1), (1, d)][rng.integers(2)]))
        lam *= float(np.clip(np.abs(X).max() ** 2, 1e-300, 1e300)) if rng.random() < 0.7 else 1.0
    elif kind == "cancelling":  # a feature that is large and nearly constant, or one example far from the others
        large = 10.0 ** rng.uniform(6, 19)
        X = X + large if rng.random() < 0.5 else np.where(np.arange(n)[:, None] == 0, large, 1.0 + np.round(X))
        lam = float(10.0 ** rng.uniform(-8, 0)) / n
    elif kind == "extreme":
        with np.errstate(over="ignore", under="ignore"):
            X = X * 10.0 ** rng.uniform(-REACH, REACH, size=(n, d))
        lam = float(10.0 ** rng.uniform(-REACH, REACH))
        weights = None if weights is None else weights * 10.0 ** rng.uniform(-REACH, REACH, size=n)
    given: Any = sp.csr_array(X) if rng.random() < 0.4 else X
    y = rng.permutation(np.arange(n) % 2)
    if loss in ("binary", "bias"):
        return RegularizedRisk.binary(given, y, lam, bias=loss == "bias", weights=weights)
    if loss == "multiclass":
        return RegularizedRisk.multiclass(given, rng.integers(3, size=n), lam, n_classes=3, weights=weights)
    if loss == "multilabel":
        labels = np.array([[1, 0, 0], [0, 1, 1]])[:, rng.permutation(3)]
        return RegularizedRisk.multilabel(given, labels, lam, weights=weights)
    if loss == "free":
        return RegularizedRisk.ordinal(given, rng.permutation(n), lam, weights=weights)
    if loss == "ordinal":
        return RegularizedRisk.ordinal(given, y, lam, thresholds=[float(rng.normal())], weights=weights)
    together = rng.random() < 0.5
    offsets = rng.normal(size=n) * (10.0 ** rng.uniform(-REACH, REACH) if kind == "extreme" else 1.0)
    example, floor = (None if together else np.arange(n) // 2), bool(rng.random() < 0.5)
    weights = None if weights is None else weights[: 1 if together else 2]
    return RegularizedRisk.pieces(given, offsets, lam, example, floor=floor, weights=weights)
