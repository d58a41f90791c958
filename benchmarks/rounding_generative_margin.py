"""Bounds of problem (P) against exact arithmetic; run by `rounding.py`.

Instances are small enough that every labelling is listed. P is piecewise linear in theta, so its exact value is a
rational number. D at a witness of labellings is computed from rational mu and omega in arithmetic of 60 digits. Lower
bounds whose exact D is not computed, as those of Gibbs distributions, are compared with the least exact P at the points
tried.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any

import mpmath
import numpy as np

from benchmarks.exact import DIGITS, ERROR, ZERO, Exactly, exactly, number
from benchmarks.rounding import Trial
from convexstruct.arrays import Vector
from convexstruct.datasets.generated.networks import random_network
from convexstruct.families.generative_margin import GenerativeMargin
from convexstruct.features.counts.hmm import HMMCounts
from convexstruct.features.counts.network import NetworkCounts
from convexstruct.marginals.enumeration import enumerate_counts
from convexstruct.rounding import GREATEST, Rounded

#: Points, and dual points, of one instance.
POINTS = 8


@dataclass(frozen=True)
class Listed:
    """A problem and its labellings, a row each: a(s) (L, d) and b(s) (L,) in fractions, the example, the labels."""

    problem: GenerativeMargin
    a: Exactly
    b: Exactly
    table: Any
    ordinary: bool
    told: str

    def primal(self, theta: Vector) -> Fraction:
        """P(theta), exactly; theta finite."""
        problem, at = self.problem, exactly(theta)
        found = self.a @ at + self.b
        slack = [max(found[self.table.example == k].max(), ZERO) for k in range(problem.n_examples)]
        value: Fraction = Fraction(problem.eta) * (exactly(problem.examples.weights) @ slack) - exactly(problem.c) @ at
        return value

    def feasible(self, theta: Vector) -> bool:
        """Whether 1'e^theta_i <= 1, in 60 digits."""
        with mpmath.workdps(DIGITS):
            terms = [mpmath.exp(mpmath.mpf(float(x))) for x in theta]
            start = [*self.problem.layout.block_start, len(terms)]
            return all(mpmath.fsum(terms[i:j]) <= 1 for i, j in pairwise(start))


def listed(problem: GenerativeMargin, ordinary: bool, told: str) -> Listed:
    table = enumerate_counts(problem.features)
    counts = table.counts.toarray().astype(int)
    a = (counts - counts[table.truth][table.example]).astype(object)
    return Listed(problem, a, exact_losses(problem, table), table, ordinary, told)


def exact_losses(problem: GenerativeMargin, table: Any) -> Exactly:
    """b_k(s), summed in rational arithmetic over the variables of each labelling."""
    features = problem.features
    if isinstance(features, NetworkCounts):
        costs = [exactly(features.costs[v][true]) for v, true in zip(features.node, features.examples.truth)]
    else:
        assert isinstance(features, HMMCounts)
        costs = list(exactly(features.loss_table[features.loss_row][features.chains.flat]))
    first = np.searchsorted(features.examples.example, np.arange(problem.n_examples + 1))
    here = [range(int(first[k]), int(first[k + 1])) for k in table.example]
    sums = [sum((costs[p][label] for p, label in zip(*pair)), ZERO) for pair in zip(here, table.labels)]
    return np.array(sums, dtype=object)


def instance(rng: np.random.Generator) -> Listed:
    """A problem of ordinary size, or one whose c, eta, losses and weights are of scales from 1e-300 to 1e300."""
    wild = rng.random() < 0.6

    def scale(reach: float = 300.0) -> float:
        return float(10.0 ** rng.uniform(-reach, reach)) if wild and rng.random() < 0.5 else 1.0

    n = int(rng.integers(1, 4))
    weights = rng.choice([0.5, 1.0, 2.0, 3.0, 1.0 / 3.0], size=n) * (scale(30.0) if wild else 1.0)
    eta = min(float(rng.uniform(0.05, 3.0)) * scale(), 1e300)
    if rng.random() < 0.5:
        s, m = int(rng.integers(1, 4)), int(rng.integers(1, 4))
        lengths = rng.integers(1, 5, size=n)
        symbols, states = ([rng.integers(k, size=t) for t in lengths] for k in (m, s))
        hidden = None
        if rng.random() < 0.4:
            hidden = [rng.random(t) < 0.6 for t in lengths]
            for mask in hidden:
                mask[int(rng.integers(mask.size))] = True
        cost = rng.uniform(0.2, 2.0, size=(s, s)) * (1 - np.eye(s)) * scale()
        if wild:
            cost *= 10.0 ** rng.uniform(-20, 0, size=(s, s))
        problem = GenerativeMargin.hmm(symbols, states, s, m, eta=eta, loss=cost, hidden=hidden, weights=weights)
        told = f"hmm S={s} M={m} lengths={lengths.tolist()}"
    else:
        seed = int(rng.integers(1 << 30))
        net = random_network(4, n, states=(2, 3), seed=seed)
        chosen: list[Any] = [rng.choice(4, size=rng.integers(1, 4), replace=False).tolist() for _ in range(n)]
        problem = GenerativeMargin.network(net.graph, net.assignments, chosen, eta=eta, weights=weights)
        told = f"network seed={seed}"
    d, layout = problem.dimension, problem.layout
    c = rng.exponential(size=d) + 1e-3
    kind = rng.random()
    if kind < 0.4:
        zero = rng.random(d) < 0.3
        c[zero] = 0.0 if kind < 0.25 else 10.0 ** rng.uniform(-300, -1)
        c[layout.block_start[layout.block_sum(c) == 0]] = 1.0
    c = c / layout.block_sum(c)[layout.block_of]
    problem = GenerativeMargin(problem.features, c, eta)
    ordinary = not wild and kind >= 0.4 and problem.layout.block_sizes.max() > 1  # else the optimum is 0
    return listed(problem, bool(ordinary), f"{told} eta={eta:g}")


def point(one: Listed, rng: np.random.Generator, ordinary: bool) -> Vector:
    """A feasible theta: ordinary, or with entries of sizes up to 1e300."""
    problem = one.problem
    theta = rng.normal(size=problem.dimension) * rng.choice([0.01, 1.0, 10.0])
    if rng.random() < 0.2:
        theta = np.log(np.maximum(problem.c, 1e-300))
    if not ordinary:
        far = rng.random(problem.dimension) < 0.3
        theta[far] = -(10.0 ** rng.uniform(-300, 299, size=int(far.sum())))
        if rng.random() < 0.5:
            theta[far] = -1e16 + rng.integers(-9, 9)
    return np.asarray(problem.repair({"theta": theta})["theta"])


def mixture(one: Listed, rng: np.random.Generator) -> dict[str, Any]:
    """Labellings with shares that sum to less than 1, some of them tiny, or are 1/8 each."""
    problem = one.problem
    count = int(rng.integers(1, 5))
    of = problem.examples
    labels = [np.where(of.free, rng.integers(of.cards), of.truth) for _ in range(count)]
    shares = rng.dirichlet(np.ones(count + 1), size=problem.n_examples).T[:count] * 0.999
    shares *= rng.choice([1.0, 1e-3, 1e-12, 1e-200], p=[0.6, 0.2, 0.1, 0.1])
    if rng.random() < 0.2:
        shares[:] = 0.125
    return {"labels": np.array(labels), "label_shares": shares}


def exact_dual(one: Listed, witness: dict[str, Any], t: float) -> Any:
    """D at t times the member that a mixture names, and the error of its evaluation; -inf where some v < 0."""
    problem, table = one.problem, one.table
    features = problem.features
    p = np.asarray(witness["label_shares"]) * features.examples.weights
    p[p < 1.0 / GREATEST] = 0.0  # such shares are left out of the member
    beta = np.full(len(one.b), ZERO)
    first = np.searchsorted(features.examples.example, np.arange(problem.n_examples + 1))
    for labels, each in zip(witness["labels"], exactly(p)):
        for k in range(problem.n_examples):
            own = labels[first[k] : first[k + 1]]
            beta[(table.example == k) & np.all(table.labels[:, : len(own)] == own, axis=1)] += each[k]
    beta *= Fraction(problem.eta) * Fraction(t)
    v = exactly(problem.c) - beta @ one.a
    if min(v) < 0:
        return -mpmath.inf
    with mpmath.workdps(DIGITS):
        value = number(beta @ one.b)
        size = abs(value)
        for i, j in pairwise([*problem.layout.block_start, len(v)]):
            parts = [number(x) * mpmath.log(number(v[i:j].sum() / x)) for x in v[i:j] if x]
            value, size = value + mpmath.fsum(parts), size + mpmath.fsum(map(abs, parts))
        return value + size * ERROR


def trials(rng: np.random.Generator) -> Iterator[Trial]:
    while True:
        one = instance(rng)
        problem, least = one.problem, None
        trivial = problem.evaluate(problem.uniform()).value if one.ordinary else 0.0
        for n in range(POINTS):
            ordinary = one.ordinary and n % 2 == 0
            theta = point(one, rng, ordinary)
            if not one.feasible(theta):  # a repaired point that is infeasible makes any bound wrong
                yield Trial("primal", Rounded(-np.inf), 0, told="infeasible after repair: " + one.told)
                continue
            truth = one.primal(theta)
            least = truth if least is None else min(least, truth)
            yield Trial("primal", problem.primal({"theta": theta}), truth, ordinary, trivial, one.told)
        for _ in range(POINTS):
            witness = mixture(one, rng)
            t, bound = problem._segment(problem._member(witness))
            truth = exact_dual(one, witness, t)
            if truth == -mpmath.inf:  # the bound is that of a balanced member nearby: P is compared instead
                truth = mpmath.inf if least is None else least
            yield Trial("dual", bound, truth, one.ordinary, trivial, one.told)
            gibbs = rng.normal(size=(1, problem.dimension)) * 10.0 ** rng.uniform(-1, 4)
            share = np.full((1, problem.n_examples), rng.random())
            witness = {"gibbs": gibbs, "gibbs_loss": 10.0 ** rng.uniform(-2, 3, size=1), "gibbs_shares": share}
            if least is not None:
                yield Trial("dual", problem.dual(witness), least, one.ordinary, trivial, one.told)
