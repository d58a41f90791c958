"""Each mechanism of `EntropicProximal`, switched off on the ring instances of `benchmarks/generative_margin.py` and on
counts of observed children of one hidden class; and the masters of `ProximalRSD`, on small rings."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import networkx as nx
import numpy as np

from benchmarks.ablation import Mechanism, Study
from convexstruct.core.quasi_newton import Pairs
from convexstruct.datasets.generated.ring import EASY, HARD, Noise, ring
from convexstruct.families.generative_margin import EntropicProximal, GenerativeMargin, ProximalRSD
from convexstruct.families.generative_margin.cases import CASES
from convexstruct.families.generative_margin.solvers.entropic_proximal.invariants import LocalVariance, local_variance
from convexstruct.families.generative_margin.solvers.entropic_proximal.method import Run

ROOM = "convexstruct.families.generative_margin.solvers.entropic_proximal"
METHOD, DIAGONAL, DESCENT, NEWTON, COVARIANCE = (
    f"{ROOM}.{name}" for name in ("method", "diagonal", "descent", "newton", "covariance")
)
MASTER = "convexstruct.families.generative_margin.solvers.simplicial_master"
INNER = "convexstruct.families.generative_margin.solvers.inner_approximation"
RSD = "convexstruct.families.generative_margin.solvers.proximal_rsd"
LOG_SUMS = "convexstruct.oracles.chain.log_sums"
#: For polishing, each a tenth of the one before.
GAMMAS = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5)
#: More than any step, count or ratio: a limit of this size has no effect.
NEVER = 10**9


def _rings(
    sequences: int, length: int, noise: Noise, eta: float = 0.1, instances: int = 3, states: int = 10
) -> list[Callable[[], GenerativeMargin]]:
    """Rings from the seeds 1, 2, ..."""
    return [functools.partial(_ring, sequences, length, noise, eta, seed, states) for seed in range(1, instances + 1)]


def _ring(sequences: int, length: int, noise: Noise, eta: float, seed: int, states: int) -> GenerativeMargin:
    data = ring(sequences, length, states, noise, seed=seed)
    sizes = data.n_states, data.n_symbols
    return GenerativeMargin.hmm(data.symbols, data.states, *sizes, eta=eta, loss="ring")


def _counts(rows: int, children: int, seed: int) -> GenerativeMargin:
    """A hidden class of three and its children, of three labels each: two in five are the class, others noise."""
    rng = np.random.default_rng([97, seed])
    graph = nx.DiGraph(("class", child) for child in range(children))
    nx.set_node_attributes(graph, 3, "states")
    outcome, noise = rng.integers(0, 3, size=(rows, 1)), rng.integers(0, 3, size=(rows, children))
    table = np.hstack((outcome, np.where(rng.random(noise.shape) < 0.4, outcome, noise)))
    return GenerativeMargin.network(graph, table, ["class"], eta=0.1)


def _no_invariants(features: Any, theta: Any, loss_weight: float) -> LocalVariance | None:
    local = local_variance(features, theta, loss_weight)
    return None if local is None else LocalVariance(local.counts, local.blocks, np.zeros(0))


def _always_new(self: Run, stage: Any, value: Any, _metric: Any = Run._metric) -> Any:
    self._known = None
    return _metric(self, stage, value)


def _forget(self: Pairs, factor: float) -> None:
    self.clear()


#: A covariance costs no evaluations.
FREE = {f"{COVARIANCE}:PAIR_WORK": 0.0, f"{COVARIANCE}:STEP_WORK": 0.0, f"{COVARIANCE}:PASS_LABEL_WORK": 1e9}
METRIC = (
    Mechanism("L-BFGS (one pair kept)", {"memory": 1}),
    Mechanism("pairs kept from stage to stage", patches={"convexstruct.core.quasi_newton:Pairs.scale": _forget}),
    Mechanism("invariants in the diagonal metric", patches={f"{ROOM}.stage:local_variance": _no_invariants}),
    Mechanism("local variance in the diagonal metric", patches={f"{ROOM}.stage:local_variance": lambda *_: None}),
    Mechanism("diagonal metric kept for steps (METRIC_STEPS)", patches={f"{DIAGONAL}:METRIC_STEPS": 1}),
    Mechanism("least share of a known variance (VARIANCE_SHARE)", patches={f"{DIAGONAL}:VARIANCE_SHARE": 1.0}),
    Mechanism("slack in v (epsilon)", patches={f"{METHOD}:Run._epsilon": lambda self: 0.0}),
    Mechanism("longest move of a step (LONGEST_MOVE)", patches={f"{DESCENT}:LONGEST_MOVE": NEVER}),
    Mechanism("rough first stages (ROUGH_COST)", patches={f"{METHOD}:ROUGH_COST": NEVER}),
    Mechanism("accurate ends of rough stages (ROUGH_DECREASE)", patches={f"{METHOD}:ROUGH_DECREASE": 1.0}),
    Mechanism("floor of the diagonal's counts (LEAST_COUNT)", patches={f"{DIAGONAL}:LEAST_COUNT": 1e-9}),
)
MECHANISMS = (
    *METRIC,
    Mechanism("Newton's metric", {"newton": False}),
    Mechanism("one covariance for many stages", patches={f"{METHOD}:Run._metric": _always_new}),
    Mechanism("few labels kept (NEGLIGIBLE)", patches={f"{COVARIANCE}:NEGLIGIBLE": -1.0}),
    Mechanism("no tiny counts in the covariance (LEAST_COUNT)", patches={f"{COVARIANCE}:LEAST_COUNT": 0.0}),
    Mechanism("no tiny messages of chains (SMALLEST)", patches={f"{LOG_SUMS}:SMALLEST": 0.0}),
    Mechanism("wait for a covariance (WAITED_SHARE)", patches={f"{METHOD}:WAITED_SHARE": 0.0}),
    Mechanism("covariance taken to cost nothing (PAIR_WORK, STEP_WORK)", patches=FREE),
    Mechanism("ridge on the covariance (RIDGE)", patches={f"{NEWTON}:RIDGE": 1e-3}),
)
#: Of use only where there are many examples.
PILOT = (Mechanism("pilot run", {"pilot": 0}), Mechanism("pilot run of fewer (MANY)", patches={f"{METHOD}:MANY": 4}))
MASTERS = (
    Mechanism("polishing", {"polish_every": 0}),
    Mechanism("larger ridges where the Hessian is singular (RIDGES)", patches={f"{MASTER}:RIDGES": (1e-9,)}),
    Mechanism("many gammas of polishing (POLISH_GAMMAS)", patches={f"{INNER}:POLISH_GAMMAS": (1e-1,)}),
    Mechanism("few gammas of polishing (POLISH_GAMMAS)", patches={f"{INNER}:POLISH_GAMMAS": GAMMAS}),
    Mechanism("accurate masters (MASTER_SHARE)", patches={f"{RSD}:MASTER_SHARE": 0.1}),
)
#: Small cases in which parameters end near 0, or at it.
EDGES = [case.build for case in CASES if case.name in ("hmm-large-eta", "hmm-zeros-in-c")]
COUNTS = [functools.partial(_counts, 300, 12, seed) for seed in (1, 2)]

STUDIES = [
    Study("ring-easy", _rings(100, 50, EASY), EntropicProximal(), 1e-6, MECHANISMS),
    Study("ring-hard", _rings(100, 50, HARD), EntropicProximal(), 1e-6, MECHANISMS),
    Study("ring-hard-eta-1", _rings(100, 50, HARD, 1.0), EntropicProximal(), 1e-4, MECHANISMS),
    Study("ring-10000", _rings(10_000, 50, EASY, instances=1), EntropicProximal(), 1e-3, PILOT),
    Study("ring-10000-hard", _rings(10_000, 50, HARD, instances=1), EntropicProximal(), 1e-3, PILOT),
    Study("ring-diagonal", _rings(100, 50, HARD), EntropicProximal(newton=False), 1e-3, METRIC),
    Study("ring-30-states-easy", _rings(100, 50, EASY, instances=1, states=30), EntropicProximal(), 1e-4, MECHANISMS),
    Study("ring-30-states-hard", _rings(100, 50, HARD, instances=1, states=30), EntropicProximal(), 1e-4, MECHANISMS),
    Study("ring-50-states", _rings(100, 50, EASY, instances=1, states=50), EntropicProximal(), 1e-3, METRIC),
    Study("large eta, zeros in c", EDGES, EntropicProximal(), 1e-6, METRIC),
    Study("counts", COUNTS, EntropicProximal(), 1e-6, METRIC),
    Study("decomposition, easy", _rings(20, 10, EASY, 0.1, 2, 5), ProximalRSD(), 1e-5, MASTERS),
    Study("decomposition, hard", _rings(20, 10, HARD, 1.0, 2, 5), ProximalRSD(), 1e-2, MASTERS),
]
