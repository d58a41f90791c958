"""Small instances that can be written out: hidden Markov models and Bayesian networks, ragged, weighted, with ties."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from convexstruct.arrays import Vector
from convexstruct.datasets.generated.networks import random_network
from convexstruct.families.generative_margin.problem import GenerativeMargin


def hmm(
    seed: int,
    n_states: int = 3,
    n_symbols: int = 2,
    lengths: tuple[int, ...] = (1, 3, 2, 4),
    eta: float = 0.3,
    loss: str = "ring",
    weighted: bool = True,
    masked: bool = False,
    uniform: bool = False,
) -> GenerativeMargin:
    rng = np.random.default_rng(seed)
    symbols = [rng.integers(n_symbols, size=n) for n in lengths]
    states = [rng.integers(n_states, size=n) for n in lengths]
    hidden = None
    if masked:
        hidden = [rng.random(n) < 0.6 for n in lengths]
        for mask in hidden:
            mask[rng.integers(len(mask))] = True
    weights = rng.uniform(0.5, 2.0, size=len(lengths)) if weighted else None
    problem = GenerativeMargin.hmm(
        symbols, states, n_states, n_symbols, eta=eta, loss=loss, weights=weights, hidden=hidden
    )
    return problem if uniform else GenerativeMargin(problem.features, random_c(problem, rng), eta)


def network(seed: int, eta: float = 0.5) -> GenerativeMargin:
    sampled = random_network(6, 4, seed=seed)
    rng = np.random.default_rng(seed)
    hidden = [sorted(rng.choice(6, size=rng.integers(1, 5), replace=False).tolist()) for _ in range(4)]
    return GenerativeMargin.network(
        sampled.graph, sampled.assignments, hidden, eta=eta, weights=rng.uniform(0.5, 2.0, size=4)
    )


def random_c(problem: GenerativeMargin, rng: np.random.Generator) -> Vector:
    """One distribution a block, all entries positive."""
    drawn = rng.gamma(2.0, size=problem.dimension) + 0.05
    return np.asarray(drawn / problem.layout.block_sum(drawn)[problem.layout.block_of])


INSTANCES: dict[str, Callable[[], GenerativeMargin]] = {
    "ring loss, ragged, weighted": lambda: hmm(0),
    "hamming loss, two states": lambda: hmm(1, n_states=2, n_symbols=3, eta=1.5, loss="hamming"),
    "hidden masks": lambda: hmm(2, masked=True, eta=2.0),
    "uniform c and repeated data: ties": lambda: hmm(
        3, n_states=2, lengths=(2, 2, 2), loss="hamming", weighted=False, uniform=True
    ),
    "one symbol: emissions carry nothing": lambda: hmm(4, n_symbols=1, eta=0.8),
    "large eta": lambda: hmm(5, n_states=2, eta=20.0),
    "network, hidden sets differ": lambda: network(0),
    "network, another": lambda: network(2, eta=2.0),
}
