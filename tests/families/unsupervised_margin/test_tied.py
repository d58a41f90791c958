"""The relaxation with ties and known labels: its bounds against every labelling that has these labels."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from convexstruct.arrays import Labels
from convexstruct.families.unsupervised_margin import UnsupervisedMargin, tied
from convexstruct.families.unsupervised_margin.relaxed_loss import RelaxedLoss
from convexstruct.families.unsupervised_margin.tied import TiedMargin
from convexstruct.models.unsupervised_margin import indicators
from convexstruct.models.unsupervised_margin import tied as stated
from convexstruct.tolerances import HIGH, ROUNDING
from tests.families.unsupervised_margin.test_relaxed_loss import instance, mixture, value
from tests.models.unsupervised_margin.instances import INSTANCES, losses
from tests.reference import optimum

NAMES = ("chains", "three labels", "a tree", "a kernel", "points, three labels")


def partly_known(name: str, count: int) -> tuple[UnsupervisedMargin, Labels]:
    """The labels of least loss at ``count`` rows."""
    problem, every = INSTANCES[name](), losses(name)
    best = np.array(min(every, key=lambda y: every[y]))
    kept = np.random.default_rng(0).permutation(len(best))[:count]
    known = np.full(len(best), -1)
    known[kept] = best[kept]
    return problem, known


def least_loss(name: str, known: Labels) -> float:
    """Of all balanced labellings that have the known labels."""
    kappa, found = INSTANCES[name]().n_labels, []
    for y, loss in losses(name).items():
        named = (np.array(order)[list(y)] for order in itertools.permutations(range(kappa)))
        if any(((known < 0) | (known == each)).all() for each in named):
            found.append(loss)
    return min(found)


@pytest.mark.parametrize("count", [0, 1, 2, 4])
@pytest.mark.parametrize("name", NAMES)
def test_what_a_general_solver_finds_is_certified_and_below_every_labelling_that_has_the_known_labels(
    name: str, count: int
) -> None:
    problem, known = partly_known(name, count)
    said = stated(problem, known).reference()
    assert said.lower_bound <= least_loss(name, known)
    assert optimum(stated(problem, known)).certified


@pytest.mark.parametrize("size", [1e-3, 1.0, 1e6])
@pytest.mark.parametrize("name", NAMES)
def test_any_witness_is_below_and_any_point_above_and_neither_meets_the_other(name: str, size: float) -> None:
    rng = np.random.default_rng(0)
    for count in (0, 1, 3):
        problem, known = partly_known(name, count)
        at = TiedMargin(problem, known)
        shapes: dict[str, tuple[int, ...]] = {**at._multipliers, "P": (problem.n_rows,) * 2, "u": (problem.n_rows,)}
        shapes |= {key: at._shapes[key] for key in ("mu", "nu")} | {"W_pair": (problem.n_pairs,) * 2}
        lower = at.dual({key: size * rng.normal(size=shape) for key, shape in shapes.items()}).lower
        assert -np.inf < lower <= least_loss(name, known)
        upper = at.primal({key: size * rng.normal(size=shape) for key, shape in at._shapes.items()}).upper
        assert upper >= (stated(problem, known).reference().lower_bound if size == 1.0 else lower)


@pytest.mark.parametrize("seed", range(6))
def test_the_bound_of_any_witness_holds_in_fractions(seed: int) -> None:
    """Against Theorem 1's function at the witness' own mu and nu, for every balanced labelling that has the labels."""
    of, rng = instance(seed)
    problem = of.problem
    known = np.where(rng.random(problem.n_rows) < 0.3, 0, -1)
    at = TiedMargin(problem, known)
    mu, nu = mixture(of, rng)
    witness = {key: 10.0 ** rng.integers(-3, 4) * rng.normal(size=shape) for key, shape in at._multipliers.items()}
    lower = Fraction(at.dual({**witness, "mu": mu, "nu": nu}).lower)
    tried = 0
    for y in itertools.product(range(problem.n_labels), repeat=problem.n_rows):
        given = indicators(problem, y)
        if ((known < 0) | (known == y)).all() and max(problem.residuals(given).values()) <= ROUNDING:
            assert lower <= value(RelaxedLoss(problem, given), mu, nu)
            tried += 1
    assert tried


@pytest.mark.parametrize("count", [0, 1, 3])
@pytest.mark.parametrize("name", NAMES)
def test_the_point_inside_is_a_balanced_mean_of_all_labellings_that_have_the_known_labels(
    name: str, count: int
) -> None:
    problem, known = partly_known(name, count)
    every = itertools.product(range(problem.n_labels), repeat=problem.n_rows)
    some = [np.array(y) for y in every if ((known < 0) | (known == y)).all()]
    at = TiedMargin(problem, known)
    weights = [float(np.prod(at.shares[y[known < 0]])) for y in some]
    each = [indicators(problem, y) for y in some]
    for key in each[0]:
        mean = sum(weight * one[key] for weight, one in zip(weights, each))
        moved = np.abs(at._inside[key] - mean)
        assert moved.max(initial=0.0) <= (0.05 if key == "N" else ROUNDING)  # N is moved off the border of (11)
    if (np.bincount(known[known >= 0], minlength=problem.n_labels) <= problem.n_rows / problem.n_labels).all():
        assert at._inside["C"].mean(axis=0) == pytest.approx(1.0 / problem.n_labels, abs=0.1 / problem.n_labels)


def test_known_labels_out_of_balance_leave_a_point_inside_where_the_others_make_up_for_them() -> None:
    """Independent uniform labels would give the known rows sums of 3 + 5/2 of 8, where 4 +- 1.2 are wanted."""
    problem = UnsupervisedMargin.multiclass(np.eye(8), 2, 1.0, 0.15)
    at = TiedMargin(problem, np.array([0, 0, 0, -1, -1, -1, -1, -1]))
    np.testing.assert_allclose(at.shares, [0.2, 0.8])
    point = at.trivial()[0]
    assert np.isfinite(at.primal(point).upper)
    assert max(at.residuals(point).values()) <= ROUNDING


@pytest.mark.parametrize("name", NAMES)
def test_a_labelling_is_as_prescribed_and_slack_is_not_below_0(name: str) -> None:
    problem, known = partly_known(name, 2)
    at = TiedMargin(problem, known)
    y = np.array(min(losses(name), key=lambda one: losses(name)[one]))
    point = {**at.trivial()[0], **indicators(problem, y)}
    assert max(at.residuals(point).values()) <= ROUNDING
    changed = {**point, "C": point["C"][:, ::-1]}
    assert at.residuals(changed)["entries not as prescribed"] == 1.0


@pytest.mark.parametrize("block", ["Z_C", "Z_D"])
def test_a_dual_point_that_is_not_made_feasible_claims_more_than_the_least_loss(
    block: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem, known = partly_known("chains", 1)
    at = TiedMargin(problem, known)
    witness: dict[str, Any] = {**at.trivial()[1], block: -1e3 * np.eye(at._multipliers[block][0])}
    assert at.dual(witness).lower <= least_loss("chains", known)
    monkeypatch.setattr(tied, "least_eigenvalue", lambda matrix, error=0.0: 0.0)
    assert at.dual(witness).lower > least_loss("chains", known)


def test_a_tie_left_out_of_the_repair_is_seen() -> None:
    """M_c(k)p(k) = sum_u D_k(u, u) at the point that is repaired from M = I, which violates it."""
    problem, known = partly_known("chains", 1)
    at = TiedMargin(problem, known)
    found = at.repair({**at.trivial()[0], "M": np.eye(problem.n_rows)})
    same = found["D"][:, [0, 3]].sum(axis=1)
    np.testing.assert_allclose(found["M"][problem.current, problem.previous], same, atol=HIGH.feasibility)
    assert max(at.residuals(found).values()) <= ROUNDING


def test_what_is_not_finite_has_no_bound() -> None:
    problem, known = partly_known("chains", 1)
    at = TiedMargin(problem, known)
    point, witness = at.trivial()
    assert at.primal({**point, "M": np.full_like(point["M"], np.nan)}).upper == np.inf
    assert at.dual({**witness, "mu": np.full_like(point["mu"], np.inf)}).lower == -np.inf
