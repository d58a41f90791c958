"""`ChainTagger`: the weights and bounds are those of the families; what comes in is read or refused in one sentence."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.feature_extraction import DictVectorizer, FeatureHasher

import convexstruct as cs
from convexstruct.estimators import ChainTagger

SENTENCES = ("Ann sees Bob", "the dog sees the cat", "Bob sleeps")
X = [[{"word": word, "upper": word[0].isupper()} for word in text.split()] for text in SENTENCES]
Y = [["NAME", "VERB", "NAME"], ["DET", "NOUN", "VERB", "DET", "NOUN"], ["NAME", "VERB"]]

RNG = np.random.default_rng(0)
TABLES = [RNG.normal(size=(n, 3)) for n in (3, 1, 4, 2)]
NUMBERS = [RNG.integers(0, 2, size=len(table)) + 5 for table in TABLES]
CODES = [labels - 5 for labels in NUMBERS]


def weights(tagger: ChainTagger) -> np.ndarray[Any, Any]:
    return np.concatenate((tagger.coef_.ravel(), tagger.edge_coef_.ravel()))


@pytest.mark.parametrize("loss", ["margin", "slack"])
def test_a_margin_tagger_has_the_solution_of_the_structural_svm(loss: Any) -> None:
    costs = [[0.0, 1.0], [2.0, 0.0]]
    tagger = ChainTagger(loss, C=0.5, cost=costs).fit(TABLES, NUMBERS, sample_weight=[1, 2, 1, 1])
    problem = cs.StructuredSVM.read(TABLES, CODES, 2, C=0.5, loss=costs, scaling=loss, weights=[1, 2, 1, 1])
    found = cs.solve(problem)
    np.testing.assert_array_equal(weights(tagger), found.point["w"])
    assert tagger.certificate_ == found.certificate
    assert found.status.solved
    for tags, codes in zip(tagger.predict(TABLES), problem.predict(found.point)):
        np.testing.assert_array_equal(tags, codes + 5)


def test_without_a_C_a_position_can_turn_a_decision() -> None:
    lone = [np.array([[3.0, 0.0]]), np.array([[0.0, 3.0]])]
    tagger = ChainTagger().fit(lone, [["A"], ["B"]])
    np.testing.assert_allclose(tagger.C_, 2 / 9)
    assert tagger.certificate_.primal == pytest.approx(0.5 * np.sum(weights(tagger) ** 2))  # no slack is left
    shorter = ChainTagger(C=0.4 / 9).fit(lone, [["A"], ["B"]])
    assert shorter.certificate_.primal > 0.6 * np.sum(weights(shorter) ** 2)
    sparse = ChainTagger("slack", tol="LOW").fit([sp.csr_array(table) for table in TABLES], NUMBERS)
    np.testing.assert_allclose(2 / sparse.C_, np.mean(np.sum(np.concatenate(TABLES) ** 2, axis=1)))
    assert ChainTagger("likelihood", tol="LOW").fit(TABLES, NUMBERS).C_ == 1.0
    for empty in (0.0, 1e-300, 1e300):  # no length, or one whose square is 0 or infinite
        assert ChainTagger(max_iterations=1)._training([np.full((2, 1), empty)], [["A", "B"]], None).C == 1.0


def test_a_likelihood_tagger_has_the_solution_of_the_conditional_random_field() -> None:
    tagger = ChainTagger("likelihood", C=2.0, l1=0.1).fit(TABLES, NUMBERS)
    problem = cs.ConditionalRandomField.read(TABLES, CODES, 2, C=2.0, l1=0.1)
    found = cs.solve(problem)
    np.testing.assert_array_equal(weights(tagger), found.point["theta"])
    assert tagger.certificate_ == found.certificate
    new = [RNG.normal(size=(3, 3)), RNG.normal(size=(1, 3))]
    for tags, codes in zip(tagger.predict(new), problem.predict(found.point, new), strict=True):
        np.testing.assert_array_equal(tags, codes + 5)
    for ours, theirs in zip(tagger.predict_marginals(new), problem.posteriors(found.point, new), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert cs.certify(tagger.problem(TABLES, NUMBERS), weights(tagger)).primal == found.primal


def test_sparse_tables_are_dense_tables() -> None:
    dense = ChainTagger("likelihood").fit(TABLES, NUMBERS)
    sparse = ChainTagger("likelihood").fit([sp.csr_array(table) for table in TABLES], NUMBERS)
    np.testing.assert_allclose(weights(sparse), weights(dense), rtol=1e-9, atol=1e-12)
    for tags, others in zip(sparse.predict(TABLES), dense.predict(TABLES)):
        np.testing.assert_array_equal(tags, others)


def test_feature_dicts_are_vectorised_by_scikit_learn() -> None:
    tagger = ChainTagger("likelihood").fit(X, Y)
    table = DictVectorizer().fit_transform([features for sentence in X for features in sentence])
    names = ["DET", "NAME", "NOUN", "VERB"]
    problem = cs.ConditionalRandomField.read(table, [[names.index(tag) for tag in tags] for tags in Y], 4, C=1.0)
    np.testing.assert_array_equal(weights(tagger), cs.solve(problem).point["theta"])
    assert tagger.classes_.tolist() == names
    assert [tags.tolist() for tags in tagger.predict(X)] == Y
    assert tagger.score(X, Y) == 1.0
    hashed = ChainTagger("likelihood", vectorizer=FeatureHasher(64)).fit(X, Y)
    assert hashed.n_features_in_ == 64
    assert hashed.score(X, Y) == 1.0


def test_partial_labels_have_the_objective_of_a_hidden_field() -> None:
    partial: list[list[Any]] = [
        ["NAME", None, "NAME"],
        ["DET", {"NOUN", "VERB"}, "VERB", "DET", "NOUN"],
        ["NAME", "VERB"],
    ]
    tagger = ChainTagger("likelihood").fit(X, partial)
    problem = tagger.problem(X, partial)
    assert isinstance(problem, cs.HiddenField)
    assert problem.known.sum(axis=1).tolist() == [1, 4, 1, 1, 2, 1, 1, 1, 1, 1]
    assert problem.stationarity(weights(tagger)) < 1e-6
    assert tagger.score(X, Y) == 1.0
    assert tagger.score(X, partial) == 1.0
    assert tagger.score(X[:1], [[None, {"NOUN"}, "NAME"]]) == 0.5
    with pytest.raises(ValueError, match="wanted loss='likelihood' or 'margin' then, not 'slack'"):
        ChainTagger("slack").fit(X, partial)
    with pytest.raises(ValueError, match="an empty set"):
        ChainTagger("likelihood").fit(X, [["NAME", set(), "NAME"], *Y[1:]])


def test_partial_labels_with_margins_have_the_objective_of_a_latent_svm() -> None:
    partial: list[list[Any]] = [["NAME", None, "NAME"], ["DET", {"NOUN", "VERB"}, "VERB", "DET", "NOUN"], Y[2]]
    tagger = ChainTagger("margin", class_weight={"NOUN": 2.0}).fit(X, partial)
    problem = tagger.problem(X, partial)
    assert isinstance(problem, cs.LatentSVM)
    assert problem.known.sum(axis=1).tolist() == [1, 4, 1, 1, 2, 1, 1, 1, 1, 1]
    assert problem.model.loss.costs[4].tolist() == [1.0, 1.0, 0.0, 0.0]  # beside VERB, the nearer of the two
    assert problem.model.loss.costs[7].tolist() == [2.0, 2.0, 0.0, 2.0]
    assert tagger.solution_.status is cs.Status.STATIONARY
    assert tagger.certificate_ == cs.certify(problem, {"w": weights(tagger)}, tagger.solution_.dual_point)
    assert tagger.score(X, partial) == 1.0
    balanced = ChainTagger("margin", class_weight="balanced").problem(X, partial)
    assert isinstance(balanced, cs.LatentSVM)
    assert balanced.model.loss.costs.max() == 2.0  # NOUN, one of eight that are known
    with pytest.raises(ValueError, match="wanted a cost that is a sum over positions, not 'zero_one'"):
        ChainTagger("margin", cost="zero_one").fit(X, partial)


def test_sequences_without_positions_and_of_weight_0_count_as_absent() -> None:
    plain = ChainTagger("likelihood").fit(X[:2], Y[:2])
    more = ChainTagger("likelihood").fit([X[0], [], X[1], X[2]], [Y[0], [], Y[1], ["ODD", "ODD"]], [1, 1, 1, 0])
    np.testing.assert_array_equal(weights(more), weights(plain))
    assert [len(tags) for tags in more.predict([[], X[0], []])] == [0, 3, 0]
    assert [len(tags) for tags in more.predict([[]])] == [0]
    assert [part.shape for part in more.predict_marginals([X[2], []])] == [(2, 4), (0, 4)]
    empty = ChainTagger("likelihood").fit([*TABLES, np.zeros((0, 3))], [*NUMBERS, []])
    assert [len(tags) for tags in empty.predict([np.zeros((0, 3)), TABLES[0]])] == [0, 3]


def test_features_that_training_did_not_have_are_left_out_and_labels_are_mistakes() -> None:
    tagger = ChainTagger("likelihood").fit(X, Y)
    seen = [[{"word": "dog"}, {"word": "sees"}]]
    unseen = [[{"word": "dog", "new": 3.0}, {"word": "sees", "other": "x"}]]
    np.testing.assert_array_equal(tagger.predict_marginals(seen)[0], tagger.predict_marginals(unseen)[0])
    assert tagger.score(X[:1], [["NAME", "ODD", "NAME"]]) == 2 / 3
    assert tagger.score(X[:2], [["NAME", "VERB", "ODD"], Y[1]], sample_weight=[2, 1]) == 9 / 11


def test_a_warm_start_begins_where_the_last_fit_ended() -> None:
    tagger = ChainTagger("likelihood", warm_start=True).fit(TABLES, NUMBERS)
    first = tagger.solution_.iterations
    assert tagger.fit(TABLES, NUMBERS).solution_.iterations < first
    assert tagger.set_params(C=1.1).fit(TABLES[:3], NUMBERS[:3]).solution_.status.solved
    with pytest.raises(ValueError, match="warm_start is True, but X has other features"):
        tagger.fit([table[:, :2] for table in TABLES], NUMBERS)
    with pytest.raises(ValueError, match="warm_start is True"):
        tagger.fit(TABLES, [np.append(labels[:-1], 9) for labels in NUMBERS])


def test_a_limit_warns_and_keeps_a_certified_point_and_the_solver_is_the_one_given() -> None:
    with pytest.warns(ConvergenceWarning, match="ITERATION_LIMIT, relative gap"):
        tagger = ChainTagger("likelihood", max_iterations=1).fit(TABLES, NUMBERS)
    assert tagger.certificate_.lower_bound < tagger.certificate_.primal < np.inf
    with pytest.warns(ConvergenceWarning, match="TIME_LIMIT"):
        ChainTagger("margin", time_limit=1e-9).fit(TABLES, NUMBERS)
    rough = ChainTagger("likelihood", C=None, solver=cs.solvers.LBFGS(metric="scalar"), tol="LOW", progress=False)
    problem, found = rough.problem(TABLES, NUMBERS), rough.fit(TABLES, NUMBERS).solution_
    assert isinstance(problem, cs.ConditionalRandomField)
    assert (problem.scale.lam, problem.scale.C) == (0.0, 1.0)  # C=None is no penalty
    assert found.solver == "LBFGS"
    assert found.gap <= 1e-3


def test_prediction_needs_a_fit_and_the_features_of_training() -> None:
    assert not hasattr(ChainTagger("slack"), "predict_marginals")
    with pytest.raises(NotFittedError):
        ChainTagger().predict(TABLES)
    tagger = ChainTagger("likelihood").fit(TABLES, NUMBERS)
    with pytest.raises(ValueError, match=re.escape("X has shape (2, 2), wanted (positions, 3)")):
        tagger.predict([np.ones((2, 2))])
    with pytest.raises(ValueError, match="X holds feature dicts, wanted tables of numbers as in training"):
        tagger.predict(X)
    with pytest.raises(ValueError, match="X and y have no position with a label"):
        tagger.score(TABLES[:1], [[None] * 3])
    with pytest.raises(ValueError, match="sample_weight is zero everywhere"):
        tagger.fit(TABLES, NUMBERS, np.zeros(4))
