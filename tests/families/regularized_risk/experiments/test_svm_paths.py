"""Paths of solvers: the best iterate counts, limits end a run, and a planted rate is found by the fit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pytest

from convexstruct.core.driver import solve
from convexstruct.core.iterate import Iterate
from convexstruct.core.solution import Solution
from convexstruct.datasets.generated.margins import dense_margins
from convexstruct.families.regularized_risk.experiments.svm_paths import HeldOut, Limits, Path, follow, liblinear, rate
from convexstruct.families.regularized_risk.problem import RegularizedRisk
from convexstruct.tolerances import HIGH, LOW

MADE = dense_margins(80, 3, seed=2)
PROBLEM = RegularizedRisk.binary(MADE.features[:40], MADE.labels[:40], 0.05)
TEST = HeldOut(MADE.features[40:], MADE.labels[40:])


@dataclass(frozen=True)
class Script:
    """A solver that yields given multiples of one point, and then says that it is done."""

    w: tuple[float, ...]
    scales: tuple[float, ...]

    def iterate(self, problem: RegularizedRisk, start: Solution | None = None) -> Iterator[Iterate]:
        for at, scale in enumerate(self.scales):
            w = scale * np.array(self.w)
            yield Iterate({"w": w}, None, np.inf, -np.inf, done=at == len(self.scales) - 1)


def test_the_best_iterate_so_far_counts_for_objective_and_accuracy() -> None:
    exact = solve(PROBLEM, tol=HIGH)
    w = exact.point["w"]
    script = Script(tuple(w), (-1.0, 1.0, 3.0, 0.0))
    path = follow(script, PROBLEM, TEST, Limits(10.0, 100, -1.0), exact.lower_bound)
    values = [PROBLEM.value(scale * w) for scale in script.scales]
    assert path.value == pytest.approx(list(np.minimum.accumulate(values)))
    right = np.sign(TEST.features @ w) == TEST.labels
    assert path.accuracy == pytest.approx([1 - right.mean(), *[right.mean()] * 3])
    assert path.iteration == [1, 2, 3, 4]
    assert sorted(path.seconds) == path.seconds


@pytest.mark.parametrize("power", [1.0, 0.5, 0.1])
def test_a_planted_rate_is_found(power: float) -> None:
    iteration = np.unique(np.geomspace(1, 10_000, 80).astype(int))
    path = Path()
    for k in iteration:
        path.add(int(k), 0.0, 1.0 + 5.0 * k ** (-1 / power), float)
    fitted = rate(path, 1.0)
    assert fitted is not None
    assert fitted[0] == pytest.approx(power, rel=0.02)
    assert fitted[1] > fitted[2]
    assert rate(Path([1], [0.0], [2.0], [0.5]), 1.0) is None


def test_liblinear_solves_the_same_problem() -> None:
    pytest.importorskip("sklearn")
    exact = solve(PROBLEM, tol=HIGH)
    path = liblinear(PROBLEM, TEST, Limits(5.0, 10_000, HIGH.gap), exact.lower_bound)
    assert path is not None
    assert path.value[-1] == pytest.approx(exact.primal, rel=LOW.gap)
    assert path.value[-1] >= exact.lower_bound
    assert path.accuracy[-1] > 0.5
