"""The kernel CRF beside the CRF, on made-up chains."""

from __future__ import annotations

import numpy as np
import pytest

from convexstruct.core.driver import solve
from convexstruct.core.experiment import Sheet
from convexstruct.families.gaussian_process.experiments import gp_sequence
from convexstruct.families.gaussian_process.experiments.gp_sequence import Choice, explicit
from convexstruct.families.gaussian_process.kernels import Kernel
from convexstruct.families.gaussian_process.problem import GaussianProcessSequences
from convexstruct.oracles.enumeration import chain_factors, log_partition
from convexstruct.tolerances import HIGH, MID, ROUNDING
from tests.families.quick_runs import proteins, quick


def test_the_kernel_crf_with_a_linear_kernel_is_the_crf_and_this_its_formula() -> None:
    rng = np.random.default_rng(1)
    inputs = [rng.normal(size=(length, 2)) for length in (3, 1, 4)]
    labels = [rng.integers(3, size=length) for length in (3, 1, 4)]
    crf = explicit(inputs, labels, 3, 0.8)
    fitted = solve(crf, tol=1e-9)
    of_nodes, of_edges = crf.features.split(fitted.point["theta"])
    w, v = of_nodes.T, of_edges[0]
    naive = 0.4 * ((w**2).sum() + (v**2).sum())
    for x, y in zip(inputs, labels):
        node = x @ w
        naive += log_partition(*chain_factors(node, v))
        naive -= node[np.arange(len(y)), y].sum() + v[y[:-1], y[1:]].sum()
    assert fitted.primal == pytest.approx(naive, rel=ROUNDING)
    problem = GaussianProcessSequences.read(inputs, labels, 3, kernel="linear", lam=0.8)
    solution = solve(problem, tol=1e-9)
    assert fitted.gap <= 1e-9
    assert max(fitted.lower_bound, solution.lower_bound) <= min(fitted.primal, solution.primal)
    assert problem.gram.inputs is not None
    label, transition = problem.split(solution.point["u"])
    assert w == pytest.approx(problem.gram.inputs.T @ label, abs=10 * MID.gap)
    assert v == pytest.approx(transition, abs=10 * MID.gap)


def test_the_fast_paths_are_certified_and_the_brackets_of_both_models_meet() -> None:
    result = quick("gp-sequence").result
    text = " ".join(result.notes)
    assert "both certified brackets hold the optimum" in text
    assert "DO NOT MEET" not in text
    gaps = dict(zip(zip(result.column("model"), result.column("solver")), result.column("gap")))
    certified = [gap for (_, solver), gap in gaps.items() if solver in ("L-BFGS in theta", "L-BFGS in t")]
    assert len(certified) == 4
    assert all(isinstance(gap, float) and 0 <= gap <= HIGH.gap for gap in certified)
    worse = gaps["kernel CRF, rbf 0.05", "gradient in t"]
    assert isinstance(worse, float)
    assert worse > HIGH.gap


def test_lam_is_chosen_on_chains_held_out() -> None:
    train = proteins(6, 0, 40)
    grid = [Choice(Kernel("linear"), lam) for lam in (1e-3, 30.0)] + [Choice(Kernel("rbf", 0.05), 0.3)]
    each = [gp_sequence.validated(train, [choice], Sheet())[1] or 0.0 for choice in grid]
    assert len(set(each)) > 1
    assert gp_sequence.validated(train, grid, Sheet()) == (grid[each.index(max(each))], max(each))
