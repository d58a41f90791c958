"""Random Bayesian networks and samples from them."""

from __future__ import annotations

from dataclasses import dataclass

import networkx as nx
import numpy as np

from convexstruct.arrays import Labels, Vector
from convexstruct.brief import brief
from convexstruct.graphs import read_bayesian_network
from convexstruct.validation.arguments import number, refuse, sentence, sequence, sized, whole
from convexstruct.validation.arguments import seed as read_seed
from convexstruct.validation.arrays import real

#: What the argument ``states`` must be, for messages.
STATES_WANTED = "the least number of states and the most"


@dataclass(frozen=True)
class SampledNetwork:
    """A Bayesian network and assignments drawn from it.

    graph : a DiGraph with ``states`` on its nodes 0 .. n - 1. assignments : (n_samples, n).
    theta : (d,) the true log conditional probabilities, in the layout of `read_bayesian_network(graph).tables`.
    """

    graph: nx.DiGraph
    assignments: Labels
    theta: Vector

    __repr__ = brief


def random_network(
    n_nodes: int,
    n_samples: int,
    states: tuple[int, int] = (2, 3),
    max_parents: int = 2,
    concentration: float = 1.0,
    seed: int = 0,
) -> SampledNetwork:
    """A random DAG with random tables, and samples from it. ValueError if a number is out of its range.

    Each node has up to ``max_parents`` parents among those before it, and between states[0] and states[1] states; each
    conditional distribution is drawn from the Dirichlet distribution of parameter ``concentration`` (small: nearly
    deterministic).
    """
    n_nodes, n_samples = whole("n_nodes", n_nodes, least=1), whole("n_samples", n_samples, least=1)
    sized("n_samples", n_samples, n_nodes * n_samples)
    least, most = (whole("states", each, least=1) for each in sequence("states", states, STATES_WANTED, length=2))
    if most < least:
        refuse("states", states, STATES_WANTED)
    max_parents = whole("max_parents", max_parents, least=0)
    number("concentration", concentration, above=0)
    rng = np.random.default_rng(read_seed("seed", seed))
    graph = nx.DiGraph()
    for v in range(n_nodes):
        graph.add_node(v, states=int(rng.integers(least, most + 1)))
        count = int(rng.integers(min(v, max_parents) + 1))
        graph.add_edges_from((int(u), v) for u in rng.choice(v, size=count, replace=False))
    theta = random_theta(graph, concentration, rng)
    return SampledNetwork(graph, sample_network(graph, theta, n_samples, rng), theta)


def random_theta(graph: nx.DiGraph, concentration: float, rng: np.random.Generator) -> Vector:
    """Log conditional probabilities (d,) of ``graph``, each distribution drawn from a symmetric Dirichlet of parameter
    ``concentration``; ValueError if that is not positive."""
    number("concentration", concentration, above=0)
    tables = read_bayesian_network(graph).tables
    drawn = np.maximum(rng.gamma(concentration, size=tables.dimension), np.finfo(float).tiny)
    return np.log(drawn) - np.log(tables.block_sum(drawn))[tables.block_of]


def sample_network(graph: nx.DiGraph, theta: Vector, n_samples: int, rng: np.random.Generator) -> Labels:
    """Assignments (n_samples, n_nodes) drawn forward from the network with log probabilities ``theta`` (d,).

    A block of theta whose probabilities do not sum to one is scaled to do so. ValueError if theta has another length,
    or holds NaN or infinity.
    """
    network = read_bayesian_network(graph)
    n_samples = sized("n_samples", whole("n_samples", n_samples, least=1), n_samples * len(network.nodes))
    theta = real("theta", theta, (network.tables.dimension,), finite=False)
    if not (theta < np.inf).all():
        raise sentence("theta contains NaN or infinity, wanted logarithms of probabilities: numbers, or -infinity")
    tables = network.tables.tables(theta)
    assignments = np.zeros((n_samples, len(network.nodes)), dtype=np.int64)
    position = {node: i for i, node in enumerate(network.nodes)}
    for node in nx.topological_sort(graph):
        v = position[node]
        table = tables[network.tables.names[network.table_of[v]]]
        rows = table[tuple(assignments[:, u] for u in network.parents[v])]
        noise = rng.gumbel(size=(n_samples, network.cards[v]))
        assignments[:, v] = (rows + noise).argmax(axis=1)
    return assignments
