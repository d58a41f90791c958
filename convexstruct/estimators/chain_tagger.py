"""`ChainTagger`: a label for each position of a sequence."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from numpy.typing import ArrayLike

from convexstruct.estimators.examples import Examples, are_sentences, feature_function, read_labels, read_sequences
from convexstruct.estimators.tagger import Tagger


@dataclass(eq=False, repr=False)
class ChainTagger(Tagger):
    r"""Labels of sequences by a structural SVM or a conditional random field on chains.

    The score of labels y_1 .. y_n is sum_t <coef_[y_t], x_t> + sum_t edge_coef_[0, y_{t-1}, y_t], and `fit` minimises

        1/2 |w|^2 + C sum_i omega_i loss_i(w)

    over w, all these weights: a sum over examples, not a mean, so that C is per sequence. loss_i is

        "margin"      max_y [E_i(y) - <w, f(x_i, y_i) - f(x_i, y)>]          (paper 1, margin scaling)
        "slack"       max_y E_i(y) [1 - <w, f(x_i, y_i) - f(x_i, y)>]        (paper 1, slack scaling)
        "likelihood"  -ln p(y_i | x_i), p(y | x) ~ e^<w, f(x, y)>            (papers 1 and 4)

    with the loss E_i of labellings. `StructuredSVM`, `LatentSVM`, `ConditionalRandomField` and `HiddenField` say more.

    Parameters
    ----------
    loss : "margin", "slack" or "likelihood". Text with over 1e5 features is trained fastest by likelihood.
    C : weight of the losses, above 0; None, with likelihood alone, is no L2 penalty. "auto" is 1 with likelihood,
        and with a margin 2 / mean |x_t|^2 over the positions of training: with alpha = C, spread over many wrong
        labels, one position can turn a decision from a margin of -1 to one of 1, and more would serve outliers.
    cost : E_i of the margin losses: "hamming" (wrong positions), "zero_one", or a matrix (S, S) cost[true, predicted]
        in the order of ``classes_``.
    class_weight : of the margin losses that are sums over positions: None, a mapping from labels to weights (1 where it
        has none), or "balanced", positions / (S positions of the label), where the label is known; the cost of a
        position is multiplied by the weight of its true label.
    l1 : weight of |w|_1, with likelihood alone.
    features : what X holds. "words": sentences, that is lists of words or of tuples (word, part of speech, ..), whose
        features `word_features` computes; or a function that does so for one sequence, and returns as many feature
        dicts or lists of names. None: sentences where training begins with a word or such a tuple, else features. A
        file keeps "words", but no function: give it again.
    vectorizer : a DictVectorizer or FeatureHasher for feature dicts, of which a copy is fitted; None: DictVectorizer().
    solver : one of ``convexstruct.solvers``; None: the best known for the problem.
    tol, max_iterations, time_limit (seconds), progress : as in `convexstruct.solve`. Where a limit stops the run, `fit`
        warns (ConvergenceWarning) and keeps the best point, with its certificate.
    warm_start : whether `fit` starts at the weights of the fit before, which had the same features and labels.

    X is a list of sequences: lists of feature dicts or of lists of names (features that are 1), or tables (n_i, F),
    dense or sparse. There is no bias but the features that you give. y is a list of lists or arrays of labels, strings
    or whole numbers. A label may be None (not known) or a set (one of these), but for slack scaling; the objective is
    then not convex (`HiddenField`, `LatentSVM`), and `fit` ends at a stationary point. A sequence may have one
    position, or none: then it has no part in the objective, and its prediction is empty.

    Attributes
    ----------
    classes_ (S,) : the labels in order. coef_ (S, F), edge_coef_ (1, S, S) : w. vectorizer_ : fitted, None for tables.
    n_features_in_ : F. reads_ : "words" or "features", what training with features=None found in X. C_ : the C of
    training. solution_, certificate_ : of the problem, the optimum certified. A file keeps neither these nor C_.
    """

    words: ClassVar[tuple[str, ...]] = ("reads_",)

    features: Any = field(default=None, kw_only=True)

    reads_: str = field(init=False)

    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Any:
        super().fit(X, y, sample_weight)
        self.reads_ = "words" if are_sentences(X) else "features"
        return self

    fit.__doc__ = Tagger.fit.__doc__

    def _read(self, X: Any, least: int) -> Examples:
        features = self.features
        # no least number of examples is asked for in prediction, where X is read as in training
        if features is None and (are_sentences(X) if least else self.reads_ == "words"):
            features = "words"
        return read_sequences(X, feature_function(features), least)

    def _read_labels(self, y: Any, examples: Examples) -> list[Any]:
        return read_labels(y, examples.lengths)
