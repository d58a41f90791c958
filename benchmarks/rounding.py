"""Bounds against exact arithmetic: every family's `primal` and `dual` at random and adversarial points.

    python benchmarks/rounding.py [--only FAMILY ...] [--trials 20000] [--seed 0]

Each family has a file beside this one, `rounding_<family>.py`, with one function

    trials(rng: numpy.random.Generator) -> Iterator[Trial]

that never ends. It makes small instances whose truth is enumerated in rational (`fractions`) or 50-digit (`mpmath`)
arithmetic, with data of scales from 1e-300 to 1e300, and yields one `Trial` for each bound it asked a problem for. This
script counts, for each family: trials, bounds on the wrong side (the goal is none), bounds that are infinite (they
are correct, but claim nothing), and the largest allowance on ordinary data, relative to the value.
A warning is an error: an overflow must end in an infinite or valid bound, quietly.
"""

from __future__ import annotations

import argparse
import importlib
import itertools
import math
import sys
import time
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if not __package__:  # run as a script: the checkout is not on the path, only this directory is
    sys.path.append(str(Path(__file__).resolve().parents[1]))

# NumPy and the package are imported where they are needed, so that a broken file of one family stops no other.
if TYPE_CHECKING:
    from convexstruct.rounding import Rounded

#: So many bounds are tried for each family, unless `--trials` says otherwise.
TRIALS = 20_000
#: The relative allowance on ordinary data that is aimed at.
GOAL = 1e-12
#: So many of the wrong bounds are printed.
SHOWN = 5


@dataclass(frozen=True)
class Trial:
    """One bound that a problem gave, and the exact number that it must not cross.

    side : "primal" (``bound.upper`` must be at least ``truth``) or "dual" (``bound.lower`` must be at most ``truth``).
    bound : what `problem.primal` or `problem.dual` returned; one that is not finite claims nothing.
    truth : a Fraction or mpmath number. For "primal" the exact objective at the point (no less than the optimum); for
        "dual" the exact optimum, or an exact upper bound on it. Where it was computed with an error of its own, the
        error is to be taken from it ("primal") or added to it ("dual") before.
    ordinary : whether the data are of ordinary sizes, so that the allowance is held against the goal.
    scale : the allowance is divided by the larger of |bound| and this: the size of the objective at a trivial point.
    told : the instance in a few words, printed where the bound is wrong.
    """

    side: str
    bound: Rounded
    truth: Any
    ordinary: bool = False
    scale: float = 0.0
    told: str = ""

    @property
    def wrong(self) -> bool:
        """Whether the bound is false. NaN never is: `certify` reads it as an infinite bound."""
        if self.side not in ("primal", "dual"):
            raise ValueError(f"side is {self.side!r}, wanted primal or dual")
        end = self.bound.upper if self.side == "primal" else self.bound.lower
        if math.isnan(end):
            return False
        if math.isinf(end):  # only the infinity on the safe side
            return (end < 0) == (self.side == "primal")
        return bool(end < self.truth if self.side == "primal" else end > self.truth)

    @property
    def infinite(self) -> bool:
        return not math.isfinite(self.bound.upper if self.side == "primal" else self.bound.lower)

    @property
    def relative(self) -> float:
        """The allowance relative to the value."""
        size = max(abs(float(self.bound)), self.scale)
        return self.bound.allowance / size if size else math.inf


@dataclass
class Count:
    """What the trials of one family showed."""

    family: str
    trials: int = 0
    infinite: int = 0
    ordinary: int = 0
    largest: float = 0.0
    seconds: float = 0.0
    wrong: list[Trial] = field(default_factory=list)


def families() -> list[str]:
    """Those with a file `rounding_<family>.py`, in alphabetical order."""
    return sorted(file.stem.removeprefix("rounding_") for file in Path(__file__).parent.glob("rounding_*.py"))


def count(family: str, trials: Iterable[Trial]) -> Count:
    """The counts over all ``trials``; warnings are errors."""
    found, begin = Count(family), time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for trial in trials:
            found.trials += 1
            found.infinite += trial.infinite
            if trial.wrong:
                found.wrong.append(trial)
            if trial.ordinary:
                found.ordinary += 1
                found.largest = max(found.largest, trial.relative)
    found.seconds = time.perf_counter() - begin
    return found


def run(family: str, trials: int, seed: int = 0) -> Count:
    """The first ``trials`` of the family's file."""
    import numpy as np

    module = importlib.import_module(f"benchmarks.rounding_{family}")
    return count(family, itertools.islice(module.trials(np.random.default_rng(seed)), trials))


def main(arguments: Sequence[str] | None = None) -> int:
    known = families()
    parser = argparse.ArgumentParser(description="Bounds against exact arithmetic.")
    parser.add_argument("--only", nargs="+", choices=known, metavar="FAMILY", help=f"some of: {', '.join(known)}")
    parser.add_argument("--trials", type=int, default=TRIALS, help=f"for each family (default {TRIALS})")
    parser.add_argument("--seed", type=int, default=0, help="of the random numbers (default 0)")
    chosen = parser.parse_args(arguments)
    if chosen.trials < 1:
        parser.error(f"--trials is {chosen.trials}, wanted at least 1")
    print(f"{'family':<22}{'trials':>8}{'wrong':>7}{'infinite':>10}{'ordinary':>10}{'allowance':>11}{'seconds':>9}")
    good = True
    for family in chosen.only or known:
        found = run(family, chosen.trials, chosen.seed)
        print(
            f"{family:<22}{found.trials:>8}{len(found.wrong):>7}{found.infinite:>10}{found.ordinary:>10}"
            f"{found.largest:>11.1e}{found.seconds:>9.1f}",
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
