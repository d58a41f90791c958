r"""The cases of paper 0: instances built backwards from their optimum, enumerable ones, and chains of middle size.

**Built backwards.** Take theta* with 1'e^{theta*_i} = 1 and a best labelling s_k of a_k(s)'theta* + b_k(s) for each
example. With beta_k(s_k) = eta w_k, mu = eta sum_k w_k a_k(s_k), and lambda_i = V_i = 1 - sum_j mu_ij > 0, let

    c = mu + V e^{theta*}.

If c >= 0 it is a distribution in each block (sum_j mu_ij + V_i = 1), and (theta*, beta, lambda) satisfies all
optimality conditions of (P): v = c - mu = V e^{theta*} is stationarity, the rest is complementary. So the optimum is
P(theta*), exactly. Where several labellings tie and beta is spread over them, theta* lies on a kink.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import networkx as nx
import numpy as np

from convexstruct.arrays import Labels, Vector
from convexstruct.core.cases import Case, Instance, Make, seeded
from convexstruct.datasets.generated.ring import EASY, ring
from convexstruct.families.generative_margin.constraints import Ceiling, Floor, KLBall, Tied
from convexstruct.families.generative_margin.objectives import QuadraticPenalty
from convexstruct.families.generative_margin.problem import GenerativeMargin
from convexstruct.families.generative_margin.slack_penalties import (
    Capped,
    Exponential,
    Huber,
    Power,
    Quadratic,
)

HMM = "discriminative training of a hidden Markov model"
NETWORK = "discriminative training of a Bayesian network"
GENERAL = "discriminative training with general objectives"
RESCALED = "discriminative training with slacks rescaled by the loss"


def sequences(
    rng: np.random.Generator, lengths: Sequence[int], n_states: int, n_symbols: int
) -> tuple[list[Labels], list[Labels]]:
    """Symbols and states that agree more often than chance: symbol = state mod n_symbols, two times in three."""
    states = [rng.integers(0, n_states, size=length) for length in lengths]
    noise = [rng.integers(0, n_symbols, size=length) for length in lengths]
    symbols = [np.where(rng.random(len(s)) < 2 / 3, s % n_symbols, other) for s, other in zip(states, noise)]
    return symbols, states


def row(
    number: int, lengths: Sequence[int], n_states: int, n_symbols: int,
    then: Callable[..., Any] = lambda problem, rng: problem, **options: Any,
) -> Make:  # fmt: skip
    """A hidden Markov model as a row of data. then : what the problem is handed to, (problem, rng)."""

    def make(rng: np.random.Generator) -> Any:
        symbols, states = sequences(rng, lengths, n_states, n_symbols)
        return then(GenerativeMargin.hmm(symbols, states, n_states, n_symbols, **options), rng)

    return seeded(number, make)


# -- built backwards ---------------------------------------------------------------------------------------------------


def plant(problem: GenerativeMargin, theta: Vector, labellings: Sequence[Labels]) -> Instance:
    """Choose eta and c so that theta is optimal with beta spread evenly over ``labellings`` (all best at theta).

    eta is 0.8 of the largest value at which c >= 0 and V > 0 still hold.
    """
    layout = problem.layout
    truth = 0.0 if problem.rescaled else problem.truth_counts
    unit = np.mean([problem.margins.counts(labels) for labels in labellings], axis=0) - truth
    total = layout.block_sum(unit)
    # c = eta unit + (1 - eta total) e^theta and V = 1 - eta total, both linear in eta.
    fall = np.concatenate(((total[layout.block_of] * np.exp(theta) - unit) / np.exp(theta), total))
    eta = 0.8 / float(np.max(fall, initial=1.0))
    c = eta * unit + (1.0 - eta * total)[layout.block_of] * np.exp(theta)
    planted = replace(problem, c=c, eta=eta)
    return Instance(planted, planted.primal({"theta": theta}), {"theta": theta})


def near_the_data(problem: GenerativeMargin, rng: np.random.Generator) -> Vector:
    """theta of a model near the smoothed frequencies, so that few decisions are wrong and eta may be large."""
    raw = np.log(problem.truth_counts + 0.5) + rng.normal(scale=0.1, size=problem.dimension)
    return np.asarray(raw - problem.layout.block_logsumexp(raw)[problem.layout.block_of])


def plant_near(problem: GenerativeMargin, rng: np.random.Generator) -> Instance:
    """theta* near the data, and one best labelling there."""
    theta = near_the_data(problem, rng)
    return plant(problem, theta, [problem.oracle.best(theta, 1.0)[1]])


def planted_kink(seed: int) -> Instance:
    """States 1 and 2 look alike at theta*: wherever both are wrong they tie, and beta is spread over the ties."""
    rng = np.random.default_rng([2, seed])
    symbols, states = sequences(rng, (5, 5, 6, 7), 4, 3)
    problem = GenerativeMargin.hmm(symbols, states, 4, 3, eta=1.0)
    tables = {name: table.copy() for name, table in problem.layout.tables(near_the_data(problem, rng)).items()}
    for name, axis in (("initial", 0), ("transition", 0), ("transition", 1), ("emission", 0)):
        rows = np.moveaxis(tables[name], axis, 0)
        rows[2] = rows[1]
    stacked = np.concatenate([table.ravel() for table in tables.values()])
    theta = np.asarray(stacked - problem.layout.block_logsumexp(stacked)[problem.layout.block_of])
    best = problem.oracle.best(theta, 1.0)[1]
    free = np.isin(best, (1, 2)) & ~np.isin(problem.examples.truth, (1, 2))
    spread = [np.where(free & (rng.random(best.size) < 0.5), 3 - best, best) for _ in range(8)]
    return plant(problem, theta, [best, *spread])


def planted_missing_mass(seed: int) -> Instance:
    """No mass is left for one block: lambda_i = V_i = 0 there, and 1'e^{theta*_i} = 0.7 is as good as 1.

    State 2 is never true, but often decoded, so that mu sums to eta times the number of its uses over the emission
    block of state 2. With eta the inverse of that number V_i = 0. theta* is drawn again until c >= 0 elsewhere.
    """
    rng = np.random.default_rng([12, seed])
    while True:
        lengths = (3, 4, 5, 6)
        states = [rng.integers(0, 2, size=length) for length in lengths]
        symbols = [rng.integers(0, 3, size=length) for length in lengths]
        problem = GenerativeMargin.hmm(symbols, states, 3, 3, eta=1.0)
        layout = problem.layout
        raw = rng.normal(scale=0.5, size=problem.dimension)
        emptied = layout.block_of[layout.offsets[2] + 2 * 3]
        theta = raw - layout.block_logsumexp(raw)[layout.block_of] + np.log(0.7) * (layout.block_of == emptied)
        unit = problem.features.counts(problem.oracle.best(theta, 1.0)[1]) - problem.truth_counts
        total = layout.block_sum(unit)
        if total[emptied] <= 0 or total.max() > total[emptied]:
            continue
        eta = 1.0 / float(total[emptied])
        c = eta * unit + np.maximum(1.0 - eta * total, 0.0)[layout.block_of] * np.exp(theta)
        if c.min() >= 0:
            planted = replace(problem, c=c, eta=eta)
            return Instance(planted, planted.primal({"theta": theta}), {"theta": theta})


def at_the_optimum(instance: Instance) -> dict[str, Any]:
    """(P_n) with the optimum of (P) as its centre theta^n, a fixed point of the proximal step: p_n* = p*."""
    assert instance.point is not None
    return {"gamma": 0.5, "centre": instance.point["theta"]}


#: A random model, six sequences of unequal lengths.
planted_hmm = row(1, (1, 4, 5, 7, 8, 8), 3, 4, plant_near, eta=1.0)


# -- hidden Markov models ----------------------------------------------------------------------------------------------


def frequencies(problem: GenerativeMargin, rng: np.random.Generator) -> GenerativeMargin:
    """c has the frequencies of the true labels; where one is 0, mu <= c gives no weight to labellings that use it."""
    total = problem.layout.block_sum(problem.truth_counts)[problem.layout.block_of]
    return replace(problem, c=np.where(total > 0, problem.truth_counts / np.maximum(total, 1.0), problem.c))


enumerated = row(4, (3, 4, 4, 2), 3, 3, eta=0.3)
length_one = row(5, (1, 1, 1, 1, 1), 4, 2, eta=0.4)
#: The margin term outweighs c by far: probabilities near 0 at the optimum.
large_eta = row(8, (4, 4, 3), 3, 3, eta=20.0, loss="ring")
zeros_in_c = row(13, (3, 4, 4, 2), 3, 3, frequencies, eta=0.3)


def ties(seed: int) -> Instance:
    """Every example twice, every state equally often: many labellings are best at once."""
    symbols = [np.array([0, 1, 0]), np.array([1, 0, 1])] * 2
    states = [np.array([0, 1, 0]), np.array([1, 0, 1])] * 2
    return Instance(GenerativeMargin.hmm(symbols, states, 2, 2, eta=0.5))


def hidden_masks(seed: int) -> Instance:
    rng = np.random.default_rng([6, seed])
    symbols, states = sequences(rng, (5, 6, 3, 5), 3, 4)
    hidden = [rng.random(len(s)) < 0.5 for s in states]
    for mask in hidden:
        mask[int(rng.integers(mask.size))] = True
    return Instance(GenerativeMargin.hmm(symbols, states, 3, 4, eta=0.3, hidden=hidden))


def weights(seed: int) -> Instance:
    """Example weights, a cost matrix that is not symmetric, and a c that is not uniform."""
    rng = np.random.default_rng([7, seed])
    symbols, states = sequences(rng, (3, 4, 3, 4), 3, 3)
    cost = rng.uniform(0.5, 2.0, size=(3, 3)) * (1 - np.eye(3))
    c = {
        "initial": rng.dirichlet(np.full(3, 3.0)),
        "transition": rng.dirichlet(np.full(3, 3.0), size=3),
        "emission": rng.dirichlet(np.full(3, 3.0), size=3),
    }
    each = rng.uniform(0.5, 3.0, size=4)
    return Instance(GenerativeMargin.hmm(symbols, states, 3, 3, eta=0.2, c=c, loss=cost, weights=each))


def on_the_ring(n_sequences: int, length: int, n_states: int, seed: int) -> Instance:
    data = ring(n_sequences, length=length, n_states=n_states, noise=EASY, seed=seed + 1)
    return Instance(GenerativeMargin.hmm(data.symbols, data.states, n_states, data.n_symbols, eta=0.1, loss="ring"))


def ring_small(seed: int, scale: int = 1) -> Instance:
    return on_the_ring(20 * scale, 12, 5, seed)


# -- Bayesian networks -------------------------------------------------------------------------------------------------


def diamond() -> nx.DiGraph:
    """class -> left, right -> below: hidden variables that meet in a child."""
    graph = nx.DiGraph()
    for node, states in (("class", 2), ("left", 3), ("right", 2), ("below", 3)):
        graph.add_node(node, states=states)
    graph.add_edges_from([("class", "left"), ("class", "right"), ("left", "below"), ("right", "below")])
    return graph


def on_the_diamond(rng: np.random.Generator, n: int, hidden: Sequence[Any], eta: float) -> GenerativeMargin:
    """Random assignments; the same hidden nodes in every example, or another set in each."""
    graph = diamond()
    assignments = rng.integers(0, [graph.nodes[node]["states"] for node in graph], size=(n, len(graph)))
    return GenerativeMargin.network(graph, assignments, hidden, eta=eta)


#: Every example has a hidden set of its own.
network = seeded(
    9, on_the_diamond, 6,
    [["class"], ["left", "right"], ["class", "left"], ["below"], ["class", "below"], ["right"]], 0.3,
)  # fmt: skip
planted_network = seeded(3, lambda rng: plant_near(on_the_diamond(rng, 8, ["class", "left"], 1.0), rng))


def shared_tables(seed: int) -> Instance:
    """Two slices of a dynamic network that share their tables; a tree of hidden variables."""
    rng = np.random.default_rng([10, seed])
    graph = nx.DiGraph()
    for slot in range(2):
        graph.add_node(("cause", slot), states=2, table="first" if slot == 0 else "next")
        graph.add_node(("sign", slot), states=3, table="sign")
    graph.add_edges_from([(("cause", 0), ("cause", 1)), (("cause", 0), ("sign", 0)), (("cause", 1), ("sign", 1))])
    assignments = rng.integers(0, [graph.nodes[node]["states"] for node in graph], size=(6, len(graph)))
    hidden = [("cause", 0), ("cause", 1)]
    return Instance(GenerativeMargin.network(graph, assignments, hidden, eta=0.3))


def naive_bayes(seed: int) -> Instance:
    """The structure of the Connect-4 experiment: one hidden class of three, many observed children, weighted rows."""
    rng = np.random.default_rng([11, seed])
    graph = nx.DiGraph()
    graph.add_node("outcome", states=3)
    for square in range(8):
        graph.add_node(square, states=3)
        graph.add_edge("outcome", square)
    outcome = rng.integers(0, 3, size=40)
    noise = rng.integers(0, 3, size=(40, 8))
    squares = np.where(rng.random((40, 8)) < 0.4, outcome[:, None], noise)
    counted = rng.integers(1, 4, size=40).astype(np.float64)
    rows = np.column_stack((outcome, squares))
    return Instance(GenerativeMargin.network(graph, rows, ["outcome"], eta=0.1, weights=counted))


# -- general objectives ------------------------------------------------------------------------------------------------

quadratic_slacks = row(14, (3, 4, 4, 2), 3, 3, eta=0.1, h=Quadratic(0.5))
huber_floor = row(15, (3, 4, 4, 2), 3, 3, eta=0.3, h=Huber(2.0), constraints=(Floor(-1.5),))
pulled = row(16, (3, 4, 4, 2), 3, 3, eta=0.3, f=QuadraticPenalty(0.5, -1.0), constraints=(Ceiling(-0.9),))
tied_ball = row(
    17, (3, 4, 4, 2), 3, 3, eta=0.2, h=Exponential(3.0), constraints=(KLBall(None, 0.1), Tied([[4, 8]]))
)  # fmt: skip
capped_slacks = row(21, (1, 3, 4, 4, 2), 3, 3, eta=0.3, h=Capped(1.5))
planted_rescaled = row(2, (1, 2, 3, 5, 5, 8), 4, 3, plant_near, eta=1.0, loss="ring", rescaled=True)
rescaled = row(19, (1, 4, 5, 5, 3), 3, 3, eta=0.1, loss="ring", rescaled=True)
rescaled_network = seeded(20, lambda rng: replace(on_the_diamond(rng, 6, ["class", "left"], 0.3), rescaled=True))
power_slacks = seeded(18, lambda rng: replace(on_the_diamond(rng, 6, ["class", "left"], 0.3), h=Power(1.5)))


#: All cases of the family.
CASES: tuple[Case, ...] = (
    Case("hmm-planted", HMM, "(2)-(9)", "the optimum is known by construction; lengths 1 to 8", planted_hmm,
         "compact_dual"),
    Case("hmm-planted-kink", HMM, "(2)-(9)", "the optimum is known and lies on a kink, multipliers spread over ties",
         planted_kink, "compact_dual"),
    Case("hmm-planted-missing-mass", HMM, "(2)-(9)", "the optimum is known; one block is left without mass",
         planted_missing_mass, "primal"),
    Case("network-planted", NETWORK, "(2)-(9)", "the optimum is known by construction; two hidden variables",
         planted_network, "primal"),
    Case("network-proximal", NETWORK, "(14)-(17)", "the proximal primal at the optimum, its fixed point: p_n* = p*",
         planted_network, "proximal", arguments=at_the_optimum),
    Case("network-proximal-dual", NETWORK, "(18), (19), (9)", "the same by the proximal dual", planted_network,
         "proximal_dual", arguments=at_the_optimum),
    Case("hmm-one-slack", HMM, "(2)-(5)", "constraint generation with one slack for all examples", enumerated,
         "one_slack", second="compact_dual"),
    Case("hmm-enumerated", HMM, "(2)-(5)", "all assignments written out; lengths 2 to 4", enumerated, "primal"),
    Case("hmm-length-one", HMM, "(2)-(5)", "no transition is ever used; the reference by SCS", length_one, "primal",
         formulation_solver="SCS"),
    Case("hmm-ties", HMM, "(7)-(9)", "equal examples and symmetric states: ties everywhere", ties, "dual"),
    Case("hmm-hidden-masks", HMM, "(2)-(5)", "some states are observed, others hidden", hidden_masks, "primal"),
    Case("hmm-weights", HMM, "(6)-(9)", "example weights, a cost matrix that is not symmetric, c not uniform", weights,
         "dual_beta"),
    Case("hmm-large-eta", HMM, "(7)-(9)", "margins outweigh c by far", large_eta, "entropy_dual"),
    Case("hmm-zeros-in-c", HMM, "(2)-(5)", "c has zeros, and so may v", zeros_in_c, "primal"),
    Case("network-mixed", NETWORK, "(7)-(9)", "another hidden set in every example", network, "entropy_dual"),
    Case("network-shared", NETWORK, "(6)-(9)", "tables shared between nodes", shared_tables, "dual_beta"),
    Case("network-naive", NETWORK, "(2)-(5)", "one hidden class, weighted rows", naive_bayes, "primal"),
    Case("hmm-quadratic-slacks", GENERAL, "(28)-(29)", "squares of the slacks: the masses are free", quadratic_slacks,
         "primal"),
    Case("hmm-huber-floor", GENERAL, "(28)-(30)", "Huber slacks, and no probability below e^-1.5", huber_floor,
         "entropy_dual"),
    Case("hmm-pulled", GENERAL, "(28)-(30)", "a quadratic term, and a ceiling", pulled, "entropy_dual"),
    Case("hmm-exponential-ball", GENERAL, "(28)-(30)", "exponential slacks, tied entries in balls around uniform",
         tied_ball, "n_slack", second="primal"),
    Case("network-power-slacks", GENERAL, "(28)-(29)", "powers of the slacks", power_slacks, "compact_dual"),
    Case("hmm-capped", GENERAL, "(28)-(30)", "no slack above 1.5, which binds", capped_slacks, "entropy_dual"),
    Case("hmm-rescaled-planted", RESCALED, "(28)-(29)", "the optimum is known by construction; losses of 1 to 16",
         planted_rescaled, "compact_dual"),
    Case("hmm-rescaled", RESCALED, "(28)-(29)", "the loss rescales the slacks", rescaled, "n_slack", second="primal"),
    Case("network-rescaled", RESCALED, "(28)-(29)", "the same on a network", rescaled_network, "primal"),
    Case("hmm-ring-small", HMM, "(2)-(5)", "constraint generation on the ring, 20 sequences of 12 steps, 5 states",
         ring_small, "n_slack"),
    Case("hmm-ring-compact", HMM, "(8)-(9)", "the compact dual on the ring, 30 sequences of 25 steps, 7 states",
         partial(on_the_ring, 30, 25, 7), "compact_dual", quick=False, open=False),
    Case("hmm-ring-cuts", HMM, "(2)-(5)", "constraint generation on the ring, 40 sequences of 20 steps, 6 states",
         partial(on_the_ring, 40, 20, 6), "n_slack", quick=False, open=False, second="compact_dual"),
)  # fmt: skip
