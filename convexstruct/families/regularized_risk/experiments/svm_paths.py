"""Objective, test accuracy and time of a solver's iterates, measured in the same way for all solvers.

Only the time in which the solver computes its next iterate counts. The problem evaluates objective and accuracy, at
each of the first twenty iterations and then at iterations spaced logarithmically. As in paper 2, section 5, iteration k
has the objective and the accuracy of the best iterate so far.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from convexstruct.arrays import Vector
from convexstruct.core.iterate import Solver
from convexstruct.families.regularized_risk.problem import RegularizedRisk

#: Iterations that are all evaluated, and the factor between those that are evaluated after them.
ALL, FACTOR = 20, 1.05
#: A fitted rate rests on at least this factor between the largest and the smallest gap.
SPAN = 10.0


@dataclass(frozen=True)
class Limits:
    """When a solver is stopped. gap : when its objective is within this of the optimum."""

    seconds: float
    iterations: int
    gap: float


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Rows that are not trained on, and their labels."""

    features: Any
    labels: NDArray[Any]

    def accuracy(self, problem: RegularizedRisk, point: Any) -> float:
        return float(np.mean(np.asarray(problem.predict(point, self.features)) == self.labels))


@dataclass(eq=False)
class Path:
    """One row an evaluated iterate.

    iteration : its number. seconds : of the solver's own work so far. value : least J so far. accuracy : on the test
    rows, of the iterate with the least J so far.
    """

    iteration: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    value: list[float] = field(default_factory=list)
    accuracy: list[float] = field(default_factory=list)

    def add(self, iteration: int, seconds: float, value: float, accuracy: Callable[[], float]) -> None:
        """A row; the accuracy is asked for only where the objective is the least so far."""
        better = not self.value or value < self.value[-1]
        self.iteration.append(iteration)
        self.seconds.append(seconds)
        self.value.append(value if better else self.value[-1])
        self.accuracy.append(accuracy() if better else self.accuracy[-1])

    def gaps(self, optimum: float) -> Vector:
        """J - optimum; at least 1e-15, because both are rounded."""
        return np.maximum(np.asarray(self.value) - optimum, 1e-15)

    def reached(self, optimum: float, gap: float) -> int | None:
        """The first row within ``gap`` of the optimum, or None."""
        within = np.flatnonzero(self.gaps(optimum) <= gap)
        return int(within[0]) if len(within) else None


def follow(solver: Solver, problem: RegularizedRisk, test: HeldOut, limits: Limits, optimum: float) -> Path:
    """Run ``solver`` until a limit is met. optimum : of the problem, by which ``limits.gap`` is judged."""
    path, spent, iteration, due = Path(), 0.0, 0, 1
    iterates = solver.iterate(problem)
    while iteration < limits.iterations and spent < limits.seconds:
        begin = time.perf_counter()
        iterate = next(iterates, None)
        spent += time.perf_counter() - begin
        if iterate is None:
            break
        iteration += 1
        if iteration < due and not iterate.done and spent < limits.seconds:
            continue
        due = iteration + 1 if iteration < ALL else math.ceil(FACTOR * iteration)
        value = problem.primal(problem.as_point(iterate.point))
        path.add(iteration, spent, value, partial(test.accuracy, problem, iterate.point))
        if iterate.done or path.value[-1] - optimum <= limits.gap:
            break
    return path


def liblinear(problem: RegularizedRisk, test: HeldOut, limits: Limits, optimum: float, seed: int = 0) -> Path | None:
    """scikit-learn's LinearSVC, which is LIBLINEAR's dual coordinate descent; None where it is not installed.

    It does not expose its iterates: each row is a separate run with another limit on the passes over the data, timed as
    a whole.
    """
    try:
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.svm import LinearSVC
    except ImportError:
        return None
    X = problem.X
    if sp.issparse(X):  # scikit-learn needs 32-bit indices and contiguous arrays
        arrays = np.ascontiguousarray(X.data), X.indices.astype(np.int32), X.indptr.astype(np.int32)
        X = sp.csr_array(arrays, shape=X.shape)
    path, passes = Path(), 1
    options = {"loss": "hinge", "C": 1.0 / (problem.lam * X.shape[0]), "fit_intercept": False, "tol": 1e-12,
               "random_state": seed, "dual": True}  # fmt: skip
    while passes <= limits.iterations:
        machine = LinearSVC(max_iter=passes, **options)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            begin = time.perf_counter()
            machine.fit(X, problem.loss.labels)
            seconds = time.perf_counter() - begin
        w = machine.coef_.ravel()
        path.add(passes, seconds, problem.value(w), partial(test.accuracy, problem, w))
        if path.value[-1] - optimum <= limits.gap or seconds > 0.5 * limits.seconds or machine.n_iter_ < passes:
            break
        passes = math.ceil(1.5 * passes)
    return path


def rate(path: Path, optimum: float) -> tuple[float, float, float] | None:
    """(p, largest, smallest gap) of the fit: iterations to a gap eps grow like (1/eps)^p; 1 is O(1/eps), 0.5 is
    O(1/sqrt(eps)), near 0 a linear rate. Least squares in logarithms over the second half of the run; None where that
    spans less than a factor of ten, or three rows."""
    gaps, iteration = path.gaps(optimum), np.asarray(path.iteration, dtype=float)
    fell = np.flatnonzero(np.diff(gaps, prepend=np.inf) < 0)
    if len(fell) == 0:
        return None
    levels = np.log(gaps[fell])
    late = fell[levels <= 0.5 * (levels[0] + levels[-1])]
    if len(late) < 3 or gaps[late[0]] < SPAN * gaps[late[-1]]:
        return None
    slope = np.polyfit(-np.log(gaps[late]), np.log(iteration[late]), 1)[0]
    return float(slope), float(gaps[late[0]]), float(gaps[late[-1]])
