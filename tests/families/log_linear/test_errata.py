"""Where the slides of paper 4 are wrong or silent, shown on models that are small enough to enumerate."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from scipy.optimize import nnls

from convexstruct.arrays import Matrix, Vector
from convexstruct.core.certificates import certify
from convexstruct.core.driver import solve
from convexstruct.families.log_linear.approximate_field import ApproximateField
from convexstruct.families.log_linear.examples import ising
from convexstruct.families.log_linear.experiments.contrastive_divergence import transition
from convexstruct.families.log_linear.markov_field import MarkovRandomField
from convexstruct.families.log_linear.solvers.importance_sampling import UNBOUNDED, ImportanceSampling, Sampled
from convexstruct.features.graphs.factors import factors_of_features
from convexstruct.oracles.enumeration import labellings
from tests.families.log_linear.fields import drawn

FACTORS = ising(nx.cycle_graph(3))
EVERY = labellings(FACTORS.cards)
#: f(x) of every joint label, (8, 6).
F = FACTORS.joint_each(EVERY).toarray()
THETA = np.random.default_rng(2).normal(size=F.shape[1])


def share(theta: Vector) -> Vector:
    """p(x) of every joint label."""
    scores = F @ theta
    return np.asarray(np.exp(scores - np.logaddexp.reduce(scores)))


def jacobian(field: object, at: Vector, step: float = 1e-5) -> Matrix:
    """Central differences; entry i, j is d field_i / d theta_j."""
    assert callable(field)
    return np.array([(field(at + e) - field(at - e)) / (2 * step) for e in step * np.eye(len(at))]).T


def test_the_printed_lines_of_the_second_derivative_of_ln_z_are_not_it_and_the_last_is() -> None:
    """dZ/dtheta_j is Z E[f_j] (printed: E[f_i]), and its term keeps its minus (printed: plus, two lines on)."""
    p = share(THETA)
    mean, products = p @ F, F.T @ (p[:, None] * F)
    hessian = jacobian(lambda theta: share(theta) @ F, THETA)
    np.testing.assert_allclose(products - np.outer(mean, mean), hessian, atol=1e-9)
    other_index = products - np.outer(mean**2, np.ones(len(mean)))
    lost_minus = products + np.outer(mean, mean)
    for printed in (other_index, lost_minus):
        assert np.abs(printed - hessian).max() > 0.1
    assert np.abs(other_index - other_index.T).max() > 0.1  # no Hessian at all


def test_with_an_l1_prior_the_solution_need_not_be_unique() -> None:
    """ "Convex prior + convex likelihood makes objective strictly convex (unique soln)": the log-likelihood is concave,
    and indicators of both labels leave a direction free that |theta|_1 does not see while the signs stay."""
    factors = factors_of_features([2], [[((0,), [1.0, 0.0])], [((0,), [0.0, 1.0])]])
    problem = MarkovRandomField.read(factors, [[0]] * 3 + [[1]] * 7, l1=0.5)
    best = solve(problem, tol=1e-9)
    apart = float(best.point["theta"] @ [-1.0, 1.0])
    assert apart > 0.5
    found = [np.array([-a, apart - a]) for a in np.linspace(0.0, apart, 5)]
    for theta in found:
        assert certify(problem, {"theta": theta}, best.dual_point).gap < 1e-8
    assert np.ptp([float(problem.primal({"theta": theta})) for theta in found]) < 1e-10


def test_the_logarithm_of_a_pseudolikelihood_is_concave_where_the_slide_says_convex() -> None:
    """The term of one variable: its score less ln of a sum of exponentials."""

    def term(theta: Vector) -> float:
        scores = F @ theta
        here, there = 0, int(np.flatnonzero((EVERY == [1, 0, 0]).all(axis=1))[0])
        return float(scores[here] - np.logaddexp(scores[here], scores[there]))

    pairs = np.random.default_rng(0).normal(size=(50, 2, F.shape[1]))
    above = [term(pair.mean(axis=0)) - (term(pair[0]) + term(pair[1])) / 2 for pair in pairs]
    assert min(above) >= -1e-12
    assert max(above) > 0.1


def test_20_31_averages_both_terms_over_the_samples() -> None:
    """The bracket of (20.31) sums over m in its first term alone, and so leaves m without a meaning in the second."""
    problem = drawn("path", 0)
    assert problem.samples is not None
    x, factors = problem.samples, problem.factors
    theta = np.random.default_rng(1).normal(size=factors.dimension)

    def both(theta: Vector) -> tuple[float, Vector, Vector]:
        """(the log-pseudolikelihood, its gradient with both averages, with the second term of the last sample)"""
        value, right, printed = 0.0, np.zeros(len(theta)), np.zeros(len(theta))
        for j in range(x.shape[1]):
            others = [np.where(np.arange(x.shape[1]) == j, label, x) for label in range(2)]
            features = np.array([factors.joint_each(each).toarray() for each in others])
            scores = features @ theta
            p = np.exp(scores - np.logaddexp.reduce(scores, axis=0))
            truth = factors.joint_each(x).toarray()
            expected = np.einsum("lm,lmd->md", p, features)
            value += float((truth @ theta - np.logaddexp.reduce(scores, axis=0)).mean())
            right += (truth - expected).mean(axis=0)
            printed += truth.mean(axis=0) - expected[-1]
        return value, right, printed

    step = 1e-5 * np.eye(len(theta))
    slopes = np.array([(both(theta + e)[0] - both(theta - e)[0]) / 2e-5 for e in step])
    _, right, printed = both(theta)
    np.testing.assert_allclose(right, slopes, atol=1e-8)
    assert np.abs(printed - slopes).max() > 0.1


def test_l_cd_is_linear_in_theta_so_it_is_unbounded_unless_the_moments_agree() -> None:
    """ln Z cancels between the data and the perturbed data, which are taken for fixed."""
    data, perturbed = EVERY[[0, 1, 3, 7]], EVERY[[0, 1, 2, 6]]

    def l_cd(theta: Vector) -> float:
        log_p = np.log(share(theta))
        place = {tuple(row): k for k, row in enumerate(EVERY.tolist())}
        return float(
            np.mean([log_p[place[tuple(x)]] for x in data.tolist()])
            - np.mean([log_p[place[tuple(x)]] for x in perturbed.tolist()])
        )

    slope = FACTORS.joint_each(data).toarray().mean(axis=0) - FACTORS.joint_each(perturbed).toarray().mean(axis=0)
    assert np.abs(slope).max() > 0.1
    for size in (1.0, 10.0, 100.0):
        assert l_cd(size * slope) == pytest.approx(size * float(slope @ slope), rel=1e-9)


def test_the_expected_step_of_contrastive_divergence_is_the_gradient_of_no_function() -> None:
    """Its Jacobian is not symmetric; that of the likelihood's gradient is."""
    data = np.random.default_rng(1).dirichlet(np.ones(len(EVERY)))

    def step(theta: Vector) -> Vector:
        return np.asarray((data - data @ transition(FACTORS, np.asarray(FACTORS.design @ theta))) @ F)

    def gradient(theta: Vector) -> Vector:
        return np.asarray((data - share(theta)) @ F)

    turned, straight = jacobian(step, THETA), jacobian(gradient, THETA)
    assert np.abs(straight - straight.T).max() < 1e-9
    assert np.abs(turned - turned.T).max() > 1e-3


def test_the_sampled_likelihood_is_unbounded_where_no_mixture_of_the_samples_has_the_moments() -> None:
    problem = drawn("path", 0)
    rows = problem.factors.joint_each(labellings(problem.factors.cards)).toarray()
    inside = Sampled(problem, labellings(problem.factors.cards), np.zeros(problem.dimension), 0.0, 0.0)
    few = labellings(problem.factors.cards)[:3]
    estimate = Sampled(problem, few, np.zeros(problem.dimension), 0.0, 0.0)
    assert not inside.unbounded
    assert estimate.unbounded
    # along the direction from the nearest mixture of the three to the moments the estimate falls without end
    moments = problem.sums / problem.mass
    sure = 1e6  # of the row by which the weights sum to 1
    weights = nnls(np.vstack((rows[:3].T, np.full(3, sure))), np.append(moments, sure))[0]
    away = moments - weights @ rows[:3]
    values = []
    for size in (10.0, 100.0, 1000.0):
        log_partition, _ = estimate.weighted(size * away)
        values.append(log_partition - size * float(away @ moments))
    assert values[0] > values[1] > values[2]
    assert values[2] < -100.0 * float(away @ away)


@pytest.mark.parametrize(("options", "said"), [({}, True), ({"l1": 50.0}, False), ({"lam": 1e-3}, False)])
def test_a_run_on_samples_that_miss_the_data_says_so(options: dict[str, float], said: bool) -> None:
    """Neighbours on a ring of twelve always differ in the data; 20 samples have no mixture with as many differences."""
    problem = ApproximateField.read(ising(nx.cycle_graph(12)), [[0, 1] * 6, [1, 0] * 6], **options)
    found = solve(problem, ImportanceSampling(20, draws=2))
    assert (UNBOUNDED in found.message) == said
