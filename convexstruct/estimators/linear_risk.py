"""`LinearRisk`: linear classifiers by regularised risk minimisation."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_is_fitted, validate_data

from convexstruct.arrays import Labels, Matrix, Tensor, Vector
from convexstruct.core.solution import Solution
from convexstruct.estimators.examples import read_weights
from convexstruct.estimators.tagger import Trained, solved, start_at
from convexstruct.families.regularized_risk import RegularizedRisk
from convexstruct.validation.arguments import choice, flag, number
from convexstruct.validation.sparse import sparse

LOSSES = ("auto", "binary", "multiclass", "multilabel", "ordinal")


@dataclass(eq=False, repr=False)
class LinearRisk(ClassifierMixin, Trained):  # type: ignore[misc]  # scikit-learn has no types
    r"""Linear classification by a hinge loss with an L2 penalty: `RegularizedRisk` with scikit-learn's interface.

    `fit` minimises 1/2 |w|^2 + C sum_i omega_i loss_i(w), a sum over examples as in scikit-learn's LinearSVC, where
    loss_i is

        "binary"      max(0, 1 - y_i (<w, x_i> + b)), y_i = +-1
        "multiclass"  max_k cost[y_i, k] + <w_k - w_{y_i}, x_i>
        "multilabel"  max(0, 1 + <w_s - w_r, x_i>) at the worst pair of a label r that x_i has and an s that it has not
        "ordinal"     sum_j max(0, 1 - z_ij (<w, x_i> - theta_j)), z_ij = +1 if y_i is above threshold j, else -1

    The problem solved is that divided by C sum_i omega_i: J of `RegularizedRisk` with lam = 1 / (C sum_i omega_i);
    ``solution_`` and ``certificate_`` are in the units of J.

    Parameters
    ----------
    loss : one of these, or "auto": "multilabel" where y is a table of 0 and 1, else "binary" for two classes and
        "multiclass" for more. The levels of "ordinal" are the values of y in order.
    C : weight of the losses, above 0.
    cost : (K, K) cost[true, other] of "multiclass", in the order of ``classes_``; None: 1 off the diagonal.
    class_weight : None, a mapping from classes to weights (1 where it has none), or "balanced", n / (K examples of the
        class); an example's omega_i is multiplied by that of its class. Not for "multilabel".
    fit_intercept : whether there are offsets: the free, unpenalised b of "binary"; for "multiclass" and "multilabel"
        the weights of one more feature that is always 1, which are penalised. "ordinal" always has free thresholds.
    solver, tol, max_iterations, time_limit, progress, warm_start : as in `ChainTagger`.

    X is a table (n, d), dense or sparse; feature dicts go through scikit-learn's DictVectorizer in a pipeline, files in
    the svmlight format through ``sklearn.datasets.load_svmlight_file(path)``. An example of weight 0 counts as absent.
    A score ranks the labels of "multilabel"; those predicted are above one threshold, which makes the fewest mistakes
    in training and is part of ``intercept_``.

    Attributes
    ----------
    classes_ (K,) : the classes in order; 0 .. K - 1 for "multilabel". coef_ (1, d) or (K, d). intercept_ (1,), (K,), or
    for "ordinal" minus the thresholds (K - 1,). kind_ : the loss. n_features_in_ : d. solution_, certificate_.
    """

    learned: ClassVar[tuple[str, ...]] = ("coef_", "intercept_")
    words: ClassVar[tuple[str, ...]] = ("kind_",)

    loss: str = "auto"
    C: float = 1.0
    cost: Any = field(default=None, kw_only=True)
    class_weight: Any = field(default=None, kw_only=True)
    fit_intercept: bool = field(default=True, kw_only=True)

    classes_: NDArray[Any] = field(init=False)
    coef_: Matrix = field(init=False)
    intercept_: Vector = field(init=False)
    kind_: str = field(init=False)
    solution_: Solution = field(init=False)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.classifier_tags.multi_label = True
        return tags

    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> LinearRisk:
        """Learn from a table (n, d) and its classes (n,), or for "multilabel" a table (n, K) of 0 and 1.

        sample_weight : (n,) omega_i >= 0, 1 by default.

        Raises
        ------
        ValueError
            If a parameter, X, y or a weight is malformed, or y holds one class.
        """
        problem, kind, classes = self._training(X, y, sample_weight)
        start = None
        if flag("warm_start", self.warm_start) and hasattr(self, "solution_"):
            start = start_at(problem, self.solution_.point, self.solution_.dual_point)
        found = solved(self, problem, self.solver, start)
        w, b = np.atleast_2d(found.point["w"]), found.point.get("b")
        self.kind_, self.classes_ = kind, classes
        if w.shape[1] > self.n_features_in_:
            w, b = w[:, :-1], w[:, -1]
        self.coef_ = w.copy()
        self.intercept_ = np.zeros(len(w)) if b is None else -b if kind == "ordinal" else b.copy()
        self.solution_, self.certificate_ = found, found.certificate
        if kind == "multilabel":
            self.intercept_ -= _threshold(problem.scores(found.point["w"]), problem.loss.labels, problem.weights)
        return self

    def problem(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> RegularizedRisk:
        """The problem that `fit` solves for these data; ValueError as `fit`."""
        return self._training(X, y, sample_weight)[0]

    def _training(self, X: Any, y: Any, sample_weight: Any) -> tuple[RegularizedRisk, str, NDArray[Any]]:
        kind, C, y = choice("loss", self.loss, LOSSES), number("C", self.C, above=0), _checked("y", y)
        intercept = flag("fit_intercept", self.fit_intercept)
        with np.errstate(invalid="ignore"):  # NaN is refused below, in a sentence
            several = y is not None and type_of_target(y, input_name="y") == "multilabel-indicator"
        X, y = validate_data(self, _checked("X", X), y, accept_sparse="csr", dtype=np.float64, multi_output=several)
        check_classification_targets(y)
        if kind != "auto" and several != (kind == "multilabel"):
            came = "a table of 0 and 1" if several else "one class a row"
            raise ValueError(f"y holds {came}, wanted {'one class a row' if several else 'a table'} with loss={kind!r}")
        omega = read_weights(sample_weight, X.shape[0])
        kept = omega > 0
        X, y, omega = X[kept], y[kept], omega[kept]
        if several and self.class_weight is not None:
            raise ValueError("class_weight is given, wanted None with the loss 'multilabel'")
        if self.class_weight is not None:
            omega = omega * compute_sample_weight(self.class_weight, y)
        lam = 1.0 / (C * float(omega.sum()))
        weights = None if sample_weight is None and self.class_weight is None else omega
        if several:
            self._check_cost("multilabel")
            table = y.toarray() if sp.issparse(y) else np.asarray(y)
            return (
                RegularizedRisk.multilabel(_widened(X, intercept), table, lam, weights),
                "multilabel",
                np.arange(table.shape[1]),
            )
        classes, codes = np.unique(y, return_inverse=True)
        if len(classes) < 2:
            raise ValueError("y holds one class, wanted at least two classes")
        if kind == "auto":
            kind = "binary" if len(classes) == 2 else "multiclass"
        self._check_cost(kind)
        if kind == "binary":
            if len(classes) > 2:
                raise ValueError(f"y holds {len(classes)} classes, wanted two classes with loss='binary'")
            return RegularizedRisk.binary(X, 2 * codes - 1, lam, intercept, weights), kind, classes
        if kind == "ordinal":
            return RegularizedRisk.ordinal(X, codes, lam, weights=weights), kind, classes
        made = RegularizedRisk.multiclass(_widened(X, intercept), codes, lam, self.cost, len(classes), weights)
        return made, kind, classes

    def _check_cost(self, kind: str) -> None:
        if self.cost is not None and kind != "multiclass":
            raise ValueError(f"cost is given, wanted None with the loss {kind!r}: only 'multiclass' has one")

    def _fits(self) -> bool:
        k = len(self.classes_)
        rows, offsets = {"binary": (1, 1), "ordinal": (1, k - 1)}.get(self.kind_, (k, k))
        shapes = (self.coef_.shape, self.intercept_.shape)
        return self.kind_ in LOSSES[1:] and shapes == ((rows, self.n_features_in_), (offsets,))

    def decision_function(self, X: Any) -> Tensor:
        """Scores of the classes, (n, K), the largest of which is predicted; of two classes that of the second less that
        of the first, (n,), which is predicted where above 0. These are the shapes that scikit-learn's calibration and
        metrics expect.

        The score of class k is <w_k, x> + b_k; for "binary" there is one alone; for "ordinal" it is the distance of
        <w, x> to the nearer of the class's two thresholds, negative outside. Each label of "multilabel" has a score of
        its own, (n, K), also of two, and is predicted where that is above 0.

        Raises
        ------
        ValueError
            If X is malformed, or has other features than in training.
        """
        check_is_fitted(self)
        X = validate_data(self, _checked("X", X), accept_sparse="csr", dtype=np.float64, reset=False)
        scores = np.asarray(safe_sparse_dot(X, self.coef_.T, dense_output=True)) + self.intercept_
        if self.kind_ == "ordinal":
            above = -np.sort(-scores, axis=1)  # the lowest threshold first
            open_end = np.full((len(scores), 1), np.inf)
            inside = np.minimum(np.hstack((open_end, above)), np.hstack((-above, open_end)))
            return inside if inside.shape[1] > 2 else above[:, 0]
        if self.kind_ == "multiclass" and len(self.classes_) == 2:
            return np.asarray(scores[:, 1] - scores[:, 0])
        return scores[:, 0] if self.kind_ == "binary" else scores

    def predict(self, X: Any) -> NDArray[Any]:
        """The class of each row (n,), or for "multilabel" a table (n, K) of 0 and 1; ValueError as
        `decision_function`."""
        scores = self.decision_function(X)
        if self.kind_ == "multilabel":
            return (scores > 0).astype(np.int64)
        at = scores.argmax(axis=1) if scores.ndim == 2 else (scores > 0).astype(np.intp)
        return np.asarray(self.classes_[at])


def _checked(name: str, value: Any) -> Any:
    """``value``, a sparse matrix as a copy whose indices are checked: scikit-learn and SciPy do not check them."""
    return sparse(name, value) if sp.issparse(value) else value


def _widened(X: Any, intercept: bool) -> Any:
    """X with one more feature, 1 in every row."""
    if not intercept:
        return X
    one = np.ones((X.shape[0], 1))
    return sp.hstack((X, one), format="csr") if sp.issparse(X) else np.column_stack((X, one))


def _threshold(scores: Matrix, labels: Labels, weights: Vector | None) -> float:
    """The t for which fewest labels are on the wrong side: those that an example has above t, the others at most t."""
    each = np.repeat(np.ones(len(scores)) if weights is None else weights, scores.shape[1])
    order = np.argsort(scores, axis=None, kind="stable")
    flat, true = scores.ravel()[order], labels.ravel()[order] > 0
    # the weight of mistakes, true labels at or below t and others above it: at t below all scores, then at each score
    mistakes = np.cumsum(np.append(each[~true].sum(), np.where(true, each[order], -each[order])))
    last = np.append(True, np.append(flat[1:] > flat[:-1], True))  # t cannot separate equal scores
    at = int(np.argmin(np.where(last, mistakes, np.inf)))
    if at == 0:
        return float(flat[0]) - 1.0
    return float(flat[at - 1] + flat[min(at, len(flat) - 1)]) / 2.0
