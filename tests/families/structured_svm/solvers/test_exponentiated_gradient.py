"""Exponentiated gradient: the update written out, its rates, and what is wrong with it on the slides of paper 1."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import scipy.special

from convexstruct.arrays import Vector
from convexstruct.core.driver import solve
from convexstruct.families.structured_svm.problem import StructuredSVM
from convexstruct.families.structured_svm.solvers import exponentiated_gradient
from convexstruct.families.structured_svm.solvers.example_blocks import example_blocks
from convexstruct.families.structured_svm.solvers.exponentiated_gradient import ExponentiatedGradient
from convexstruct.inference.exact import tree_inference
from convexstruct.marginals.pairwise_enumeration import EnumeratedPairwise, enumerate_pairwise
from convexstruct.tolerances import LOW, MID, ROUNDING
from tests.families.structured_svm.solvers.references import holds, reference
from tests.models.structured_svm.instances import DECOMPOSABLE


class WrittenOut:
    """q over all labellings, its dual value, and the update of the docstring."""

    def __init__(self, problem: StructuredSVM) -> None:
        self.problem = problem
        self.every: EnumeratedPairwise = enumerate_pairwise(problem.features, problem.loss)
        self.c = problem.ceiling[self.every.example]

    def w(self, q: Vector) -> Vector:
        return self.problem.project(self.every.difference.T @ (self.c * q)) / self.problem.lam

    def value(self, q: Vector) -> float:
        return self.problem.dual_value(self.every.difference.T @ (self.c * q), float(self.c @ (q * self.every.loss)))

    def step(self, q: Vector, eta: float) -> Vector:
        with np.errstate(divide="ignore"):
            logs = np.log(q) + eta * (self.every.loss - self.every.difference @ self.w(q))
        return np.concatenate([scipy.special.softmax(logs[self.every.example == i]) for i in self.examples])

    @property
    def examples(self) -> range:
        return range(self.problem.n_examples)

    def uniform(self) -> Vector:
        sizes = np.bincount(self.every.example)
        return np.asarray(1.0 / sizes[self.every.example])

    def truth(self) -> Vector:
        q = np.zeros(self.every.n_rows)
        q[self.every.truth] = 1.0
        return q

    def gibbs(self, theta: Vector, loss: float) -> Vector:
        logs = self.every.joint @ theta + loss * self.every.loss
        return np.concatenate([scipy.special.softmax(logs[self.every.example == i]) for i in self.examples])


@pytest.mark.parametrize(
    "name", ["chains, weighted, a cost matrix, C_mean", "cycles", "associative chains, three labels"]
)
def test_a_step_in_the_log_potentials_is_the_multiplicative_update_of_all_labellings(name: str) -> None:
    problem, _ = reference(name)
    written = WrittenOut(problem)
    group = exponentiated_gradient.Group(example_blocks(problem, None)[0], np.zeros(problem.dimension), 0.0)
    q, psi = written.uniform(), group.psi
    for _ in range(5):
        np.testing.assert_allclose(problem.project(psi) / problem.lam, written.w(q), atol=ROUNDING)
        psi = group.step(psi)
        q = written.step(q, group.eta / exponentiated_gradient.STEP_GROWTH)
        np.testing.assert_allclose(written.gibbs(group.theta, group.loss), q, atol=ROUNDING)
        assert problem.dual_value(psi, group.lost) == pytest.approx(written.value(q))


@pytest.mark.parametrize("name", ["trees, weighted", "a cost table each", "cycles", "a kernel"])
def test_the_rates_of_the_slides_hold_for_the_steps_that_are_taken(name: str) -> None:
    """D* - D_T <= (1/(eta T)) sum c_i KL(q*, q0), and KL(q*, uniform) <= n_i ln S."""
    problem, expected = reference(next(full for full in DECOMPOSABLE if name in full))
    group = exponentiated_gradient.Group(example_blocks(problem, None)[0], np.zeros(problem.dimension), 0.0)
    most = float(problem.ceiling @ problem.features.lengths) * np.log(problem.features.n_labels)
    psi, values, least = group.psi, [problem.dual_value(group.psi, group.lost)], np.inf
    for t in range(1, 60):
        psi = group.step(psi)
        least = min(least, group.eta / exponentiated_gradient.STEP_GROWTH)
        values.append(problem.dual_value(psi, group.lost))
        assert expected - values[-1] <= most / (least * t) + ROUNDING
    assert all(later >= earlier - ROUNDING for earlier, later in pairwise(values))


def test_sixty_rounds_with_three_groups_come_near_the_optimum() -> None:
    problem, expected = reference("chains, one of length 1, Hamming")
    holds(solve(problem, ExponentiatedGradient(groups=3), tol=LOW, max_iterations=60), expected, gap=50 * LOW.gap)


def test_the_truth_is_a_fixed_point_so_the_start_of_the_slides_goes_nowhere() -> None:
    problem, expected = reference("chains, one of length 1, Hamming")
    written = WrittenOut(problem)
    q = written.truth()
    for _ in range(20):
        q = written.step(q, 0.5)
    np.testing.assert_array_equal(q, written.truth())
    assert written.value(q) == 0.0
    assert expected > 0.5
    q = written.uniform()
    for _ in range(200):
        q = written.step(q, 0.02)
    assert written.value(q) > 0.5 * expected


def slide_update(problem: StructuredSVM, eta: float, steps: int) -> float:
    """The best dual value of ``steps`` updates as printed: s_c = mu_c + eta (E_c - <w, df_c>), mu = marginals of e^s;
    from uniform marginals. The truth's part of df_c is alike for all labellings, and drops out."""
    features, c = problem.features, problem.ceiling
    oracle = tree_inference(features)
    size = features.n_labels
    sums = oracle.sums(np.zeros((features.n_nodes, size)), np.zeros((features.n_edges, size, size)))
    best = -np.inf
    for _ in range(steps):
        weighted = sums.node * c[features.example][:, None], sums.edge * c[features.edge_example][:, None, None]
        psi = problem.truth_joint - features.adjoint(*weighted)
        best = max(best, problem.dual_value(psi, float((weighted[0] * problem.loss.costs).sum())))
        w = psi / problem.lam
        node = sums.node + eta * (problem.loss.costs + features.node_scores(w))
        sums = oracle.sums(node, sums.edge + eta * features.edge_scores(w))
    return best


def test_the_update_of_the_slides_in_the_marginals_does_not_reach_the_optimum_at_any_step() -> None:
    problem, expected = reference("chains, weighted, a cost matrix, C_mean")
    printed = max(slide_update(problem, eta, 60) for eta in (0.001, 0.01, 0.1, 0.3, 1.0, 3.0))
    corrected = solve(problem, ExponentiatedGradient(), tol=MID, max_iterations=300)
    assert expected - printed > 10 * LOW.gap * expected
    assert expected - corrected.lower_bound <= MID.gap * expected
