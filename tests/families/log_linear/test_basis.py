"""Bounds without a penalty: the theorem in rational arithmetic, and data of collinear, offset and scaled columns."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.exact import exactly
from benchmarks.log_linear import collinear, disagreements
from convexstruct.arrays import Flags, Labels, Matrix, Vector
from convexstruct.core.certificates import certify, joined
from convexstruct.core.driver import solve
from convexstruct.core.solution import Status
from convexstruct.families.log_linear import ConditionalRandomField, HiddenField, MarkovRandomField, PseudoLikelihood
from convexstruct.families.log_linear.basis import BEYOND, REACH_NATS, Basis, Reach, exact_product, span
from convexstruct.features.graphs.factors import Factors, read_factors, tabular_factors
from convexstruct.rounding import Rounded

SEEDS = st.integers(0, 2**32 - 1)
vectors = st.lists(st.floats(-1e6, 1e6, allow_subnormal=False), min_size=1, max_size=6).map(np.array)


def columns(seed: int) -> Matrix:
    """Features with a bias, offsets, scales, a twin and a sum."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(12, 5))
    x[:, 0] = 1.0
    x[:, 2] = x[:, 1] + 10.0 ** rng.uniform(-9, 0) * x[:, 2]
    x[:, 3] += 10.0 ** rng.uniform(0, 8)
    x[:, 4] = x[:, 1] + x[:, 3] if rng.integers(2) else x[:, 4]
    return np.asarray(x * 10.0 ** rng.uniform(-8, 8, size=5))


# -- the theorem -------------------------------------------------------------------------------------------------------


@given(SEEDS)
def test_a_product_is_right_to_its_last_digit_whatever_cancels(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, y = columns(seed), rng.normal(size=(5, 2)) * 10.0 ** rng.uniform(-8, 8, size=(5, 1))
    y[0] = -(x[0, 1:] @ y[1:]) / x[0, 0]  # the first row cancels
    found, off = exact_product(x, y)
    away = abs(exactly(x) @ exactly(y) - exactly(found)).max(axis=0)
    assert all(each <= Fraction(bound) for each, bound in zip(away, off.tolist()))
    assert (off <= 1e-15 * np.abs(found).max(axis=0) + 1e-25 * (np.abs(x) @ np.abs(y)).max(axis=0)).all()


@given(SEEDS)
def test_every_parameter_within_reach_costs_no_more_than_the_bound_takes_off(seed: int) -> None:
    """<g, theta> = e'D theta of theta = T u at which the largest score is 1000, in rational arithmetic."""
    D, rng = columns(seed), np.random.default_rng(seed)
    found = span(D)
    assert found is not None
    change, e = exactly(found.change), exactly(rng.normal(size=len(D)))
    g = np.array([float(x) for x in e @ exactly(found.features)])
    reach = Reach(np.zeros(5, dtype=np.intp), np.array([found.length]))
    error = 1e-9 * np.abs(g).max() + float(np.abs(e.astype(float)).sum()) * found.off
    bound = reach.lower_bound(Rounded(0.0), g, error).lower
    for u in (g, rng.normal(size=5)):
        scores = exactly(D) @ (change @ exactly(u))
        assert -(e @ scores) * Fraction(REACH_NATS) / abs(scores).max() >= Fraction(bound)
    assert found.length <= 2.1 * REACH_NATS
    kept = found.features[:, found.change.any(axis=0)]
    assert np.linalg.matrix_rank(kept) == kept.shape[1]  # collinear columns are left out


def test_where_all_scores_are_as_large_as_they_may_be_the_bound_is_tight() -> None:
    """A column of 1 and -1, and e along it: <g, theta> reaches 1000 sum |e|."""
    D = np.where(np.arange(8) % 3 == 0, 1.0, -1.0)[:, None]
    found = span(1e5 * D)
    assert found is not None
    g = (0.5 * D).T @ found.features
    bound = Reach(np.zeros(1, dtype=np.intp), np.array([found.length])).lower_bound(Rounded(5000.0), g[0])
    assert bound == pytest.approx(1000.0, rel=1e-9)


@given(vectors, st.floats(0.0, 1e3), st.floats(0.0, 1e-3), st.integers(0, 63))
def test_the_bound_holds_for_every_gradient_within_the_error(
    g: Vector, entropy: float, error: float, signs: int
) -> None:
    """H - sum_j length_j |g_j| at a corner of the box around g, in rational arithmetic."""
    reach = Reach(np.arange(len(g)), np.linspace(0.0, 2000.0, len(g)))
    found = reach.lower_bound(Rounded(entropy), g, np.full(len(g), error))
    corner = [Fraction(x) + Fraction(error) * (1 if signs >> i & 1 else -1) for i, x in enumerate(g.tolist())]
    paid = sum((Fraction(u) * abs(x) for u, x in zip(reach.length.tolist(), corner)), Fraction(0))
    assert Fraction(found.lower) <= Fraction(entropy) - paid
    assert found.allowance <= 2 * error * reach.length.sum() + 1e-9 * (entropy + float(reach.length @ np.abs(g)) + 1.0)


def test_digits_that_a_difference_has_no_room_for_are_in_the_basis_or_in_its_error() -> None:
    rng = np.random.default_rng(4)
    D, low = rng.normal(size=(9, 3)), 1e-17 * rng.normal(size=(9, 3))
    for x in (D, np.column_stack((D[:, 0], D[:, 0] + 1e-9 * D[:, 1], D[:, 2]))):
        found = span(x, low)
        assert found is not None
        away = abs((exactly(x) + exactly(low)) @ exactly(found.change) - exactly(found.features)).max(axis=0)
        assert all(Fraction(0) < each <= Fraction(bound) for each, bound in zip(away, found.off.tolist()))


def test_sparse_features_that_are_no_more_than_scaled_stay_sparse() -> None:
    x = sp.csr_array(sp.vstack([sp.eye_array(5), 1e6 * sp.eye_array(5)]))
    for D in (x, x @ np.diag([1.0, 1e-5, 1.0, 1e9, 0.0])):
        found = span(sp.csr_array(D))
        assert found is not None
        assert sp.issparse(found.features)
        np.testing.assert_array_equal((D @ found.change), found.features.toarray())
        np.testing.assert_allclose(found.features @ found.coordinates(D @ np.ones((5, 1))), D @ np.ones((5, 1)))


@pytest.mark.parametrize("size", [1e-300, 1e8, 1e300])
def test_the_basis_does_not_depend_on_the_size_of_the_features(size: float) -> None:
    x = np.random.default_rng(1).normal(size=(9, 3))
    found = span(size * x)
    assert found is not None
    np.testing.assert_allclose(size * x @ found.change, found.features, atol=1e-12)


def test_columns_too_small_for_a_basis_have_none_and_a_bound_that_holds() -> None:
    """Their parameters are beyond the largest float: the optimum is that of the same columns at size 1."""
    inputs, label = np.random.default_rng(3).normal(size=(14, 2)), np.random.default_rng(4).random(14) < 0.5
    best = solve(rows(*inputs.T, label=label, length=2)).primal
    assert span(1e-310 * inputs) is None
    found = solve(rows(*(1e-310 * inputs).T, label=label, length=2))
    assert found.lower_bound <= best <= found.primal
    assert found.message


# -- chains ------------------------------------------------------------------------------------------------------------


def rows(*columns_of: Vector, label: Flags, length: int = 1, **more: Any) -> ConditionalRandomField:
    n = len(label) // length
    return ConditionalRandomField.read(
        np.split(np.column_stack(columns_of), n), np.split(label.astype(np.int64), n), 2, **more
    )


def logistic() -> tuple[Vector, Vector, Vector, Flags]:
    """(1, x, z, label) of 150 rows."""
    rng = np.random.default_rng(900)
    x, z, noise = (rng.normal(size=150) for _ in range(3))
    return np.ones(150), x, z, x + 0.5 * z + noise > 0


def newton(x: Matrix, label: Flags) -> float:
    """The least logistic loss, by Newton's method."""
    w, sign = np.zeros(x.shape[1]), np.where(label, 1.0, -1.0)
    for _ in range(30):
        p = 1.0 / (1.0 + np.exp(sign * (x @ w)))
        w += np.linalg.solve((x.T * (p * (1 - p))) @ x, x.T @ (sign * p))
    return float(np.logaddexp(0.0, -sign * (x @ w)).sum())


SAME_SPAN: dict[str, Callable[[Vector, Vector], tuple[Vector, ...]]] = {
    "as it is": lambda x, z: (x, z),
    "combined": lambda x, z: (x, x + 1e-9 * z),
    "offset": lambda x, z: (x + 1e8, z + 1e8),
    "time stamp": lambda x, z: (1.7e9 + 60 * x, z),
    "near twins": lambda x, z: (x, x + 1e-10 * z),
    "twins with an offset": lambda x, z: (x + 1e4, x + 1e4 + 1e-6 * z),
    "scales": lambda x, z: (1e-8 * x, 1e8 * z),
    "repeated": lambda x, z: (x, z, x),
    "their sum": lambda x, z: (x, z, x + z),
}


@pytest.mark.parametrize("how", SAME_SPAN)
def test_features_of_the_same_span_have_the_same_optimum(how: str) -> None:
    one, x, z, label = logistic()
    exact = newton(np.column_stack((one, x, z)), label)
    assert exact == pytest.approx(69.8671, abs=5e-5)
    problem = rows(one, *SAME_SPAN[how](x, z), label=label)
    solution = solve(problem)
    assert solution.status is Status.OPTIMAL, solution
    assert solution.message == ""
    assert solution.lower_bound <= exact * (1 + 1e-7)  # the digits of the columns move the optimum by less
    assert solution.primal == pytest.approx(exact, rel=1e-6)
    assert certify(problem, solution.point, problem.witness(solution.point["theta"])).lower_bound <= exact * (1 + 1e-7)


@pytest.mark.parametrize("offset", [2e3, 1e8])
@pytest.mark.parametrize("known", [False, True])
def test_chains_with_an_offset_have_the_optimum_of_chains_without(offset: float, known: bool) -> None:
    rng = np.random.default_rng(0)
    x, z, noise = rng.normal(size=(3, 360))
    label, one = x + 0.5 * z + noise > 0, np.ones(360)
    centred = solve(rows(one, x, z, label=label, length=6))
    if known:
        tables = np.split(np.column_stack((one, x + offset, z)), 60)
        found = solve(HiddenField.conditional(tables, np.split(label.astype(np.int64), 60), 2))
    else:
        found = solve(rows(one, x + offset, z, label=label, length=6))
    assert found.status is Status.OPTIMAL, found
    assert found.primal == pytest.approx(centred.primal, rel=1e-6)
    assert found.lower_bound <= centred.primal * (1 + 1e-7)


def test_features_of_edges_that_are_nearly_collinear() -> None:
    rng = np.random.default_rng(3)
    x, y, t = rng.normal(size=(40, 3, 2)), rng.integers(2, size=(40, 3)), rng.normal(size=(40, 2, 2))
    twins = np.stack((t[..., 0] + 1e3, t[..., 0] + 1e3 + 1e-5 * t[..., 1], np.ones((40, 2))), axis=-1)
    plain = np.stack((t[..., 0], t[..., 1], np.ones((40, 2))), axis=-1)
    found, wanted = (
        solve(ConditionalRandomField.read(list(x), list(y), 2, edge_features=list(e))) for e in (twins, plain)
    )
    assert found.status is Status.OPTIMAL, found
    assert found.primal == pytest.approx(wanted.primal, rel=1e-6)


def test_no_bound_of_nearly_collinear_features_is_false_and_none_is_wide_without_a_reason() -> None:
    """The first of the 300 sets of data of `benchmarks/log_linear.py`."""
    assert disagreements(range(12)) == ([], [])


@pytest.mark.parametrize("offset", [0.0, 1e8])
def test_a_direction_that_runs_away_is_said_whatever_the_offset(offset: float) -> None:
    one, x, z, _ = logistic()
    solution = solve(rows(one, x + offset, z, label=x + 0.5 * z > 0))
    assert "the likelihood has no maximum" in solution.message


def test_dual_points_in_either_coordinates_give_a_bound_and_the_solver_one_as_sharp_as_standardised_data_have() -> None:
    problem, standard = collinear(12)
    solution, wanted = solve(problem), solve(standard)
    dual = solution.dual_point
    assert dual is not None
    assert set(dual) == {"gibbs_in_basis", "gibbs_shares"}
    assert problem.dual(dual).lower >= wanted.primal * (1 - 2e-6)
    assert problem.dual(problem.witness(solution.point["theta"])).lower <= wanted.primal


def test_too_many_features_to_factor_are_said_and_weights_of_stated_size_bounded() -> None:
    """3,000 words, each twice with two labels: the optimum is ln 2 for each."""
    words = sp.csr_array(sp.vstack([sp.eye_array(3000)] * 2))
    labels = np.repeat([0, 1], 3000)
    solution = solve(ConditionalRandomField.read(words, [np.array([y]) for y in labels], 2))
    assert solution.status is Status.OPTIMAL
    assert solution.primal == pytest.approx(6000.0 * np.log(2.0))
    assert "3000 features at 6000 places are too many, or too small, to factor" in solution.message
    assert "no single entry moves a score by more than 1000 nats" in solution.message


# -- points beyond -----------------------------------------------------------------------------------------------------


def separable(kind: str) -> Any:
    """Two labels, told apart by a feature of 1 and of 1e-3: at scores of 1000 nats the second is still in doubt."""
    rows_of = [np.array([[1.0]]), np.array([[-1e-3]])], [np.array([0]), np.array([1])]
    factors = read_factors([2, 2], [[0], [1]], np.array([[0.5], [-0.5], [0.5e-3], [-0.5e-3]]))
    read: dict[str, Callable[[], Any]] = {
        "conditional": lambda: ConditionalRandomField.read(*rows_of, 2, edges="none"),
        "observed": lambda: HiddenField.conditional(*rows_of, 2),
        "field": lambda: MarkovRandomField.read(factors, [[0, 0]]),
        "pseudolikelihood": lambda: PseudoLikelihood.read(factors, [[0, 0]]),
    }
    return read[kind]()


@pytest.mark.parametrize("kind", ["conditional", "observed", "field", "pseudolikelihood"])
def test_a_point_that_the_lower_bound_does_not_cover_has_none_and_is_told_so(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Along the line that runs away P falls from ln 2 to 0; at 1000 nats it is at least 0.127."""
    problem = separable(kind)
    direction = np.array([1.0, -1.0]) if problem.dimension == 2 else np.ones(1)
    dual = problem.witness(999.0 * direction)
    near, far = (certify(problem, size * direction, dual) for size in (999.0, 9990.0))
    assert -math.inf < near.lower_bound <= near.primal
    assert near.beyond == ""
    assert far.primal < 1e-4 < near.primal
    assert far.lower_bound == -math.inf
    assert far.beyond == BEYOND
    assert joined(far, near).lower_bound == -math.inf
    solution = solve(problem)
    assert solution.status is Status.STALLED
    assert solution.message.startswith(f"{BEYOND}; ")
    assert "rises for ever" in solution.message
    assert "upside down" not in solution.message
    if kind == "conditional":
        monkeypatch.setattr(Basis, "covers", lambda *_: True)
        wrong = solve(problem)
        assert wrong.lower_bound > -math.inf
        assert certify(problem, 9990.0 * direction, dual).lower_bound > 1e6 * far.primal
        assert "upside down" in wrong.message


def test_with_a_penalty_or_features_that_are_nowhere_every_point_is_covered() -> None:
    x, y = [np.array([[1.0, 0.0]])], [np.array([0])]
    penalised = ConditionalRandomField.read(x, y, 2, lam=1e-9)
    assert certify(penalised, np.full(penalised.dimension, 1e5)).beyond == ""
    problem = ConditionalRandomField.read(x, y, 2)
    theta = np.full(problem.dimension, 1e9)
    theta[:4] = np.tile([0.0, 1e9], 2)  # the second feature is nowhere, as is an edge
    assert certify(problem, theta).beyond == ""


# -- fields ------------------------------------------------------------------------------------------------------------


def model(how: str) -> tuple[Factors, Labels]:
    """Four features on a cycle of four variables with three labels, and 80 samples."""
    rng = np.random.default_rng(1)
    bare = tabular_factors(nx.cycle_graph(4), 3)
    a = rng.normal(size=(bare.n_entries, 4))
    samples = np.column_stack([rng.integers(3, size=80) for _ in range(4)])
    changed = {
        "as it is": a,
        "twins": np.column_stack((a[:, 0], a[:, 0] + 1e-6 * a[:, 1], a[:, 2:])),
        "near twins": np.column_stack((a[:, 0], a[:, 0] + 1e-9 * a[:, 1], a[:, 2:])),
        "offset": a + np.array([1e8, 0.0, 1e4, 1.0]),
        "scales": a * np.array([1e-8, 1e8, 1.0, 1e4]),
        "repeated": np.column_stack((a, a[:, 0], a[:, 1] + a[:, 2])),
    }
    return read_factors(bare.cards, bare.scopes, changed[how]), samples


@pytest.mark.parametrize("how", ["twins", "near twins", "offset", "scales", "repeated"])
@pytest.mark.parametrize("kind", [MarkovRandomField, PseudoLikelihood])
def test_fields_with_features_of_the_same_span_have_the_same_optimum(how: str, kind: Any) -> None:
    wanted, found = (solve(kind.read(*model(each))) for each in ("as it is", how))
    assert wanted.status is Status.OPTIMAL
    assert found.lower_bound <= wanted.primal * (1 + 1e-7)
    assert found.lower_bound >= wanted.primal * (1 - 2e-6)
    assert found.status is Status.OPTIMAL


@pytest.mark.parametrize("how", ["as it is", "offset", "scales"])
def test_given_moments_have_the_optimum_of_the_samples_that_they_are_from(how: str) -> None:
    factors, samples = model(how)
    whole = MarkovRandomField.read(factors, samples)
    found = solve(MarkovRandomField.read(factors, moments=whole.moments))
    assert found.lower_bound <= solve(whole).primal / 80 * (1 + 1e-7)
    assert found.lower_bound >= found.primal * (1 - 1e-2)  # beside 1e8 the moments have 8 digits
    assert found.status is Status.OPTIMAL or "rounding may amount" in found.message


@pytest.mark.parametrize("kind", [MarkovRandomField, PseudoLikelihood])
def test_one_feature_with_an_offset_is_bounded_by_what_it_changes(kind: Any) -> None:
    rng = np.random.default_rng(2)
    feature, samples = rng.normal(size=(4, 1)), rng.integers(2, size=(60, 2))
    plain, shifted = (read_factors([2, 2], [[0, 1]], feature + offset) for offset in (0.0, 1e6))
    wanted, found = (solve(kind.read(factors, samples)) for factors in (plain, shifted))
    assert found.status is Status.OPTIMAL, found
    assert found.primal == pytest.approx(wanted.primal, rel=1e-6)
    assert found.lower_bound <= wanted.primal * (1 + 1e-7)
