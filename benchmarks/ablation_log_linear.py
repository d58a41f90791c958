"""Each mechanism of L-BFGS on likelihoods, switched off on generated chains, images and samples of grids."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import networkx as nx
import numpy as np
import scipy.sparse as sp

from benchmarks.ablation import Mechanism, Study
from convexstruct import datasets
from convexstruct.families.log_linear import LBFGS, ConditionalRandomField, MarkovRandomField, OrthantWise
from convexstruct.features.graphs.factors import tabular_factors

DESCENT = "convexstruct.families.log_linear.solvers.descent"
SOLVER = "convexstruct.families.log_linear.solvers.lbfgs"


def _each(make: Callable[..., Any], *sizes: int, instances: int = 3, **options: Any) -> list[Callable[[], Any]]:
    """``make`` from the seeds 1, 2, ..."""
    return [functools.partial(make, *sizes, seed, **options) for seed in range(1, instances + 1)]


def _chain(chains: int, length: int, labels: int, features: int, seed: int, **options: Any) -> ConditionalRandomField:
    """Chains drawn from planted weights; features do not depend on one another."""
    data = datasets.random_chains(chains, length, labels, features, seed=seed)
    return ConditionalRandomField.read(data.node_features, data.labels_each, data.n_labels, **options)


def _window(chains: int, length: int, labels: int, words: int, seed: int, **options: Any) -> ConditionalRandomField:
    """Words of Zipf's law, each with its own distribution of labels. Features are indicators of the words of a window
    of five, of their classes of ten words, and of both for all neighbours in it: they occur together, as in chunking.
    """
    rng = np.random.default_rng(seed)
    frequent = 1.0 / np.arange(1, words + 1)
    of_word = rng.dirichlet(np.full(labels, 0.2), size=words)
    word = rng.choice(words, size=(chains, length), p=frequent / frequent.sum())
    truth = [np.array([rng.choice(labels, p=of_word[w]) for w in row]) for row in word]
    shown = np.stack([np.roll(word, step, axis=1) for step in range(-2, 3)], axis=2).reshape(-1, 5)
    kinds = [each for one in (shown, shown // 10) for each in (one, one[:, :-1] * words + one[:, 1:])]
    names = np.hstack(kinds)
    names += words**2 * np.arange(names.shape[1])
    columns = np.unique(names, return_inverse=True)[1].reshape(names.shape)
    starts = np.arange(0, columns.size + 1, columns.shape[1])
    x = sp.csr_array((np.ones(columns.size), columns.ravel(), starts))
    return ConditionalRandomField.read(x, truth, labels, **options)


def _grid(side: int, samples: int, seed: int, **options: Any) -> MarkovRandomField:
    """Samples of a grid of binary variables, labels at random: there is a maximum."""
    factors = tabular_factors(nx.convert_node_labels_to_integers(nx.grid_2d_graph(side, side)), 2)
    rng = np.random.default_rng(seed)
    drawn = rng.random((samples, side * side)) < rng.random(side * side)
    return MarkovRandomField.read(factors, drawn.astype(int), **options)


PAIRS = (
    Mechanism("six pairs (one)", {"memory": 1}),
    Mechanism("six pairs (twenty)", {"memory": 20}),
)
DIAGONAL = (
    *PAIRS,
    Mechanism("diagonal metric", {"metric": "scalar"}),
    Mechanism("diagonal renewed (RENEWAL_ROUNDS)", patches={f"{SOLVER}:RENEWAL_ROUNDS": (0, 10**9)}),
)
SCALAR = (
    *PAIRS,
    Mechanism("scalar metric where features are coherent", {"metric": "diagonal"}),
)
MANY = (Mechanism("many weights' pairs in single precision (SINGLE_FROM)", patches={f"{SOLVER}:SINGLE_FROM": 10**9}),)
FREE = (Mechanism("no look for a missing maximum", patches={f"{SOLVER}:separated": lambda problem, here: ""}),)
BOUNDED = (
    Mechanism("bounds only near the end (BOUNDED_BELOW)", patches={f"{DESCENT}:BOUNDED_BELOW": math.inf}),
    Mechanism("bounds sooner (BOUNDED_BELOW)", patches={f"{DESCENT}:BOUNDED_BELOW": 1.0}),
)

STUDIES = [
    Study("crf, independent features", _each(_chain, 60, 20, 8, 30, beta=1.0), LBFGS(), 1e-6, DIAGONAL),
    Study("crf, coherent features", _each(_window, 60, 20, 6, 300, beta=0.1), LBFGS(metric="scalar"), 1e-6, SCALAR),
    Study(
        "crf, many weights",
        _each(_window, 200, 20, 20, 4000, beta=0.1, instances=1),
        LBFGS(metric="scalar"),
        1e-3,
        MANY,
    ),
    Study("crf, zeros", _each(_chain, 60, 20, 8, 30, beta=1.0, l1=1.0), OrthantWise(), 1e-6, DIAGONAL),
    Study("crf, no penalty", _each(_chain, 200, 10, 3, 5), LBFGS(), 1e-6, (*DIAGONAL, *FREE)),
    Study("mrf, grid", _each(_grid, 5, 300, beta=1.0), LBFGS(), 1e-6, DIAGONAL),
    Study("mrf, no penalty", _each(_grid, 4, 300), LBFGS(), 1e-6, BOUNDED),
]
