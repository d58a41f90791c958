"""The kernel CRF beside the CRF, on made-up chains."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from convexstruct.arrays import Labels, Matrix
from convexstruct.core.driver import solve
from convexstruct.core.experiment import Sheet
from convexstruct.datasets.real.protein import protein
from convexstruct.datasets.real.sources import VARIABLE
from convexstruct.families.gaussian_process.experiments import gp_sequence
from convexstruct.families.gaussian_process.experiments.gp_sequence import Choice, explicit, weights
from convexstruct.families.gaussian_process.kernels import Kernel
from convexstruct.families.gaussian_process.problem import GaussianProcessSequences
from convexstruct.oracles.enumeration import chain_factors, log_partition
from convexstruct.tolerances import HIGH, MID, ROUNDING
from tests.families.quick_runs import run


def small(seed: int) -> tuple[list[Matrix], list[Labels]]:
    """Inputs and labels of three sequences, three labels."""
    rng = np.random.default_rng(seed)
    lengths = (3, 1, 4)
    inputs = [rng.normal(size=(length, 2)) for length in lengths]
    return inputs, [rng.integers(3, size=length) for length in lengths]


@pytest.mark.parametrize("eta", [0.7, 1.0, 3.0])
def test_the_crf_in_explicit_features_is_its_formula(eta: float) -> None:
    inputs, labels = small(0)
    crf = explicit(inputs, labels, 3, eta, 0.8)
    theta = np.random.default_rng(0).normal(size=crf.dimension)
    w, v = weights(crf, theta, eta)
    naive = 0.4 * ((w**2).sum() + (v**2).sum() / eta)
    for x, y in zip(inputs, labels):
        node = x @ w
        naive += log_partition(*chain_factors(node, v))
        naive -= node[np.arange(len(y)), y].sum() + v[y[:-1], y[1:]].sum()
    assert crf.primal(crf.as_point(theta)) == pytest.approx(naive, rel=ROUNDING)


@pytest.mark.parametrize("eta", [0.7, 1.0, 3.0])
def test_the_kernel_crf_with_a_linear_kernel_is_the_crf(eta: float) -> None:
    inputs, labels = small(1)
    crf = explicit(inputs, labels, 3, eta, 0.8)
    fitted = solve(crf, tol=1e-9)
    problem = GaussianProcessSequences.read(inputs, labels, 3, kernel="linear", eta=eta, lam=0.8)
    solution = solve(problem, tol=1e-9)
    assert fitted.gap <= 1e-9
    assert max(fitted.lower_bound, solution.lower_bound) <= min(fitted.primal, solution.primal)
    assert problem.gram.inputs is not None
    label, transition = problem.split(solution.point["u"])
    w, v = weights(crf, fitted.point["theta"], eta)
    assert w == pytest.approx(problem.gram.inputs.T @ label, abs=10 * MID.gap)
    assert v == pytest.approx(eta * transition, abs=10 * MID.gap)


def test_with_another_kernel_it_is_not() -> None:
    inputs, labels = small(2)
    problem = GaussianProcessSequences.read(inputs, labels, 3, kernel="rbf", eta=0.7, lam=0.8)
    assert abs(solve(problem).primal - solve(explicit(inputs, labels, 3, 0.7, 0.8)).primal) > MID.gap


def test_without_the_real_chains_generated_ones_stand_in_and_it_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    result = run("gp-sequence", protein=protein, GENERATED=(4, 2)).result
    text = " ".join(result.notes)
    assert "generated chains stand in" in text
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
    train = gp_sequence.generated(6, [0])
    grid = [Choice(Kernel("linear"), lam) for lam in (1e-3, 30.0)] + [Choice(Kernel("rbf", 0.05), 0.3)]
    each = [gp_sequence.validated(train, [choice], Sheet())[1] or 0.0 for choice in grid]
    assert len(set(each)) > 1
    assert gp_sequence.validated(train, grid, Sheet()) == (grid[each.index(max(each))], max(each))


def test_generated_chains_are_reproducible_and_learnable() -> None:
    first, again, other = (gp_sequence.generated(3, [seed]) for seed in (0, 0, 1))
    assert all(np.array_equal(a, b) for a, b in zip(first.residues, again.residues))
    assert not all(np.array_equal(a, b) for a, b in zip(first.structures, other.structures))
    assert all(40 <= len(chain) <= 80 for chain in gp_sequence.generated(20, [2]).residues)
