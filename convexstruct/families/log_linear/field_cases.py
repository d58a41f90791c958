r"""The cases of Markov random fields: built backwards from their optimum or by hand, enumerable, and over cliques.

**Backwards.** theta is optimal where C (s - M E_theta f) = lam theta + l1 v with v in the sign of theta. So with
C = M = 1 and a small penalty, theta is optimal for the moments m = E_theta f + lam theta + l1 v, if these are possible,
and the optimum is ln Z - <theta, m> + R(theta).
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import networkx as nx
import numpy as np

from convexstruct.arrays import Vector
from convexstruct.core.cases import Case, Instance
from convexstruct.families.log_linear.examples import image, triangle
from convexstruct.families.log_linear.markov_field import MarkovRandomField
from convexstruct.features.graphs.factors import Factors, factors_of_features, tabular_factors
from convexstruct.features.graphs.forbidden import forbid
from convexstruct.inference.factor_graphs import FactorInference

MRF, WIDE = "Markov random field", "approximate likelihood of wide fields"
EQUATIONS = "(20.4), (20.10)"


def features(rng: np.random.Generator, graph: nx.Graph, n_labels: int, n_features: int) -> Factors:
    """Random tables on three random edges each, and for every label but the first the number of nodes that have it."""
    edges = [tuple(map(int, edge)) for edge in graph.edges]
    listed: list[list[tuple[Any, Any]]] = []
    for _ in range(n_features):
        chosen = rng.choice(len(edges), size=min(3, len(edges)), replace=False)
        listed.append([(edges[e], rng.normal(size=(n_labels, n_labels))) for e in chosen])
    listed += [[((v,), np.eye(n_labels)[label]) for v in graph] for label in range(1, n_labels)]
    return factors_of_features([n_labels] * len(graph), listed)


def sampled(factors: Factors, seed: int, number: int, n: int, size: float = 0.7, **options: Any) -> Instance:
    """``n`` samples at random parameters."""
    rng = np.random.default_rng([number, seed])
    theta = size * rng.normal(size=factors.dimension)
    samples = FactorInference(factors).sample(factors.design @ theta, n, rng)
    return Instance(MarkovRandomField.read(factors, samples, **options))


# -- built backwards, and by hand --------------------------------------------------------------------------------------


def planted(factors: Factors, theta: Vector, lam: float, l1: float, rng: np.random.Generator) -> Instance:
    """The field with the moments at which theta is optimal."""
    sums = FactorInference(factors).sums(factors.design @ theta)
    v = np.where(theta != 0, np.sign(theta), rng.uniform(-0.9, 0.9, size=len(theta)))
    moments = factors.moments(sums.marginals) + lam * theta + l1 * v
    problem = MarkovRandomField.read(factors, moments=moments, l1=l1, beta=lam or None)
    optimum = sums.log_partition - float(theta @ moments) + 0.5 * lam * float(theta @ theta)
    return Instance(problem, optimum + l1 * float(np.abs(theta).sum()), {"theta": theta})


def planted_ridge(seed: int) -> Instance:
    rng = np.random.default_rng([71, seed])
    factors = features(rng, nx.cycle_graph(5), 3, 6)
    return planted(factors, 0.5 * rng.normal(size=factors.dimension), 0.02, 0.0, rng)


def planted_free(seed: int) -> Instance:
    rng = np.random.default_rng([72, seed])
    factors = features(rng, image(2, 3), 2, 5)
    return planted(factors, rng.normal(size=factors.dimension), 0.0, 0.0, rng)


def sparse(seed: int, number: int, lam: float, l1: float) -> Instance:
    """Every other parameter is 0."""
    rng = np.random.default_rng([number, seed])
    factors = features(rng, image(2, 3), 2, 5)
    theta = np.where(np.arange(factors.dimension) % 2, 0.0, 0.4 * rng.normal(size=factors.dimension))
    return planted(factors, theta, lam, l1, rng)


def tree(seed: int) -> Instance:
    """Tables on a tree without a penalty: the model has the edge tables of the data, so that the optimum is the sum of
    the entropies of the edges' counts less those of their separators."""
    rng = np.random.default_rng([73, seed])
    graph = nx.Graph([(0, 1), (1, 2), (1, 3), (3, 4)])
    counts = rng.integers(1, 9, size=(3,) * 5)
    factors = tabular_factors(graph, 3, nodes=False)
    tables = [counts.sum(axis=tuple(v for v in range(5) if v not in scope)) for scope in factors.scopes]
    problem = MarkovRandomField.read(factors, counts=tables)
    total = float(counts.sum())
    terms = [m * math.log(total / m) for table in tables for m in table.ravel().tolist()]
    for v in (1, 1, 3):  # a variable in k edges separates k - 1 times
        terms += [-m * math.log(total / m) for m in counts.sum(axis=tuple(u for u in range(5) if u != v)).tolist()]
    return Instance(problem, math.fsum(terms))


def border(seed: int) -> Instance:
    """E f00 = 2, E f11 = 0: half of the mass on 000, half on the three labels with one 1. No theta attains it."""
    return Instance(triangle((2.0, 0.0)), math.log(2.0) + 0.5 * math.log(3.0))


def uniform(seed: int) -> Instance:
    """Every joint label once: theta = 0."""
    factors = tabular_factors(image(2, 2), [2, 3, 2, 3])
    every = np.indices((2, 3, 2, 3)).reshape(4, -1).T
    problem = MarkovRandomField.read(factors, every, C=0.1)
    return Instance(problem, 0.1 * 36 * math.log(36.0), {"theta": np.zeros(factors.dimension)})


def closed_form(seed: int) -> Instance:
    """Tables on a chain without a penalty, where labels must not fall and all other pairs occur: the model has the
    tables of the data, so that the optimum is the sum of their entropies less those of the inner variables."""
    rng, never = np.random.default_rng([85, seed]), np.tri(3, k=-1, dtype=bool)
    factors, size = tabular_factors(nx.path_graph(4), len(never), nodes=False), len(never)
    counts = rng.integers(1, 9, size=(size,) * 4)
    for v in range(3):
        counts[(slice(None),) * v + np.nonzero(never)] = 0
    tables = [counts.sum(axis=tuple(v for v in range(4) if v not in scope)) for scope in factors.scopes]
    inner = [counts.sum(axis=tuple(u for u in range(4) if u != v)) for v in (1, 2)]
    total, terms = float(counts.sum()), []
    for sign, each in ((1.0, tables), (-1.0, inner)):
        terms += [sign * m * math.log(total / m) for table in each for m in table.ravel().tolist() if m]
    return Instance(MarkovRandomField.read(factors, counts=tables, forbidden=never), math.fsum(terms))


# -- the others --------------------------------------------------------------------------------------------------------


def inside(seed: int) -> Instance:
    return Instance(triangle((1.5, 0.3)))


def tied_cycle(seed: int) -> Instance:
    factors = tabular_factors(nx.cycle_graph(6), 3, tied=True)
    weights = np.random.default_rng([74, seed]).uniform(0.2, 3.0, size=50)
    return sampled(factors, seed, 75, 50, weights=weights, C_mean=20.0)


def configurations(seed: int) -> Instance:
    """A label of a variable, pairs along edges and across, and a triple are forbidden, on a grid."""
    rng = np.random.default_rng([86, seed])
    factors = tabular_factors(image(2, 3), 2)
    triple, across = np.zeros((2, 2, 2), dtype=bool), np.eye(2, dtype=bool)
    triple[1, 1, 1] = True
    never = [((4,), [True, False]), ((0, 1), [[False, True], [False, False]]), ((2, 3), across), ((5, 1, 2), triple)]
    bound = forbid(factors, never)
    samples = FactorInference(bound).sample(bound.design @ rng.normal(size=factors.dimension), 60, rng)
    return Instance(
        MarkovRandomField.read(factors, samples, forbidden=never, weights=rng.uniform(0.5, 2.0, 60), beta=0.5)
    )


def parts(seed: int) -> Instance:
    """A forest: two paths and a single variable, with one to four labels a variable."""
    graph = nx.Graph([(0, 2), (2, 5), (1, 3)])
    graph.add_node(4)
    return sampled(tabular_factors(graph, [2, 3, 4, 1, 3, 2]), seed, 79, 60, beta=0.2)


def chain(seed: int, scale: int = 1) -> Instance:
    """25 variables of four labels: far too many joint labels to write out."""
    return sampled(tabular_factors(nx.path_graph(25 * scale), 4), seed, 80, 200, lam=1e-3)


def _mrf(name: str, purpose: str, make: Any, formulation: str = "clique_entropy") -> Case:
    return Case(f"mrf-{name}", MRF, EQUATIONS, purpose, make, formulation)


def _drawn(name: str, purpose: str, factors: Factors, number: int, n: int, **options: Any) -> Case:
    """`sampled`, the case "mrf-``name``"."""
    return _mrf(name, purpose, partial(sampled, factors, number=number, n=n, **options))


#: A grid of nine binary variables.
SQUARE = tabular_factors(image(3, 3), 2)
#: The formulation over all joint labels.
WHOLE = "maximum_entropy"
#: The cases of Markov random fields.
FIELD_CASES: tuple[Case, ...] = (
    _mrf("planted", "the optimum is known by construction", planted_ridge, WHOLE),
    _mrf("planted-free", "the same without a penalty", planted_free, "likelihood"),
    _mrf("planted-lasso", "the same with an L1 penalty: zeros", partial(sparse, number=81, lam=0.0, l1=0.02), WHOLE),
    _mrf("planted-elastic", "the same with both", partial(sparse, number=82, lam=0.02, l1=0.01), "likelihood"),
    _mrf("tree", "tables on a tree without a penalty: the closed form", tree),
    _mrf("border", "moments on the border: an infimum that no theta attains", border, WHOLE),
    _mrf("uniform", "every joint label occurs once: theta = 0", uniform, WHOLE),
    _mrf("forbidden", "labels that never fall along a chain: the closed form", closed_form, WHOLE),
    _mrf("configurations", "labels, pairs and a triple are forbidden on a grid", configurations),
    _mrf("inside", "the triangle of CAMEL, moments inside", inside, WHOLE),
    _mrf("tied", "tied tables on a cycle, example weights, C / N", tied_cycle),
    _drawn("grid", "a grid by its junction tree", SQUARE, 76, 100, beta=1.0),
    _drawn("grid-lasso", "a grid with an L1 penalty", SQUARE, 83, 100, l1=3.0),
    _drawn("elastic", "a cycle with both penalties", tabular_factors(nx.cycle_graph(5), 3), 84, 80, C=0.5, l1=0.5),
    _drawn("grid-free", "a grid without a penalty", SQUARE, 77, 2000, size=0.4),
    _drawn("rare", "labels that never occur: no maximum", tabular_factors(nx.cycle_graph(4), 3), 78, 15),
    _mrf("parts", "a graph in parts, labels of unequal number", parts),
    _mrf("chain", "more joint labels than can be written out", chain),
    Case("bethe-tree", WIDE, "(20.17)-(20.23)", "Bethe entropies are exact on a tree: the closed form", tree, "camel"),
    Case("bethe-forbidden", WIDE, "(20.17)-(20.23)", "the same with forbidden pairs", closed_form, "camel"),
    Case("trw-forest", WIDE, "20.5", "tree-reweighted entropies are exact on a forest", parts, "tree_reweighted"),
)
