"""What `ChainTagger` and `GraphTagger` share: labels of the nodes of graphs by linear scores."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from convexstruct.arrays import Labels, Matrix, Point, Tensor, Vector
from convexstruct.core.certificates import Certificate
from convexstruct.core.driver import solve
from convexstruct.core.solution import Solution, Status
from convexstruct.core.trace import Trace
from convexstruct.estimators.examples import (
    Examples,
    accuracy,
    called_cost,
    classes_of,
    coded,
    fitted_vectorizer,
    read_weights,
    vectorised,
    weighted_cost,
)
from convexstruct.estimators.saving import Saved
from convexstruct.estimators.strongest import Strongest, strongest
from convexstruct.families.log_linear import ConditionalRandomField, HiddenField
from convexstruct.families.structured_svm import LatentSVM, StructuredSVM
from convexstruct.features.graphs.pairwise import PairwiseFeatures
from convexstruct.validation.arguments import choice, described, flag, number, sentence, whole

LOSSES = ("margin", "slack", "likelihood")
#: The states of a run about which `fit` warns. On a problem that is not convex, STALLED is how a run should end.
CUT_SHORT = (
    Status.TIME_LIMIT, Status.ITERATION_LIMIT, Status.INTERRUPTED, Status.ROUNDING, Status.INACCURATE, Status.FAILED,
)  # fmt: skip

Problem = StructuredSVM | LatentSVM | ConditionalRandomField | HiddenField


class Training(NamedTuple):
    """What `fit` solves: the problem, the labels by their codes, the vectorizer fitted to its features, and C."""

    problem: Problem
    classes: NDArray[Any]
    vectorizer: Any
    C: float | None


def margin_C(rows: Any) -> float:
    """2 / (the mean of |x_t|^2 over the rows of a table (P, F), dense or sparse); 1 where that is no positive number.

    SVM-light's C without the 2 (T. Joachims, "Making large-scale SVM learning practical", 1999). alpha = C at one
    position, spread over many wrong labels, raises the score of the true label over each by C |x_t|^2 = 2: just enough
    to turn a decision from a margin of -1 to one of 1. With 0.5, 1, 2, 4, 8 in place of the 2, trained on two thirds
    of a fold of the OCR letters, 26.7, 24.2, 23.1, 22.8, 23.4% of the letters of the other third are wrong (two folds).
    """
    with np.errstate(over="ignore"):
        squares = rows.multiply(rows).sum() if sp.issparse(rows) else np.vdot(rows, rows)
    mean = float(squares) / rows.shape[0]
    return 2.0 / mean if 0 < mean < np.inf and np.isfinite(2.0 / mean) else 1.0


def solved(estimator: Any, problem: Any, solver: Any, start: Solution | None) -> Solution:
    """`convexstruct.solve` with the limits of an estimator; a ConvergenceWarning where they stop the run."""
    limits = {name: getattr(estimator, name) for name in ("max_iterations", "time_limit", "progress")}
    found = solve(problem, solver, estimator.tol, start=start, **limits)
    if found.status in CUT_SHORT:
        text = f"{found.status.name}, relative gap {found.gap:.2g}: {found.status.value}"
        warnings.warn(text, ConvergenceWarning, stacklevel=3)
    return found


def start_at(problem: Any, point: Point, dual_point: Any) -> Solution:
    """A start for `convexstruct.solve` at a point, with a dual point where that fits the problem."""
    try:
        problem.dual_residuals(dual_point)
    except (ValueError, TypeError):
        dual_point = None
    nothing = Certificate(np.inf, -np.inf, np.inf, np.inf)
    return Solution(point, dual_point, nothing, Status.STALLED, Trace())


def _features(problem: Problem) -> PairwiseFeatures:
    model = problem.model if isinstance(problem, HiddenField | LatentSVM) else problem
    assert isinstance(model, StructuredSVM | ConditionalRandomField), "a Markov random field has no inputs"
    return model.features


def _has_marginals(tagger: Any) -> bool:
    if tagger.loss != "likelihood":
        raise AttributeError("predict_marginals needs loss='likelihood': a margin loss has no probabilities")
    return True


@dataclass(eq=False, repr=False, kw_only=True)
class Trained(Saved, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """The parameters that every estimator has: how its problem is solved. `ChainTagger` says what they mean."""

    solver: Any = None
    tol: Any = "HIGH"
    max_iterations: int | None = None
    time_limit: float | None = None
    progress: Any = None
    warm_start: bool = False


@dataclass(eq=False, repr=False)
class Tagger(Trained):
    """Labels of nodes by scores of nodes and edges; the subclasses read the examples."""

    learned: ClassVar[tuple[str, ...]] = ("coef_", "edge_coef_")
    associative = False
    inference = "exact"

    loss: str = "margin"
    C: Any = "auto"
    cost: Any = field(default="hamming", kw_only=True)
    class_weight: Any = field(default=None, kw_only=True)
    l1: float = field(default=0.0, kw_only=True)
    vectorizer: Any = field(default=None, kw_only=True)

    classes_: NDArray[Any] = field(init=False)
    coef_: Matrix = field(init=False)
    edge_coef_: Tensor = field(init=False)
    vectorizer_: Any = field(init=False)
    C_: float | None = field(init=False)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False  # sequences and graphs, which `check_estimator` has no data for
        tags.target_tags.required = True
        return tags

    def _read(self, X: Any, least: int) -> Examples:
        """The examples of X, at least ``least``."""
        raise NotImplementedError

    def _read_labels(self, y: Any, examples: Examples) -> list[Any]:
        raise NotImplementedError

    def _answer(self, examples: Examples, parts: list[Any]) -> list[Any]:
        """One array an example, in the form in which the labels come."""
        return parts

    # -- training ------------------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Any:
        """Learn from labelled examples.

        Parameters
        ----------
        X, y : see the class. sample_weight : (N,) omega_i >= 0, 1 by default; an example of weight 0 counts as absent,
            and so does one without positions.

        Raises
        ------
        ValueError
            If a parameter, X, y or a weight is malformed, fewer than two labels occur, or nothing is left to learn
            from.
        """
        problem, classes, vectorizer, strength = self._training(X, y, sample_weight)
        start = self._start(problem, classes, vectorizer) if flag("warm_start", self.warm_start) else None
        found = solved(self, problem, self.solver, start)
        features = _features(problem)
        node, edge = features.split(found.point["theta" if self.loss == "likelihood" else "w"])
        if not features.n_edges:
            edge = np.zeros((1, *edge.shape[1:]))
        self.classes_, self.vectorizer_, self.n_features_in_ = classes, vectorizer, features.n_node_features
        self.coef_, self.edge_coef_, self.C_ = node.copy(), edge.copy(), strength
        self.solution_, self.certificate_ = found, found.certificate
        return self

    def problem(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Problem:
        """The problem that `fit` solves for these data: to certify, to state in CVXPY, to give to other solvers.

        Raises
        ------
        ValueError
            As `fit`.
        """
        return self._training(X, y, sample_weight).problem

    def _training(self, X: Any, y: Any, sample_weight: ArrayLike | None) -> Training:
        self._check()
        examples = self._read(X, 1)
        labels, omega = self._read_labels(y, examples), read_weights(sample_weight, len(examples.lengths))
        kept = (examples.lengths > 0) & (omega > 0)
        if not kept.any():
            raise ValueError("X has no position of a positive weight, wanted at least one")
        at = np.repeat(kept, examples.lengths)
        examples, labels = examples.some(kept), [label for label, inside in zip(labels, at) if inside]
        classes = classes_of(labels)
        codes, allowed = coded(labels, classes)
        if allowed is not None:
            self._check_partial()
        if allowed is not None and not allowed.any(axis=1).all():
            raise ValueError("y has an empty set at a position, wanted at least one label, or None")
        vectorizer = fitted_vectorizer(self.vectorizer, examples.rows)
        rows = vectorised(vectorizer, examples.rows)
        cost = weighted_cost(self.cost, self.class_weight, labels, classes)
        strength = self.C
        if isinstance(strength, str):
            strength = 1.0 if self.loss == "likelihood" else margin_C(rows)
        problem = self._problem(examples, rows, codes, len(classes), strength, omega[kept], allowed, cost)
        return Training(problem, classes, vectorizer, strength)

    def _check(self) -> None:
        """The parameters that the family does not check."""
        loss = choice("loss", self.loss, LOSSES)
        if isinstance(self.C, str):
            choice("C", self.C, ("auto",))
        elif self.C is not None or loss != "likelihood":
            number("C", self.C, above=0)
        if loss == "likelihood":
            unused: dict[str, tuple[Any, Any]] = {
                "associative": (self.associative, False),
                "inference": (self.inference, "exact"),
                "cost": (self.cost, "hamming"),
                "class_weight": (self.class_weight, None),
            }
            for name, (value, default) in unused.items():
                if not isinstance(value, type(default)) or value != default:
                    raise sentence(f"{name} is {described(value)}, wanted {default!r} with loss='likelihood'")
        elif number("l1", self.l1, least=0) > 0:
            raise ValueError(f"l1 is {self.l1:g}, wanted 0 with loss={loss!r}: only the likelihood has that penalty")

    def _check_partial(self) -> None:
        """What labels that are not all known need."""
        partial = "y has a label that is None or a set, wanted"
        if self.loss == "slack":
            raise ValueError(f"{partial} loss='likelihood' or 'margin' then, not 'slack'")
        if isinstance(self.cost, str) and self.cost == "zero_one":
            raise ValueError(f"{partial} a cost that is a sum over positions, not 'zero_one'")
        if self.inference != "exact":
            raise ValueError(f"{partial} inference='exact' then, not {self.inference!r}")

    def _problem(
        self,
        examples: Examples,
        rows: Any,
        codes: Labels,
        size: int,
        C: float | None,
        weights: Vector | None = None,
        allowed: Any = None,
        cost: Any = "hamming",
    ) -> Problem:
        graphs: dict[str, Any] = {"edges": examples.edges, "edge_features": examples.edge_features, "weights": weights}
        graphs["C"] = C
        if allowed is not None and self.loss == "likelihood":
            return HiddenField.conditional(rows, examples.split(allowed), size, l1=self.l1, **graphs)
        if allowed is not None:
            with called_cost():
                return LatentSVM.read(
                    rows, examples.split(allowed), size, associative=self.associative, loss=cost, **graphs
                )
        labels = examples.split(codes)
        if self.loss == "likelihood":
            return ConditionalRandomField.read(rows, labels, size, l1=self.l1, **graphs)
        graphs |= {"associative": self.associative, "inference": self.inference}
        if weights is not None:  # the loss of labellings plays no part in prediction
            graphs |= {"loss": cost, "scaling": self.loss}
        with called_cost():
            return StructuredSVM.read(rows, labels, size, **graphs)

    def _start(self, problem: Problem, classes: NDArray[Any], vectorizer: Any) -> Solution | None:
        """The weights of the last fit, or of a file; None before the first."""
        if not hasattr(self, "coef_"):
            return None
        features = _features(problem)
        names = [getattr(each, "vocabulary_", None) for each in (vectorizer, self.vectorizer_)]
        same = np.array_equal(classes, self.classes_) and names[0] == names[1]
        if not same or self.coef_.shape[1] != features.n_node_features or not self._suits(features):
            raise ValueError(
                "warm_start is True, but X has other features or y other labels than in the fit before, wanted the "
                "same, or warm_start=False"
            )
        point = {"theta" if self.loss == "likelihood" else "w": self._weights(problem.dimension)}
        return start_at(problem, point, getattr(getattr(self, "solution_", None), "dual_point", None))

    def _suits(self, features: Any) -> bool:
        return not features.n_edges or features.edge_shape == self.edge_coef_.shape

    def _weights(self, dimension: int) -> Vector:
        """w; without the weights of edges where no example has any."""
        return np.concatenate((self.coef_.ravel(), self.edge_coef_.ravel()))[:dimension]

    def _fits(self) -> bool:
        size = len(self.classes_)
        edge = (size,) if self.associative is True else (size, size)
        return self.coef_.shape == (size, self.n_features_in_) and self.edge_coef_.shape[1:] == edge

    def strongest(self, most: int = 10) -> Strongest:
        """What was learnt: for each label its ``most`` features of the largest weights in size, and the ``most`` such
        pairs of labels at the ends of an edge; print it, plot it, or take its records.

        Raises
        ------
        ValueError
            If ``most`` is no positive whole number. NotFittedError (a ValueError) before `fit`.
        """
        check_is_fitted(self)
        if hasattr(self.vectorizer_, "get_feature_names_out"):
            names = self.vectorizer_.get_feature_names_out().tolist()
        else:  # tables and hashed features have no names
            names = [f"column {at}" for at in range(self.n_features_in_)]
        return strongest(self.classes_, names, self.coef_, self.edge_coef_, whole("most", most, least=1))

    # -- prediction ----------------------------------------------------------------------------------------------------

    def predict(self, X: Any) -> list[Any]:
        """The labelling of the highest score for each example, labels as in training; empty for an empty example.

        Raises
        ------
        ValueError
            If X is malformed, or has other features than in training. Features of dicts that training did not have are
            left out, as the vectorizer does it.
        """
        examples, codes = self._decoded(X)
        return self._answer(examples, examples.split(self.classes_[codes]))

    @available_if(_has_marginals)  # type: ignore[untyped-decorator]  # of scikit-learn
    def predict_marginals(self, X: Any) -> list[Any]:
        """The probability of each label (n_i, S) at each position, columns in the order of ``classes_``.

        Raises
        ------
        ValueError
            As `predict`.
        """
        examples, others, w = self._others(X)
        if w is None:
            return self._answer(examples, examples.split(np.zeros((0, len(self.classes_)))))
        assert isinstance(others, ConditionalRandomField)
        return self._answer(examples, examples.split(np.concatenate(others.posteriors(w))))

    def score(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> float:
        """Accuracy of tokens: the share of all positions whose label is predicted right, each with its example's
        weight. None in y is left out; a set counts as right where it holds the prediction; a label that training did
        not have is a mistake.

        Raises
        ------
        ValueError
            As `predict`, and if y does not fit X or no position counts.
        """
        examples, codes = self._decoded(X)
        omega = read_weights(sample_weight, len(examples.lengths))
        labels = self._read_labels(y, examples)
        return accuracy(labels, codes, np.repeat(omega, examples.lengths), self.classes_)

    def _decoded(self, X: Any) -> tuple[Examples, Labels]:
        examples, others, w = self._others(X)
        if w is None:
            return examples, np.zeros(0, dtype=np.int64)
        return examples, np.concatenate(others.predict(w))

    def _others(self, X: Any) -> tuple[Examples, Any, Vector | None]:
        """The examples of X, a problem of those with positions, whose labels mean nothing, and w; w is None where there
        are none."""
        check_is_fitted(self)
        self._check()
        examples = self._read(X, 0)
        kept = examples.some(examples.lengths > 0)
        if not len(kept.lengths):
            return examples, None, None
        rows = vectorised(self.vectorizer_, kept.rows, self.n_features_in_)
        codes = np.zeros(len(rows) if isinstance(rows, np.ndarray) else rows.shape[0], dtype=np.int64)
        others = self._problem(kept, rows, codes, len(self.classes_), C=1.0)  # C plays no part in prediction
        if not self._suits(_features(others)):
            came, wanted = _features(others).n_edge_features, len(self.edge_coef_)
            raise ValueError(f"X has {came} edge features, wanted {wanted} as in training")
        return examples, others, self._weights(others.dimension)
