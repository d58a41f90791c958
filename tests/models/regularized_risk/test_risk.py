"""Paper 2 in CVXPY: for every loss all formulations with the same optimum agree, and changed ones do not."""

from __future__ import annotations

import itertools
from functools import cache

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from convexstruct.core.solution import Status
from convexstruct.families.regularized_risk.problem import RegularizedRisk
from convexstruct.models import FORMULATIONS, Formulation, equation
from convexstruct.models.regularized_risk import risk as regularized_risk
from convexstruct.models.regularized_risk.support_vectors import svm_dual
from convexstruct.tolerances import HIGH, ROUNDING
from tests.models.regularized_risk.risks import INSTANCES, SIGNS, binary, features
from tests.reference import agrees, certified_optimum, close, optimum, same_optimum, stated


@cache
def instance(name: str) -> tuple[RegularizedRisk, float]:
    """An instance and its p*, certified from both sides by the primal."""
    problem = INSTANCES[name]()
    return problem, certified_optimum(regularized_risk.primal(problem))


@pytest.mark.parametrize(("name", "formulation", "solver"), same_optimum("regularized_risk", INSTANCES))
def test_every_formulation_has_the_same_optimum_and_certifies_itself(name: str, formulation: str, solver: str) -> None:
    problem, expected = instance(name)
    built = FORMULATIONS[formulation].builder(problem)
    agrees(built, expected, solver)
    assert all(part.latex for part in built.parts.values())


@pytest.mark.parametrize(("name", "formulation"), [*zip(INSTANCES, itertools.cycle(("svm", "svm_dual")))])
def test_with_c_for_lam_the_optimum_is_p_over_lam(name: str, formulation: str) -> None:
    problem, expected = instance(name)
    built = stated(f"regularized_risk.{formulation}", problem)
    said = optimum(built)
    assert said.certified
    assert close(said.value, expected / problem.lam)
    assert "None" not in built.latex
    total = problem.X.shape[0] if problem.loss.kind != "pieces" else problem.loss.n_groups
    total = total if problem.weights is None else problem.weights.sum()
    assert built.parameters["C"].value == pytest.approx(1 / (problem.lam * total), rel=ROUNDING)


def test_the_textbook_dual_of_a_support_vector_machine_is_the_one_written_out() -> None:
    """max sum a - 1/2 |sum a_i y_i x_i|^2, 0 <= a <= C, with bias y'a = 0, stated anew here."""
    x, C = features(), 0.7
    for bias in (False, True):
        problem = RegularizedRisk.binary(x, SIGNS, 1 / (6 * C), bias=bias)
        a = cp.Variable(6)
        by_hand = Formulation(
            "by hand",
            cp.Maximize(cp.sum(a) - cp.sum_squares(x.T @ cp.multiply(SIGNS, a)) / 2),
            "",
            {"box": equation([a >= 0, a <= C] + [SIGNS @ a == 0] * bias, "")},
            {"a": a},
        )
        built = svm_dual(problem)
        assert built.parameters["C"].value == pytest.approx(C, rel=ROUNDING)
        assert close(optimum(built).value, optimum(by_hand).value)


def test_the_multipliers_are_the_adjoints_variables() -> None:
    """alpha from (2) and from v = A w, w from (11), the bias from its condition in (20): each is optimal."""
    problem, expected = instance("binary, bias, weighted")
    for name, label, sign in (("primal", "2", 1.0), ("nesterov", "17", -1.0)):
        built = stated(f"regularized_risk.{name}", problem)
        optimum(built)
        alpha = sign * np.asarray(built.dual_values[label])
        assert max(problem.dual_residuals({"alpha": alpha}).values()) <= HIGH.feasibility
        assert close(problem.dual({"alpha": alpha}), expected)
    built = regularized_risk.adjoint(problem)
    optimum(built)
    w, b = built.variables["w"].value, -np.asarray(built.dual_values["bias"])
    assert close(problem.value(w, b), expected)
    np.testing.assert_allclose(w, problem.primal_of(built.variables["alpha"].value), atol=HIGH.feasibility)


@settings(max_examples=15, deadline=None)
@given(
    kind=st.sampled_from(("binary", "bias", "multiclass", "multilabel", "ordinal", "pieces")),
    n=st.integers(2, 5),
    d=st.integers(1, 3),
    lam=st.floats(1e-2, 10.0),
    seed=st.integers(0, 2**32 - 1),
)
@example(kind="multiclass", n=2, d=2, lam=0.03125, seed=2)  # an optimum of 0.004: asked once, Clarabel misses HIGH
@example(kind="pieces", n=3, d=2, lam=0.0744360117334706, seed=2461208556)  # an optimum of 0
def test_primal_and_adjoint_close_the_bracket_whatever_the_data(
    kind: str, n: int, d: int, lam: float, seed: int
) -> None:
    """Features of a few whole numbers: empty rows, equal rows and ties are common."""
    rng = np.random.default_rng(seed)
    x = rng.integers(-2, 3, size=(n, d)).astype(np.float64)
    y = rng.permutation(np.arange(n) % 3)
    problem = {
        "binary": lambda: RegularizedRisk.binary(x, np.where(y > 0, 1, -1), lam),
        "bias": lambda: RegularizedRisk.binary(x, np.where(y > 0, 1, -1), lam, bias=True),
        "multiclass": lambda: RegularizedRisk.multiclass(x, y, lam, n_classes=3),
        "multilabel": lambda: RegularizedRisk.multilabel(x, np.eye(3, dtype=int)[y], lam),
        "ordinal": lambda: RegularizedRisk.ordinal(x, y, lam),
        "pieces": lambda: RegularizedRisk.pieces(x, rng.normal(size=n), lam, floor=bool(rng.integers(2))),
    }[kind]()
    values = []
    for build in (regularized_risk.primal, regularized_risk.adjoint):
        solution = build(problem).solve()
        assert solution.status is Status.OPTIMAL, solution.message
        values += [solution.primal, solution.lower_bound]
    assert max(values) - min(values) <= 2 * HIGH.gap * max(1.0, abs(values[0]))


def test_without_the_box_the_adjoint_is_the_hard_margin_or_has_no_bound() -> None:
    problem = RegularizedRisk.binary([[2.0], [-1.0]], [1, -1], 1.0)
    hard = regularized_risk.adjoint(problem).without("20")
    hard = hard.adding("sign", hard.variables["alpha"] >= 0)
    assert close(optimum(hard).value, 0.5)  # |w| >= 1 from the nearer of the two
    overlapping = regularized_risk.adjoint(binary()).without("20")
    alpha = overlapping.variables["alpha"]
    assert overlapping.adding("sign", alpha >= 0).reference().value == np.inf


# -- how they show themselves ------------------------------------------------------------------------------------------


def test_the_latex_says_what_the_loss_is() -> None:
    shown = regularized_risk.primal(INSTANCES["binary, bias, weighted"]()).latex
    assert r"1 - y_i (\langle w, x_i \rangle + b) \le \xi_i" in shown
    assert r"\sigma_i \xi_{i}" in shown
    assert r"\frac{1}{n} \sum_{i} \xi_{i}" in regularized_risk.primal(binary()).latex
    assert r"0 \le \alpha_{i} \le \frac{1}{n}" in regularized_risk.adjoint(binary()).latex
    assert r"\sum_i y_i \alpha_i = 0" in regularized_risk.adjoint(binary(bias=True)).latex
