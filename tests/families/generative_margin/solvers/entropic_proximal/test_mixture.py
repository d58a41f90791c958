"""The best mixture of iterates: the linear program with all its rows, and bounds that hold."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import numpy as np
import pytest
from scipy.optimize import linprog

import convexstruct as cs
from convexstruct.datasets.generated.ring import HARD
from convexstruct.families.generative_margin.solvers.entropic_proximal import EntropicProximal, method
from convexstruct.families.generative_margin.solvers.entropic_proximal.mixture import best_mixture, mixed
from convexstruct.families.generative_margin.solvers.entropic_proximal.stage import Stage, stage_gap
from convexstruct.tolerances import MID, ROUNDING


@pytest.mark.parametrize("seed", range(5))
def test_rows_added_where_they_are_violated_give_the_program_with_all_of_them(seed: int) -> None:
    rng = np.random.default_rng(seed)
    mu, gain = rng.normal(size=(6, 300)), rng.random(6)
    c = rng.random(300) + 1e-3
    found = best_mixture(c, mu, gain)
    rows = np.vstack((np.ones(6), mu.T))
    assert gain @ found == pytest.approx(-linprog(-gain, rows, np.append(1.0, c)).fun, abs=1e-7)
    assert found.min() >= 0
    assert found.sum() <= 1 + ROUNDING
    assert (found @ mu <= c * (1 + ROUNDING)).all()


def test_mixtures_prove_bounds_that_hold_and_are_those_that_the_run_claims(monkeypatch: pytest.MonkeyPatch) -> None:
    """With mixtures as in large problems, and stages that end before v >= 0."""
    data = cs.datasets.ring(20, 20, 20, HARD, seed=1)
    problem = cs.GenerativeMargin.hmm(data.symbols, data.states, 20, data.n_symbols, eta=0.1, loss="ring")
    optimum = cs.solve(problem, tol=MID)
    monkeypatch.setattr(method, "LARGEST_DENSE", 0)
    atoms = set()
    for iterate in itertools.islice(EntropicProximal(max_steps=12).iterate(problem), 12):
        if isinstance(iterate.dual_point, Mapping):
            atoms.add(len(iterate.dual_point["gibbs"]))
            bound = problem.dual(iterate.dual_point)
            assert bound.lower <= optimum.primal
            assert bound == pytest.approx(iterate.lower_bound, rel=1e-8)
    assert max(atoms) > 1


def test_with_one_iterate_the_gap_is_that_of_the_stage() -> None:
    data = cs.datasets.ring(4, 6, n_states=4, seed=1)
    problem = cs.GenerativeMargin.hmm(data.symbols, data.states, 4, data.n_symbols, eta=0.3, loss="ring")
    run = method.Run(EntropicProximal(), problem, None)
    for _ in range(3):
        stage = Stage(problem, run.measure, run.tau, problem.c, 1e-9, run.space)
        run.stage()
        value = stage.at(run.x)
        gap, shares = mixed(problem, [value])
        assert gap == pytest.approx(stage_gap(problem, value, run.space), rel=1e-6, abs=1e-9)
        assert 0 < shares[0] <= 1
