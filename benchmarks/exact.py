"""Bounds against exact arithmetic: `primal` and `dual` of every kind of problem, at random and adversarial points.

    python benchmarks/exact.py [--only FAMILY ...] [--trials 20000] [--seed 0]

For each problem of the registry the files beside this one have a row: a function that draws a small problem with data
of scales from 1e-300 to 1e300, weights of examples from 1e-80 to 1 within one problem, points and dual points, and
knows what the bounds there must not pass. Wherever a formula of the package takes arrays, the truth is that very text,
evaluated on arrays of exact numbers (`exactly`): what is tried here is what its rounding is allowed for. That formulas
themselves are right, the tests of the families show by enumeration. Maxima and log-sums over labellings, which the
package computes in other ways, are enumerated here.

This script counts for each family: trials, bounds on the wrong side (the goal is none), bounds that are infinite
(correct, but they claim nothing), the share of problems with ordinary data that are solved to OPTIMAL, and on such data
the largest allowance relative to the value, infinite where a bound is. A warning is an error: an overflow must end in
an infinite or valid bound, quietly.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import itertools
import math
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

if not __package__:  # run as a script: the checkout is not on the path, only this directory is
    sys.path.append(str(Path(__file__).resolve().parents[1]))

import mpmath
import numpy as np
import scipy.sparse as sp

from convexstruct.arrays import Point
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
#: Bits of an exact number: enough for sums of products of any two floats to be exact. Quotients are rounded there.
BITS = 4400
#: Digits of exponentials, logarithms and roots.
DIGITS = 60
#: e^-x is 0 beyond: it is nothing beside the smallest float.
FAR = 10_000
#: Exponents of ten that data are drawn from.
SCALES = (-300.0, -160.0, -150.0, -30.0, -8.0, -1.0, 0.0, 0.0, 0.0, 1.0, 8.0, 12.0, 30.0, 150.0, 160.0, 300.0)

#: Added to the size of a number that is a weight, where data are adversarial and ordinary.
WEIGHT = (1e-300, 0.1)

#: Rounds of the short run, shares by which its ends are moved, and how many points of any size are drawn beside them.
RUN, MOVED, FAR_POINTS = 60, (1e-16, 1e-15), 3

#: An array of exact numbers: what NumPy's stubs do not know.
Exactly = Any
RANDOM = np.random.Generator

# -- exact arithmetic --------------------------------------------------------------------------------------------------

EXACT: Any = mpmath.MPContext()
EXACT.prec = BITS
ZERO = EXACT.mpf(0)


def _rounded_once(name: str) -> Callable[[Any], Any]:
    """A function of one exact number, to `DIGITS` digits."""

    def function(x: Any) -> Any:
        if name == "exp" and x < -FAR:
            return ZERO
        with EXACT.workdps(DIGITS):
            return getattr(EXACT, name)(x)

    return function


for _name in ("exp", "log", "sqrt"):  # np.exp of an array of objects calls their exp
    setattr(EXACT.mpf, _name, _rounded_once(_name))


def exactly(values: Any) -> Exactly:
    """The floats of an array, list or sparse matrix as exact numbers, in an array of the same shape."""
    given = np.asarray(values.toarray() if sp.issparse(values) else values)
    return np.array([EXACT.mpf(x) for x in given.ravel().tolist()], dtype=object).reshape(given.shape)


def twin(of: Any, **fields: Any) -> Any:
    """A copy of a problem, or of a part of one, some of whose arrays are exact."""
    found = copy.copy(of)
    vars(found).update(fields)
    return found


def log_sum_exp(x: Exactly) -> Any:
    return x.max() + np.log(np.exp(x - x.max()).sum())


def numbers(rng: RANDOM, shape: int | tuple[int, ...], ordinary: bool) -> Any:
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


def weights(rng: RANDOM, n: int, ordinary: bool) -> Any:
    """Of examples, all above 0: None, each of its size as `numbers` are, or from 1 down to 1e-80 within one problem."""
    kind = rng.random()
    if kind < 0.4:
        return None
    if kind < 0.65:
        return np.abs(numbers(rng, n, ordinary)) + WEIGHT[ordinary]
    return 10.0 ** rng.uniform(-80, 0, n)


def moved(rng: RANDOM, point: Point, by: float) -> dict[str, Any]:
    """Each entry times a number that is 1 but for ``by``; labels stay."""
    noise = {name: by * rng.normal(size=np.shape(x)) for name, x in point.items()}
    return {name: x * (1.0 + noise[name]) if np.asarray(x).dtype.kind == "f" else x for name, x in point.items()}


# -- the trials --------------------------------------------------------------------------------------------------------


@dataclass
class Instance:
    """A problem, and the truth about it.

    primal : point -> what no upper bound there may be less than: the exact objective, or the optimum.
    dual : witness -> what no lower bound may exceed: the exact D, the optimum, or an upper bound on it; None: the least
        of the objectives at the points.
    ordinary : whether solving it should end in OPTIMAL, with allowances within the goal.
    ends : of a short run: tried as they are, moved, and moved and repaired, as are points of any size.
    points, witnesses : tried besides.
    within : whether the problem states its lower bounds over a point too, so that its objective counts.
    """

    problem: Any
    primal: Callable[[Point], Any]
    dual: Callable[[Point], Any] = lambda _: None
    ordinary: bool = False
    points: Iterable[Point] = ()
    witnesses: Iterable[Point] = ()
    ends: tuple[Point, Point] | None = None
    within: Callable[[Point], bool] = lambda _: True

    def trials(self, rng: RANDOM) -> Iterator[Trial]:
        points, witnesses = self._near(rng, *self.ends) if self.ends else ([], [])
        least, size = math.inf, self.problem.trivial_value if self.ordinary else None
        for k, point in enumerate([*points, *self.points]):
            truth = self.primal(point)
            least = min(least, truth) if self.within(point) else least
            yield Trial("primal", self.problem.primal(point), truth, None if k else size, self.problem)
        for k, witness in enumerate([*witnesses, *self.witnesses]):
            truth = self.dual(witness)
            bound = self.problem.dual(witness)
            yield Trial("dual", bound, least if truth is None else truth, None if k else size, self.problem)

    def _near(self, rng: RANDOM, point: Point, witness: Point) -> tuple[list[Any], list[Any]]:
        shares = (0.0, *MOVED, 10.0 ** rng.uniform(-12, 0))
        with np.errstate(all="ignore"):
            points, witnesses = ([moved(rng, given, by) for by in shares] for given in (point, witness))
            points += [self._far(rng, point) for _ in range(FAR_POINTS)]
            if not any("shares" in name for name in witness):
                witnesses += [self._far(rng, witness) for _ in range(FAR_POINTS)]
            repaired = [self.problem.repair(each) for each in points[1:]] if self.problem.residuals(point) else []
        return points + repaired, witnesses

    def _far(self, rng: RANDOM, point: Point) -> dict[str, Any]:
        return {name: numbers(rng, np.shape(x), self.ordinary) for name, x in point.items()}


def short_run(problem: Any) -> tuple[Point, Point]:
    """Point and dual point that the problem's solver ends at, or the trivial ones."""
    point, witness = problem.trivial()
    with np.errstate(all="ignore"), contextlib.suppress(ValueError):  # an overflow in the first round
        found = solve(problem, tol=1e-15, max_iterations=RUN)
        point, witness = found.point, found.dual_point or witness
    return point, witness


@dataclass(frozen=True)
class Trial:
    """One bound: "primal" (``bound.upper`` must be at least ``truth``) or "dual" (``bound.lower`` at most that).

    scale : where the allowance is held against the goal, it is divided by the larger of |bound| and this.
    """

    side: str
    bound: Rounded
    truth: Any
    scale: float | None = None
    problem: Any = None

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


#: Draws an instance, or None where the problem refuses the data, as it should. The flag: whether data are ordinary.
Row = Callable[[RANDOM, bool], Instance | None]


def rows(family: str) -> tuple[Row, ...]:
    """The rows of the problems of a family."""
    from benchmarks import exact_generative, exact_labellings, exact_models, exact_polytopes

    every = exact_generative.ROWS | exact_labellings.ROWS | exact_models.ROWS | exact_polytopes.ROWS
    return tuple(row for problem in registry.families()[family].problems for row in every.get(problem, ()))


def families() -> list[str]:
    """Those with a row, in alphabetical order."""
    return sorted(name for name in registry.families() if rows(name))


def instances(family: str, rng: RANDOM) -> Iterator[Instance]:
    """One of each row in turns, for ever."""
    drawn = (row(rng, bool(rng.integers(2))) for row in itertools.cycle(rows(family)))
    return (one for one in drawn if one is not None)


def trials(family: str, rng: RANDOM) -> Iterator[Trial]:
    return itertools.chain.from_iterable(one.trials(rng) for one in instances(family, rng))


@dataclass
class Count:
    """What the trials of one family showed; ``largest`` is the largest allowance that is held against the goal."""

    trials: int = 0
    infinite: int = 0
    ordinary: int = 0
    largest: float = 0.0
    wrong: list[Trial] = field(default_factory=list)

    def add(self, trial: Trial) -> None:
        self.trials += 1
        self.infinite += not math.isfinite(trial.end)
        if trial.scale is not None:
            self.ordinary += 1
            size = max(abs(float(trial.bound)), trial.scale) if math.isfinite(trial.end) else 0.0
            self.largest = max(self.largest, trial.bound.allowance / size if size else math.inf)
        if trial.wrong:
            self.wrong.append(trial)


def run(family: str, number: int, seed: int = 0) -> Count:
    """The first trials of a family; warnings are errors."""
    found = Count()
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
            print(f"  wrong: {trial.side} {trial.bound!r}, truth {float(trial.truth)!r}: {trial.problem!r}")
        if found.largest > GOAL:
            print(f"  MISSED: an allowance of {found.largest:.1e} on ordinary data, wanted at most {GOAL:.0e}")
        good = good and not found.wrong and found.largest <= GOAL
    return 0 if good else 1


if __name__ == "__main__":
    raise SystemExit(main())
