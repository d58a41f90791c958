"""How often the passes of oracles and bounds look at the deadline: once a step at least, in each direction.

A pass over one example that is as large as a data set takes seconds; without these checks a limit would be kept only
between passes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import networkx as nx
import numpy as np
import pytest

from convexstruct import deadline
from convexstruct.families.log_linear import MarkovRandomField, clique_entropy
from convexstruct.features.graphs.factors import tabular_factors
from convexstruct.graphs import chains
from convexstruct.junction_trees import junction_tree
from convexstruct.oracles.chain import chain, log_sums
from convexstruct.oracles.tree import forest
from convexstruct.oracles.tree import junction_tree as trees

#: The length of the one example.
N = 60


def of_chain(run: Callable[..., Any], spread: float) -> Callable[[], Any]:
    """``run`` on a chain of N nodes with two labels, whose edge scores range over ``spread``."""
    scores, edge = np.random.default_rng(0).normal(size=(N, 2)), np.array([[0.0, spread], [spread / 2, 0.0]])
    return lambda: run(chains([N]), scores, edge)


def of_forest(run: Callable[..., Any], *more: Any) -> Callable[[], Any]:
    layout = forest.forest(N, [(i, i + 1) for i in range(N - 1)])
    return lambda: run(layout, np.zeros((N, 2)), np.eye(2), *more)


def of_tree(run: Callable[..., Any], *more: Any) -> Callable[[], Any]:
    tree = junction_tree(nx.path_graph(N), [2] * N)
    return lambda: run(tree, [((i, i + 1), np.eye(2)[None]) for i in range(N - 1)], 1, *more)


def field() -> MarkovRandomField:
    samples = np.random.default_rng(0).integers(2, size=(30, 9))
    return MarkovRandomField.read(
        tabular_factors(nx.convert_node_labels_to_integers(nx.grid_2d_graph(3, 3)), 2), samples
    )


def restored() -> Any:
    problem = field()
    return clique_entropy.restored(problem.polytope, problem.gibbs(np.zeros(problem.dimension)), problem.moments)


#: By name what runs, and how many checks it makes at least.
PASSES: dict[str, tuple[Callable[[], Any], int]] = {
    "viterbi": (of_chain(chain.viterbi, 1.0), N - 1),
    "max-marginals": (of_chain(chain.max_marginals, 1.0), 2 * N - 2),
    "sums, rescaled": (of_chain(chain.sum_product, 1.0), 2 * N - 1),
    "sums of large scores": (of_chain(log_sums.log_messages, 1.0), 2 * N - 1),
    "sums of huge scores": (of_chain(chain.sum_product, 1e6), 2 * N - 2),
    "forest, best": (of_forest(forest.best), 2 * N - 2),
    "forest, sums": (of_forest(forest.sum_product), 2 * N - 2),
    "forest, sample": (of_forest(forest.sample, np.random.default_rng(0)), 2 * N - 2),
    "junction tree, best": (of_tree(trees.best), 2 * N - 2),
    "junction tree, max-marginals": (of_tree(trees.max_marginals), 3 * N - 4),
    "junction tree, sums": (of_tree(trees.sum_product), 3 * N - 4),
    "moments restored": (restored, 40),
}


@pytest.mark.parametrize("name", PASSES)
def test_a_pass_looks_at_the_deadline_in_each_of_its_steps(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    run, least = PASSES[name]
    monkeypatch.setattr(clique_entropy, "LARGEST_DENSE", 0)
    looked = [0]
    monkeypatch.setattr(deadline, "check", lambda needed=0.0: looked.__setitem__(0, looked[0] + 1))
    run()
    assert looked[0] >= least, looked
