"""Solvers of a regularised risk, each wrong by one plausible mistake: verification must refuse them all.

Each is the package's own solver with one thing changed, in the problem that it gets (other labels, no weights, another
lam) or in the answer that it returns. `honest` is the solver unchanged.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from convexstruct.families.regularized_risk.problem import RegularizedRisk
from tests.mutants import ABOVE, TOO_GOOD, Mutant, common, honest, writes_to


def _unbiased(problem: RegularizedRisk) -> RegularizedRisk:
    loss = replace(problem.loss, n_biases=0, bias_of=np.zeros(0, dtype=np.intp), bias_sign=np.zeros(0))
    return replace(problem, loss=loss)


def solves(**changes: Any) -> Callable[[RegularizedRisk], Any]:
    """The point of another problem: ``changes`` are what fields are replaced by, as functions of the problem."""
    return lambda problem: honest(replace(problem, **{name: of(problem) for name, of in changes.items()})).point


def solves_loss(**changes: Any) -> Callable[[RegularizedRisk], Any]:
    """The same with fields of the loss, as functions of the loss."""
    return solves(
        loss=lambda problem: replace(problem.loss, **{name: of(problem.loss) for name, of in changes.items()})
    )


def no_bias(problem: RegularizedRisk) -> Any:
    return {"w": honest(_unbiased(problem)).point["w"], "b": np.zeros(problem.n_biases)}


def regularised_bias(problem: RegularizedRisk) -> Any:
    """A column of ones instead of a bias: |b|^2 is charged too."""
    x = np.column_stack((sp.csr_array(problem.X).toarray(), np.ones(problem.X.shape[0])))
    wide = replace(_unbiased(problem), X=x)
    w = honest(wide).point["w"]
    return {"w": w[:-1], "b": w[-1:]}


def no_balance(problem: RegularizedRisk) -> Any:
    """Without sum_i y_i alpha_i = 0: claims the bound of the problem without a bias."""
    free = honest(_unbiased(problem))
    return {"point": honest(problem).point, "lower_bound": free.lower_bound}


def unbalanced_witness(problem: RegularizedRisk) -> Any:
    """The same, with the alpha of that bound as witness."""
    free = honest(_unbiased(problem))
    return {"point": honest(problem).point, "dual_point": free.dual_point, "lower_bound": free.lower_bound}


def open_box(problem: RegularizedRisk) -> Any:
    """alpha may exceed its share: claims a D above the optimum."""
    solution = honest(problem)
    assert solution.dual_point is not None
    alpha = np.where(solution.dual_point["alpha"] > 0, 1.3, 1.0) * solution.dual_point["alpha"]
    return {"point": solution.point, "dual_point": {"alpha": alpha}, "lower_bound": problem.dual_value(alpha)}


def mean_threshold(problem: RegularizedRisk) -> Any:
    """One threshold for all levels."""
    point = honest(problem).point
    return {"w": point["w"], "b": np.full_like(point["b"], point["b"].mean())}


def transposed(problem: RegularizedRisk) -> Any:
    """w as (features, classes)."""
    return np.ascontiguousarray(honest(problem).point["w"].T).reshape(problem.shape)


def scaled_rows(problem: RegularizedRisk) -> Any:
    """Rows are scaled to length 1 first, and w is not scaled back."""
    length = np.sqrt(np.asarray(problem.X**2).sum(axis=1, keepdims=True))
    return honest(replace(problem, X=problem.X / length)).point


#: max(0, -y <w, x>), the perceptron's loss.
NO_MARGIN = solves_loss(offset=lambda loss: np.zeros_like(loss.offset))
WRONG_SIGN = solves_loss(combine=lambda loss: -loss.combine)
UNIFORM_COST = solves_loss(offset=lambda loss: np.ones_like(loss.offset))
NO_WEIGHTS = solves(weights=lambda problem: None)
#: C sum xi with C = 1/lam: the risk is not divided by n.
SUM_FOR_MEAN = solves(lam=lambda problem: problem.lam / problem.loss.n_groups)
WHOLE_SQUARE = solves(lam=lambda problem: 2.0 * problem.lam)
#: The first piece of every group, and its zero piece.
FIRST_PIECE = solves_loss(
    combine=lambda loss: sp.csr_array(loss.combine[loss.start[:-1]]),
    offset=lambda loss: loss.offset[loss.start[:-1]],
    start=lambda loss: np.arange(len(loss.start)),
)

MUTANTS: tuple[Mutant, ...] = (
    Mutant("wrong_sign", "margins have the wrong sign", WRONG_SIGN, "risk-planted", ABOVE, "is a sign wrong"),
    Mutant("no_margin", "the 1 of the hinge is forgotten", NO_MARGIN, "risk-enumerated", ABOVE, "where solvers start"),
    Mutant("no_weights", "the examples' weights are forgotten", NO_WEIGHTS, "risk-classes", ABOVE, "weights of 1"),
    Mutant("sum_for_mean", "the risk is a sum, not a mean", SUM_FOR_MEAN, "risk-planted", ABOVE, "lam / n"),
    Mutant("whole_square", "lam |w|^2 for lam/2 |w|^2", WHOLE_SQUARE, "risk-enumerated", ABOVE, "twice the penalty"),
    Mutant("no_bias", "the bias is left out", no_bias, "risk-planted-bias", ABOVE, "without a bias"),
    Mutant("regularised_bias", "the bias is regularised", regularised_bias, "risk-planted-bias", ABOVE,
           "a penalty on the bias"),
    Mutant("no_balance", "sum y alpha = 0 is dropped", no_balance, "risk-planted-bias", TOO_GOOD),
    Mutant("unbalanced_witness", "the same, with its alpha", unbalanced_witness, "risk-unbalanced", TOO_GOOD),
    Mutant("open_box", "alpha leaves its box", open_box, "risk-large-lam", TOO_GOOD),
    Mutant("uniform_cost", "the cost matrix is ignored", UNIFORM_COST, "risk-classes", ABOVE, "costs of 1"),
    Mutant("mean_threshold", "one threshold for all levels", mean_threshold, "risk-levels", ABOVE),
    Mutant("transposed", "w is transposed", transposed, "risk-labels", ABOVE, "table transposed"),
    Mutant("first_label_only", "one piece of each group", FIRST_PIECE, "risk-labels", ABOVE, "first piece"),
    Mutant("scaled_rows", "rows are scaled to length 1", scaled_rows, "risk-enumerated", ABOVE, "length 1"),
    Mutant("stops_early", "it stops at w = 0, its start", lambda problem: np.zeros(problem.shape), "risk-hadamard",
           ABOVE, "where solvers start"),
    Mutant("changed_input", "it writes to its input", writes_to(lambda problem: problem.X),
           "risk-planted", "changes its input"),
    *common(loosened_bound="risk-levels", flattered_value="risk-enumerated", not_a_number="risk-planted"),
)  # fmt: skip
