"""Each mechanism of `EntropicProximal`, switched off on the ring instances of `benchmarks/generative_margin.py`; the
rules of `ProximalBundle` for gamma, on small rings and on counts of observed children of one hidden class; and the
masters of `ProximalRSD`, on small rings."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import networkx as nx
import numpy as np

from benchmarks.ablation import Mechanism, Study
from convexstruct.core.quasi_newton import Pairs
from convexstruct.datasets.generated.ring import EASY, HARD, Noise, ring
from convexstruct.families.generative_margin import EntropicProximal, GenerativeMargin, ProximalBundle, ProximalRSD
from convexstruct.families.generative_margin.invariants import LocalVariance, local_variance
from convexstruct.families.generative_margin.solvers.entropic_proximal import _Run

METHOD = "convexstruct.families.generative_margin.solvers.entropic_proximal"
STAGE = "convexstruct.families.generative_margin.solvers.entropic_stage"
BUNDLE = "convexstruct.families.generative_margin.solvers.bundle"
MASTER = "convexstruct.families.generative_margin.solvers.simplicial_master"
INNER = "convexstruct.families.generative_margin.solvers.inner_approximation"
RSD = "convexstruct.families.generative_margin.solvers.proximal_rsd"
COVARIANCE = "convexstruct.families.generative_margin.covariance"
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


def _always_new(self: Any, stage: Any, value: Any, known: Any, _metric: Any = _Run._metric) -> Any:
    return _metric(self, stage, value, None)


def _forget(self: Pairs, factor: float) -> None:
    self.clear()


def _always_rough(self: Any, *given: Any, rough: bool = True, _init: Any = _Run.__init__) -> None:
    _init(self, *given)


def _never_rough(self: Any, *given: Any, rough: bool = True, _init: Any = _Run.__init__) -> None:
    _init(self, *given, rough=False)


DIAGONAL = (
    Mechanism("L-BFGS (one pair kept)", {"memory": 1}),
    Mechanism("pairs kept from stage to stage", patches={"convexstruct.core.quasi_newton:Pairs.scale": _forget}),
    Mechanism("invariants in the diagonal metric", patches={f"{STAGE}:local_variance": _no_invariants}),
    Mechanism("local variance in the diagonal metric", patches={f"{STAGE}:local_variance": lambda *_: None}),
    Mechanism("diagonal metric kept for steps (METRIC_STEPS)", patches={f"{STAGE}:METRIC_STEPS": 1}),
    Mechanism("floor of the diagonal's counts (LEAST_COUNT)", patches={f"{STAGE}:LEAST_COUNT": 1e-9}),
    Mechanism("least share of a known variance (VARIANCE_SHARE)", patches={f"{STAGE}:VARIANCE_SHARE": 1.0}),
    Mechanism("P in the midst of stages (EVALUATION_STEPS)", patches={f"{METHOD}:EVALUATION_STEPS": NEVER}),
    Mechanism("slack in v (epsilon)", patches={f"{METHOD}:_Run._epsilon": lambda self, state: 0.0}),
    Mechanism("stage gap by the certified one (CERTIFIED_SHARE)", patches={f"{METHOD}:CERTIFIED_SHARE": 0.0}),
    Mechanism("longest move of a step (LONGEST_MOVE)", patches={f"{STAGE}:LONGEST_MOVE": NEVER}),
    Mechanism("rough first stages", patches={f"{METHOD}:_Run.__init__": _never_rough}),
    Mechanism("shrink and inner of DIAGONAL_ONLY", patches={f"{METHOD}:DIAGONAL_ONLY": (1.0, 0.0)}),
)
MECHANISMS = (
    *DIAGONAL,
    Mechanism("Newton's metric", {"newton": 0.0}),
    Mechanism("one covariance for many stages", patches={f"{METHOD}:_Run._metric": _always_new}),
    Mechanism("few labels kept (NEGLIGIBLE)", patches={f"{COVARIANCE}:NEGLIGIBLE": -1.0}),
    Mechanism("no tiny counts in the covariance (LEAST_COUNT)", patches={f"{COVARIANCE}:LEAST_COUNT": 0.0}),
    Mechanism("no tiny messages of chains (SMALLEST)", patches={f"{LOG_SUMS}:SMALLEST": 0.0}),
    Mechanism("wait for a covariance (WAITED_SHARE)", patches={f"{METHOD}:WAITED_SHARE": 0.0}),
    Mechanism("smaller ridge on a new covariance (RIDGE)", patches={f"{METHOD}:RIDGE": 1e-3}),
    Mechanism("ridge on an old covariance (OLD_RIDGE)", patches={f"{METHOD}:OLD_RIDGE": 0.0}),
    Mechanism("rough stages end by the slope (ROUGH_DECREASE)", patches={f"{METHOD}:ROUGH_DECREASE": 1.0}),
)
#: Of use only where there are many examples.
MANY = (Mechanism("pilot run", {"pilot": 0}), Mechanism("Newton's metric", {"newton": 0.0}))
PILOT = (Mechanism("accurate stages of the pilot run", patches={f"{METHOD}:_Run.__init__": _always_rough}),)
#: Where there are many examples the covariance is that of the pilot run's, a sample.
SAMPLED = (
    Mechanism("smaller ridge on a sampled covariance (SAMPLE_RIDGE)", patches={f"{METHOD}:SAMPLE_RIDGE": 1e-3}),
    Mechanism("larger ridge on a sampled covariance (SAMPLE_RIDGE)", patches={f"{METHOD}:SAMPLE_RIDGE": 1e-7}),
)
GAMMA = (
    Mechanism("gamma falls (LEAST_GAMMA)", patches={f"{BUNDLE}:LEAST_GAMMA": 1.0}),
    Mechanism("gamma falls without end (LEAST_GAMMA)", patches={f"{BUNDLE}:LEAST_GAMMA": 1e-9}),
    Mechanism("gamma halved far away (FAR_DECREASE)", patches={f"{BUNDLE}:FAR_DECREASE": NEVER}),
    Mechanism("polishing", {"polish_every": 0}),
)
MASTERS = (
    Mechanism("polishing", {"polish_every": 0}),
    Mechanism("larger ridges where the Hessian is singular (RIDGES)", patches={f"{MASTER}:RIDGES": (1e-9,)}),
    Mechanism("many gammas of polishing (POLISH_GAMMAS)", patches={f"{INNER}:POLISH_GAMMAS": (1e-1,)}),
    Mechanism("few gammas of polishing (POLISH_GAMMAS)", patches={f"{INNER}:POLISH_GAMMAS": GAMMAS}),
    Mechanism("accurate masters (MASTER_SHARE)", patches={f"{RSD}:MASTER_SHARE": 0.1}),
)
COUNTS = [functools.partial(_counts, 300, 12, seed) for seed in (1, 2)]

STUDIES = [
    Study("ring-easy", _rings(100, 50, EASY), EntropicProximal(), 1e-6, MECHANISMS),
    Study("ring-hard", _rings(100, 50, HARD), EntropicProximal(), 1e-6, MECHANISMS),
    Study("ring-hard-eta-1", _rings(100, 50, HARD, 1.0), EntropicProximal(), 1e-4, MECHANISMS),
    Study("ring-many", _rings(3000, 25, HARD, instances=1), EntropicProximal(), 1e-3, MANY),
    Study("ring-10000", _rings(10_000, 50, EASY, instances=1), EntropicProximal(), 1e-3, PILOT),
    Study("ring-10000-hard", _rings(10_000, 50, HARD, instances=1), EntropicProximal(), 1e-3, SAMPLED),
    Study("ring-diagonal", _rings(100, 50, HARD), EntropicProximal(newton=0), 1e-3, DIAGONAL),
    Study("ring-30-states-easy", _rings(100, 50, EASY, instances=1, states=30), EntropicProximal(), 1e-4, MECHANISMS),
    Study("ring-30-states-hard", _rings(100, 50, HARD, instances=1, states=30), EntropicProximal(), 1e-4, MECHANISMS),
    Study("ring-50-states", _rings(100, 50, EASY, instances=1, states=50), EntropicProximal(), 1e-3, DIAGONAL),
    Study("bundle, rings", _rings(40, 15, HARD, 0.1, 2, 5), ProximalBundle(), 1e-3, GAMMA),
    Study("bundle, counts", COUNTS, ProximalBundle(), 1e-3, GAMMA),
    Study("decomposition, easy", _rings(20, 10, EASY, 0.1, 2, 5), ProximalRSD(), 1e-5, MASTERS),
    Study("decomposition, hard", _rings(20, 10, HARD, 1.0, 2, 5), ProximalRSD(), 1e-2, MASTERS),
]
