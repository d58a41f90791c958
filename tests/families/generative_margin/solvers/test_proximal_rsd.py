"""The paper's algorithm: its dual function against finite differences and 60 digits, its master problem, its bounds."""

from __future__ import annotations

from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, localcontext
from itertools import islice

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from convexstruct.arrays import Vector
from convexstruct.core.certificates import certify
from convexstruct.core.driver import solve
from convexstruct.core.iterate import Solver
from convexstruct.core.solution import Status
from convexstruct.families.generative_margin.objectives import proximal_theta
from convexstruct.families.generative_margin.problem import GenerativeMargin
from convexstruct.families.generative_margin.solvers.proximal_dual import ProximalDual
from convexstruct.families.generative_margin.solvers.proximal_rsd import ProximalRSD, Record
from convexstruct.families.generative_margin.solvers.simplicial_master import Master
from convexstruct.families.generative_margin.solvers.working_sets import CoordinateWorkingSets
from convexstruct.graphs import TableLayout
from convexstruct.models.generative_margin.enumerated import primal
from convexstruct.tolerances import DERIVATIVE, HIGH, MID, ROUNDING
from tests.models.generative_margin.instances import INSTANCES, hmm
from tests.reference import optimum

LAYOUT = TableLayout(("a", "b"), ((3,), (2, 2)))


def dual_function(seed: int, gamma: float = 0.7) -> tuple[ProximalDual, Vector, Vector]:
    """A dual function on three blocks, and a (mu, lam) inside lam > 0."""
    rng = np.random.default_rng(seed)
    c = np.concatenate([rng.dirichlet(np.ones(n)) for n in LAYOUT.block_sizes])
    function = ProximalDual(c, LAYOUT, rng.normal(size=7) - 1.0, gamma)
    return function, rng.normal(size=7), rng.uniform(0.3, 2.0, size=3)


# -- (20) --------------------------------------------------------------------------------------------------------------


def sign_at(x: Decimal, k: Decimal, lam: Decimal, gamma: Decimal) -> int:
    """The sign of f(x) = k + lam e^x + gamma x, the left side of (20), in 60 digits."""
    value = k + lam * x.exp() + gamma * x
    return (value > 0) - (value < 0)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(
    pull=st.floats(-3e3, 3e3),
    centre=st.floats(-60.0, 0.0),
    lam=st.one_of(st.just(0.0), st.floats(-300.0, 12.0).map(lambda e: 10.0**e)),
    gamma=st.floats(-8.0, 6.0).map(lambda e: 10.0**e),
)
def test_the_closed_form_of_20_is_the_root(pull: float, centre: float, lam: float, gamma: float) -> None:
    one = np.ones(1)
    x, y = proximal_theta(-pull * one, lam * one, centre * one, gamma)
    a = centre - pull / gamma
    off = Decimal(1e-13 * max(1.0, abs(a), abs(float(x[0])), abs(np.log(lam / gamma)) if lam else 0.0))
    with localcontext(Context(prec=60, Emax=MAX_EMAX, Emin=MIN_EMIN)):
        k = Decimal(pull) - Decimal(gamma) * Decimal(centre)
        at = Decimal(float(x[0]))
        if lam > 0 and at > 10**5:
            pytest.fail("a root beyond 1e5 is impossible with lam e^x <= |k| + gamma |x|")
        arguments = (k, Decimal(lam), Decimal(gamma))
        if lam > 0:
            assert sign_at(at - off, *arguments) < 0 < sign_at(at + off, *arguments)
        else:
            assert abs(k + Decimal(gamma) * at) <= Decimal(gamma) * off
    if lam > 0 and x[0] > -600:
        assert y[0] == pytest.approx(lam * np.exp(x[0]) / gamma, rel=1e-9 * max(1.0, abs(a)))


# -- derivatives -------------------------------------------------------------------------------------------------------


def differences(function: ProximalDual, mu: Vector, lam: Vector, step: float) -> tuple[Vector, Vector, Vector, Vector]:
    """Central differences of Q_n in (mu, lam), and of its gradient: of theta in mu and in lam, of 1'e^theta in lam."""

    def gradient(mu: Vector, lam: Vector) -> tuple[float, Vector]:
        at = function.at(mu, 0.0, lam)
        return at.value, np.concatenate((at.theta, at.mass))

    values, jacobian = [], []
    for j in range(len(mu) + len(lam)):
        shift = np.zeros(len(mu) + len(lam))
        shift[j] = step
        up = gradient(mu + shift[: len(mu)], lam + shift[len(mu) :])
        down = gradient(mu - shift[: len(mu)], lam - shift[len(mu) :])
        values.append((up[0] - down[0]) / (2 * step))
        jacobian.append((up[1] - down[1]) / (2 * step))
    both = np.array(jacobian).T
    d = len(mu)
    return np.array(values), both[:d, :d], both[:d, d:], both[d:, d:]


@pytest.mark.parametrize("seed", range(3))
def test_the_gradient_and_the_corrected_hessian_are_those_of_finite_differences(seed: int) -> None:
    function, mu, lam = dual_function(seed)
    at = function.at(mu, 0.0, lam)
    in_mu, mixed, in_lam = function.second(at)
    slope, numeric_mu, numeric_mixed, numeric_lam = differences(function, mu, lam, 1e-6)
    spread = np.zeros((7, 3))
    spread[np.arange(7), LAYOUT.block_of] = -mixed
    assert slope == pytest.approx(np.concatenate((at.theta, at.mass - 1.0)), rel=DERIVATIVE, abs=DERIVATIVE)
    assert numeric_mu == pytest.approx(np.diag(-in_mu), abs=DERIVATIVE)
    assert numeric_mixed == pytest.approx(spread, abs=DERIVATIVE)
    assert numeric_lam == pytest.approx(np.diag(-in_lam), abs=DERIVATIVE)


@pytest.mark.parametrize("seed", range(3))
def test_the_printed_23_25_and_26_are_not_the_derivatives(seed: int) -> None:
    function, mu, lam = dual_function(seed)
    grown = np.exp(function.at(mu, 0.0, lam).theta)
    printed_mixed = -grown / (lam[LAYOUT.block_of] + function.gamma * grown)  # (23) and (25) as printed
    printed_lam = LAYOUT.block_sum(-(grown**2) / (lam[LAYOUT.block_of] + function.gamma * grown))  # (26) as printed
    _, _, numeric_mixed, numeric_lam = differences(function, mu, lam, 1e-6)
    assert np.abs(numeric_mixed[np.arange(7), LAYOUT.block_of] - printed_mixed).max() > 0.05
    assert np.abs(np.diag(numeric_lam) - printed_lam).max() > 0.05


def test_derivatives_stay_finite_as_lam_goes_to_zero_and_theta_grows() -> None:
    """By LARGEST_THETA of the proximal_dual: without it e^theta overflows, with a warning."""
    function, mu, _ = dual_function(0, gamma=1e-3)
    for lam in (np.zeros(3), np.full(3, 1e-300)):
        at = function.at(mu - 5.0, 0.0, lam)
        assert at.theta.max() > 600
        assert np.isfinite(at.value)
        assert np.isfinite(at.mass).all()
        assert all(np.isfinite(part).all() for part in function.second(at))


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 10**6),
    gamma=st.floats(-6.0, 3.0).map(lambda e: 10.0**e),
    size=st.floats(-2.0, 3.0).map(lambda e: 10.0**e),
)
def test_the_best_lam_satisfies_its_optimality_conditions(seed: int, gamma: float, size: float) -> None:
    function, mu, guess = dual_function(seed, gamma)
    for first in (None, guess, np.full(3, 1e-200), np.full(3, 1e200)):
        lam = function.best_lam(size * mu, first)
        mass = function.at(size * mu, 0.0, lam).mass
        assert (lam >= 0).all()
        assert mass[lam > 0] == pytest.approx(1.0, rel=1e-8)
        assert (mass[lam == 0] <= 1 + 1e-12).all()


# -- the master problem ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("joint", [False, True], ids=["lam eliminated", "joint"])
@pytest.mark.parametrize("n_simplices", [1, 2])
@pytest.mark.parametrize("seed", range(4))
def test_the_master_reaches_the_optimum_that_slsqp_finds(seed: int, n_simplices: int, joint: bool) -> None:
    function, _, _ = dual_function(seed)
    rng = np.random.default_rng(100 + seed)
    mu, omega = rng.normal(size=(8, 7)), rng.uniform(0, 2, size=8)
    simplex = np.arange(8) % n_simplices
    start = np.array([float(n_simplices) / 8] * 8)
    found = Master(function, mu, omega, simplex, joint).solve(start)

    def loss(x: Vector) -> float:
        return -function.at(x[:8] @ mu, float(x[:8] @ omega), x[8:]).value

    equal = [{"type": "eq", "fun": lambda x, g=g: x[:8][simplex == g].sum() - 1.0} for g in range(n_simplices)]
    slsqp = minimize(
        loss, np.concatenate((start, np.ones(3))), bounds=[(0, None)] * 11, constraints=equal,
        options={"ftol": 1e-13, "maxiter": 500},
    )  # fmt: skip
    assert found.dual.value == pytest.approx(-slsqp.fun, abs=1e-6)
    assert found.dual.value >= -slsqp.fun - 1e-9
    assert found.gap <= 1e-7
    assert np.bincount(simplex, weights=found.alpha) == pytest.approx(1.0, abs=1e-12)
    assert (found.alpha >= 0).all()


def test_the_master_copes_with_more_points_than_dimensions_and_with_repeated_points() -> None:
    function, _, _ = dual_function(5)
    rng = np.random.default_rng(5)
    mu, omega = rng.normal(size=(40, 7)), rng.uniform(0, 2, size=40)
    mu, omega = np.concatenate((mu, mu)), np.concatenate((omega, omega))
    alpha = np.zeros(80)
    alpha[0] = 1.0
    found = Master(function, mu, omega, np.zeros(80, dtype=np.intp)).solve(alpha)
    assert found.gap <= 1e-8 * abs(found.dual.value)


# -- the algorithm -----------------------------------------------------------------------------------------------------

VARIANTS: dict[str, Solver] = {
    "as printed, corrected": ProximalRSD(),
    "lam eliminated": ProximalRSD(joint=False),
    "three directions": ProximalRSD(directions=3),
    "directions found again": ProximalRSD(refind=True),
    "five points": ProximalRSD(keep=5, polish_every=3),
    "five points, six labellings": ProximalRSD(keep=5, polish_every=3, most_sources=6),
    "coordinate working sets": CoordinateWorkingSets(2, polish_every=2),
}


@pytest.fixture(scope="module")
def optima() -> dict[str, float]:
    return {name: optimum(primal(make())).value for name, make in INSTANCES.items()}


#: The algorithm as printed on every instance, each variant on every fourth.
TRIED = [
    (name, variant)
    for at, variant in enumerate(VARIANTS)
    for name in (list(INSTANCES)[at % 4 :: 4] if at else INSTANCES)
]


@pytest.mark.parametrize(("name", "variant"), TRIED)
def test_every_bound_of_every_round_brackets_the_optimum(name: str, variant: str, optima: dict[str, float]) -> None:
    problem, best = INSTANCES[name](), optima[name]
    rounding = HIGH.gap * max(1.0, abs(best))
    for at, iterate in enumerate(islice(VARIANTS[variant].iterate(problem), 9)):
        assert iterate.lower_bound <= best + rounding
        assert iterate.primal >= best - rounding
        if at % 4:
            continue
        assert callable(iterate.dual_point)
        certificate = certify(problem, iterate.point, iterate.dual_point())
        assert iterate.lower_bound - ROUNDING * max(1.0, abs(best)) <= certificate.lower_bound <= best + rounding
        assert certificate.primal == pytest.approx(iterate.primal, rel=ROUNDING)
        assert certificate.infeasibility <= ROUNDING


@pytest.mark.parametrize("joint", [True, False])
@pytest.mark.parametrize("problem", [hmm(1, n_states=2, eta=1.5), hmm(7, n_states=1), hmm(7, lengths=(1, 1, 1))])
def test_the_algorithm_reaches_the_optimum(problem: GenerativeMargin, joint: bool) -> None:
    found, best = solve(problem, ProximalRSD(joint=joint), tol=MID, max_iterations=600), optimum(primal(problem)).value
    assert found.status is Status.OPTIMAL, found
    assert found.lower_bound - HIGH.gap * abs(best) <= best <= found.primal + HIGH.gap * abs(best)


def test_the_papers_projected_estimate_exceeds_the_optimum_where_the_certified_bound_does_not(
    optima: dict[str, float],
) -> None:
    """Projecting mu onto mu <= c leaves script-D: what comes out is no bound."""
    above = 0
    for name, best in optima.items():
        records: list[Record] = []
        solution = solve(INSTANCES[name](), ProximalRSD(record=records.append), max_iterations=20)
        wrong = [r for r in records if r.projected > best + HIGH.gap * max(1.0, abs(best))]
        assert all(r.outside > 0 for r in wrong)
        assert solution.lower_bound <= best + HIGH.gap * max(1.0, abs(best))
        above += len(wrong)
    assert above > 0


def test_the_centre_moves_by_both_rules_and_the_number_of_points_is_capped() -> None:
    records: list[Record] = []
    solve(hmm(0), ProximalRSD(record=records.append, keep=10, improvement=0.002), tol=HIGH, max_iterations=120)
    assert {r.centre_changed for r in records} == {0, 1, 2}
    assert max(r.points for r in records) <= 10 + 2  # besides them the origin, and the newest point
    later = [r.centre_changed for r in records[60:]]
    assert 1 not in later


@pytest.mark.parametrize("name", [*INSTANCES][::3])
def test_rule_ii_means_q_n_for_q_is_minus_infinity_in_rounds_that_it_judges(name: str) -> None:
    """The text writes gradients of Q, which has none outside mu <= c; the rule is tried in every round."""
    records: list[Record] = []
    solve(INSTANCES[name](), ProximalRSD(record=records.append), tol=HIGH, max_iterations=40)
    assert any(r.outside > 0 for r in records)
    assert all(np.isfinite(r.proximal) for r in records)
