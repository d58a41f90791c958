from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from convexstruct import datasets
from convexstruct.datasets.generated.hidden_markov import hidden_markov
from convexstruct.datasets.generated.networks import random_network
from convexstruct.verification.fingerprint import fingerprint

#: Every generator, with small sizes.
GENERATORS: dict[str, Callable[[int], Any]] = {
    "hidden Markov": lambda seed: hidden_markov(0.9, seed=seed),
    "ring": lambda seed: datasets.ring(3, 4, 3, seed=seed),
    "dense margins": lambda seed: datasets.dense_margins(30, 12, seed=seed),
    "sparse margins": lambda seed: datasets.sparse_margins(30, 12, seed=seed),
    "network": lambda seed: random_network(7, 20, seed=seed),
    "chains": lambda seed: datasets.random_chains(5, (2, 6), 3, 4, seed=seed),
    "trees": lambda seed: datasets.random_trees(5, (2, 6), 3, 4, seed=seed),
    "graphs": lambda seed: datasets.random_graphs(5, (2, 6), 3, 4, seed=seed),
    "images": lambda seed: datasets.noisy_images(2, 4, 4, seed=seed),
}


@pytest.mark.parametrize("make", GENERATORS.values(), ids=GENERATORS)
def test_one_seed_gives_one_set_and_another_seed_another(make: Callable[[int], Any]) -> None:
    one, same, other = (fingerprint(make(seed), exact=True) for seed in (1, 1, 2))
    assert one == same != other
