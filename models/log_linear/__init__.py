"""Log-linear models by likelihood in CVXPY: every formulation by name in `ENTRIES`."""

from convexstruct.models.formulation import Entry
from convexstruct.models.log_linear import approximate, entropy
from convexstruct.models.log_linear.approximate import camel, tree_reweighted
from convexstruct.models.log_linear.entropy import clique_entropy, maximum_entropy
from convexstruct.models.log_linear.hidden import ENTRIES as _HIDDEN
from convexstruct.models.log_linear.hidden import expected_likelihood
from convexstruct.models.log_linear.hidden_markov import ENTRIES as _HIDDEN_MARKOV
from convexstruct.models.log_linear.hidden_markov import expected_counts
from convexstruct.models.log_linear.likelihood import ENTRIES as _LIKELIHOOD
from convexstruct.models.log_linear.likelihood import likelihood
from convexstruct.models.log_linear.pseudolikelihood import ENTRIES as _PSEUDOLIKELIHOOD
from convexstruct.models.log_linear.pseudolikelihood import pseudolikelihood
from convexstruct.models.log_linear.statement import parameters, written_out

#: Every formulation of the family.
ENTRIES: tuple[Entry, ...] = (
    *_LIKELIHOOD,
    *entropy.ENTRIES,
    *approximate.ENTRIES,
    *_PSEUDOLIKELIHOOD,
    *_HIDDEN,
    *_HIDDEN_MARKOV,
)

__all__ = [
    "ENTRIES",
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
