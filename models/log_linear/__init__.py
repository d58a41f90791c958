"""Log-linear models by likelihood in CVXPY: the builders of its formulations."""

from convexstruct.models.log_linear.approximate import camel, tree_reweighted
from convexstruct.models.log_linear.entropy import clique_entropy, maximum_entropy
from convexstruct.models.log_linear.hidden import expected_likelihood
from convexstruct.models.log_linear.hidden_markov import expected_counts
from convexstruct.models.log_linear.likelihood import likelihood
from convexstruct.models.log_linear.pseudolikelihood import pseudolikelihood
from convexstruct.models.log_linear.statement import parameters, written_out

__all__ = [
    "camel",
    "clique_entropy",
    "expected_counts",
    "expected_likelihood",
    "likelihood",
    "maximum_entropy",
    "parameters",
    "pseudolikelihood",
    "tree_reweighted",
    "written_out",
]
