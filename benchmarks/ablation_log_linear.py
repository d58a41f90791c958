"""Each mechanism of L-BFGS on likelihoods, switched off on generated chains, images and samples of grids; and the rules
by which other solvers of likelihoods end and choose their steps. What a solver leaves uncertified is judged by exact
inference, or by how far its end is from stationary; the rounds of such a study are calls of the oracle."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import networkx as nx
import numpy as np
import scipy.sparse as sp

import convexstruct as cs
from benchmarks.ablation import Mechanism, Oracle, Study
from convexstruct import datasets
from convexstruct.core.iterate import Iterate
from convexstruct.families.log_linear import (
    LBFGS,
    AveragedSGD,
    ConditionalRandomField,
    DoubleLoop,
    ExpectationMaximisation,
    HiddenField,
    ImportanceSampling,
    MarkovRandomField,
    coherent,
)
from convexstruct.features.graphs.factors import tabular_factors

SOLVERS = "convexstruct.families.log_linear.solvers"
DESCENT, SOLVER, SGD = f"{SOLVERS}.descent", f"{SOLVERS}.lbfgs", f"{SOLVERS}.averaged_sgd"
MAXIMISATION, SAMPLING = f"{SOLVERS}.expectation_maximisation", f"{SOLVERS}.importance_sampling"


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


def _tree(depth: int, samples: int, seed: int, **options: Any) -> MarkovRandomField:
    """Samples of a binary tree of variables with three labels, labels at random: beliefs are exact."""
    factors = tabular_factors(nx.balanced_tree(2, depth), 3)
    drawn = np.random.default_rng(seed).integers(3, size=(samples, factors.n_variables))
    return MarkovRandomField.read(factors, drawn, **options)


def _partly(chains: int, length: int, labels: int, features: int, seed: int, **options: Any) -> HiddenField:
    """Chains as above; of half of the nodes any label but the last, or any but the first, is possible."""
    data = datasets.random_chains(chains, length, labels, features, seed=seed)
    rng = np.random.default_rng(seed)
    possible = []
    for y in data.labels_each:
        known = np.eye(labels, dtype=bool)[y]
        open_ = np.ones_like(known)
        open_[np.arange(len(y)), np.where(y == 0, labels - 1, 0)] = False
        possible.append(np.where(rng.random((len(y), 1)) < 0.5, open_, known))
    return HiddenField.conditional(data.node_features, possible, **options)


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


def _to_stationarity(solver: Any) -> Oracle:
    """A run: calls of its oracle, and how far its end is from stationary."""

    def call(problem: HiddenField) -> tuple[int, float]:
        found = cs.solve(problem, solver)
        return found.trace.oracle_calls[-1], problem.stationarity(found.point)

    return Oracle(call, calls=1)


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
TABLES = (
    Mechanism("twenty pairs (six)", {"memory": 6}),
    Mechanism("scalar metric of tables", {"metric": "diagonal"}),
)
MANY = (Mechanism("many weights' pairs in single precision (SINGLE_FROM)", patches={f"{SOLVER}:SINGLE_FROM": 10**9}),)
FREE = (Mechanism("no look for a missing maximum", patches={f"{SOLVER}:separated": lambda problem, here: ""}),)
BOUNDED = (
    Mechanism("bounds only near the end (BOUNDED_BELOW)", patches={f"{DESCENT}:BOUNDED_BELOW": math.inf}),
    Mechanism("bounds sooner (BOUNDED_BELOW)", patches={f"{DESCENT}:BOUNDED_BELOW": 1.0}),
)
COHERENT = (
    Mechanism("scalar metric (COHERENT_EIGENVALUE)", patches={f"{SOLVER}:COHERENT_EIGENVALUE": math.inf}),
    Mechanism("diagonal metric (COHERENT_EIGENVALUE)", patches={f"{SOLVER}:COHERENT_EIGENVALUE": 0.0}),
    Mechanism("power method (POWER_STEPS)", patches={f"{SOLVER}:POWER_STEPS": 1}),
)
STEPS = (
    Mechanism("choice of gamma_0 (POWERS)", patches={f"{SGD}:POWERS": (0,)}),
    Mechanism("gamma_0 by several steps (SAMPLED_BATCHES)", patches={f"{SGD}:SAMPLED_BATCHES": 1}),
    Mechanism("gamma_0 by more steps (SAMPLED_BATCHES)", patches={f"{SGD}:SAMPLED_BATCHES": 3}),
)
ROUGH = (
    Mechanism("M steps that end early (GRADIENT_FALL)", patches={f"{MAXIMISATION}:GRADIENT_FALL": 0.0}),
    Mechanism("M steps not too accurate (GRADIENT_FALL)", patches={f"{MAXIMISATION}:GRADIENT_FALL": 0.1}),
)


def _ends(place: str, below: float, above: float) -> tuple[Mechanism, ...]:
    return (
        Mechanism("end before rounding (STATIONARY)", patches={f"{place}:STATIONARY": 0.0}),
        Mechanism("end sooner (STATIONARY)", patches={f"{place}:STATIONARY": below}),
        Mechanism("end no sooner (STATIONARY)", patches={f"{place}:STATIONARY": above}),
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
    Study("crf, zeros", _each(_chain, 60, 20, 8, 30, beta=1.0, l1=1.0), LBFGS(), 1e-6, DIAGONAL),
    Study("crf, no penalty", _each(_chain, 200, 10, 3, 5), LBFGS(), 1e-6, (*DIAGONAL, *FREE)),
    Study("mrf, grid", _each(_grid, 5, 300, beta=1.0), LBFGS(20, "scalar"), 1e-6, TABLES),
    Study("mrf, no penalty", _each(_grid, 4, 300), LBFGS(), 1e-6, BOUNDED),
    Study("crf, metric, independent features", _each(_chain, 60, 20, 8, 30, beta=1.0), Chosen(), 1e-6, COHERENT),
    Study("crf, metric, coherent features", _each(_window, 60, 20, 6, 300, beta=0.1), Chosen(), 1e-6, COHERENT),
    Study("crf, averaged SGD", _each(_chain, 200, 10, 4, 15, instances=2, beta=1.0), AveragedSGD(batch=4), 0.1, STEPS),
    Study(
        "hidden, EM", _each(_partly, 20, 8, 4, 5, lam=1e-3), _to_stationarity(ExpectationMaximisation()), 1e-4, ROUGH
    ),
    Study(
        "mrf, tree, double loop",
        _each(_tree, 3, 300, lam=0.1),
        _by_inference(DoubleLoop()),
        1e-8,
        _ends(f"{SOLVERS}.double_loop", 1e-11, 1e-9),
    ),
    Study(
        "mrf, importance sampling",
        _each(_grid, 4, 300, lam=0.1),
        _by_inference(ImportanceSampling()),
        1e-2,
        _ends(SAMPLING, 1e-7, 1e-5),
    ),
]
