"""Inner products alone state the same problem: kernels, and Theorem 1 of paper 3."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import convexstruct as cs
from convexstruct.families.structured_svm.problem import StructuredSVM
from convexstruct.models.formulation import Formulation
from convexstruct.models.structured_svm.enumerated import n_slack
from convexstruct.models.structured_svm.inner_products import dual_kernel, gram, matrix_form
from convexstruct.models.structured_svm.max_margin_markov import marginals
from convexstruct.tolerances import HIGH, LOW, ROUNDING
from tests.models.structured_svm.instances import svm
from tests.reference import agrees, close, optimum


@pytest.mark.parametrize("build", [n_slack, marginals, dual_kernel])
def test_a_kernel_and_the_features_that_it_belongs_to_state_one_problem(
    build: Callable[[StructuredSVM], Formulation],
) -> None:
    """K = X X': the primal in X, and every form in the features that the factorisation yields, have one optimum."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=(7, 3))
    labels = [[0, 1, 0], [1, 1], [2], [0]]
    explicit = StructuredSVM.read(x, labels, C=0.8)
    kernelised = StructuredSVM.read(None, labels, kernel=x @ x.T, C=0.8)
    expected = optimum(n_slack(explicit)).value
    np.testing.assert_allclose(gram(kernelised), x @ x.T, atol=ROUNDING)
    agrees(build(kernelised), expected, "CLARABEL")


@pytest.mark.parametrize("large", [1e6, 1e8])
def test_small_inputs_count_beside_large_ones(large: float) -> None:
    """Eigenvalues of K below 1e-9 of the largest were dropped once, and with them nodes 2 and 3: the bound was 800
    times the optimum of the problem that came."""
    x, labels = np.array([[large, 0.0], [0.0, 10.0], [0.0, 10.0]]), [[0], [1], [1]]
    explicit = StructuredSVM.read(x, labels, 2, C=1.0)
    kernelised = StructuredSVM.read(None, labels, 2, kernel=x @ x.T, C=1.0)
    reached = cs.solve(explicit).primal  # of the features: an upper bound on the optimum
    fast = cs.solve(kernelised)
    assert fast.lower_bound <= reached
    # K may be off by a few units of its largest entry in what factors it; the certificate holds for the K that came.
    slack = fast.certificate.primal_allowance + HIGH.gap * reached
    assert fast.primal == pytest.approx(reached, abs=slack)
    assert dual_kernel(kernelised).solve().lower_bound <= reached


def test_sparse_features_have_the_same_gram_matrix() -> None:
    x = sp.random_array((5, 4), density=0.5, rng=np.random.default_rng(0), format="csr")
    problem = StructuredSVM.read(x, [[0, 1], [1, 0, 0]], C=1.0)
    np.testing.assert_allclose(gram(problem), x.toarray() @ x.toarray().T)
    agrees(dual_kernel(problem), optimum(n_slack(problem)).value, "CLARABEL")
    agrees(marginals(problem), optimum(n_slack(problem)).value, "CLARABEL")


# -- Theorem 1 ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scale", "solver"),
    [({"beta": 0.7}, "SCS"), ({"C_mean": 2.0}, "CLARABEL"), ({"lam": 0.2}, "SCS"),
     ({"C": 0.5, "weighted": True}, "CLARABEL")],
)  # fmt: skip
@pytest.mark.parametrize("lengths", [(1, 3, 2), (1, 1)])
def test_theorem_1_is_the_margin_loss_in_every_convention(
    lengths: tuple[int, ...], scale: dict[str, Any], solver: str
) -> None:
    problem = svm(1, lengths=lengths, **scale)
    agrees(matrix_form(problem), optimum(n_slack(problem)).value, solver)


def test_theorem_1_as_printed_overestimates() -> None:
    problem = svm(2, lengths=(4, 3), beta=0.5)
    formulation = matrix_form(problem)
    expected = optimum(n_slack(problem)).value
    assert close(optimum(formulation).value, expected)
    printed = optimum(formulation.without("5.3")).value
    assert printed > expected * (1 + LOW.gap)
    assert close(printed, optimum(marginals(problem).without("5.3")).value)


def test_theorem_1_at_any_marginals_is_the_dual_of_the_margin_loss() -> None:
    """(8) against D of the problem, at the mixture of any labellings: the algebra of the theorem, no solver."""
    problem = svm(3, lengths=(3, 1, 2), beta=0.4)
    features, size = problem.features, 3
    rng = np.random.default_rng(0)
    labels = rng.integers(size, size=(5, features.n_nodes))
    shares = rng.dirichlet(np.ones(5), size=features.n_examples).T
    of = matrix_form(problem)
    mu, nu = np.zeros((features.n_nodes, size)), np.zeros((features.n_edges, size * size))
    for row, share in zip(labels, shares):
        mu[np.arange(features.n_nodes), row] += share[features.example]
        pair = row[features.edges[:, 0]] * size + row[features.edges[:, 1]]
        nu[np.arange(features.n_edges), pair] += share[features.edge_example]
    of.variables["mu"].value, of.variables["nu"].value = mu, nu
    psi, loss = problem.aggregate({"labels": labels, "label_shares": shares})
    assert of.objective.value == pytest.approx(problem.dual_value(psi, loss), rel=ROUNDING)
    assert all(c.violation().max() < HIGH.feasibility for part in of.equations.values() for c in part)
