"""omega(y), the loss of given labels, as a formulation of `MarginLabelling`: what is left when y is fixed."""

from __future__ import annotations

from dataclasses import replace

from numpy.typing import ArrayLike

from convexstruct.families.unsupervised_margin.labelling import MarginLabelling
from convexstruct.models.entries import stated
from convexstruct.models.formulation import Formulation
from convexstruct.models.structured_svm import marginals
from convexstruct.models.unsupervised_margin.relaxation import PAPER


@stated("the loss of given labels, the rest being convex", PAPER, "(5), corrected", optimum="omega*")
def labelled(problem: MarginLabelling, labels: ArrayLike | None = None) -> Formulation:
    """The margin loss of labels (p1,), as the dual over marginals of the network that `supervised` makes of them
    (`structured_svm.marginals`); by default labels in equal numbers.

    The value is an upper bound on the least loss of all balanced labellings, and equal to it at the best of them. It is
    certified for the given labels, as the structural SVM that it is.

    Source: paper 3, (5), corrected. Variables and parameters as `structured_svm.marginals` has them.

    Raises
    ------
    ValueError
        Unless there is one label from 0 to kappa - 1 for each row.
    """
    given = problem.trivial()[0]["labels"] if labels is None else labels
    return replace(
        marginals(problem.machine(given)), name="labelled", source="paper 3, (5), corrected, at given labels"
    )
