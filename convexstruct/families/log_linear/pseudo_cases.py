"""The cases of pseudolikelihood: optima by hand, tied and free parameters, both penalties, inputs."""

from __future__ import annotations

import math

import networkx as nx
import numpy as np

from convexstruct.core.cases import Case, Instance, Make, seeded
from convexstruct.families.log_linear.examples import image, ising
from convexstruct.families.log_linear.pseudolikelihood import PseudoLikelihood
from convexstruct.features.graphs.factors import factors_of_features, tabular_factors
from convexstruct.features.graphs.forbidden import forbid
from convexstruct.inference.gibbs import Gibbs
from convexstruct.oracles.enumeration import labellings

PL = "pseudolikelihood"


def coin(seed: int) -> Instance:
    """One variable, label 1 in 7 of 10 samples, l1 = 1: the optimum has p = 6 / 10, theta = ln(6 / 4)."""
    problem = PseudoLikelihood.read(factors_of_features([2], [[((0,), [0.0, 1.0])]]), [[1]] * 7 + [[0]] * 3, l1=1.0)
    theta = math.log(6 / 4)
    return Instance(problem, 10 * math.log(10 / 4) - 6 * theta, {"theta": np.array([theta])})


def uniform(seed: int) -> Instance:
    """Every joint label once: theta = 0, whatever the penalty."""
    factors = tabular_factors(nx.path_graph(3), [2, 3, 2])
    problem = PseudoLikelihood.read(factors, labellings(factors.cards), beta=0.7)
    return Instance(problem, 12 * math.log(12), {"theta": np.zeros(factors.dimension)})


def tied_cycle(rng: np.random.Generator) -> PseudoLikelihood:
    """Redundant tied tables on a cycle, example weights, the scale C / N."""
    factors = tabular_factors(nx.cycle_graph(5), 3, tied=True)
    weights = rng.random(40) + 0.5
    return PseudoLikelihood.read(factors, rng.integers(3, size=(40, 5)), weights=weights, C_mean=10.0)


def on_grid(rng: np.random.Generator, **penalty: float) -> PseudoLikelihood:
    """A parameter for each edge and node of a 5 x 5 grid; 60 samples, each from a Gibbs chain of its own."""
    factors = ising(image(5, 5))
    flat = np.asarray(factors.design @ (0.5 * rng.normal(size=factors.dimension)))
    samples = Gibbs(factors).sweeps(flat, rng.integers(2, size=(60, 25)), 20, rng)
    return PseudoLikelihood.read(factors, samples, **penalty)


def inputs(rng: np.random.Generator) -> PseudoLikelihood:
    """A factor of three variables, one of which is an input only."""
    features = [[((0, 1, 2), rng.normal(size=(2, 3, 2)))] for _ in range(4)] + [[((0, 1), rng.normal(size=(2, 3)))]]
    factors = factors_of_features([2, 3, 2], features)
    samples = np.column_stack([rng.integers(card, size=30) for card in factors.cards])
    return PseudoLikelihood.read(factors, samples, targets=[0, 1], C=1.0)


def forbidden(rng: np.random.Generator) -> PseudoLikelihood:
    """Neighbours on a grid may not both have label 1: many conditionals have one label."""
    factors = tabular_factors(image(4, 4), 2)
    never = np.array([[False, False], [False, True]])
    flat = np.asarray(factors.design @ rng.normal(size=factors.dimension))
    samples = Gibbs(forbid(factors, never)).sweeps(flat, np.zeros((60, 16), dtype=np.int64), 20, rng)
    return PseudoLikelihood.read(factors, samples, forbidden=never, beta=0.5)


def _pl(name: str, purpose: str, make: Make) -> Case:
    return Case(f"pl-{name}", PL, "(20.31)", purpose, make, "pseudolikelihood")


#: The cases of pseudolikelihood.
PSEUDO_CASES: tuple[Case, ...] = (
    _pl("coin", "one variable with an L1 penalty: the optimum by hand", coin),
    _pl("uniform", "every joint label occurs once: theta = 0", uniform),
    _pl("tied", "tied tables on a cycle, redundant, example weights, C / N", seeded(81, tied_cycle)),
    _pl("grid", "a grid with an L2 penalty", seeded(82, on_grid, beta=0.5)),
    _pl("grid-lasso", "a grid with an L1 penalty", seeded(82, on_grid, l1=4.0)),
    _pl("grid-elastic", "a grid with both penalties", seeded(82, on_grid, l1=2.0, beta=1.0)),
    _pl("forbidden", "a grid on which neighbours may not both have label 1", seeded(84, forbidden)),
    _pl("inputs", "a factor of three variables, one of them an input only", seeded(83, inputs)),
)
