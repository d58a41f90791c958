"""Small problems whose labellings can be listed, feasible points and dual witnesses of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from convexstruct.arrays import Vector
from convexstruct.datasets.generated.networks import random_network
from convexstruct.families.generative_margin.constraints import AffineRows, Ceiling, Floor, KLBall, Tied
from convexstruct.families.generative_margin.objectives import QuadraticPenalty, ReverseKL, uniform
from convexstruct.families.generative_margin.problem import GenerativeMargin
from convexstruct.families.generative_margin.slack_penalties import (
    Capped,
    Exponential,
    Huber,
    Power,
    Quadratic,
)
from convexstruct.graphs import TableLayout, chain_graph
from tests.features.counts.labellings import random_labels


def random_c(problem: GenerativeMargin, rng: np.random.Generator) -> GenerativeMargin:
    """The same problem with c drawn at random."""
    drawn = rng.exponential(size=problem.dimension) + 0.05
    return GenerativeMargin(
        problem.features, drawn / problem.layout.block_sum(drawn)[problem.layout.block_of], problem.eta
    )


def small_hmm(seed: int, partly: bool = False) -> GenerativeMargin:
    rng = np.random.default_rng(seed)
    lengths = [3, 1, 4, 2]
    symbols, states = ([rng.integers(n, size=t) for t in lengths] for n in (3, 2))
    hidden = [np.arange(t) % 2 == 0 for t in lengths] if partly else None
    weights = [1.0, 2.0, 0.5, 1.5]
    problem = GenerativeMargin.hmm(symbols, states, 2, 3, eta=0.3, loss="ring", hidden=hidden, weights=weights)
    return random_c(problem, rng)


def small_network(seed: int) -> GenerativeMargin:
    rng = np.random.default_rng(seed)
    net = random_network(5, 4, states=(2, 3), seed=seed)
    hidden: list[Any] = [rng.choice(5, size=rng.integers(1, 4), replace=False).tolist() for _ in range(4)]
    return random_c(GenerativeMargin.network(net.graph, net.assignments, hidden, eta=0.3, weights=[1, 2, 0.5, 1]), rng)


MAKERS: list[Callable[[int], GenerativeMargin]] = [small_hmm, lambda seed: small_hmm(seed, True), small_network]
KINDS = ["hmm", "partly", "network"]
every_kind = pytest.mark.parametrize("make", MAKERS, ids=KINDS)


def in_turn(names: Sequence[str], first: int = 0) -> pytest.MarkDecorator:
    """Each name with one kind of problem, the kinds in turn from ``first``: how the pieces of a problem are evaluated
    does not depend on its kind, so that every pair would ask the same three times."""
    turns = [(name, (first + at) % len(MAKERS)) for at, name in enumerate(names)]
    each = [pytest.param(MAKERS[kind], name, id=f"{KINDS[kind]}-{name}") for name, kind in turns]
    return pytest.mark.parametrize(("make", "name"), each)


def one_variable(c: list[float], eta: float, loss: float = 1.0) -> GenerativeMargin:
    """One example, one hidden variable, nothing observed, the truth 0: P = -c'theta + eta max_s [theta_s - theta_0 +
    loss [s != 0]]_+, small enough for its optimum to be found by hand."""
    n = len(c)
    cost = loss * (1.0 - np.eye(n))
    return GenerativeMargin.network(chain_graph(1, n), [[0]], [0], eta=eta, c=np.array(c), loss=cost)


def feasible(problem: GenerativeMargin, rng: np.random.Generator, scale: float = 1.0) -> Vector:
    return problem.shift(scale * rng.normal(size=problem.dimension))


def random_witness(problem: GenerativeMargin, rng: np.random.Generator, weight: float = 1.0) -> dict[str, Any]:
    """Labellings and Gibbs distributions with random shares that sum to at most ``weight``."""
    k, d = problem.n_examples, problem.dimension
    labels = [random_labels(problem.examples, rng) for _ in range(3)]
    shares = rng.dirichlet(np.ones(4), size=k).T[:3] * 0.7 * weight
    shares[0, 1] = 0.0  # a labelling need not take part in every example
    gibbs = rng.normal(size=(2, d))
    gibbs_shares = np.repeat([[0.1], [0.2]], k, axis=1) * weight
    return {
        "labels": np.array(labels), "label_shares": shares,
        "gibbs": gibbs, "gibbs_loss": np.array([0.0, 2.0]), "gibbs_shares": gibbs_shares,
    }  # fmt: skip


def _reverse(layout: TableLayout) -> dict[str, Any]:
    f = ReverseKL(uniform(layout), 0.7)
    return {"f": f, "constraints": [f.floor(layout)]}


#: Pieces of (28)-(30) by name, for any layout; a general solver takes all but the reverse divergence.
COMBINATIONS: dict[str, Callable[[TableLayout], dict[str, Any]]] = {
    "quadratic": lambda _: {"h": Quadratic(0.5)},
    "slope and square": lambda _: {"h": Quadratic(2.0, 0.3)},
    "huber": lambda _: {"h": Huber(2.0)},
    "power": lambda _: {"h": Power(1.5)},
    "exponential": lambda _: {"h": Exponential(2.0)},
    "capped": lambda _: {"h": Capped(2.2)},
    "floor": lambda _: {"constraints": [Floor(-1.8)]},
    "floor and ceiling": lambda _: {"h": Quadratic(), "constraints": [Floor(-2.5), Ceiling(-0.45)]},
    "ceiling": lambda _: {"constraints": [Ceiling(-0.5)]},
    "quadratic term": lambda _: {"f": QuadraticPenalty(0.5, -1.0)},
    "term alone": lambda layout: {"f": QuadraticPenalty(0.5, -1.0), "c": np.zeros(layout.dimension), "h": Huber(1.0)},
    "ball": lambda _: {"constraints": [KLBall(None, 0.05)]},
    "tied": lambda layout: {"constraints": [Tied([[0, layout.dimension - 1]])]},
    "rows": lambda layout: {"h": Power(2.5), "constraints": [AffineRows(np.eye(layout.dimension)[:2], [-0.9, -0.8])]},
    "reverse divergence": _reverse,
}
STATED = [name for name in COMBINATIONS if name != "reverse divergence"]
