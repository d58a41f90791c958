"""Each mechanism of `EntropicProximal`, switched off on the ring instances of `benchmarks/generative_margin.py` and on
counts of observed children of one hidden class; and the masters of `ProximalRSD` and `CuttingPlanes`, on small
rings."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import networkx as nx
import numpy as np

from benchmarks.ablation import Mechanism, Study, numbers, options, seeds
from convexstruct.core.quasi_newton import Pairs
from convexstruct.datasets.generated.ring import EASY, HARD, Noise, ring
from convexstruct.families.generative_margin import CuttingPlanes, EntropicProximal, GenerativeMargin, ProximalRSD
from convexstruct.families.generative_margin.cases import CASES
from convexstruct.families.generative_margin.solvers.entropic_proximal import (
    method,
)
from convexstruct.families.generative_margin.solvers.entropic_proximal.invariants import LocalVariance, local_variance
from convexstruct.families.generative_margin.solvers.entropic_proximal.method import Run

#: For polishing, each a tenth of the one before.
GAMMAS = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5)
#: More than any step, count or ratio: a limit of this size has no effect.
NEVER = 10**9


def _ring(sequences: int, length: int, noise: Noise, seed: int, eta: float = 0.1, states: int = 10) -> GenerativeMargin:
    data = ring(sequences, length, states, noise, seed=seed)
    sizes = data.n_states, data.n_symbols
    return GenerativeMargin.hmm(data.symbols, data.states, *sizes, eta=eta, loss="ring")


def _rescaled(seed: int, eta: float = 0.1) -> GenerativeMargin:
    return replace(_ring(20, 12, EASY, seed, eta, states=5), rescaled=True)


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


def _always_new(self: Run, *given: Any, _metric: Any = Run._metric) -> Any:
    self._known = None
    return _metric(self, *given)


def _always_cooler(self: Run, before: float, _cool: Any = Run._cool) -> None:
    _cool(self, float("inf"))


def _forget(self: Pairs, factor: float) -> None:
    self.clear()


def _rough_by_cost(self: Run) -> bool:
    return not self.pilot and self.smoothing > method.LARGE_ROUGH_COST


#: A covariance costs no evaluations.
FREE = {
    f"covariance:{name}": value for name, value in (("PAIR_WORK", 0.0), ("STEP_WORK", 0.0), ("PASS_LABEL_WORK", 1e9))
}
METRIC = (
    *options(memory=(1,)),
    Mechanism("pairs kept from stage to stage", patches={"quasi_newton:Pairs.scale": _forget}),
    Mechanism("invariants in the diagonal metric", patches={"stage:local_variance": _no_invariants}),
    Mechanism("local variance in the metric", patches={"stage:local_variance": lambda *_: None}),
    Mechanism("tau stays after a poor stage", patches={"method:Run._cool": _always_cooler}),
    Mechanism("slack in v (epsilon)", patches={"method:Run._epsilon": lambda self: 0.0}),
    *numbers("entropic_proximal.diagonal", METRIC_STEPS=(1,), VARIANCE_SHARE=(1.0,), LEAST_COUNT=(1e-9,)),
    *numbers("entropic_proximal.descent", LONGEST_MOVE=(NEVER,)),
    *numbers("method", ROUGH_COST=(NEVER,), ROUGH_DECREASE=(1.0,)),
)
MECHANISMS = (
    *METRIC,
    *options(newton=(False,)),
    Mechanism("one covariance for many stages", patches={"method:Run._metric": _always_new}),
    Mechanism("covariance taken to cost nothing (PAIR_WORK, STEP_WORK)", patches=FREE),
    *numbers("covariance", NEGLIGIBLE=(-1.0,), LEAST_COUNT=(0.0,)),
    *numbers("log_sums", SMALLEST=(0.0,)),
    *numbers("method", WAITED_SHARE=(0.0,), JUDGED=(4, NEVER), SMALL_WORK=(0.0, 1e9)),
    *numbers("newton", RIDGE=(1e-3,)),
)
#: Of use only where there are thousands of parameters.
LARGE = (
    Mechanism("mixtures as dual points", patches={"method:Run._mixes": property(lambda self: False)}),
    Mechanism("late rough stages", patches={"method:Run._rough": property(_rough_by_cost)}),
    *numbers("method", MIXED=(20,), MIX_EVERY=(20,), LARGE_ROUGH_COST=(method.ROUGH_COST,), LARGE_SHRINK=(1e-9,)),
    *numbers("mixture", ROWS=(5,), ROUNDS=(2,), VIOLATED=(1e-3,)),
)
#: Of use only where there are many examples.
PILOT = (*options(pilot=(0,)), *numbers("method", MANY=(4,)))
MASTERS = (
    *options(polish_every=(0,)),
    *numbers("simplicial_master", RIDGES=((1e-9,),), TRIALS=(40,)),
    *numbers("inner_approximation", POLISH_GAMMAS=((1e-1,), GAMMAS)),
    *numbers("proximal_rsd", MASTER_SHARE=(0.1,)),
)
INTERIOR = (
    *options(share=(0.01, 0.1)),
    *numbers("generative_margin.solvers.cutting_planes", CENTRING=(0.1,), TO_BORDER=(0.9,), FIRST_DELTA=(1.0,)),
    *numbers("generative_margin.solvers.cutting_planes", LOWERED=(1e3,), ROUGHEST=(10.0, NEVER), GROWTH=(10.0, NEVER)),
    *numbers("generative_margin.solvers.cutting_planes", NEAR=(0.1,)),
)
#: Small cases in which parameters end near 0, or at it.
EDGES = [case.build for case in CASES if case.name in ("hmm-large-eta", "hmm-zeros-in-c")]
COUNTS = seeds(_counts, 300, 12, n=2)

STUDIES = [
    Study("ring-easy", seeds(_ring, 100, 50, EASY), EntropicProximal(), 1e-6, MECHANISMS),
    Study("ring-hard", seeds(_ring, 100, 50, HARD), EntropicProximal(), 1e-6, MECHANISMS),
    Study("ring-hard-eta-1", seeds(_ring, 100, 50, HARD, eta=1.0), EntropicProximal(), 1e-4, MECHANISMS),
    Study("ring-10000", seeds(_ring, 10_000, 50, EASY, n=1), EntropicProximal(), 1e-3, PILOT),
    Study("ring-10000-hard", seeds(_ring, 10_000, 50, HARD, n=1), EntropicProximal(), 1e-3, PILOT),
    Study("ring-diagonal", seeds(_ring, 100, 50, HARD), EntropicProximal(newton=False), 1e-3, METRIC),
    Study("ring-30-states-easy", seeds(_ring, 100, 50, EASY, n=1, states=30), EntropicProximal(), 1e-4, MECHANISMS),
    Study("ring-30-states-hard", seeds(_ring, 100, 50, HARD, n=1, states=30), EntropicProximal(), 1e-4, MECHANISMS),
    Study("ring-50-states", seeds(_ring, 100, 50, EASY, n=1, states=50), EntropicProximal(), 1e-3, METRIC),
    Study("ring-50-states-large", seeds(_ring, 100, 50, EASY, n=1, states=50), EntropicProximal(), 1e-3, LARGE),
    Study("ring-50-states-hard", seeds(_ring, 100, 50, HARD, n=2, states=50), EntropicProximal(), 1e-3, LARGE),
    Study("large eta, zeros in c", EDGES, EntropicProximal(), 1e-6, METRIC),
    Study("counts", COUNTS, EntropicProximal(), 1e-6, METRIC),
    Study("decomposition, easy", seeds(_ring, 20, 10, EASY, n=2, states=5), ProximalRSD(), 1e-5, MASTERS),
    Study("decomposition, hard", seeds(_ring, 20, 10, HARD, n=2, eta=1.0, states=5), ProximalRSD(), 1e-2, MASTERS),
    Study("cutting planes, rescaled", seeds(_rescaled, n=3), CuttingPlanes(), 1e-6, INTERIOR),
    Study("cutting planes, large eta", seeds(_rescaled, 1000.0, n=3), CuttingPlanes(), 1e-6, INTERIOR),
]
