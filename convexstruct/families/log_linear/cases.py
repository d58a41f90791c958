"""The cases of log-linear models: built backwards from their optimum, enumerable, and of middle size."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import networkx as nx
import numpy as np

from convexstruct.core.cases import Case, Instance, Make
from convexstruct.families.log_linear.conditional import ConditionalRandomField
from convexstruct.families.log_linear.field_cases import FIELD_CASES
from convexstruct.families.log_linear.hidden import HiddenField
from convexstruct.families.log_linear.hidden_markov import HiddenMarkov
from convexstruct.families.log_linear.planted import flat, planted_lasso, planted_ridge
from convexstruct.families.log_linear.pseudo_cases import PSEUDO_CASES
from convexstruct.features.graphs.factors import tabular_factors

CRF = "conditional random field"
HMM = "hidden Markov model by Baum-Welch"
HIDDEN = "log-linear model with hidden variables"


# -- conditional random fields -----------------------------------------------------------------------------------------


def star(n: int) -> nx.Graph:
    """n nodes, one of them the centre."""
    return nx.star_graph(n - 1)


def drawn(seed: int, number: int, lengths: Sequence[int], n_labels: int, **options: Any) -> Instance:
    """Three features a position, and labels that follow the first of them more often than not."""
    rng = np.random.default_rng([number, seed])
    inputs = [rng.normal(size=(length, 3)) for length in lengths]
    labels = []
    for one in inputs:
        near = np.clip(np.floor((one[:, 0] + 1.5) / 3.0 * n_labels), 0, n_labels - 1).astype(np.int64)
        labels.append(np.where(rng.random(len(one)) < 0.7, near, rng.integers(n_labels, size=len(one))))
    return Instance(ConditionalRandomField.read(inputs, labels, n_labels, **options))


def on_graphs(seed: int, number: int, shape: Callable[[int], nx.Graph], n_features: int, **options: Any) -> Instance:
    """Two features a node on graphs of 3 to 5 nodes, ``n_features`` an edge; 0: one shared table."""
    rng = np.random.default_rng([number, seed])
    graphs = [shape(n) for n in (4, 3, 5)]
    labels = [rng.integers(3, size=len(graph)) for graph in graphs]
    inputs = [np.eye(3)[one][:, :2] + 0.7 * rng.normal(size=(len(one), 2)) for one in labels]
    of_edges = [rng.normal(size=(graph.number_of_edges(), n_features)) for graph in graphs] if n_features else None
    return Instance(ConditionalRandomField.read(inputs, labels, 3, edges=graphs, edge_features=of_edges, **options))


def forbidden(seed: int) -> Instance:
    """Labels must not fall along a chain; the true ones do not."""
    rng = np.random.default_rng([57, seed])
    labels = [np.sort(rng.integers(3, size=length)) for length in (4, 3, 5)]
    inputs = [np.eye(3)[one] + rng.normal(size=(len(one), 3)) for one in labels]
    return Instance(ConditionalRandomField.read(inputs, labels, 3, forbidden=np.tri(3, k=-1, dtype=bool), beta=0.5))


# -- hidden variables: cases where a certificate exists; the others are not convex -------------------------------------


def observed(seed: int) -> Instance:
    """Every set of possible labels has one member: the conditional random field of `drawn`."""
    crf = drawn(seed, 71, (3, 1, 4), 3, beta=0.4).problem
    assert isinstance(crf, ConditionalRandomField)
    return Instance(HiddenField(crf, np.eye(3, dtype=bool)[crf.features.truth]))


def observed_field(seed: int) -> Instance:
    """Samples of a cycle, of which every label is observed."""
    samples = np.random.default_rng([72, seed]).integers(2, size=(12, 4))
    return Instance(HiddenField.unconditional(tabular_factors(nx.cycle_graph(4), 2), samples, C=0.7))


def single_sets(seed: int) -> Instance:
    """Sets of allowed labels with one member each, and forbidden pairs: the Markov random field of the samples."""
    rng = np.random.default_rng([75, seed])
    factors, never = tabular_factors(nx.cycle_graph(4), 3), np.array([[0, 0, 1], [0, 0, 0], [0, 0, 0]], dtype=bool)
    samples = rng.integers(2, size=(10, 4)) + rng.integers(2, size=(10, 1))  # 0 and 1, or 1 and 2: never 0 beside 2
    return Instance(HiddenField.unconditional(factors, samples[:, :, None] == np.arange(3), forbidden=never, beta=0.3))


def nothing_known(seed: int) -> Instance:
    """No label is known: P is the penalty."""
    inputs = list(np.random.default_rng([73, seed]).normal(size=(2, 3, 2)))
    return Instance(HiddenField.conditional(inputs, [np.ones((3, 2), dtype=bool)] * 2, C=1.0))


def length_one_models(seed: int) -> Instance:
    """Sequences of one symbol: optimal if every state emits with their frequencies; the optimum is the entropy of these
    times the weight of all sequences."""
    rng = np.random.default_rng([74, seed])
    symbols, weights = rng.permutation(np.repeat(np.arange(4), 3)), rng.uniform(0.5, 2.0, 12)
    problem = HiddenMarkov.read([[x] for x in symbols.tolist()], 2, 4, weights=weights)
    seen = np.bincount(symbols, weights)
    shares = seen / seen.sum()
    point = {"initial": np.full(2, 0.5), "transition": np.full((2, 2), 0.5), "emission": np.tile(shares, (2, 1))}
    return Instance(problem, -float(seen @ np.log(shares)), point)


def at_the_point(instance: Instance) -> dict[str, Any]:
    return {"theta_0": instance.point}


def _crf(name: str, purpose: str, make: Callable[..., Instance], **data: Any) -> Case:
    """``data`` : further arguments of ``make``."""
    return Case(f"crf-{name}", CRF, "conditional", purpose, partial(make, **data) if data else make, "likelihood")


def _hidden(name: str, purpose: str, make: Make) -> Case:
    return Case(f"hidden-{name}", HIDDEN, "20.3.3", purpose, make, "expected_likelihood")


#: Lengths of four chains.
FOUR = (4, 3, 4, 2)
#: All cases of the family.
CASES: tuple[Case, ...] = (
    _crf("planted", "the optimum is known by construction", planted_ridge),
    _crf("planted-lasso", "the same with zeros, by l1", planted_lasso),
    _crf("flat", "every labelling occurs as often: theta = 0", flat),
    _crf("chains", "chains of length 1 to 4", drawn, number=51, lengths=(3, 1, 4, 2), n_labels=3, C=1.0),
    _crf("weights", "example weights, C / N", drawn, number=52, lengths=(4, 3, 4), n_labels=3, C_mean=5.0,
         weights=[0.2, 1.0, 3.0]),
    _crf("weak", "little penalty: the truth is nearly certain", drawn, number=53, lengths=(4, 4, 3, 4), n_labels=3,
         lam=1e-3),
    _crf("strong", "much penalty: scores near 0", drawn, number=54, lengths=(4, 4, 3), n_labels=3, beta=100.0),
    _crf("length-one", "no edge: logistic regression", drawn, number=55, lengths=(1,) * 9, n_labels=4, beta=0.3),
    _crf("one-label", "nothing to learn: the optimum is 0", drawn, number=56, lengths=(3, 2), n_labels=1, C=1.0),
    _crf("forbidden", "labels that never fall along a chain", forbidden),
    _crf("stars", "trees that share one table", on_graphs, number=58, shape=star, n_features=0, C=2.0),
    _crf("stars-features", "trees, features of edges", on_graphs, number=59, shape=star, n_features=2, C=1.0),
    _crf("cycles", "junction trees, features of edges", on_graphs, number=60, shape=nx.cycle_graph, n_features=1,
         C=1.0),
    _crf("lasso", "l1 alone: moments in a box", drawn, number=62, lengths=FOUR, n_labels=3, l1=0.4),
    _crf("elastic", "l1 and l2", drawn, number=63, lengths=FOUR, n_labels=3, beta=0.1, l1=0.2),
    *FIELD_CASES,
    *PSEUDO_CASES,
    _hidden("observed", "single labels: it is a CRF", observed),
    _hidden("observed-field", "no gap: a random field", observed_field),
    _hidden("single-sets", "sets of one label each", single_sets),
    Case("hidden-markov-length-one", HMM, "20.3.3", "the optimum is an entropy of the data", length_one_models,
         "expected_counts", arguments=at_the_point),
    _hidden("nothing-known", "no label: the optimum is 0", nothing_known),
)  # fmt: skip
