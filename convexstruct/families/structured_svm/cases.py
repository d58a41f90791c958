r"""The cases of papers 1, 3 and 4: structural SVMs built backwards from their optimum or solved by hand, enumerable
ones of every kind, and chains, trees and grids of middle size. Module `planted` says how they are built backwards.

**By hand.** Nodes without edges, each with a feature r_v of its own. S is the number of labels; alpha is spread evenly
over wrong labels. With the Hamming loss and margin scaling every node is a separate problem: its total t has
|Psi|^2 = (r t)^2 S / (S - 1), the best t is min(C omega, lam (S - 1) / (r^2 S)), its value
t - (r t)^2 S / (2 lam (S - 1)). With the zero-one loss alpha is spread over the labellings with one wrong label: node v
of an example gets t_v, proportional to 1 / r_v^2, so that all of them have one margin. With h = sum_v 1 / r_v^2, a
total of t has |Psi|^2 = t^2 S / ((S - 1) h), and the best t is min(C omega, lam h (S - 1) / S).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import networkx as nx
import numpy as np

from convexstruct.arrays import Matrix, Vector
from convexstruct.core.cases import Case, Instance, Make, seeded
from convexstruct.datasets.generated.structured import noisy_images, random_chains
from convexstruct.datasets.labelled import LabelledGraphs
from convexstruct.families.structured_svm.latent import LatentSVM
from convexstruct.families.structured_svm.oracle_cases import ORACLE_CASES
from convexstruct.families.structured_svm.planted import plant, plant_slack
from convexstruct.families.structured_svm.problem import StructuredSVM

SVM = "structural support vector machine"
M3N = "max-margin Markov network"
HM_SVM = "hidden Markov support vector machine"
AMN = "associative Markov network"
LATENT = "latent structural support vector machine"


def drawn(
    rng: np.random.Generator, lengths: Sequence[int], n_labels: int, n_features: int, *,
    graphs: Sequence[nx.Graph] | str = "chain", n_edge_features: int = 0, noise: float = 1.0, **options: Any,
) -> StructuredSVM:  # fmt: skip
    """Labels that tend to repeat, features around the label's mean; ``options`` are those of `StructuredSVM.read`."""
    labels = []
    for length in lengths:
        y = rng.integers(n_labels, size=length)
        for v in range(1, length):
            y[v] = y[v - 1] if rng.random() < 0.4 else y[v]
        labels.append(y)
    means = rng.normal(size=(n_labels, n_features))
    nodes = [means[y] + noise * rng.normal(size=(len(y), n_features)) for y in labels]
    if n_edge_features:
        shown = [nx.path_graph(n) for n in lengths] if isinstance(graphs, str) else list(graphs)
        options["edge_features"] = [rng.uniform(0.1, 1.0, (graph.size(), n_edge_features)) for graph in shown]
    return StructuredSVM.read(nodes, labels, n_labels, edges=graphs, **options)


def row(
    number: int, shapes: Sequence[Any], n_labels: int, n_features: int, *, trees: bool = False,
    weights: tuple[float, float] | None = None, then: Callable[..., Instance] | None = None, **options: Any,
) -> Make:  # fmt: skip
    """`drawn` as a row of data. shapes : graphs, or the lengths of chains or of trees. weights : bounds of
    those of the examples. then : what the problem is handed to, (problem, rng)."""

    def make(rng: np.random.Generator) -> StructuredSVM | Instance:
        each: Any = [tree(rng, n) for n in shapes] if trees else shapes
        data = dict(options)
        if isinstance(each[0], nx.Graph):
            data["graphs"], each = each, [len(graph) for graph in each]
        if weights is not None:
            data["weights"] = rng.uniform(*weights, size=len(each))
        problem = drawn(rng, each, n_labels, n_features, **data)
        return problem if then is None else then(problem, rng)

    return seeded(number, make)


def tree(rng: np.random.Generator, n: int) -> nx.Graph:
    """A tree on n nodes whose edges are in no order."""
    graph = nx.empty_graph(n)
    order = rng.permutation(n)
    graph.add_edges_from((int(order[k]), int(order[rng.integers(k)])) for k in range(1, n))
    return graph


def image(rows: int, columns: int) -> nx.Graph:
    return nx.convert_node_labels_to_integers(nx.grid_2d_graph(rows, columns))


# -- built backwards ---------------------------------------------------------------------------------------------------


#: Two of the chains have no violation.
planted = row(
    41, (1, 1, 3, 4, 6, 8, 5, 1), 4, 5, weights=(0.5, 2.0), C_mean=2.0, then=partial(plant, without_alpha=(6, 7))
)
#: With two labels, alpha has weight on the true label wherever labels tie.
planted_edges = row(42, (1, 5, 6, 1, 7, 4), 2, 6, trees=True, n_edge_features=2, lam=2.0, then=plant)
planted_slack = row(43, (1, 3, 4, 2, 5), 3, 4, C=1.5, then=plant_slack)
planted_loops = row(
    45, [nx.cycle_graph(5), image(3, 3), nx.complete_graph(4), nx.path_graph(1), image(2, 4)], 3, 4, C=0.1,
    then=partial(plant, without_alpha=(4,)),
)  # fmt: skip
#: Associative grids, far too wide for junction trees.
planted_grid = row(
    46, [image(21, 21), image(20, 26), image(1, 6)], 2, 4, n_edge_features=2, associative=True,
    inference="minimum_cut", C=0.003, then=plant,
)  # fmt: skip
#: Associative chains: part of Psi is negative, and w has 0 there.
planted_signs = row(
    47, (1, 4, 6, 5, 3), 3, 3, associative=True, n_edge_features=2, C=0.1, then=partial(plant, without_alpha=(4,))
)
#: Over the local polytope the planted labellings are optimal too, because a point with mass on another label of a fixed
#: node gains by moving it to that label.
planted_relaxed = row(48, [image(3, 4), nx.cycle_graph(3)], 3, 4, inference="relaxed", C=0.1, then=plant)


def planted_chains(seed: int) -> Instance:
    rng = np.random.default_rng([44, seed])
    problem = drawn(rng, rng.integers(1, 13, size=25).tolist(), 5, 8, beta=50.0)
    return plant(problem, rng, without_alpha=range(20, 25))


def hidden(planted: Instance, rng: np.random.Generator, examples: Sequence[int]) -> Instance:
    """``planted`` with the labels of ``examples`` hidden, or one of a set of two. They have no violation at its optimum
    w, and then none where less is known either, so that w stays optimal: the examples whose labels are known prove it.
    """
    svm = planted.problem
    assert isinstance(svm, StructuredSVM)
    features, size = svm.features, svm.features.n_labels
    truth = np.eye(size, dtype=bool)[features.truth]
    other = np.roll(truth, 1, axis=1)
    kind = np.where(np.isin(features.example, examples), rng.integers(3, size=features.n_nodes), 0)[:, None]
    known = np.where(kind == 0, truth, truth | other | (kind == 2))
    loss = replace(svm.loss, costs=np.where(known, 0.0, svm.loss.costs))
    return Instance(LatentSVM(replace(svm, loss=loss), known), planted.optimum, planted.point)


def latent_chains(seed: int) -> Instance:
    return hidden(planted(seed), np.random.default_rng([79, seed]), (6, 7))


def latent_loops(seed: int) -> Instance:
    return hidden(planted_loops(seed), np.random.default_rng([80, seed]), (4,))


def latent_observed(seed: int) -> Instance:
    """Every set of allowed labels has one member: the structural SVM of `cost_matrix`."""
    svm = cost_matrix(seed).problem
    assert isinstance(svm, StructuredSVM)
    return Instance(LatentSVM(svm, np.eye(svm.features.n_labels, dtype=bool)[svm.features.truth]))


def best_completion(instance: Instance) -> dict[str, Any]:
    """The completion at the planted w; of labels that are known, the labels."""
    problem = instance.problem
    assert isinstance(problem, LatentSVM)
    w = np.zeros(problem.dimension) if instance.point is None else instance.point["w"]
    return {"labels": problem.completed(w)}


def latent(name: str, purpose: str, make: Make, **options: Any) -> Case:
    return Case(f"latent-{name}", LATENT, "CCCP", purpose, make, "completed", arguments=best_completion, **options)


# -- by hand -----------------------------------------------------------------------------------------------------------


def apart(rng: np.random.Generator, lengths: Sequence[int]) -> tuple[list[Matrix], Vector]:
    """Node features r_v in dimensions of their own, and r (P,)."""
    r = rng.uniform(0.3, 3.0, size=sum(lengths))
    return np.split(np.diag(r), np.cumsum(lengths)[:-1]), r


def separate_nodes(seed: int) -> Instance:
    """The Hamming loss: some nodes reach their margin, others do not."""
    rng = np.random.default_rng([51, seed])
    lengths, size, C, lam = (3, 1, 4, 2), 3, 0.8, 1.0
    nodes, r = apart(rng, lengths)
    labels = [rng.integers(size, size=length) for length in lengths]
    omega = rng.uniform(0.5, 2.0, size=4)
    spread = size / (size - 1)
    t = np.minimum(C * np.repeat(omega, lengths), lam / (r**2 * spread))
    w = np.tile(-r * t / (lam * (size - 1)), (size, 1))
    w[np.concatenate(labels), np.arange(len(r))] = r * t / lam
    problem = StructuredSVM.read(nodes, labels, size, edges="none", weights=omega, C=C)
    return Instance(problem, float(np.sum(t - (r * t) ** 2 * spread / (2.0 * lam))), {"w": w.ravel()})


def separate_examples(seed: int) -> Instance:
    """The zero-one loss: one wrong label is as bad as all."""
    rng = np.random.default_rng([52, seed])
    lengths, size, lam = (3, 1, 4, 2, 2), 4, 0.4
    C = 1.0 / len(lengths)
    nodes, r = apart(rng, lengths)
    labels = [rng.integers(size, size=length) for length in lengths]
    example = np.repeat(np.arange(len(lengths)), lengths)
    spread = size / (size - 1)
    h = np.bincount(example, weights=1.0 / r**2)
    total = np.minimum(C, lam * h / spread)
    t = (total / h)[example] / r**2
    w = np.tile(-r * t / (lam * (size - 1)), (size, 1))
    w[np.concatenate(labels), np.arange(len(r))] = r * t / lam
    problem = StructuredSVM.read(nodes, labels, size, edges="none", loss="zero_one", lam=lam)
    return Instance(problem, float(np.sum(total - total**2 * spread / (2.0 * lam * h))), {"w": w.ravel()})


# -- small enough to write out -----------------------------------------------------------------------------------------

#: cost[true, predicted] of three labels, not symmetric.
COSTS = np.array([[0.0, 1.0, 2.0], [0.5, 0.0, 1.0], [3.0, 1.0, 0.0]])
#: A square, a grid, a complete graph of four nodes, or a triangle, and a node.
LOOPS = [nx.cycle_graph(4), image(2, 3), nx.complete_graph(4), nx.path_graph(1)]

enumerated = row(61, (1, 3, 2, 4, 4), 3, 2, C=1.0)
cost_matrix = row(62, (2, 4, 3, 1, 4, 3, 2, 3), 3, 1, loss=COSTS, weights=(0.3, 3.0), beta=2.0)
slack = row(63, (1, 3, 4, 4, 2), 3, 2, noise=3.0, scaling="slack", lam=0.1)
slack_costs = row(64, (3, 4, 2, 3, 3, 2, 4), 3, 2, loss=COSTS, scaling="slack", weights=(0.3, 3.0), C_mean=2.0)
slack_cycles = row(65, LOOPS, 2, 3, noise=3.0, scaling="slack", n_edge_features=2, beta=0.5)
length_one = row(67, (1,) * 12, 4, 3, C_mean=5.0)
#: Separable data, and a C so large that no slack is used: the hard margin.
large_C = row(68, (3, 4, 2, 4), 3, 4, noise=0.3, C=1e3)
#: Every multiplier is at its bound, and w is small.
small_C = row(69, (3, 4, 2, 4), 3, 4, beta=500.0)
hidden_markov = row(71, (3, 1, 4, 4, 2), 3, 3, loss="zero_one", weights=(0.5, 2.0), C=0.7)
zero_one_cycles = row(72, [*LOOPS[:2], nx.cycle_graph(3), LOOPS[3]], 2, 2, noise=3.0, loss="zero_one", C=3.0)
trees = row(73, (5, 4, 1, 5, 3), 3, 2, trees=True, n_edge_features=2, weights=(0.5, 2.0), lam=0.1)
#: In the scale beta of paper 3, as in its Theorem 1.
words = row(75, (5, 6, 1, 7, 4), 3, 3, beta=1.0)
associative_trees = row(76, (5, 4, 1, 5), 3, 2, trees=True, associative=True, C=1.0)


def ties(seed: int) -> Instance:
    """Every example twice: many labellings are most violated at once."""
    nodes = [np.ones((3, 2)), np.eye(2)] * 2
    return Instance(StructuredSVM.read(nodes, [[0, 1, 0], [1, 0]] * 2, 3, C=0.4))


def one_label(seed: int) -> Instance:
    """No labelling is wrong: the optimum is 0, at w = 0."""
    rng = np.random.default_rng([66, seed])
    problem = drawn(rng, (3, 1, 2), 1, 2, C=1.0)
    return Instance(problem, 0.0, {"w": np.zeros(problem.dimension)})


def kernel(seed: int) -> Instance:
    """A polynomial kernel between nodes in place of their features."""
    rng = np.random.default_rng([70, seed])
    lengths = (3, 2, 4, 1, 3)
    labels = [rng.integers(3, size=length) for length in lengths]
    x = np.concatenate(labels) + rng.normal(scale=0.5, size=sum(lengths))
    gram = (1.0 + np.outer(x, x)) ** 2
    return Instance(StructuredSVM.read(None, labels, 3, kernel=gram, C=0.2))


def cycles(seed: int) -> Instance:
    """Junction trees of several widths; costs node by node."""
    rng = np.random.default_rng([74, seed])
    graphs = [nx.cycle_graph(5), image(3, 3), nx.complete_graph(4), nx.path_graph(3), nx.cycle_graph(3)]
    problem = drawn(rng, [len(graph) for graph in graphs], 2, 3, graphs=graphs, C=0.5)
    costs = [rng.uniform(0.2, 2.0, size=(len(graph), 2)) for graph in graphs]
    at = np.split(problem.features.truth, problem.features.node_start[1:-1])
    for table, y in zip(costs, at):
        table[np.arange(len(y)), y] = 0.0
    x = np.split(problem.features.node_features, problem.features.node_start[1:-1])
    return Instance(StructuredSVM.read(x, at, 2, edges=graphs, loss=costs, C=0.2))


def paths_and_triangle(rng: np.random.Generator, inference: str) -> StructuredSVM:
    """Neighbours differ on the paths; on a triangle not all can, and marginals of 1/2 beat every labelling there."""
    labels = [(np.arange(3) + j) % 2 for j in range(4)]
    nodes = [np.eye(3, 1) * np.eye(2)[y[0]] for y in labels]
    graphs = [*[nx.path_graph(3)] * 4, nx.cycle_graph(3)]
    shown = [x + rng.normal(scale=0.02, size=(3, 2)) for x in [*nodes, np.zeros((3, 2))]]
    return StructuredSVM.read(shown, [*labels, [0, 0, 1]], 2, edges=graphs, inference=inference, C=1.0)


triangle, frustrated = (seeded(78, paths_and_triangle, inference) for inference in ("exact", "relaxed"))


# -- of middle size ----------------------------------------------------------------------------------------------------


def learned(data: LabelledGraphs, **options: Any) -> StructuredSVM:
    return StructuredSVM.read(
        data.node_features, data.labels_each, data.n_labels, edges=data.edges_each,
        edge_features=data.edge_features_each, **options,
    )  # fmt: skip


def sparse_chains(seed: int) -> Instance:
    """Sparse features, as words have them."""
    data = random_chains(40, (3, 10), 4, 60, active=5, seed=seed)
    return Instance(learned(data, C_mean=20.0))


def chains_small(seed: int, scale: int = 1) -> Instance:
    data = random_chains(20 * scale, (4, 9), 4, 6, seed=seed)
    return Instance(learned(data, C_mean=10.0))


def chains_middle(seed: int) -> Instance:
    data = random_chains(60, 12, 6, 12, seed=seed)
    return Instance(learned(data, C_mean=10.0))


def trees_middle(rng: np.random.Generator) -> StructuredSVM:
    """Trees of four shapes, ten of each."""
    graphs = [tree(rng, n) for n in (6, 9, 12, 15)] * 10
    return drawn(rng, [len(graph) for graph in graphs], 5, 10, graphs=graphs, C_mean=20.0)


def images(seed: int) -> Instance:
    data = noisy_images(8, (12, 16), (12, 16), seed=seed)
    return Instance(learned(data, associative=True, inference="minimum_cut", C=0.02))


#: All cases of the family.
CASES: tuple[Case, ...] = (
    Case("svm-planted", SVM, "(P), margin scaling", "the optimum is known by construction; weighted chains, ties",
         planted, "n_slack_cuts"),
    Case("svm-planted-edges", SVM, "(P), (D)",
         "the optimum is known; trees, edge features, alpha shares with the truth", planted_edges, "dual_alpha",
         quick=False),
    Case("svm-planted-slack", SVM, "(P), slack scaling", "the optimum is known by construction; slack scaling",
         planted_slack, "n_slack"),
    Case("svm-nodes", SVM, "(P), margin scaling", "solved by hand; some reach their margin", separate_nodes, "n_slack"),
    Case("svm-examples", SVM, "(P), zero-one loss", "solved by hand; one wrong label is as bad as all",
         separate_examples, "one_slack_cuts"),
    Case("svm-enumerated", SVM, "(P), margin scaling", "all labellings written out", enumerated, "n_slack"),
    Case("svm-costs", SVM, "(P), (D)", "weights, a cost matrix that is not symmetric; beta of paper 3", cost_matrix,
         "dual_alpha"),
    Case("svm-slack", SVM, "(P), slack scaling", "losses scale the slack; lam of paper 2", slack, "n_slack"),
    Case("svm-slack-costs", SVM, "(P), slack scaling", "the same with weights and a cost matrix; C/N of paper 1",
         slack_costs, "dual_alpha"),
    Case("svm-slack-cycles", SVM, "(P), slack scaling", "the same on cycles, with edge features", slack_cycles,
         "n_slack", quick=False),
    Case("svm-ties", SVM, "single slack formulation", "equal examples, equal labels: ties", ties, "one_slack_cuts"),
    Case("svm-one-label", SVM, "(P)", "one label: nothing to learn", one_label, "n_slack"),
    Case("svm-length-one", SVM, "(P)", "no edges: a multi-class SVM; the reference by SCS", length_one, "n_slack",
         formulation_solver="SCS"),
    Case("svm-large-c", SVM, "(P)", "slack is too dear to use", large_C, "n_slack"),
    Case("hm-hard-margin", HM_SVM, "Simple-Max-Margin", "no slack at all", large_C, "hard_margin"),
    Case("hm-hard-margin-cuts", HM_SVM, "cutting planes", "the same, row by row", large_C, "hard_margin_cuts"),
    Case("svm-small-c", SVM, "(D)", "every multiplier at its bound", small_C, "dual_alpha"),
    Case("svm-kernel", SVM, "(D)", "nodes by a Gram matrix alone", kernel, "dual_kernel"),
    Case("svm-sparse", SVM, "cutting-plane algorithm", "40 chains of 3 to 10 nodes, sparse features", sparse_chains,
         "n_slack_cuts", quick=False),
    Case("hm-svm", HM_SVM, "Slack variables", "a constant margin; weights, a length of 1", hidden_markov, "hm_svm"),
    Case("hm-svm-cycles", HM_SVM, "Slack variables", "the same on cycles", zero_one_cycles, "hm_svm", quick=False),
    Case("m3n-planted", M3N, "(5), corrected", "the optimum is known by construction; 25 chains of 1 to 12 nodes",
         planted_chains, "marginals"),
    Case("m3n-planted-loops", M3N, "(5) over cliques", "the optimum is known; cycles, grids, a complete graph",
         planted_loops, "marginals", quick=False),
    Case("m3n-theorem-1", M3N, "(8), corrected", "the matrix form of paper 3", words, "matrix_form"),
    Case("m3n-trees", M3N, "(5), corrected", "weights, edge features whose edges stand in no order", trees, "marginals",
         quick=False),
    Case("m3n-cycles", M3N, "(5) over cliques", "junction trees; costs node by node", cycles, "marginals", quick=False),
    Case("m3n-triangle", M3N, "(5) over cliques", "the local polytope is too large here", triangle, "marginals"),
    Case("m3n-planted-relaxed", M3N, "(5) on cycles", "the optimum is known; a grid over the local polytope",
         planted_relaxed, "local_relaxation", quick=False),
    Case("m3n-frustrated", M3N, "(5) on cycles", "no labelling is best: the local polytope has a better point",
         frustrated, "local_relaxation", quick=False),
    Case("m3n-chains", M3N, "(5), corrected", "20 chains of 4 to 9 nodes, 4 labels", chains_small, "marginals"),
    Case("m3n-chains-middle", M3N, "(5), corrected", "60 chains of 12 nodes, 6 labels", chains_middle, "marginals",
         quick=False, open=False),
    Case("m3n-trees-middle", M3N, "(5), corrected", "40 trees of 6 to 15 nodes, 5 labels", seeded(77, trees_middle),
         "marginals", quick=False, open=False),
    Case("amn-planted-signs", AMN, "(P)", "the optimum is known; part of Psi is negative", planted_signs,
         "n_slack_cuts", quick=False),
    Case("amn-planted-grid", AMN, "(4)-(6)", "the optimum is known; grids too wide for junction trees, minimum cuts",
         planted_grid, "associative", quick=False),
    Case("amn-trees", AMN, "(4)-(6)", "three labels on trees", associative_trees, "associative", quick=False),
    Case("amn-images", AMN, "(4)-(6)", "noisy images of two labels, minimum cuts", images, "associative", quick=False,
         open=False),
    latent("chains", "the optimum is known; labels hidden, sets of two labels", latent_chains),
    latent("loops", "the same on a grid, beside cycles", latent_loops, quick=False),
    latent("observed", "every label is known: a structural SVM", latent_observed),
    *ORACLE_CASES,
)  # fmt: skip
