"""LaRank: steps best on their pair, a dual value that never falls, and the bounds on the number of steps."""

from __future__ import annotations

import math

import numpy as np
import pytest

from convexstruct.families.structured_svm.solvers import larank
from convexstruct.families.structured_svm.solvers.example_blocks import example_blocks
from convexstruct.families.structured_svm.solvers.larank import LaRank
from convexstruct.tolerances import ROUNDING
from tests.families.structured_svm.solvers.references import radius, reference

NAMES = (
    "chains, weighted, a cost matrix, C_mean", "slack scaling, weighted, a cost matrix", "trees, weighted",
    "associative chains, three labels",
)  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_a_step_is_the_best_on_its_pair_and_keeps_the_mass_of_its_example(name: str) -> None:
    problem, _ = reference(name)
    run = larank._Run(problem, 1e-9)
    supports = [larank._Support(block) for block in example_blocks(problem, 1)]
    for _ in range(6):
        for support in supports:
            up = support.find(support.block.most_violated(run.w).labels)
            shares, psi, lost, before = list(support.alpha), run.psi.copy(), run.lost, run.bound
            moved = run.step(support, up)
            np.testing.assert_allclose(run.w, problem.project(run.psi) / problem.lam, atol=ROUNDING)
            assert sum(support.alpha) == pytest.approx(sum(shares), rel=1e-12)
            assert min(support.alpha) >= 0.0
            change, tau = run.psi - psi, support.alpha[up] - shares[up]
            if not moved:
                assert tau == 0.0
                continue
            most = shares[int(np.argmin(np.array(support.alpha) - shares))]
            values = [
                problem.dual_value(psi + t * change / tau, lost + t * (run.lost - lost) / tau)
                for t in np.linspace(0.0, most, 101)
            ]
            assert run.bound > before
            if not problem.features.nonnegative.any():
                assert run.bound >= max(values) - ROUNDING * max(1.0, abs(run.bound))
            support.drop_empty()


def test_a_pass_without_a_step_ends_within_eps_of_the_mass() -> None:
    problem, expected = reference("trees, weighted")
    eps = 1e-3
    *_, last = LaRank(eps=eps).iterate(problem)
    assert last.done
    slack = eps * float(problem.ceiling.sum())
    assert expected - slack - 1e-7 <= last.lower_bound <= expected + 1e-7
    assert last.primal - last.lower_bound <= slack * (1 + 1e-9)


@pytest.mark.parametrize("name", NAMES[:3])
@pytest.mark.parametrize("eps", [0.3, 0.03])
def test_the_steps_stay_below_their_bounds(name: str, eps: float) -> None:
    problem, _ = reference(name)
    *_, last = LaRank(eps=eps).iterate(problem)
    steps, cut = (int(last.message.split()[at]) for at in (0, 2))
    highest = float(problem.ceiling @ problem.loss.most)
    assert steps - cut <= math.ceil(2.0 * (2.0 * radius(problem)) ** 2 * highest / (problem.lam * eps**2))
