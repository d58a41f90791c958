"""(32): values, gradients and bounds, against the whole of K and every labelling written out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.special import softmax

from benchmarks.exact import GOAL
from convexstruct.core.certificates import certify
from convexstruct.core.driver import solve
from convexstruct.families.gaussian_process import problem as gaussian_process
from convexstruct.families.gaussian_process.problem import GaussianProcessSequences
from convexstruct.oracles.chain.chain import sum_product
from convexstruct.oracles.chain.sums import ChainSums
from convexstruct.oracles.enumeration import labellings
from convexstruct.tolerances import DERIVATIVE, ROUNDING
from tests.families.gaussian_process.kernel_chains import every_kernel, small, spread, written_out


@every_kernel
def test_the_objective_is_32_with_k_and_every_labelling_written_out(kernel: tuple[str, dict[str, float]]) -> None:
    problem = small(0, kernel)
    assert problem.n_inputs < len(problem.places)  # some inputs repeat, and their coefficients are one
    naive = written_out(problem)
    rng = np.random.default_rng(0)
    for scale in (0.0, 0.1, 1.0, 30.0):
        u = scale * rng.normal(size=problem.dimension)
        value = problem.primal({"u": u})
        assert value == pytest.approx(naive.value(spread(problem, u)), rel=ROUNDING)
        assert problem.at(u, problem.multiply(u)).value == pytest.approx(value, rel=ROUNDING)


@every_kernel
def test_one_coefficient_for_each_distinct_input_says_as_much_as_one_for_each_position(
    kernel: tuple[str, dict[str, float]],
) -> None:
    problem = small(1, kernel)
    naive = written_out(problem)
    u = np.random.default_rng(1).normal(size=len(naive.z))
    cut = len(problem.places) * problem.n_labels
    label = np.zeros((problem.n_inputs, problem.n_labels))
    np.add.at(label, problem.places, u[:cut].reshape(-1, problem.n_labels))
    joined = np.concatenate((label.ravel(), u[cut:]))
    assert problem.primal({"u": joined}) == pytest.approx(naive.value(u), rel=ROUNDING)


@every_kernel
def test_the_gradient_is_that_of_finite_differences(kernel: tuple[str, dict[str, float]]) -> None:
    problem = small(2, kernel)
    rng = np.random.default_rng(2)
    u = rng.normal(size=problem.dimension)
    gradient = problem.multiply(problem.at(u, problem.multiply(u)).g)
    for _ in range(5):
        d = rng.normal(size=problem.dimension)
        rise = problem.primal({"u": u + 1e-6 * d}) - problem.primal({"u": u - 1e-6 * d})
        assert rise / 2e-6 == pytest.approx(gradient @ d, rel=DERIVATIVE)


@every_kernel
def test_the_dual_value_is_that_of_the_gibbs_distributions_written_out(kernel: tuple[str, dict[str, float]]) -> None:
    problem = small(3, kernel)
    naive = written_out(problem)
    rng = np.random.default_rng(3)
    for scale in (0.0, 0.3, 3.0):
        u = scale * rng.normal(size=problem.dimension)
        gibbs = [softmax(scores) for scores in naive.scores(spread(problem, u))]
        assert problem.dual({"u": u}) == pytest.approx(naive.dual(gibbs), rel=ROUNDING)


@every_kernel
def test_the_gap_of_a_point_and_its_own_marginals_is_half_its_squared_gradient(
    kernel: tuple[str, dict[str, float]],
) -> None:
    problem = small(5, kernel)
    rng = np.random.default_rng(5)
    for scale in (0.0, 0.3, 3.0):
        u = scale * rng.normal(size=problem.dimension)
        certificate, g = certify(problem, u, {"u": u}), problem.at(u, problem.multiply(u)).g
        norm = g @ problem.multiply(g)
        assert certificate.primal - certificate.lower_bound == pytest.approx(norm / (2 * problem.lam), rel=ROUNDING)


def test_the_optimum_of_one_position_and_two_labels_is_the_root_of_one_equation() -> None:
    """u = (a, -a): lam a = 1 - 1 / (1 + e^(-2 k a)), and P = lam k a^2 + ln(1 + e^(-2 k a))."""
    k, lam = 1.7, 0.4
    problem = GaussianProcessSequences.from_gram([[k]], [[0]], 2, lam=lam)
    a = brentq(lambda a: lam * a - 1.0 + 1.0 / (1.0 + np.exp(-2 * k * a)), 0.0, 1.0 / lam, xtol=1e-14)
    u = np.array([a, -a, 0, 0, 0, 0])
    certificate = certify(problem, u, {"u": u})
    assert certificate.primal == pytest.approx(lam * k * a * a + np.log1p(np.exp(-2 * k * a)), rel=ROUNDING)
    assert abs(certificate.gap) <= ROUNDING


def test_without_transitions_the_sequences_fall_apart_into_their_positions() -> None:
    whole = small(7, eta=0.0)
    labels = [[label] for label in whole.labels]
    apart = GaussianProcessSequences.from_gram(
        whole.gram, labels, 3, places=[[place] for place in whole.places], eta=0.0, lam=whole.lam
    )
    u = np.random.default_rng(7).normal(size=whole.dimension)
    assert whole.primal({"u": u}) == pytest.approx(apart.primal({"u": u}), rel=ROUNDING)
    assert whole.dual({"u": u}) == pytest.approx(apart.dual({"u": u}), rel=ROUNDING)


def test_lam_divides_the_kernel() -> None:
    problem = small(8, lam=2.5)
    scaled = GaussianProcessSequences.from_gram(
        problem.gram.matrix / 2.5, problem.chains.split(problem.labels), 3,
        places=problem.chains.split(problem.places), eta=problem.eta / 2.5,
    )  # fmt: skip
    u = np.random.default_rng(8).normal(size=problem.dimension)
    assert scaled.primal({"u": 2.5 * u}) == pytest.approx(problem.primal({"u": u}), rel=ROUNDING)
    assert scaled.dual({"u": 2.5 * u}) == pytest.approx(problem.dual({"u": u}), rel=ROUNDING)


def test_a_gram_matrix_without_an_inverse_is_no_obstacle() -> None:
    """One input everywhere: G = 11', and only the sum of the coefficients counts."""
    labels = [[0, 1, 1], [1]]
    every = GaussianProcessSequences.from_gram(np.ones((4, 4)), labels, 2)
    once = GaussianProcessSequences.from_gram([[1.0]], labels, 2, places=[[0, 0, 0], [0]])
    rng = np.random.default_rng(9)
    u = rng.normal(size=every.dimension)
    label, transition = every.split(u)
    joined = np.concatenate((label.sum(axis=0), transition.ravel()))
    assert every.primal({"u": u}) == pytest.approx(once.primal({"u": joined}), rel=ROUNDING)
    assert every.dual({"u": u}) == pytest.approx(once.dual({"u": joined}), rel=ROUNDING)


def test_a_named_kernel_and_its_matrix_over_all_positions_are_one_problem() -> None:
    rng = np.random.default_rng(10)
    inputs = [rng.integers(2, size=(length, 2)).astype(float) for length in (3, 2)]
    labels = [rng.integers(2, size=length) for length in (3, 2)]
    named = GaussianProcessSequences.read(inputs, labels, 2, kernel=("rbf", {"gamma": 0.5}))
    rows = np.concatenate(inputs)
    matrix = np.exp(-0.5 * ((rows[:, None] - rows) ** 2).sum(axis=2))
    whole = GaussianProcessSequences.from_gram(matrix, labels, 2)
    u = rng.normal(size=named.dimension)
    assert whole.primal({"u": spread(named, u)}) == pytest.approx(named.primal({"u": u}), rel=ROUNDING)


def test_new_sequences_are_labelled_by_the_same_function() -> None:
    problem = small(11)
    u = np.random.default_rng(11).normal(size=problem.dimension)
    assert problem.gram.inputs is not None
    again = problem.chains.split(problem.gram.inputs[problem.places])
    known = problem.predict(u)
    assert [part.tolist() for part in problem.predict(u, again)] == [part.tolist() for part in known]
    bare = GaussianProcessSequences.from_gram(
        problem.gram.matrix, problem.chains.split(problem.labels), 3, places=problem.chains.split(problem.places),
        eta=problem.eta,
    )  # fmt: skip
    rows = problem.chains.split(problem.gram.matrix[problem.places])
    assert [part.tolist() for part in bare.predict(u, rows)] == [part.tolist() for part in known]
    naive = written_out(problem)
    both = zip(problem.posteriors(u), problem.posteriors(u, again))
    for part, (posterior, anew), scores in zip(known, both, naive.scores(spread(problem, u))):
        several = labellings([3] * len(part))
        assert part.tolist() == several[scores.argmax()].tolist()
        shares = [[softmax(scores)[column == label].sum() for label in range(3)] for column in several.T]
        assert posterior == pytest.approx(np.array(shares), rel=ROUNDING)
        assert anew == pytest.approx(posterior, rel=ROUNDING)


@settings(max_examples=25, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 4), min_size=1, max_size=3),
    n_labels=st.integers(1, 3),
    eta=st.sampled_from([0.0, 0.5, 3.0]),
    lam=st.sampled_from([0.05, 1.0, 20.0]),
    stationary=st.booleans(),
    seed=st.integers(0, 99),
)
def test_every_witness_bounds_every_point(
    lengths: list[int], n_labels: int, eta: float, lam: float, stationary: bool, seed: int
) -> None:
    problem = small(seed, lengths=tuple(lengths), n_labels=n_labels, eta=eta, lam=lam, stationary=stationary)
    rng = np.random.default_rng(seed)
    u, other = rng.normal(size=(2, problem.dimension)) * rng.uniform(0.0, 3.0)
    primal = problem.primal({"u": u})
    assert primal == pytest.approx(written_out(problem).value(spread(problem, u)), rel=ROUNDING, abs=ROUNDING)
    assert problem.dual({"u": other}) <= primal + ROUNDING * max(1.0, abs(primal))
    assert problem.dual({"u": u}) <= primal + ROUNDING * max(1.0, abs(primal))


@pytest.mark.parametrize("size", [1e9, 1e15, 1e17, 1e100, 1e300])
def test_a_witness_of_any_size_bounds_the_optimum(size: float) -> None:
    """ln Z - <m, t> cancels at large scores: it claimed bounds of 1, 8 and 131072 where the optimum is 0.019."""
    problem = GaussianProcessSequences.from_gram(np.eye(2) * 64.0, [[0, 1]], 2, lam=0.01)
    alone = small(6, n_labels=1)
    least = float(solve(problem).primal)
    rng = np.random.default_rng(0)
    for _ in range(50):
        u = size * rng.normal(size=problem.dimension)
        found = problem.dual({"u": u})
        assert found.lower <= least
        assert np.isfinite(found)
        assert alone.dual({"u": size * rng.normal(size=alone.dimension)}).lower <= 0.0


def test_the_allowance_of_the_dual_does_not_grow_as_labels_become_certain() -> None:
    """K (z - m) is lam t: large at the labels that are sure of themselves, where only the others can be wrong."""
    allowances = []
    for lam in (1e-2, 1e-4, 1e-6):
        problem = GaussianProcessSequences.from_gram(np.eye(12), [[0, 1, 2]] * 4, 3, lam=lam, eta=0.0)
        allowances.append(problem.dual(solve(problem).point).allowance)
    assert max(allowances) <= 2.0 * allowances[0]


@pytest.mark.parametrize("seed", range(5))
def test_the_dual_is_right_to_its_allowance_where_every_marginal_is_off(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Marginals moved by their whole error, which no rounding hides."""
    problem, off, rng = small(seed), 1e-6, np.random.default_rng(seed)
    u = {"u": rng.normal(size=problem.dimension)}
    truth = problem.dual(u)

    def moved(*arguments: Any) -> ChainSums:
        gibbs = sum_product(*arguments)
        pairs, node = (x * (1.0 + off * rng.choice([-1.0, 1.0], size=x.shape)) for x in (gibbs.edge, gibbs.node))
        return replace(gibbs, node=node, edge=pairs, relative=1.001 * off)

    monkeypatch.setattr(gaussian_process, "sum_product", moved)
    for _ in range(10):
        found = problem.dual(u)
        assert 1e-3 * found.allowance <= abs(found - truth) <= found.allowance


@pytest.mark.parametrize("stationary", [True, False])
def test_scores_whose_sums_overflow_bound_nothing_and_raise_nothing(stationary: bool) -> None:
    problem = GaussianProcessSequences.from_gram(np.eye(3), [[0, 1, 0]], 2, stationary=stationary)
    for size in (-1.7e308, -1e308, 1.7e308):
        point = {"u": np.full(problem.dimension, size)}
        assert problem.primal(point) == np.inf
        assert problem.dual(point) == -np.inf
    assert np.isfinite(problem.dual({"u": np.full(problem.dimension, -1e300)}))


def test_inputs_that_no_sequence_uses_do_not_void_the_dual() -> None:
    problem = GaussianProcessSequences.from_gram(np.eye(3) + 1.0, [[0, 1], [1]], 2, places=[[0, 2], [0]])
    found = problem.dual(solve(problem).point)
    assert np.isfinite(found)
    assert found.allowance <= GOAL


def test_eigenvalues_that_are_negative_by_rounding_pass() -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(40, 3))
    matrix = (rows @ rows.T) * (1.0 + 1e-13 * rng.normal(size=(40, 40)))
    assert np.linalg.eigvalsh(0.5 * (matrix + matrix.T))[0] < 0
    problem = GaussianProcessSequences.from_gram(matrix, [np.zeros(40, dtype=int)], 2)
    assert np.array_equal(problem.gram.matrix, problem.gram.matrix.T)


def test_a_point_may_be_given_by_its_parts() -> None:
    problem = small(1)
    u = np.arange(float(problem.dimension))
    label, transition = problem.split(u)
    assert np.array_equal(problem.as_point({"label": label, "transition": transition})["u"], u)
