"""liblinear (scikit-learn's LinearSVC) as the workload `regularized_risk` times it: it returns no certificate and no
history of its objective, so it is run anew with more and more iterations allowed."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator, Sequence
from typing import Any

from benchmarks.measure import GAPS

#: Iterations that liblinear is allowed, one run each, until it comes no nearer or its time is over.
LADDER = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 50_000)
#: The tolerance of its own stopping rule, and enough iterations to reach it.
OWN_TOL, OWN_MOST = 1e-3, 100_000


def digits(scaled: bool) -> tuple[Any, Any]:
    """scikit-learn's pictures of digits, (1797, 64), and the digits; scaled : pixels have mean 0 and variance 1."""
    from sklearn.datasets import load_digits
    from sklearn.preprocessing import StandardScaler

    X, y = load_digits(return_X_y=True)
    return (StandardScaler().fit_transform(X) if scaled else X), y


def runs(X: Any, y: Any, C: float, limit: float, ladder: Sequence[int], tol: float) -> Iterator[dict[str, Any]]:
    """One run of liblinear after the other, as a child reports it; "reached" by the lower bound that the environment
    variable CONVEXSTRUCT_OPTIMUM holds. With more than two classes it is Crammer and Singer's, which takes no limit
    on its iterations: its runs have falling tolerances instead."""
    import warnings

    import numpy as np
    import scipy.sparse as sp
    from sklearn.svm import LinearSVC

    from convexstruct.core.certificates import relative_gap
    from convexstruct.families.regularized_risk import RegularizedRisk

    many = len(np.unique(y)) > 2
    problem = (RegularizedRisk.multiclass if many else RegularizedRisk.binary)(X, y, 1.0 / (C * X.shape[0]))
    settings = [(10.0**-i, OWN_MOST) for i in range(7)] if many else [(tol, most) for most in ladder]
    bound = float(os.environ.get("CONVEXSTRUCT_OPTIMUM", "nan"))
    if sp.issparse(X):  # scikit-learn takes indices of 32 bits only
        X = sp.csr_array((X.data, X.indices.astype(np.int32), X.indptr.astype(np.int32)), shape=X.shape)
    reached: dict[float, float] = {}
    best, seconds, spent = math.inf, math.nan, 0.0
    kind = "crammer_singer" if many else "ovr"
    for tol, most in settings:
        machine_ = LinearSVC(
            loss="hinge", C=C, fit_intercept=False, tol=tol, max_iter=most, random_state=0, multi_class=kind
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that it has not converged is what is measured
            begin = time.perf_counter()
            machine_.fit(X, y)
            seconds = time.perf_counter() - begin
        spent += seconds
        value = problem.value(machine_.coef_ if many else machine_.coef_[0])
        best = min(best, value)
        for gap in GAPS:
            if relative_gap(value, bound) <= gap:
                reached[gap] = min(reached.get(gap, math.inf), seconds)
        yield {"seconds": seconds, "rounds": most, "value": best, "gap": relative_gap(best, bound)}
        if spent > limit or (not many and int(machine_.n_iter_) < most):
            break
    for gap, first in reached.items():
        yield {"reached": [gap, first]}
    yield {"status": "STOPPED"}
