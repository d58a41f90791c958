"""One contract of prediction in every family: ``problem.predict(point, examples=None)`` returns a list;
`test_trivial` has the problems' own examples."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import networkx as nx
import numpy as np
import pytest

import convexstruct as cs
from convexstruct.families.generative_margin import GenerativeMargin
from convexstruct.graphs import chain_graph
from tests.core.problems import KINDS

X = [np.random.default_rng(i).normal(size=(n, 2)) for i, n in enumerate((3, 5))]
Y = [np.array([0, 1, 2]), np.array([2, 1, 0, 0, 1])]
SYMBOLS, STATES = [[0, 1, 2], [1, 1]], [[0, 1, 1], [1, 0]]
SAMPLES = [[0, 1, 0], [1, 1, 0], [0, 0, 1]]
GRAM = np.concatenate(X) @ np.concatenate(X).T
Made = Callable[[], Any]


def path() -> Any:
    return cs.tabular_factors(nx.path_graph(3), 2)


def channels() -> GenerativeMargin:
    return GenerativeMargin.hmm([np.eye(2, dtype=int)], [[0, 1]], 2, 2, eta=0.5)


def choice() -> Any:
    """A number with one label of two, by functions; ``best`` always answers 0."""
    return cs.StructuredSVM.from_oracle(
        lambda x, y: x * np.eye(2)[y[0]],
        lambda y, other: float(y[0] != other[0]),
        lambda x, y, w: [0],
        [(1.0, [0])],
        C=1.0,
    )


#: Each reader of a problem, new examples without labels, and the shape of each prediction.
NEW: dict[str, tuple[Made, Any, list[tuple[int, ...]]]] = {
    "chains": (lambda: cs.StructuredSVM.read(X, Y, 3, C=1.0), [X[1], X[0][:1]], [(5,), (1,)]),
    "latent": (lambda: cs.LatentSVM.read(X, [[-1, 1, 2], [2, -1, -1, 0, 1]], 3, C=1.0), [X[1], X[0][:1]], [(5,), (1,)]),
    "slack": (lambda: cs.StructuredSVM.read(X, Y, 3, C=1.0, scaling="slack"), [X[1]], [(5,)]),
    "trees": (
        lambda: cs.StructuredSVM.read(X, Y, 3, C=1.0, edges=[nx.star_graph(2), nx.star_graph(4)]),
        {"node_features": [X[0]], "edges": [nx.path_graph(3)]}, [(3,)],
    ),
    "features of edges": (
        lambda: cs.StructuredSVM.read(X, Y, 3, C=1.0, edge_features=[np.ones((2, 2)), np.ones((4, 2))]),
        {"node_features": [X[0]], "edge_features": [np.ones((2, 2))]}, [(3,)],
    ),
    "kernel": (lambda: cs.StructuredSVM.read(None, Y, 3, C=1.0, kernel=GRAM), [GRAM[:2]], [(2,)]),
    "oracle": (choice, [2.0, 3.0], [(1,), (1,)]),
    "conditional": (lambda: cs.ConditionalRandomField.read(X, Y, 3, C=1.0), [X[1], X[0][:1]], [(5,), (1,)]),
    "hidden, conditional": (
        lambda: cs.HiddenField.conditional(X, [[-1, 1, 2], [2, -1, -1, 0, 1]], 3, lam=0.1), [X[0]], [(3,)],
    ),
    "hidden, unconditional": (
        lambda: cs.HiddenField.unconditional(path(), [[-1, 0, 1]], lam=0.1), [[-1, 0, -1]], [(3,)],
    ),
    "field": (lambda: cs.MarkovRandomField.read(path(), SAMPLES, lam=0.1), [[-1, 0, -1], [1, -1, 1]], [(3,), (3,)]),
    "wide": (lambda: cs.ApproximateField.read(path(), SAMPLES, lam=0.1), [[-1, 0, -1]], [(3,)]),
    "pseudolikelihood": (lambda: cs.PseudoLikelihood.read(path(), SAMPLES, lam=0.1), [[-1, 0, -1]], [(3,)]),
    "hidden Markov": (lambda: cs.HiddenMarkov.read(SYMBOLS, 2, 3), [[2, 1], [0]], [(2,), (1,)]),
    "hmm": (lambda: cs.GenerativeMargin.hmm(SYMBOLS, STATES, 2, 3, eta=0.5), [[2, 1], [0]], [(2,), (1,)]),
    "hmm with channels": (channels, [np.ones((3, 2), dtype=int)], [(3,)]),
    "network": (
        lambda: cs.GenerativeMargin.network(chain_graph(3, 2), SAMPLES, [0, 2], eta=0.5), [[-1, 0, -1], [1, -1, 1]],
        [(2,), (1,)],
    ),
    "process": (lambda: cs.GaussianProcessSequences.read(X, Y, 3), [X[0], X[1][:1]], [(3,), (1,)]),
    "process, Gram": (lambda: cs.GaussianProcessSequences.from_gram(GRAM, Y, 3), [GRAM[:2]], [(2,)]),
    "labelling": (
        lambda: cs.MarginLabelling(cs.UnsupervisedMargin.read(X, 3, beta=1.0, label_balance=1.0)), [X[1], X[0][:1]],
        [(5,), (1,)],
    ),
    "steps": (lambda: cs.UnrolledEnergyNetwork(X[0], np.eye(3, dtype=int), 0.1), X[1], [(3,)] * 5),
    "energies": (lambda: cs.ConvexEnergyNetwork(X[0], np.eye(3, dtype=int), 0.1), X[1], [(3,)] * 5),
    "binary": (lambda: cs.RegularizedRisk.binary(X[0], [1, 2, 1], 0.1), X[1], [()] * 5),
    "multiclass": (lambda: cs.RegularizedRisk.multiclass(X[0], Y[0], 0.1), X[1], [()] * 5),
    "multilabel": (lambda: cs.RegularizedRisk.multilabel(X[0], np.eye(3), 0.1), X[1], [(3,)] * 5),
    "ordinal": (lambda: cs.RegularizedRisk.ordinal(X[0], Y[0], 0.1), X[1], [()] * 5),
    "pieces": (lambda: cs.RegularizedRisk.pieces(X[0], np.zeros(3), 0.1), X[1], [()] * 5),
}  # fmt: skip
#: What labels no new examples, and says so.
REFUSED = {"BoxProjection", "EnergyInference", "MarginalProjection", "PermutationInvariantMargin", "UnsupervisedMargin"}


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("name", NEW)
def test_a_point_with_nan_or_infinity_predicts_nothing(name: str, value: float) -> None:
    made, examples, _ = NEW[name]
    problem = made()
    for key, array in problem.trivial()[0].items():
        spoiled = {k: np.array(v, dtype=float) for k, v in problem.trivial()[0].items()}
        if array.size == 0 or (problem.family == "generative_margin" and value == -np.inf):  # the logarithm of 0
            continue
        spoiled[key].flat[-1] = value
        for asked in (None, examples):
            with pytest.raises(ValueError, match=rf"point\['{key}'\] contains NaN or infinity, wanted finite numbers"):
                problem.predict(spoiled, asked)


@pytest.mark.parametrize("name", NEW)
def test_new_examples_come_without_labels(name: str) -> None:
    made, examples, shapes = NEW[name]
    problem = made()
    found = problem.predict(problem.trivial()[0], examples)
    assert isinstance(found, list)
    assert [np.shape(each) for each in found] == shapes


def test_every_kind_of_problem_predicts_new_examples_or_is_known_to_refuse() -> None:
    assert {type(made()).__name__ for made, _, _ in NEW.values()} == {kind.__name__ for kind in KINDS} - REFUSED
