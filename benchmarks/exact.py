"""Bounds against exact arithmetic: `primal` and `dual` of every kind of problem, at random and adversarial points.

    python benchmarks/exact.py [--only FAMILY ...] [--trials 20000] [--seed 0]

The files beside this one have a row for each kind of problem: a function that draws a small problem with data of
scales from 1e-300 to 1e300, points and dual points, and knows the truth in rational (`fractions`) or 60-digit
(`mpmath`) numbers. This script asks the problem for its bounds there and counts, for each family: trials, bounds on
the wrong side (the goal is none), bounds that are infinite (correct, but they claim nothing), the share of problems
with ordinary data that are solved to OPTIMAL, and on such data the largest allowance relative to the value. A warning
is an error: an overflow must end in an infinite or valid bound, quietly.
"""

from __future__ import annotations

import argparse
import itertools
import math
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

if not __package__:  # run as a script: the checkout is not on the path, only this directory is
    sys.path.append(str(Path(__file__).resolve().parents[1]))

import mpmath
import numpy as np
import scipy.sparse as sp

from convexstruct.arrays import Point, Vector
from convexstruct.core import registry
from convexstruct.core.driver import solve
from convexstruct.core.solution import Status
from convexstruct.rounding import Rounded

#: So many bounds are tried for each family, unless `--trials` says otherwise.
TRIALS = 20_000
#: The relative allowance on ordinary data that is aimed at.
GOAL = 1e-12
#: So many of the wrong bounds are printed.
SHOWN = 5
#: So many problems of each family with ordinary data are solved.
SOLVED = 50
#: Digits of numbers that are not rational, and what a sum of them may be wrong by, relative to its terms.
DIGITS = 60
ERROR = mpmath.mpf(10) ** (10 - DIGITS)
#: Exponents of ten that data are drawn from.
SCALES = (-300.0, -160.0, -150.0, -30.0, -8.0, -1.0, 0.0, 0.0, 0.0, 1.0, 8.0, 12.0, 30.0, 150.0, 160.0, 300.0)
ZERO: Any = Fraction(0)

#: An array of fractions: what NumPy's stubs do not know.
Exactly = Any

# -- exact arithmetic --------------------------------------------------------------------------------------------------


def exactly(values: Any) -> Exactly:
    """The floats of an array, list or sparse matrix as fractions, in an array of the same shape."""
    given = np.asarray(values.toarray() if sp.issparse(values) else values, dtype=float)
    return np.array([Fraction(x) for x in given.ravel().tolist()], dtype=object).reshape(given.shape)


def number(x: Any) -> Any:
    """A fraction to `DIGITS` digits."""
    with mpmath.workdps(DIGITS):
        return mpmath.mpf(x.numerator) / x.denominator


def fraction(x: Any) -> Fraction:
    """An mpmath number as it is."""
    sign, man, exponent, _ = x._mpf_
    return Fraction(int(-man if sign else man)) * (Fraction(2) ** int(exponent))


def floats(values: Exactly) -> Vector:
    """The nearest floats; beyond the largest, the largest."""
    largest = Fraction(np.finfo(float).max)
    return np.array([float(max(min(x, largest), -largest)) for x in values], dtype=float)


def root(value: Fraction) -> Fraction:
    """The square root."""
    with mpmath.workdps(DIGITS):
        return fraction(mpmath.sqrt(number(value)))


def gibbs(scores: Exactly) -> tuple[Exactly, Any]:
    """(e^score / sum e^score as fractions that sum to 1, ln sum e^(score - the largest)); 0 below e^-700."""
    with mpmath.workdps(DIGITS):
        away = scores - scores.max()
        terms = [mpmath.exp(number(x)) if x > -700 else mpmath.mpf(0) for x in away]
        found = np.array([fraction(x) for x in terms], dtype=object)
        return found / found.sum(), mpmath.log(mpmath.fsum(terms))


def solved(matrix: Exactly, right: Exactly) -> Exactly | None:
    """x of matrix x = right by elimination; None where the matrix is singular."""
    n = len(right)
    rows = np.column_stack((matrix, right))
    for j in range(n):
        pivot = next((i for i in range(j, n) if rows[i, j] != 0), None)
        if pivot is None:
            return None
        rows[[j, pivot]] = rows[[pivot, j]]
        rows[j] = rows[j] / rows[j, j]
        for i in range(n):
            if i != j and rows[i, j] != 0:
                rows[i] = rows[i] - rows[i, j] * rows[j]
    return np.asarray(rows[:, n])


def numbers(rng: np.random.Generator, shape: int | tuple[int, ...], ordinary: bool) -> Any:
    """Ordinary: normal. Else each of its own scale, or all of one, some equal, some 0."""
    values = rng.normal(size=shape)
    if ordinary:
        return values
    values = values * 10.0 ** (rng.choice(SCALES, size=shape) if rng.random() < 0.5 else rng.choice(SCALES))
    if rng.random() < 0.3:
        values = np.where(rng.random(shape) < 0.3, 0.0, values)
    if rng.random() < 0.2:
        values = np.round(values)
    return np.nan_to_num(values, posinf=1.7e308, neginf=-1.7e308)


# -- the trials --------------------------------------------------------------------------------------------------------


@dataclass
class Instance:
    """A problem, and the truth about it.

    points, witnesses : what the problem is asked about, each with whether its allowance is held against the goal.
    primal : point -> what no upper bound there may be less than: the exact objective, or the optimum.
    dual : witness -> what no lower bound may exceed: the exact D, the optimum, or an upper bound on it; None: the least
        of the objectives at ``points``. A truth that is not rational errs to the side where it accuses no true bound.
    scale : allowances are divided by the larger of |bound| and this. told : the instance in a few words.
    ordinary : whether solving it should end in OPTIMAL.
    """

    problem: Any
    points: Iterable[tuple[Point, bool]]
    witnesses: Iterable[tuple[Point, bool]]
    primal: Callable[[Point], Any]
    dual: Callable[[Point], Any]
    told: str = ""
    ordinary: bool = False
    scale: float = 0.0

    def trials(self) -> Iterator[Trial]:
        least: Any = math.inf
        for point, usual in self.points:
            truth = self.primal(point)
            least = min(least, truth)
            yield Trial("primal", self.problem.primal(point), truth, usual, self.scale, self.told)
        for witness, usual in self.witnesses:
            truth = self.dual(witness)
            bound, told = self.problem.dual(witness), f"{self.told}, {', '.join(witness)}"
            yield Trial("dual", bound, least if truth is None else truth, usual, self.scale, told)


@dataclass(frozen=True)
class Trial:
    """One bound: "primal" (``bound.upper`` must be at least ``truth``) or "dual" (``bound.lower`` at most that)."""

    side: str
    bound: Rounded
    truth: Any
    ordinary: bool = False
    scale: float = 0.0
    told: str = ""

    @property
    def end(self) -> float:
        return self.bound.upper if self.side == "primal" else self.bound.lower

    @property
    def wrong(self) -> bool:
        """Whether the bound is false. NaN never is: `certify` reads it as an infinite bound."""
        if math.isnan(self.end):
            return False
        if math.isinf(self.end):  # only the infinity on the safe side
            return (self.end < 0) == (self.side == "primal")
        return bool(self.end < self.truth if self.side == "primal" else self.end > self.truth)

    @property
    def relative(self) -> float:
        """The allowance relative to the value."""
        size = max(abs(float(self.bound)), self.scale)
        return self.bound.allowance / size if size else math.inf


#: Draws an instance, or None where the problem refuses the data, as it should. The flag: whether data are ordinary.
Row = Callable[[np.random.Generator, bool], Instance | None]


def rows(family: str) -> tuple[Row, ...]:
    """The rows of the problems of a family."""
    from benchmarks import exact_energy, exact_generative, exact_labellings, exact_models, exact_polytopes

    files = (exact_energy, exact_generative, exact_labellings, exact_models, exact_polytopes)
    every = {problem: row for file in files for problem, row in file.ROWS.items()}
    return tuple(row for problem in registry.families()[family].problems for row in every.get(problem, ()))


def families() -> list[str]:
    """Those with a row, in alphabetical order."""
    return sorted(name for name in registry.families() if rows(name))


def instances(family: str, rng: np.random.Generator) -> Iterator[Instance]:
    """One of each row in turns, for ever."""
    for row in itertools.cycle(rows(family)):
        one = row(rng, bool(rng.integers(2)))
        if one is not None:
            yield one


def trials(family: str, rng: np.random.Generator) -> Iterator[Trial]:
    return itertools.chain.from_iterable(one.trials() for one in instances(family, rng))


@dataclass
class Count:
    """What the trials of one family showed."""

    family: str
    trials: int = 0
    infinite: int = 0
    ordinary: int = 0
    largest: float = 0.0
    wrong: list[Trial] = field(default_factory=list)

    def add(self, trial: Trial) -> None:
        self.trials += 1
        self.infinite += not math.isfinite(trial.end)
        self.ordinary += trial.ordinary
        self.largest = max(self.largest, trial.relative * trial.ordinary)
        if trial.wrong:
            self.wrong.append(trial)


def run(family: str, number: int, seed: int = 0) -> Count:
    """The first trials of a family; warnings are errors."""
    found = Count(family)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for trial in itertools.islice(trials(family, np.random.default_rng(seed)), number):
            found.add(trial)
    return found


def optimal(family: str, number: int, seed: int = 0) -> float:
    """The share of problems with ordinary data that are solved to OPTIMAL."""
    usual = (one.problem for one in instances(family, np.random.default_rng(seed)) if one.ordinary)
    return float(np.mean([solve(problem).status is Status.OPTIMAL for problem in itertools.islice(usual, number)]))


def main(arguments: Sequence[str] | None = None) -> int:
    known = families()
    parser = argparse.ArgumentParser(description="Bounds against exact arithmetic.")
    parser.add_argument("--only", nargs="+", choices=known, metavar="FAMILY", help=f"some of: {', '.join(known)}")
    parser.add_argument("--trials", type=int, default=TRIALS, help=f"for each family (default {TRIALS})")
    parser.add_argument("--seed", type=int, default=0, help="of the random numbers (default 0)")
    chosen = parser.parse_args(arguments)
    if chosen.trials < 1:
        parser.error(f"--trials is {chosen.trials}, wanted at least 1")
    print(
        f"{'family':<22}{'trials':>8}{'wrong':>7}{'infinite':>10}{'OPTIMAL':>9}{'ordinary':>10}{'allowance':>11}{'seconds':>9}"
    )
    good = True
    for family in chosen.only or known:
        begin = time.perf_counter()
        found = run(family, chosen.trials, chosen.seed)
        share = optimal(family, min(SOLVED, chosen.trials), chosen.seed)
        print(
            f"{family:<22}{found.trials:>8}{len(found.wrong):>7}{found.infinite:>10}{share:>9.0%}{found.ordinary:>10}"
            f"{found.largest:>11.1e}{time.perf_counter() - begin:>9.1f}",
            flush=True,
        )
        for trial in found.wrong[:SHOWN]:
            print(f"  wrong: {trial.side} {trial.bound!r}, truth {float(trial.truth)!r}: {trial.told}")
        if found.largest > GOAL:
            print(f"  MISSED: an allowance of {found.largest:.1e} on ordinary data, wanted at most {GOAL:.0e}")
        good = good and not found.wrong and found.largest <= GOAL
    return 0 if good else 1


if __name__ == "__main__":
    raise SystemExit(main())
