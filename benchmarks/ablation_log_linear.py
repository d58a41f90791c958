"""Each mechanism of L-BFGS on likelihoods, switched off on generated chains, images and samples of grids; and the rules
by which other solvers of likelihoods end and choose their steps. What a solver leaves uncertified is judged by exact
inference; the rounds of such a study are calls of the oracle."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import networkx as nx
import numpy as np
import scipy.sparse as sp

import convexstruct as cs
from benchmarks.ablation import Mechanism, Oracle, Study, numbers, options, seeds
from benchmarks.defaults import field
from convexstruct.core.iterate import Iterate
from convexstruct.families.log_linear import (
    LBFGS,
    ConditionalRandomField,
    DoubleLoop,
    ImportanceSampling,
    MarkovRandomField,
    coherent,
)
from convexstruct.features.graphs.factors import tabular_factors


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


def _stamped(chains: int, length: int, labels: int, seed: int, **options: Any) -> ConditionalRandomField:
    """Chains of positions with five normal features and the seconds since 1970."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(chains * length, 6))
    truth = (x @ rng.normal(size=(6, labels)) + 0.5 * rng.normal(size=(len(x), labels))).argmax(axis=1)
    x[:, 0] = 1.7e9 + 60 * np.arange(len(x))
    return ConditionalRandomField.read(x, np.split(truth, chains), labels, **options)


def _grid(side: int, samples: int, seed: int, **options: Any) -> MarkovRandomField:
    """Samples of a grid of binary variables, labels at random: there is a maximum."""
    factors = tabular_factors(nx.convert_node_labels_to_integers(nx.grid_2d_graph(side, side)), 2)
    rng = np.random.default_rng(seed)
    drawn = rng.random((samples, side * side)) < rng.random(side * side)
    return MarkovRandomField.read(factors, drawn.astype(int), **options)


def _tree(depth: int, samples: int, seed: int, **options: Any) -> MarkovRandomField:
    """Samples of a binary tree of variables with three labels, labels at random: beliefs are exact."""
    factors = tabular_factors(nx.balanced_tree(2, depth), 3)
    drawn = np.random.default_rng(seed).integers(3, size=(samples, factors.n_variables))
    return MarkovRandomField.read(factors, drawn, **options)


@dataclass(frozen=True)
class Chosen:
    """L-BFGS in the metric that follows from the features."""

    def iterate(self, problem: ConditionalRandomField, start: Any = None) -> Iterator[Iterate]:
        yield from LBFGS(metric="scalar" if coherent(problem.features) else "diagonal").iterate(problem, start)


def _by_inference(solver: Any) -> Oracle:
    """A run: calls of its oracle, and the gap of its theta by exact inference."""

    def call(problem: MarkovRandomField) -> tuple[int, float]:
        found = cs.solve(problem, solver)
        gap = cs.certify(problem, found.point, problem.witness(found.point["theta"])).gap
        return found.trace.oracle_calls[-1], gap

    return Oracle(call, calls=1)


DIAGONAL = (*options(memory=(1, 20), metric=("scalar",)), *numbers("lbfgs", RENEWAL_ROUNDS=((0, 10**9),)))
SCALAR = options(memory=(1, 20), metric=("diagonal",))
TABLES = options(memory=(6,), metric=("diagonal",))
MANY = numbers("lbfgs", SINGLE_FROM=(10**9,))
FREE = (Mechanism("no look for a missing maximum", patches={"lbfgs:separated": lambda *_: ""}),)
BOUNDED = numbers("solvers.descent", BOUNDED_BELOW=(math.inf, 1.0))
COHERENT = numbers("lbfgs", COHERENT_EIGENVALUE=(math.inf, 0.0), POWER_STEPS=(1,))
LOOP_ENDS = numbers("double_loop", STATIONARY=(0.0, 1e-11, 1e-9))
SAMPLED = _by_inference(ImportanceSampling())
SAMPLING_ENDS = numbers("importance_sampling", STATIONARY=(0.0, 1e-7, 1e-5))

STUDIES = [
    Study("crf, independent features", seeds(field, 60, 20, 8, 30, beta=1.0), LBFGS(), 1e-6, DIAGONAL),
    Study("crf, a time stamp", seeds(_stamped, 50, 4, 5, C=100.0), LBFGS(40), 1e-4, options(memory=(6, 20))),
    Study("crf, coherent features", seeds(_window, 60, 20, 6, 300, beta=0.1), LBFGS(metric="scalar"), 1e-6, SCALAR),
    Study("crf, many weights", seeds(_window, 200, 20, 20, 4000, beta=0.1, n=1), LBFGS(metric="scalar"), 1e-3, MANY),
    Study("crf, zeros", seeds(field, 60, 20, 8, 30, beta=1.0, l1=1.0), LBFGS(), 1e-6, DIAGONAL),
    Study("crf, no penalty", seeds(field, 200, 10, 3, 5), LBFGS(), 1e-6, (*DIAGONAL, *FREE)),
    Study("mrf, grid", seeds(_grid, 5, 300, beta=1.0), LBFGS(20, "scalar"), 1e-6, TABLES),
    Study("mrf, no penalty", seeds(_grid, 4, 300), LBFGS(), 1e-6, BOUNDED),
    Study("crf, metric, independent features", seeds(field, 60, 20, 8, 30, beta=1.0), Chosen(), 1e-6, COHERENT),
    Study("crf, metric, coherent features", seeds(_window, 60, 20, 6, 300, beta=0.1), Chosen(), 1e-6, COHERENT),
    Study("mrf, tree, double loop", seeds(_tree, 3, 300, lam=0.1), _by_inference(DoubleLoop()), 1e-8, LOOP_ENDS),
    Study("mrf, importance sampling", seeds(_grid, 4, 300, lam=0.1), SAMPLED, 1e-2, SAMPLING_ENDS),
]
