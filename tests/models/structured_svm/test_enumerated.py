"""Papers 1, 3 and 4 in CVXPY: on instances that can be written out, every formulation gives one optimum."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from convexstruct.core.scale import Scale
from convexstruct.core.solution import Status
from convexstruct.families.structured_svm.problem import StructuredSVM
from convexstruct.models import FORMULATIONS
from convexstruct.models.structured_svm import enumerated as structured_svm
from convexstruct.models.structured_svm import hard as structured_svm_hard
from convexstruct.models.structured_svm.enumerated import MarginRows
from convexstruct.tolerances import HIGH, LOW
from tests.models.structured_svm.instances import COSTS, DECOMPOSABLE, INSTANCES, svm
from tests.reference import SOLVERS, agrees, certified_optimum, close, optimum

OWN = {name.split(".")[1]: entry for name, entry in FORMULATIONS.items() if name.startswith("structured_svm.")}
ONE_PROGRAM = [name for name in OWN if not name.endswith("cuts")]
EXACT_FOR_ALL = [name for name in ONE_PROGRAM if OWN[name].optimum == "p*" and OWN[name].enumerated]


@cache
def instance(name: str) -> tuple[StructuredSVM, float]:
    """An instance and its p*, certified from both sides by the enumerated primal."""
    problem = INSTANCES[name]()
    return problem, certified_optimum(structured_svm.n_slack(problem))


@pytest.mark.parametrize(
    ("name", "formulation"),
    [(name, each) for i, name in enumerate(INSTANCES) for j, each in enumerate(EXACT_FOR_ALL) if (i + j) % 2 == 0],
)
def test_what_is_written_out_has_one_optimum_and_certifies_itself(name: str, formulation: str) -> None:
    problem, expected = instance(name)
    agrees(OWN[formulation].builder(problem), expected, "CLARABEL")


def test_a_multi_class_svm_of_one_feature_has_the_optimum_found_by_hand() -> None:
    """One example, two labels, x = 1: P(w) = |w|^2 / 2 + C max(0, 1 - (w_0 - w_1)); w = (t, -t), t = min(1/2, C)."""
    for C, expected in ((10.0, 0.25), (0.2, 0.04 + 0.2 * (1 - 0.4))):
        problem = StructuredSVM.read([np.ones((1, 1))], [[0]], 2, edges="none", C=C)
        for build in (structured_svm.n_slack, structured_svm.dual_alpha, structured_svm_hard.hm_svm):
            assert close(optimum(build(problem)).value, expected)
    assert close(optimum(structured_svm_hard.hard_margin(problem)).value, 0.25)


# -- slack scaling -----------------------------------------------------------------------------------------------------


def test_slack_scaling_without_xi_above_0_pays_for_margins_beyond_1() -> None:
    """The slides leave xi >= 0 out. Then xi_i = max over E_i(y) > 0 of E_i(y) (1 - <w, df_i(y)>) may be negative."""
    problem = svm(22, scaling="slack", noise=0.0, C=10.0)
    formulation = structured_svm.n_slack(problem)
    expected = optimum(formulation).value
    without = formulation.without("xi")
    assert optimum(without).value < expected - LOW.gap * abs(expected)
    assert np.min(formulation.variables["xi"].value) < -LOW.gap
    assert (formulation.variables["xi"].value < 0).any()


def test_under_margin_scaling_the_row_of_the_truth_says_xi_above_0() -> None:
    problem = svm(22, noise=0.0, C=10.0)
    formulation = structured_svm.n_slack(problem)
    expected = optimum(formulation).value
    assert "xi" not in formulation.equations
    xi = formulation.variables["xi"]
    assert close(optimum(formulation.adding("xi", xi >= 0)).value, expected)


def test_with_the_zero_one_loss_both_scalings_and_the_hm_svm_are_one_problem() -> None:
    values = [
        optimum(structured_svm.n_slack(svm(20, loss="zero_one", scaling=scaling))).value
        for scaling in ("margin", "slack")
    ]
    assert close(values[0], values[1])
    hamming = svm(20)
    hidden_markov = structured_svm_hard.hm_svm(hamming)
    assert close(optimum(hidden_markov).value, values[0])
    assert not close(optimum(structured_svm.n_slack(hamming)).value, values[0], LOW.gap)
    solution = hidden_markov.solve()
    assert solution.status is Status.OPTIMAL
    assert close(solution.lower_bound, values[0])


# -- the hard margin ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scaling", ["margin", "slack"])
@pytest.mark.parametrize("loss", ["zero_one", "hamming", "costs"])
def test_the_hard_margin_is_the_soft_one_once_c_exceeds_the_multipliers(loss: str, scaling: str) -> None:
    given, associative = COSTS if loss == "costs" else loss, (loss == "hamming") == (scaling == "slack")
    problem = svm(4, loss=given, scaling=scaling, weighted=True, associative=associative, n_features=6, noise=0.2)
    formulation = structured_svm_hard.hard_margin(problem)
    hard = optimum(formulation).value
    solution = formulation.solve()
    assert solution.status is Status.OPTIMAL, solution.message
    assert close(solution.primal, hard)
    assert formulation.recover is not None
    least = formulation.recover(formulation).problem
    assert isinstance(least, StructuredSVM)
    slack = structured_svm.n_slack(problem)
    slack.parameters["C"].value = 1.5 * least.scale.C
    assert close(optimum(slack).value, hard)
    assert np.max(slack.variables["xi"].value) < HIGH.feasibility
    if least.scale.C > problem.scale.C:  # the least C that will do: with less, some slack pays
        slack.parameters["C"].value = 0.5 * least.scale.C
        assert optimum(slack).value < hard - LOW.gap * hard


def test_data_that_no_w_separates_make_the_hard_margin_infeasible_and_it_says_so() -> None:
    twins = StructuredSVM.read([np.ones((1, 2))] * 2, [[0], [1]], edges="none", C=1.0)
    for solver in SOLVERS:
        solution = structured_svm_hard.hard_margin(twins).solve(solver)
        assert solution.status is Status.INFEASIBLE
        assert "infeasible" in solution.message
        assert solution.primal == np.inf
    assert structured_svm.n_slack(twins).solve().status is Status.OPTIMAL


def test_one_label_leaves_nothing_to_learn() -> None:
    problem = svm(0, n_labels=1)
    for name in [*EXACT_FOR_ALL, "hard_margin", "hm_svm", "marginals"]:
        solution = OWN[name].builder(problem).solve()
        assert solution.status is Status.OPTIMAL, f"{name}: {solution.message}"
        assert abs(solution.primal) <= HIGH.gap


def test_a_labelling_whose_loss_is_zero_makes_no_constraint_under_slack_scaling() -> None:
    free = np.array([[0.0, 0.0, 1.0], [1.0, 0.0, 1.0], [1.0, 1.0, 0.0]])
    problem = svm(3, loss=free, scaling="slack")
    values = [optimum(build(problem)).value for build in (structured_svm.n_slack, structured_svm.dual_alpha)]
    assert close(values[0], values[1])
    rows = MarginRows(problem)
    assert len(rows.stated) < len(rows.loss) - problem.n_examples
    assert close(structured_svm.n_slack(problem).solve().lower_bound, values[0])


# -- scales, parameters, display ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "expected"),
    [({"C": 0.6}, Scale(1.0, 0.6)), ({"C_mean": 2.4}, Scale(1.0, 0.6)), ({"lam": 0.1}, Scale(0.1, 0.25))],
)
def test_every_convention_states_its_own_values(given: dict[str, Any], expected: Scale) -> None:
    problem = svm(0, **given)
    formulation = structured_svm.n_slack(problem)
    assert formulation.parameters["lam"].value == pytest.approx(expected.lam)
    assert formulation.parameters["C"].value == pytest.approx(expected.C)
    same = structured_svm.n_slack(svm(0, beta=expected.lam / expected.C))
    assert close(optimum(formulation).value, expected.C * optimum(same).value)


@pytest.mark.parametrize("scale", [Scale(1.0, 1e3), Scale(1e-2, 1e-4), Scale(1e3, 1e3)])
@pytest.mark.parametrize("name", ["chains, one of length 1, Hamming", "slack scaling, Hamming", "cycles"])
def test_at_large_and_small_c_the_forms_agree_and_certify_themselves(name: str, scale: Scale) -> None:
    problem = replace(INSTANCES[name](), scale=scale)
    expected = structured_svm.n_slack(problem).solve().primal
    for form in ("n_slack", "dual_alpha", "dual_kernel", *(["marginals"] if name in DECOMPOSABLE else [])):
        solution = OWN[form].builder(problem).solve()
        assert solution.status is Status.OPTIMAL, f"{form}: {solution.message}"
        assert close(solution.primal, expected)
