"""Paper 4, 20.6: pseudolikelihood is consistent (Theorem 20.6.2), and misled by strongly tied pairs (Example 20.6.3).

Left: an Ising model on a 3 x 3 grid, fitted to M exact samples of it by likelihood and by pseudolikelihood. Both errors
fall as 1 / sqrt(M). The last row is a 30 x 30 grid, whose junction tree is too wide for likelihood.

Right: the example. X1 and X2 nearly always agree, and each depends weakly on Y. Fitted as a conditional model of X1 and
X2 (Y is the input), pseudolikelihood predicts X1 from X2 and X2 from X1: the stronger the tie, the less is left for Y
to explain, and under the same penalty the weights of Y shrink. Likelihood predicts X1 and X2 together.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure

from convexstruct.arrays import Matrix, Vector
from convexstruct.core.driver import solve
from convexstruct.core.experiment import Sheet, standard_error
from convexstruct.core.solution import Solution
from convexstruct.families.log_linear.examples import image, ising
from convexstruct.families.log_linear.markov_field import MarkovRandomField
from convexstruct.families.log_linear.pseudolikelihood import PseudoLikelihood
from convexstruct.features.graphs.factors import Factors, factors_of_features
from convexstruct.inference.factor_graphs import FactorInference
from convexstruct.inference.gibbs import Gibbs
from convexstruct.oracles.enumeration import labellings
from convexstruct.plots import GREY, LOWER, UPPER, finish, panels
from convexstruct.tolerances import HIGH

NAME = "pseudolikelihood"
PAPER = "paper 4, Theorem 20.6.2 and Example 20.6.3"
TITLE = "Pseudolikelihood: consistent, and misled by strongly tied pairs"
COLUMNS = (
    "model", "tie or M", "draws", "likelihood", "its se", "pseudolikelihood", "se of that", "truth", "largest gap",
)  # fmt: skip

#: Samples M, and draws of each; the parameters' standard deviation in nats.
SIZES, DRAWS, SPREAD = (100, 400, 1600, 6400, 25600), 10, 0.5
QUICK_SIZES, QUICK_DRAWS = (100, 400, 1600), 3
#: beta of the penalty, negligible beside M: it only ensures that every draw has a minimum.
BETA = 0.01
#: The wide grid: side, samples, Gibbs sweeps of each from a uniform start, and the tied coupling and field.
SIDE, WIDE_SAMPLES, SWEEPS, WIDE = 30, 50, 300, (0.3, 0.1)
QUICK_SIDE, QUICK_SWEEPS = 12, 100
#: The example: weights of the tie X1 = X2, of X1 = Y and X2 = Y, samples, draws, and beta of both models.
TIES, WEAK, PAIRS, TIED_DRAWS, TIED_BETA = (0.0, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0), 0.4, 200, 20, 5.0
QUICK_TIES, QUICK_TIED_DRAWS = (0.0, 3.0, 8.0), 5


class Pair(NamedTuple):
    """One quantity by likelihood and by pseudolikelihood, draw by draw, and the largest certified gap of the fits."""

    likelihood: Vector
    pseudo: Vector
    gap: float

    @classmethod
    def of(cls, fits: Iterable[tuple[Solution, Solution, Callable[[Vector], float]]]) -> Pair:
        """Both solutions of each draw, and the quantity of their theta."""
        found, gap = [], 0.0
        for *both, quantity in fits:
            gap = max(gap, *(one.gap for one in both))
            found.append([quantity(one.point["theta"]) for one in both])
        likelihood, pseudo = np.array(found).T
        return cls(likelihood, pseudo, gap)

    def means(self) -> Matrix:
        """The mean over draws and its standard error, of likelihood and of pseudolikelihood; (2, 2)."""
        return np.array([(each.mean(), standard_error(each)) for each in (self.likelihood, self.pseudo)])


def consistency(size: int, draws: int, seed: int) -> Pair:
    """|theta - theta*| / sqrt(d) of likelihood and of pseudolikelihood, for each draw of ``size`` samples."""
    factors = ising(image(3, 3))
    oracle = FactorInference(factors)

    def fit(draw: int) -> tuple[Solution, Solution, Callable[[Vector], float]]:
        truth = SPREAD * np.random.default_rng([seed, draw]).normal(size=factors.dimension)
        samples = oracle.sample(np.asarray(factors.design @ truth), size, np.random.default_rng([seed, draw, size]))
        first, second = (
            solve(kind.read(factors, samples, beta=BETA), tol=HIGH) for kind in (MarkovRandomField, PseudoLikelihood)
        )
        return first, second, lambda theta: float(np.linalg.norm(theta - truth)) / math.sqrt(len(truth))

    return Pair.of(map(fit, range(draws)))


def wide(side: int, sweeps: int, seed: int) -> tuple[float, float]:
    """|theta - theta*| / sqrt(2) of pseudolikelihood on a wide grid of tied parameters, and its certified gap."""
    factors = ising(image(side, side), tied=True)
    truth, rng = np.array(WIDE), np.random.default_rng([seed, side])
    start = rng.integers(2, size=(WIDE_SAMPLES, side * side))
    samples = Gibbs(factors).sweeps(np.asarray(factors.design @ truth), start, sweeps, rng)
    found = solve(PseudoLikelihood.read(factors, samples, beta=BETA), tol=HIGH)
    return float(np.linalg.norm(found.point["theta"] - truth)) / math.sqrt(2), found.gap


#: X1, X2 and Y are variables 0, 1 and 2.
def tied_pair() -> Factors:
    """A feature for X1 = X2, one for X1 = Y and one for X2 = Y."""
    return factors_of_features([2, 2, 2], [[(pair, np.eye(2))] for pair in ((0, 1), (0, 2), (1, 2))])


def follows(theta: Vector) -> float:
    """P(X1 = 1 | Y = 1), X2 summed out; P(X1 = 0 | Y = 0) is the same."""
    factors = tied_pair()
    every = labellings(factors.cards)
    p = np.exp(factors.scores(theta, every))
    given = every[:, 2] == 1
    return float(p[given & (every[:, 0] == 1)].sum() / p[given].sum())


def merged() -> Factors:
    """The same features with X1 and X2 as one variable of four labels, 2 X1 + X2. Its conditional given Y is the
    joint one of X1 and X2, so that its pseudolikelihood is the likelihood of a conditional random field."""
    first, second = np.arange(4)[:, None] // 2, np.arange(4)[:, None] % 2
    y = np.arange(2)
    features = (first == second) & (y >= 0), first == y, second == y
    return factors_of_features([4, 2], [[((0, 1), each.astype(float))] for each in features])


def misled(tie: float, draws: int, seed: int) -> Pair:
    """P(X1 = Y) as likelihood and as pseudolikelihood learn it, for each draw."""
    factors = tied_pair()
    flat = np.asarray(factors.design @ np.array([tie, WEAK, WEAK]))

    def fit(draw: int) -> tuple[Solution, Solution, Callable[[Vector], float]]:
        x = FactorInference(factors).sample(flat, PAIRS, np.random.default_rng([seed, draw]))
        whole = np.column_stack((2 * x[:, 0] + x[:, 1], x[:, 2]))
        likelihood = solve(PseudoLikelihood.read(merged(), whole, targets=[0], beta=TIED_BETA), tol=HIGH)
        pseudo = solve(PseudoLikelihood.read(factors, x, targets=[0, 1], beta=TIED_BETA), tol=HIGH)
        return likelihood, pseudo, follows

    return Pair.of(map(fit, range(draws)))


def run(sheet: Sheet) -> None:
    """Both parts; the seed draws the models and the samples."""
    sizes, draws, ties, tied_draws, side, sweeps = sheet.pick(
        (SIZES, DRAWS, TIES, TIED_DRAWS, SIDE, SWEEPS),
        (QUICK_SIZES, QUICK_DRAWS, QUICK_TIES, QUICK_TIED_DRAWS, QUICK_SIDE, QUICK_SWEEPS),
    )
    sheet.total = len(sizes) + 1 + len(ties)

    def row(name: str, at: float, pair: Pair, truth: float) -> Pair:
        sheet.add(name, at, len(pair.pseudo), *pair.means().ravel(), truth, pair.gap)
        return pair

    errors, learned = [], []
    for size in sizes:
        sheet.step(f"3 x 3 grid, {size} samples")
        errors.append(row("3 x 3 grid: error of theta", size, consistency(size, draws, sheet.seed), 0.0))
    sheet.step(f"{side} x {side} grid")
    error, gap = wide(side, sweeps, sheet.seed)
    sheet.add(f"{side} x {side} grid: error of theta", WIDE_SAMPLES, 1, None, None, error, None, 0.0, gap)
    for tie in ties:
        sheet.step(f"tie {tie:g}")
        truth = follows(np.array([tie, WEAK, WEAK]))
        learned.append(row("tied pair: P(X1 = Y)", tie, misled(tie, tied_draws, sheet.seed), truth))
    logs = np.log([[each.likelihood.mean(), each.pseudo.mean()] for each in errors])
    slopes = np.polyfit(np.log(sizes), logs, 1)[0]
    sheet.notes += [
        f"3 x 3 grid: |theta - theta*| / sqrt(d), each draw with a theta* of its own; it falls as M to the power of "
        f"{slopes[0]:.2f} (likelihood) and {slopes[1]:.2f} (pseudolikelihood), where theory says -0.5",
        f"{side} x {side} grid: one coupling and one field for all; exact likelihood is out of reach, and so are exact "
        f"samples: {WIDE_SAMPLES} chains after {sweeps} sweeps of Gibbs sampling",
        f"tied pair: {PAIRS} samples of a model with weights {WEAK:g} of X1 = Y and X2 = Y and the tie's of X1 = X2; "
        f"beta = {TIED_BETA:g}; likelihood is that of X1 and X2 together, given Y; P(X1 = Y) has X2 summed out",
        "every fit has a certified gap to the optimum of its own problem; the likelihood of the tied pair is a "
        "pseudolikelihood too, whose one target is the pair",
    ]
    sheet.left_out(f"{len(SIZES) - len(sizes)} sizes, {len(TIES) - len(ties)} ties and most draws left out")
    sheet.figures[
        "Left: error of the parameters against the number of samples, with its standard error; the line has the slope "
        "-1/2. Right: how well Y predicts X1, as learned, against the tie of X1 and X2."
    ] = picture(sizes, errors, ties, learned)


def picture(sizes: Sequence[int], errors: Sequence[Pair], ties: Sequence[float], learned: Sequence[Pair]) -> Figure:
    """Errors against samples, and P(X1 = Y) against the tie."""
    figure, (left, right) = panels(2, size=(9.0, 3.6))
    for axes, x, pairs in ((left, sizes, errors), (right, ties, learned)):
        both = np.array([one.means() for one in pairs])
        for k, colour, style, name in ((0, UPPER, "o-", "likelihood"), (1, LOWER, "s--", "pseudolikelihood")):
            axes.errorbar(x, both[:, k, 0], both[:, k, 1], fmt=style, color=colour, ms=4, lw=1.3, capsize=2, label=name)
    falling = errors[0].likelihood.mean() * np.sqrt(sizes[0] / np.array(sizes))
    left.plot(sizes, falling, color=GREY, lw=0.8, ls=":", label="slope -1/2")
    finish(left, xscale="log", yscale="log", xlabel="samples M", ylabel="error of the parameters")
    grid = np.linspace(ties[0], ties[-1], 61)
    right.plot(grid, [follows(np.array([t, WEAK, WEAK])) for t in grid], color="black", lw=0.9, label="truth")
    right.axhline(0.5, color=GREY, lw=0.8, ls=":")
    right.annotate("Y says nothing", (ties[0], 0.5), va="bottom", fontsize="small", color=GREY)
    finish(right, xlabel="tie of X1 and X2 (nats)", ylabel="P(X1 = Y) as learned")
    return figure
