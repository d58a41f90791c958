r"""Structural SVMs whose labellings come from an oracle (`OracleSVM`) in CVXPY: (P) over labellings that are given.

    some_labellings      (P), a slack xi_i for each example, a row for each labelling given

With all labellings of all examples it is the problem itself; with fewer its optimum is a lower bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from convexstruct.arrays import Point, Vector
from convexstruct.core.mixtures import beyond_rounding, of_single_labellings, shares_of
from convexstruct.families.structured_svm.labellings import read_labelling
from convexstruct.families.structured_svm.oracle_problem import OracleSVM
from convexstruct.marginals.triplets import sums_by
from convexstruct.models.entries import stated
from convexstruct.models.formulation import Formulation
from convexstruct.models.structured_svm.enumerated import MARGIN, PAPER_1, soft_margin
from convexstruct.validation.arguments import sequence


@stated("(P) of any oracle over given labellings", PAPER_1, "(P), margin scaling", optimum="p* over these labellings")
def some_labellings(problem: OracleSVM, labellings: Sequence[Sequence[Any]]) -> Formulation:
    r"""(P) of a structural SVM with the user's oracle, over given labellings W_i:

        min  lam/2 |w|^2 + C sum_i omega_i xi_i
        s.t. <w, f(x_i, y_i) - f(x_i, y)> >= E_i(y) - xi_i      for all y in W_i, i          "margin"
             xi >= 0                                                                         "xi"

    Source: paper 1, "Two formulations". Variables w (d,), xi (N,); parameters lam, C.

    labellings : for each example a list of labellings.

    Raises
    ------
    ValueError
        If they are not labellings of the examples, or there are none at all.
    """
    features, flat, example = problem.features, [], []
    for i, own in enumerate(sequence("labellings", labellings, "a list for each example", length=problem.n_examples)):
        for j, labels in enumerate(sequence(f"labellings[{i}]", own, "a list of labellings")):
            flat.append(read_labelling(f"labellings[{i}][{j}]", labels, len(features.examples[i].y)))
            example.append(i)
    if not flat:
        raise ValueError("labellings has no labelling at all, wanted at least one")
    owner = np.array(example, dtype=np.intp)
    met = [features.met(i, labels) for i, labels in zip(example, flat)]
    a = features.joint_truth[owner] - np.array([joint for joint, _ in met])
    loss = np.array([lost for _, lost in met])

    def witness(multipliers: Any, ceiling: Vector) -> Point:
        share = beyond_rounding(shares_of(multipliers, ceiling, owner), owner)
        return of_single_labellings(features.truth, features.node_start, flat, owner, share)

    return soft_margin(
        problem, "some_labellings", "paper 1, (P), margin scaling, over given labellings",
        (a, loss, sums_by(owner, problem.n_examples).T, MARGIN), witness,
    )  # fmt: skip
