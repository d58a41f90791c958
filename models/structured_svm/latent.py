"""The convex bound of the concave-convex procedure (Yu, Joachims 2009) in CVXPY: what is left when labels are
completed."""

from __future__ import annotations

from dataclasses import replace

from numpy.typing import ArrayLike

from convexstruct.families.structured_svm.latent import LatentSVM
from convexstruct.models.entries import stated
from convexstruct.models.formulation import Formulation
from convexstruct.models.structured_svm.enumerated import n_slack
from convexstruct.validation.arrays import wholes

SOURCE = "Yu, Joachims: Learning structural SVMs with latent variables"


@stated("the convex bound of the concave-convex procedure: labels completed", SOURCE, "CCCP", optimum="c*")
def completed(problem: LatentSVM, labels: ArrayLike | None = None) -> Formulation:
    r"""The margin loss of completed labels (P,), by default the best completion at w = 0:

        min lam/2 |w|^2 + C sum_i omega_i xi_i    s.t.  xi_i >= E_i(y) - <w, f(x_i, h_i) - f(x_i, y)>  for every y, i

    with E_i of what is known (`LatentSVM`): `n_slack` of the labels h. The value is an upper bound on the least P,
    equal to it at the best completion, and certified for these labels, as the structural SVM that it is.

    Source: Yu and Joachims 2009, the step of their procedure that is convex. Variables and parameters as `n_slack` has
    them.

    Raises
    ------
    ValueError
        Unless there is one label from 0 to S - 1 for each node, and an allowed one; and as `n_slack`.
    """
    if labels is None:
        given = problem.completed(problem.trivial()[0]["w"])
    else:
        n, size = problem.known.shape
        given = wholes("labels", labels, (n,), least=0, most=size - 1, why="one a node")
    return replace(n_slack(problem.machine(given)), name="completed", source=f"{SOURCE}, at a completion")
