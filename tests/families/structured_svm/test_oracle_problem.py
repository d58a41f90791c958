"""Structural SVMs with a user's oracle: all labellings written out are the truth, in rational arithmetic for bounds."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import convexstruct as cs
from benchmarks.exact import exactly
from convexstruct import solvers
from convexstruct.core.solution import Solution
from convexstruct.families.structured_svm.labellings import REMEMBERED
from convexstruct.families.structured_svm.oracle_cases import (
    every_labelling,
    heaviest_matching,
    marks,
    matching,
    pairs,
    permutations,
    ranking,
    summary,
    wrong_partners,
)
from convexstruct.families.structured_svm.oracle_problem import OracleSVM
from tests.models.structured_svm.instances import svm

KINDS = {"ranking": (ranking, marks), "matching": (matching, permutations), "ilp": (summary, marks)}
SERVING = [
    solvers.NSlack(block=2), solvers.OneSlack(), solvers.ColumnGeneration(), solvers.BlockFrankWolfe(),
    solvers.Subgradient(block=2), solvers.LaRank(),
]  # fmt: skip


def problem_of(kind: str, seed: int = 0) -> Any:
    return KINDS[kind][0](seed).problem


def violation(problem: OracleSVM, i: int, labels: Any, w: Any) -> Any:
    """E_i(y) - <w, df_i(y)> in rational numbers."""
    joint, lost = problem.features.met(i, labels)
    return Fraction(lost) + exactly(w) @ (exactly(joint) - exactly(problem.features.joint_truth[i]))


def best_on_ray(problem: OracleSVM, psi: Any, lost: Fraction) -> Fraction:
    """max over 0 <= t <= 1 of D(t Psi, t E)."""
    square: Fraction = psi @ psi / Fraction(problem.lam)
    t = min(Fraction(1), lost / square) if square else Fraction(1)
    return t * lost - t * t * square / 2


@settings(max_examples=12, deadline=None)
@given(st.sampled_from(list(KINDS)), st.integers(0, 2**32 - 1), st.sampled_from([0.0, 1e-3, 1.0, 1e6]))
def test_the_upper_bound_is_one_on_the_exact_objective(kind: str, seed: int, scale: float) -> None:
    problem = problem_of(kind)
    w = scale * np.random.default_rng(seed).normal(size=problem.dimension)
    exact = Fraction(problem.lam) / 2 * (exactly(w) @ exactly(w))
    for i, own in enumerate(every_labelling(problem, KINDS[kind][1])):
        exact += Fraction(float(problem.ceiling[i])) * max(violation(problem, i, labels, w) for labels in own)
    value = problem.primal({"w": w})
    assert Fraction(value.upper) >= exact
    assert value.upper <= float(exact) * (1 + 1e-5) + 1e-4
    if kind != "ilp":
        assert Fraction(value.lower) <= exact


@settings(max_examples=25, deadline=None)
@given(st.sampled_from(list(KINDS)), st.integers(0, 2**32 - 1), st.integers(1, 5))
def test_the_lower_bound_is_one_on_the_exact_dual_of_any_labellings(kind: str, seed: int, m: int) -> None:
    problem, rng = problem_of(kind), np.random.default_rng(seed)
    every = every_labelling(problem, KINDS[kind][1])
    rows = [np.concatenate([own[rng.integers(len(own))] for own in every]) for _ in range(m)]
    shares = rng.dirichlet(np.ones(m + 1), size=problem.n_examples)[:, :m].T
    bound = problem.dual({"labels": np.array(rows), "label_shares": shares})
    psi, lost = exactly(np.zeros(problem.dimension)), Fraction(0)
    for row, share in zip(rows, exactly(shares) * exactly(problem.ceiling)):
        for i, labels in enumerate(problem.features.split(row)):
            joint, own = problem.features.met(i, labels)
            lost += share[i] * Fraction(own)
            psi = psi + share[i] * (exactly(problem.features.joint_truth[i]) - exactly(joint))
    best = best_on_ray(problem, psi, lost)
    assert Fraction(bound.lower) <= best * (1 + Fraction(1, 10**14))
    assert float(best) <= bound.upper * (1 + 1e-9)


def listed(rows: Any, best: Any, exact: bool = False) -> OracleSVM:
    """One example whose labellings [0], [1], .. have the features ``rows`` and, but for the truth [0], a loss of 1."""
    return cs.StructuredSVM.from_oracle(
        lambda x, y: rows[y[0]], lambda y, z: float((y != z).any()), best, [(0, [0])], exact=exact, C=1.0
    )


@pytest.mark.parametrize("shares", [[1.0], [1.0 + 9e-10], [0.5, 0.5 + 9e-10]])
def test_shares_of_more_than_1_and_a_ray_beyond_the_point_prove_no_more(shares: list[float]) -> None:
    problem = listed([[0.0], [1e-3]], lambda x, y, w: [1])
    bound = problem.dual({"labels": np.ones((len(shares), 1), dtype=np.int64), "label_shares": np.array([shares]).T})
    optimum = 1 - Fraction(1e-3) ** 2 / 2 / Fraction(problem.lam)
    assert optimum * (1 - Fraction(1, 10**8)) <= Fraction(bound.lower) <= optimum


@pytest.mark.parametrize("seed", range(8))
def test_the_lower_bound_knows_what_cancellation_costs(seed: int) -> None:
    """Eight labellings with shares of 1/8 whose features, of 1e8, sum to about 1."""
    rows = 1e8 * np.random.default_rng(seed).normal(size=(9, 2))
    rows[8] = 8 * rows[0] - rows[1:8].sum(axis=0) + 8.0
    problem = listed(rows, lambda x, y, w: [1])
    bound = problem.dual({"labels": np.arange(1, 9)[:, None], "label_shares": np.full((8, 1), 0.125)})
    best = best_on_ray(problem, exactly(rows[0]) - exactly(rows[1:]).sum(axis=0) / 8, Fraction(1))
    assert Fraction(bound.lower) <= best <= Fraction(bound.upper) * (1 + Fraction(1, 10**9))


def test_the_truth_is_a_labelling_even_when_it_is_forgotten() -> None:
    rows = np.zeros((2 * REMEMBERED, 1))
    rows[1:] = -2.0
    problem = listed(rows, lambda x, y, w: [1], exact=True)
    assert problem.features.joint_truth == [[0.0]]
    for label in range(1, len(rows)):
        problem.features.met(0, np.array([label]))
    with pytest.raises(ValueError, match="is not exact: another labelling is better by 1 "):
        problem.most_violated(np.ones(1))
    assert replace(problem, exact=False).most_violated(np.ones(1)).violation == [0.0]


# -- what is assumed, and oracles that lie -----------------------------------------------------------------------------


def altered(best: Any, exact: bool = False, n: int = 4) -> OracleSVM:
    rng = np.random.default_rng(5)
    x = [rng.normal(size=(n, n, 2)) for _ in range(3)]
    given = [(each, heaviest_matching(each, None, np.array([1.0, -1.0]))) for each in x]
    return cs.StructuredSVM.from_oracle(pairs, wrong_partners, best, given, exact=exact, C=1.0)


def solved(best: Any, exact: bool = False) -> Solution:
    return cs.solve(altered(best, exact), max_iterations=30)


def test_the_certificate_says_what_the_upper_bound_rests_on_and_so_does_its_file(tmp_path: Path) -> None:
    solution = solved(heaviest_matching, exact=True)
    assert Solution.load(solution.save(tmp_path / "a.npz")).certificate == solution.certificate
    assert solution.certificate.assumes == "that best returns an argmax, as declared"
    assert "the upper bound assumes that best returns an argmax" in solution.message
    assert "upper bounds which best returns hold" in cs.certify(problem_of("ilp"), np.zeros(3)).assumes
    assert cs.certify(svm(0), np.zeros(svm(0).dimension)).assumes == ""


def test_an_oracle_that_declares_nothing_gives_a_lower_bound_alone() -> None:
    value = solved(heaviest_matching, exact=True).primal
    solution = solved(heaviest_matching)
    assert solution.primal == math.inf
    assert value * (1 - 1e-6) <= solution.lower_bound <= value
    assert not solution.status.solved
    assert "there is no upper bound where it returns none" in solution.message


def second_best(x: Any, y: Any, w: Any) -> Any:
    """The truth where it is asked at w = 0, and else a labelling that is not the best one."""
    return np.roll(heaviest_matching(x, y, w), 1)


def test_a_heuristic_oracle_gives_a_lower_bound_that_holds_and_is_found_out_if_declared_exact() -> None:
    value = solved(heaviest_matching, exact=True).primal
    for solver in SERVING:
        solution = cs.solve(altered(second_best), solver, max_iterations=20)
        assert 0 <= solution.lower_bound <= value
        assert solution.primal == math.inf
    with pytest.raises(ValueError, match=r"best of example \d is not exact: another labelling is better by .*, wanted"):
        solved(second_best, exact=True)


def test_a_labelling_of_the_pool_shows_that_an_answer_declared_exact_was_none() -> None:
    problem = altered(heaviest_matching, exact=True)
    w = np.array([0.3, -0.2])
    found = problem.most_violated(w)
    lazy = replace(problem, best=lambda x, y, w: y)
    assert found.violation.max() > 0  # the truth has violation 0, and the pool holds a labelling with more
    with pytest.raises(ValueError, match="is not exact: another labelling is better by"):
        lazy.most_violated(w)
    alone = altered(lambda x, y, w: y, exact=True)
    assert alone.most_violated(w).violation.max() == 0  # nothing is known of other labellings yet
    assert replace(problem, best=lambda x, y, w: y, exact=False).most_violated(w).value == found.value


def test_an_upper_bound_below_a_known_labelling_is_found_out() -> None:
    with pytest.raises(
        ValueError, match=r"returns the upper bound .*, but a labelling has the value .* wanted a bound"
    ):
        solved(lambda x, y, w: (heaviest_matching(x, y, w), -1.0))


def test_an_answer_that_is_not_exact_by_a_little_still_gives_an_upper_bound() -> None:
    """Labelling [1] is found, with a bound just below its value or declared the best; [2], not found, is better by
    1e-10."""
    problem = listed([[0.0], [1.0], [1.0 + 1e-10]], lambda x, y, w: ([1], 2.0 - 1e-11))
    exact = Fraction(problem.lam) / 2 + 1 + Fraction(1.0 + 1e-10)
    value = problem.primal({"w": np.ones(1)})
    assert exact <= Fraction(value.upper) <= exact + Fraction(2, 10**8)
    declared = replace(problem, best=lambda x, y, w: [1], exact=True).primal({"w": np.ones(1)})
    assert exact <= Fraction(declared.upper) <= exact + Fraction(2, 10**8)
    honest = replace(problem, best=lambda x, y, w: ([1], 2.0 + 1e-9)).primal({"w": np.ones(1)})
    assert honest.allowance < 1e-13


def test_an_upper_bound_that_is_loose_or_infinite_is_taken_as_it_is() -> None:
    tight = solved(heaviest_matching, exact=True)

    def loose(x: Any, y: Any, w: Any) -> Any:
        labels = heaviest_matching(x, y, w)
        return labels, float(w @ pairs(x, labels)) + (0.0 if y is None else wrong_partners(y, labels)) + 0.01

    solution = solved(loose)
    assert tight.lower_bound + 0.029 <= solution.primal <= tight.primal + 0.031
    assert solved(lambda x, y, w: (heaviest_matching(x, y, w), math.inf)).primal == math.inf


# -- the rest ----------------------------------------------------------------------------------------------------------


def test_predictions_of_new_inputs_ask_for_the_argmax_without_loss() -> None:
    problem, w = problem_of("matching"), np.array([1.0, -2.0, 0.5])
    x = np.random.default_rng(0).normal(size=(4, 4, 3))
    ((found,), own) = problem.predict(w, [x]), problem.predict({"w": w})
    np.testing.assert_array_equal(found, heaviest_matching(x, None, w))
    assert [len(y) for y in own] == [4, 5, 3, 4, 1]
