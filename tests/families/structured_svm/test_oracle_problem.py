"""Structural SVMs with a user's oracle: all labellings written out are the truth, in rational arithmetic for bounds."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import convexstruct as cs
from convexstruct import solvers
from convexstruct.core.solution import Solution, Status
from convexstruct.families.structured_svm.labellings import REMEMBERED, Labellings
from convexstruct.families.structured_svm.oracle_cases import (
    ORACLE_CASES,
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
from convexstruct.models.structured_svm.some_labellings import some_labellings
from convexstruct.verification.fingerprint import fingerprint
from tests.models.structured_svm.instances import svm

KINDS = {"ranking": (ranking, marks), "matching": (matching, permutations), "ilp": (summary, marks)}
SERVING = [solvers.NSlack(), solvers.NSlack(block=2), solvers.OneSlack(), solvers.ColumnGeneration()]
SLOW = [
    solvers.BlockFrankWolfe(),
    solvers.BlockFrankWolfe(block=1),
    solvers.Subgradient(),
    solvers.Subgradient(block=2),
]


def problem_of(kind: str, seed: int = 0) -> Any:
    return KINDS[kind][0](seed).problem


def exactly(problem: OracleSVM, kind: str, w: Any) -> Fraction:
    """P(w) over all labellings, in rational numbers."""
    total = Fraction(problem.lam) / 2 * sum((Fraction(v) ** 2 for v in w.tolist()), Fraction(0))
    for i, own in enumerate(every_labelling(problem, KINDS[kind][1])):
        total += Fraction(float(problem.ceiling[i])) * max(violation(problem, i, labels, w) for labels in own)
    return total


def violation(problem: OracleSVM, i: int, labels: Any, w: Any) -> Fraction:
    joint, lost = problem.features.met(i, labels)
    return Fraction(lost) + sum(
        (
            Fraction(v) * (Fraction(f) - Fraction(t))
            for v, f, t in zip(w.tolist(), joint.tolist(), problem.features.joint_truth[i].tolist())
        ),
        Fraction(0),
    )


@settings(max_examples=12, deadline=None)
@given(
    st.sampled_from(["ranking", "matching", "ilp"]), st.integers(0, 2**32 - 1), st.sampled_from([0.0, 1e-3, 1.0, 1e6])
)
def test_the_upper_bound_is_one_on_the_exact_objective(kind: str, seed: int, scale: float) -> None:
    problem = problem_of(kind)
    w = scale * np.random.default_rng(seed).normal(size=problem.dimension)
    value, exact = problem.primal({"w": w}), exactly(problem, kind, w)
    assert Fraction(value.upper) >= exact
    assert value.upper <= float(exact) * (1 + 1e-5) + 1e-4
    if kind != "ilp":
        assert Fraction(value.lower) <= exact


@settings(max_examples=25, deadline=None)
@given(st.sampled_from(["ranking", "matching", "ilp"]), st.integers(0, 2**32 - 1), st.integers(1, 5))
def test_the_lower_bound_is_one_on_the_exact_dual_of_any_labellings(kind: str, seed: int, m: int) -> None:
    problem, rng = problem_of(kind), np.random.default_rng(seed)
    every = every_labelling(problem, KINDS[kind][1])
    rows = [np.concatenate([own[rng.integers(len(own))] for own in every]) for _ in range(m)]
    shares = rng.dirichlet(np.ones(m + 1), size=problem.n_examples)[:, :m].T
    bound = problem.dual({"labels": np.array(rows), "label_shares": shares})
    psi, lost = [Fraction(0)] * problem.dimension, Fraction(0)
    for row, share in zip(rows, shares):
        for i, labels in enumerate(problem.features.split(row)):
            alpha = Fraction(float(problem.ceiling[i])) * Fraction(float(share[i]))
            joint, own = problem.features.met(i, labels)
            lost += alpha * Fraction(own)
            truth = problem.features.joint_truth[i]
            psi = [p + alpha * (Fraction(t) - Fraction(f)) for p, t, f in zip(psi, truth.tolist(), joint.tolist())]
    square = sum((p * p for p in psi), Fraction(0)) / Fraction(problem.lam)
    best = max(t * lost - t * t * square / 2 for t in (Fraction(0), min(Fraction(1), lost / square if square else 1)))
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
    psi = [
        Fraction(t) - sum(map(Fraction, column), Fraction(0)) / 8
        for t, column in zip(rows[0].tolist(), rows[1:].T.tolist())
    ]
    square: Fraction = sum((p * p for p in psi), Fraction(0)) / Fraction(problem.lam)
    t = Fraction(1) if square < 1 else 1 / square
    assert Fraction(bound.lower) <= t - t * t * square / 2 <= Fraction(bound.upper) * (1 + Fraction(1, 10**9))


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


def test_it_is_the_structural_svm_where_that_has_an_oracle_of_its_own() -> None:
    whole = svm(0, weighted=True)
    parts = [whole.some(np.array([i])) for i in range(whole.n_examples)]

    def best(x: int, y: Any, w: Any) -> Any:
        part, own = parts[x], w[: parts[x].dimension]  # without edges w ends before their weights
        return part.most_violated(own).labels if y is not None else part.predict(own)[0]

    def joint(x: int, y: Any) -> Any:
        found = parts[x].features.joint(y, np.ones(1))
        return np.pad(found, (0, whole.dimension - len(found)))

    truths = whole.features.split_labels(whole.features.truth)
    losses = {y.tobytes(): part.loss for y, part in zip(truths, parts)}
    given = [(i, y) for i, y in enumerate(truths)]
    problem = cs.StructuredSVM.from_oracle(
        joint, lambda y, z: float(losses[y.tobytes()].of(z)[0]), best, given, exact=True, weights=whole.weights, C=1.0
    )
    problem = replace(problem, scale=whole.scale)
    found, wanted = cs.solve(problem), cs.solve(whole)
    assert found.status is wanted.status is Status.OPTIMAL
    assert abs(found.primal - wanted.primal) <= 2e-6 * wanted.primal
    for own, other in zip(problem.predict(wanted.point), whole.predict(wanted.point)):
        np.testing.assert_array_equal(own, other)


# -- what is assumed, and oracles that lie -----------------------------------------------------------------------------


def altered(best: Any, exact: bool = False, n: int = 4) -> OracleSVM:
    rng = np.random.default_rng(5)
    x = [rng.normal(size=(n, n, 2)) for _ in range(3)]
    given = [(each, heaviest_matching(each, None, np.array([1.0, -1.0]))) for each in x]
    return cs.StructuredSVM.from_oracle(pairs, wrong_partners, best, given, exact=exact, C=1.0)


def solved(best: Any, exact: bool = False) -> Solution:
    return cs.solve(altered(best, exact), max_iterations=30)


def test_the_certificate_says_what_the_upper_bound_rests_on() -> None:
    solution = solved(heaviest_matching, exact=True)
    assert solution.certificate.assumes == "that best returns an argmax, as declared"
    assert "the upper bound assumes that best returns an argmax" in solution.message
    assert "upper bounds which best returns hold" in cs.certify(problem_of("ilp"), np.zeros(3)).assumes
    assert cs.certify(svm(0), np.zeros(svm(0).dimension)).assumes == ""


def test_what_is_assumed_is_saved_and_read(tmp_path: Any) -> None:
    solution = solved(heaviest_matching, exact=True)
    assert Solution.load(solution.save(tmp_path / "a.npz")).certificate == solution.certificate


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
    for solver in [*SERVING, *SLOW]:
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


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ([0, 1], r"the labelling of best of example 0 has shape \(2,\), wanted"),
        ([0, 1, 2, -1], r"best of example 0\[3\] is -1, wanted a whole number from 0"),
        ([0.5, 1, 2, 3], "wanted a whole number"),
        ([np.nan, 1, 2, 3], "contains NaN"),
        ("abcd", "holds text|wanted whole numbers"),
        (None, "wanted whole numbers"),
        (([0, 1, 2, 3], np.nan), "the upper bound of best of example 0 is nan, wanted"),
        (([0, 1, 2, 3], 1.0, 2.0), "returns 3 things, wanted a labelling or a pair"),
        ([0, 0, 1, 2], "y is no permutation of 4"),
    ],
)
def test_an_answer_that_is_no_labelling_is_refused_in_one_sentence(answer: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        solved(lambda x, y, w: answer)


def test_a_dual_point_with_what_is_no_labelling_proves_nothing() -> None:
    problem = altered(heaviest_matching, exact=True)
    rows = np.tile(problem.features.truth, (1, 1))
    rows[0, :4] = 0
    with pytest.raises(ValueError, match="no permutation"):
        problem.dual({"labels": rows, "label_shares": np.ones((1, 3))})
    assert problem.dual({"labels": rows[:, :], "label_shares": np.array([[0.0, 1.5, 0.0]])}) == -math.inf
    with pytest.raises(ValueError, match="dual_point"):
        problem.dual_residuals({"gibbs": np.zeros((1, 2))})


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"joint_feature": 3}, "joint_feature is 3, wanted a function"),
        ({"examples": []}, "examples is empty"),
        ({"examples": [(1, [0], 2)]}, r"examples\[0\] is no pair, wanted \(x, y\)"),
        ({"examples": [(1, [-1])]}, r"the labelling of examples\[0\]\[0\] is -1, wanted"),
        ({"joint_feature": lambda x, y: [math.nan]}, "joint_feature.* of example 0 contains NaN"),
        ({"joint_feature": lambda x, y: [1.0] * (1 + int(x))}, r"of example 1 has shape \(2,\), wanted"),
        ({"loss": lambda y, z: 1.0}, r"loss\(y, y\) of example 0 is 1, wanted 0"),
        ({"loss": lambda y, z: -1.0}, "of example 0 is -1.0, wanted a number of at least 0"),
        ({"exact": 1}, "exact is 1, wanted True or False"),
        ({"C": None}, "the scale needs exactly one of"),
        ({"weights": [1.0]}, "weights"),
    ],
)
def test_what_makes_no_problem_is_refused_in_one_sentence(changed: dict[str, Any], said: str) -> None:
    given: dict[str, Any] = {
        "joint_feature": lambda x, y: [1.0], "loss": lambda y, z: 0.0, "best": lambda x, y, w: [0],
        "examples": [(0, [0]), (1, [0])], "C": 1.0,
    }  # fmt: skip
    with pytest.raises(ValueError, match=said):
        cs.StructuredSVM.from_oracle(**(given | changed))


# -- the rest ----------------------------------------------------------------------------------------------------------


def test_predictions_of_new_inputs_ask_for_the_argmax_without_loss() -> None:
    problem, w = problem_of("matching"), np.array([1.0, -2.0, 0.5])
    x = np.random.default_rng(0).normal(size=(4, 4, 3))
    ((found,), own) = problem.predict(w, [x]), problem.predict({"w": w})
    np.testing.assert_array_equal(found, heaviest_matching(x, None, w))
    assert [len(y) for y in own] == [4, 5, 3, 4, 1]


def test_of_many_labellings_the_oldest_are_forgotten_and_the_bounds_stay() -> None:
    features: Labellings = altered(heaviest_matching, exact=True, n=6).features
    own = permutations(features.examples[0])
    first = features.met(0, own[7])[0]
    for labels in own[: 2 * REMEMBERED]:
        features.met(0, labels)
    assert [*features.examples[0].met] == [labels.tobytes() for labels in own[REMEMBERED : 2 * REMEMBERED]]
    np.testing.assert_array_equal(features.met(0, own[7])[0], first)


def test_the_fingerprint_knows_the_functions_and_the_data() -> None:
    one, other = altered(heaviest_matching), altered(second_best)
    assert fingerprint(one, exact=True) == fingerprint(altered(heaviest_matching), exact=True)
    assert fingerprint(one) != fingerprint(other)
    cs.solve(one, max_iterations=3)
    assert fingerprint(one) == fingerprint(altered(heaviest_matching))


@pytest.mark.parametrize("case", ORACLE_CASES, ids=repr)
def test_fewer_labellings_bound_the_optimum_from_below(case: Any) -> None:
    problem = case.build()
    found = every_labelling(problem, permutations if "matching" in case.name else marks)
    some = optimum_claimed(problem, [own[: 1 + len(own) // 2] for own in found])
    assert some <= optimum_claimed(problem, found) * (1 + 1e-6)


def optimum_claimed(problem: OracleSVM, labellings: Any) -> float:
    return float(some_labellings(problem, labellings).reference("CLARABEL").value)


def test_a_formulation_without_labellings_is_refused() -> None:
    problem = problem_of("matching")
    with pytest.raises(ValueError, match="labellings has no labelling at all"):
        some_labellings(problem, [[]] * 5)
    with pytest.raises(ValueError, match=r"labellings has 1 entries, wanted 5"):
        some_labellings(problem, [[]])
