"""Structural SVMs and max-margin Markov networks in CVXPY: every formulation by name in `ENTRIES`."""

from convexstruct.marginals.triplets import sums_by
from convexstruct.models.formulation import Entry
from convexstruct.models.structured_svm import (
    associative_networks,
    cuts,
    enumerated,
    hard,
    inner_products,
    max_margin_markov,
    some_labellings,
)
from convexstruct.models.structured_svm.associative_networks import associative, thresholds, with_most_agreement
from convexstruct.models.structured_svm.cuts import (
    ConstraintGeneration,
    Round,
    hard_margin_cuts,
    n_slack_cuts,
    one_slack_cuts,
)
from convexstruct.models.structured_svm.enumerated import (
    MarginRows,
    at_parameters,
    dual_alpha,
    entry,
    from_dual,
    link,
    n_slack,
    scale_parameters,
    shares,
    sign,
)
from convexstruct.models.structured_svm.hard import hard_margin, hm_svm, up_to_margins
from convexstruct.models.structured_svm.inner_products import dual_kernel, gram, matrix_form
from convexstruct.models.structured_svm.max_margin_markov import (
    NodeAndEdgeMarginals,
    local_relaxation,
    marginals,
    needs_node_losses,
    relaxed,
)

#: Every formulation of the family.
ENTRIES: tuple[Entry, ...] = (
    *enumerated.ENTRIES,
    *hard.ENTRIES,
    *max_margin_markov.ENTRIES,
    *cuts.ENTRIES,
    *inner_products.ENTRIES,
    *associative_networks.ENTRIES,
    *some_labellings.ENTRIES,
)

__all__ = [
    "ENTRIES",
    "ConstraintGeneration",
    "MarginRows",
    "NodeAndEdgeMarginals",
    "Round",
    "associative",
    "at_parameters",
    "dual_alpha",
    "dual_kernel",
    "entry",
    "from_dual",
    "gram",
    "hard_margin",
    "hard_margin_cuts",
    "hm_svm",
    "link",
    "local_relaxation",
    "marginals",
    "matrix_form",
    "n_slack",
    "n_slack_cuts",
    "needs_node_losses",
    "one_slack_cuts",
    "relaxed",
    "scale_parameters",
    "shares",
    "sign",
    "some_labellings",
    "sums_by",
    "thresholds",
    "up_to_margins",
    "with_most_agreement",
]
