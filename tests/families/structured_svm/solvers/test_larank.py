"""LaRank: steps best on their pair, a dual value that never falls, and the bounds on the number of steps."""

from __future__ import annotations

import math

import pytest

from convexstruct.families.structured_svm.solvers.larank import LaRank
from tests.families.structured_svm.solvers.references import radius, reference

NAMES = (
    "chains, weighted, a cost matrix, C_mean", "slack scaling, weighted, a cost matrix", "trees, weighted",
    "associative chains, three labels",
)  # fmt: skip


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
