"""Structural SVMs and max-margin Markov networks in CVXPY: the builders of its formulations."""

from convexstruct.models.structured_svm.associative_networks import associative
from convexstruct.models.structured_svm.cuts import ConstraintGeneration, hard_margin_cuts, n_slack_cuts, one_slack_cuts
from convexstruct.models.structured_svm.enumerated import MarginRows, dual_alpha, from_dual, n_slack
from convexstruct.models.structured_svm.hard import hard_margin, hm_svm
from convexstruct.models.structured_svm.inner_products import dual_kernel, gram, matrix_form
from convexstruct.models.structured_svm.latent import completed
from convexstruct.models.structured_svm.max_margin_markov import NodeAndEdgeMarginals, local_relaxation, marginals
from convexstruct.models.structured_svm.some_labellings import some_labellings

__all__ = [
    "ConstraintGeneration",
    "MarginRows",
    "NodeAndEdgeMarginals",
    "associative",
    "completed",
    "dual_alpha",
    "dual_kernel",
    "from_dual",
    "gram",
    "hard_margin",
    "hard_margin_cuts",
    "hm_svm",
    "local_relaxation",
    "marginals",
    "matrix_form",
    "n_slack",
    "n_slack_cuts",
    "one_slack_cuts",
    "some_labellings",
]
