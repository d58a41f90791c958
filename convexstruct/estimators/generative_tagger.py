"""`GenerativeTagger`: hidden Markov models of sequences of symbols, by likelihood or by large margin."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from convexstruct.arrays import Matrix, Vector
from convexstruct.estimators.examples import (
    Examples,
    accuracy,
    called_cost,
    classes_of,
    coded,
    distinct,
    is_partial,
    read_labels,
    read_weights,
)
from convexstruct.estimators.tagger import Trained, solved, start_at
from convexstruct.families.generative_margin import GenerativeMargin, MaximumLikelihood
from convexstruct.families.log_linear import ConditionalRandomField
from convexstruct.graphs import starts
from convexstruct.validation.arguments import choice, flag, number, sequence

SEQUENCES = "a list of one sequence of symbols an example"


@dataclass(eq=False, repr=False)
class GenerativeTagger(Trained):
    r"""States of sequences of symbols by a hidden Markov model.

    p(x, y) = initial[y_1] prod_{t > 1} transition[y_{t-1}, y_t] prod_t emission[y_t, x_t]; the prediction is its argmax
    over y. With theta the logarithms of these tables, `fit` takes

        "likelihood"  theta_ij = ln (n_ij + smoothing) - ln sum_j (n_ij + smoothing), in closed form, where n counts the
                      events of the examples, each with its weight: the maximum of the likelihood for smoothing -> 0
        "margin"      the minimum of  -c'theta + C sum_i omega_i max_y [E_i(y) + theta'(counts_i(y) - counts_i(y_i))]
                      over theta with sum_j e^theta_ij <= 1, and c uniform distributions ((2)-(5) of paper 0 with eta =
                      C): a sum over sequences, not a mean

    Parameters
    ----------
    loss : "likelihood" or "margin". C : weight of the margin's violations, above 0; the likelihood has none.
    smoothing : pseudo-count of every event, above 0; the margin has none.
    cost : E_i of the margin: "hamming", "ring", or a matrix (S, S) cost[true, predicted] in the order of ``classes_``.
    solver, tol, max_iterations, time_limit, progress, warm_start : as in `ChainTagger`; the likelihood needs none.

    X is a list of lists or arrays of symbols, y of states: strings or whole numbers. A symbol that training did not
    have says nothing: every state is taken to show it with the same probability. A sequence may be empty: then it has
    no part in the objective, and its prediction is empty. All states of y must be known.

    Attributes
    ----------
    classes_ (S,), symbols_ (M,) : in order. log_initial_ (S,), log_transition_ (S, S) [previous, current],
    log_emission_ (S, M) : theta. n_features_in_ : M. solution_, certificate_ : of the margin's problem; with
    "likelihood" they say what its theta is worth there, and claim no optimum.
    """

    learned: ClassVar[tuple[str, ...]] = ("log_initial_", "log_transition_", "log_emission_")
    named: ClassVar[tuple[str, ...]] = ("classes_", "symbols_")

    loss: str = "likelihood"
    C: float = 1.0
    smoothing: float = field(default=1.0, kw_only=True)
    cost: Any = field(default="hamming", kw_only=True)

    classes_: NDArray[Any] = field(init=False)
    symbols_: NDArray[Any] = field(init=False)
    log_initial_: Vector = field(init=False)
    log_transition_: Matrix = field(init=False)
    log_emission_: Matrix = field(init=False)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False  # sequences, which `check_estimator` has no data for
        tags.target_tags.required = True
        return tags

    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> GenerativeTagger:
        """Learn from sequences with known states.

        X, y : see the class. sample_weight : (N,) omega_i >= 0, 1 by default; weight 0 counts as absent.

        Raises
        ------
        ValueError
            If a parameter, X, y or a weight is malformed, or fewer than two states occur.
        """
        problem, classes, symbols = self._training(X, y, sample_weight)
        warm = flag("warm_start", self.warm_start)
        if self.loss == "likelihood":
            found = solved(self, problem, MaximumLikelihood(number("smoothing", self.smoothing, above=0)), None)
        else:
            start = None
            if warm and hasattr(self, "classes_"):
                if not (np.array_equal(classes, self.classes_) and np.array_equal(symbols, self.symbols_)):
                    raise ValueError("warm_start is True, but X has other symbols or y other states than before")
                theta = np.concatenate([getattr(self, name).ravel() for name in self.learned])
                dual_point = getattr(getattr(self, "solution_", None), "dual_point", None)
                start = start_at(problem, {"theta": theta}, dual_point)
            found = solved(self, problem, self.solver, start)
        parts = np.split(found.point["theta"], np.cumsum([np.prod(shape) for shape in problem.layout.shapes])[:-1])
        for name, part, shape in zip(self.learned, parts, problem.layout.shapes):
            setattr(self, name, part.reshape(shape).copy())
        self.classes_, self.symbols_, self.n_features_in_ = classes, symbols, len(symbols)
        self.solution_, self.certificate_ = found, found.certificate
        return self

    def problem(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> GenerativeMargin:
        """The problem of large margin for these data; ValueError as `fit`."""
        return self._training(X, y, sample_weight)[0]

    def _training(self, X: Any, y: Any, weights: Any) -> tuple[GenerativeMargin, NDArray[Any], NDArray[Any]]:
        choice("loss", self.loss, ("likelihood", "margin"))
        eta = number("C", self.C, above=0)
        examples = _read(X, 1)
        labels, omega = read_labels(y, examples.lengths), read_weights(weights, len(examples.lengths))
        kept = (examples.lengths > 0) & (omega > 0)
        if not kept.any():
            raise ValueError("X has no position of a positive weight, wanted at least one")
        at = np.repeat(kept, examples.lengths)
        labels, examples = [label for label, inside in zip(labels, at) if inside], examples.some(kept)
        if any(map(is_partial, labels)):
            raise ValueError("y has a state that is None or a set, wanted one known state a position")
        classes, symbols = classes_of(labels), distinct("a symbol in X", examples.rows)
        seen, states = (coded(each, names)[0] for each, names in ((examples.rows, symbols), (labels, classes)))
        with called_cost():
            made = GenerativeMargin.hmm(
                examples.split(seen), examples.split(states), len(classes), len(symbols), eta=eta, loss=self.cost,
                weights=omega[kept],
            )  # fmt: skip
        return made, classes, symbols

    def _fits(self) -> bool:
        s, m = len(self.classes_), len(self.symbols_)
        shapes = [getattr(self, name).shape for name in self.learned]
        return self.n_features_in_ == m and shapes == [(s,), (s, s), (s, m)]

    def predict(self, X: Any) -> list[Any]:
        """The most probable states of each sequence, one array an example; ValueError if X is malformed, or its symbols
        are of another type than those of training."""
        examples, chains, theta = self._chains(X)
        if chains is None:
            return examples.split(self.classes_[:0])
        return examples.split(self.classes_[np.concatenate(chains.predict(theta))])

    def predict_marginals(self, X: Any) -> list[Any]:
        """p(y_t | x) of each state at each position (n_i, S), columns in the order of ``classes_``."""
        examples, chains, theta = self._chains(X)
        if chains is None:
            return examples.split(np.zeros((0, len(self.classes_))))
        return examples.split(np.concatenate(chains.posteriors(theta)))

    def score(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> float:
        """Accuracy of positions, as `ChainTagger.score`."""
        check_is_fitted(self)
        examples = _read(X, 1)
        labels, omega = read_labels(y, examples.lengths), read_weights(sample_weight, len(examples.lengths))
        codes = np.searchsorted(self.classes_, np.concatenate(self.predict(X)))
        return accuracy(labels, codes, np.repeat(omega, examples.lengths), self.classes_)

    def _chains(self, X: Any) -> tuple[Examples, ConditionalRandomField | None, Vector]:
        """X, a conditional random field with the same p(y | x) on its sequences that are not empty, and its weights.

        Its features are the symbols and a last one, that a position is the first of its sequence."""
        check_is_fitted(self)
        examples, m = _read(X, 0), len(self.symbols_)
        lengths = examples.lengths[examples.lengths > 0]
        theta = np.concatenate(
            (np.column_stack((self.log_emission_, self.log_initial_)).ravel(), self.log_transition_.ravel())
        )
        if not len(lengths):
            return examples, None, theta
        distinct("a symbol in X", [*self.symbols_.tolist(), *examples.rows])
        codes, _ = coded(examples.rows, self.symbols_)
        first = starts(lengths)[:-1]
        known = np.flatnonzero(codes >= 0)
        at = (np.concatenate((known, first)), np.concatenate((codes[known], np.full(len(first), m))))
        table = sp.csr_array((np.ones(len(at[0])), at), shape=(len(codes), m + 1))
        labels = [np.zeros(n, dtype=np.int64) for n in lengths]
        chains = ConditionalRandomField.read(table, labels, len(self.classes_))
        return examples, chains, theta[: chains.dimension]


def _read(X: Any, least: int) -> Examples:
    """At least ``least`` sequences of symbols, one after the other."""
    given = sequence("X", X, SEQUENCES, least=least)
    parts = [sequence(f"X[{i}]", one, "a list of symbols") for i, one in enumerate(given)]
    return Examples([symbol for part in parts for symbol in part], np.array(list(map(len, parts)), dtype=np.intp))
