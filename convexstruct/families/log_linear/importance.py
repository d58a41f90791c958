r"""Importance-sampled ln Z (paper 4, 20.6, "Sample based learning"), for graphs of any width.

    ln Z(theta) = ln Z(theta_0) + ln E_{theta_0} exp <theta - theta_0, f(x)>
                ~ ln Z(theta_0) + ln (1/K sum_k exp <theta - theta_0, f(x_k)>)

with K exact samples x_k of a model whose ln Z is known: theta_0 = 0, where all joint labels are equally likely, or any
theta_0 if the graph has a narrow junction tree. ``temperatures`` > 1 inserts models on the straight line from theta_0
to theta: each sample is moved by a sweep of Gibbs sampling at each of them, and its weight is the product of the
weights of the steps (annealed importance sampling, Neal 2001). One temperature is the formula above.

The expectation of the mean weight is Z / Z_0 for any number of sweeps, so that its ln is too small on average. The
standard error and the effective number of samples, (sum w)^2 / sum w^2, are estimated from the same weights: where a
few samples have nearly all the weight both are unreliable, and the estimate is a lower bound at best. Nothing is
certified.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from convexstruct.arrays import Labels, Vector
from convexstruct.features.graphs.factors import Factors
from convexstruct.inference.factor_graphs import FactorInference
from convexstruct.inference.gibbs import Gibbs
from convexstruct.validation.arguments import seed as read_seed
from convexstruct.validation.arguments import sentence, whole
from convexstruct.validation.arrays import real

#: The most uniform samples that are drawn for each one wanted, where joint labels are forbidden.
DRAWS_A_SAMPLE = 100


class Estimate(NamedTuple):
    """value : the estimate. standard_error : of the estimate, from the spread of the weights, and of the
    share of uniform samples without forbidden labels. effective : the effective
    number of samples, from 1 to n."""

    value: float
    standard_error: float
    effective: float


def importance_log_partition(
    factors: Factors, theta: Vector, n: int, seed: int = 0, *, theta_0: Vector | None = None, temperatures: int = 1
) -> Estimate:
    """ln Z(theta) from ``n`` samples.

    Parameters
    ----------
    theta : (d,). n : samples, at least 2. seed : of the samples.
    theta_0 : (d,) parameters of the model that is sampled exactly; 0 by default, which works for any graph.
    temperatures : steps from theta_0 to theta, at least 1; one sweep of Gibbs sampling between any two steps.

    Raises
    ------
    ValueError
        If an argument is malformed or out of range, theta_0 is given and the graph is too wide for exact samples, or
        theta_0 is None and hardly any of the uniform samples are without forbidden labels.
    """
    shape = (factors.dimension,)
    theta = real("theta", theta, shape, keep=False)
    whole("n", n, least=2)
    whole("temperatures", temperatures, least=1)
    rng, unsure = np.random.default_rng(read_seed("seed", seed)), 0.0
    if theta_0 is None:
        first = np.zeros(factors.n_entries)
        samples, known, unsure = uniform_samples(factors, n, rng)
    else:
        first = np.asarray(factors.design @ real("theta_0", theta_0, shape, keep=False))
        oracle = FactorInference(factors)
        samples, known = oracle.sample(first, n, rng), oracle.sums(first).log_partition
    change = np.asarray(factors.design @ theta) - first
    sampler, logs = Gibbs(factors), np.zeros(n)
    for t in range(temperatures):
        if t:
            samples = sampler.sweeps(first + t / temperatures * change, samples, 1, rng)
        logs += change[factors.entries(samples)].sum(axis=1) / temperatures
    weights = np.exp(logs - logs.max())
    mean = float(weights.mean())
    return Estimate(
        known + float(logs.max()) + math.log(mean),
        math.hypot(float(weights.std(ddof=1)) / mean / math.sqrt(n), unsure),
        float(weights.sum()) ** 2 / float(weights @ weights),
    )


def uniform_samples(factors: Factors, n: int, rng: np.random.Generator) -> tuple[Labels, float, float]:
    """(``n`` samples (n, variables), all allowed joint labels equally likely; the logarithm of the number of these; its
    standard error). ValueError if fewer than ``n`` are left.

    Where joint labels are forbidden, `DRAWS_A_SAMPLE` n samples are drawn at most, those with forbidden labels left
    out, and the logarithm is an estimate from the share that is left: its variance is (1 - share) / (number left), to
    first order.
    """
    found, drawn, kept = [], 0, 0
    while kept < n and drawn < DRAWS_A_SAMPLE * n:
        samples = np.column_stack([rng.integers(card, size=n) for card in factors.cards])
        found.append(samples[factors.allowed(samples)])
        drawn, kept = drawn + n, kept + len(found[-1])
    if kept < n:
        raise sentence(
            f"factors forbid all but {kept} of {drawn} uniform samples, wanted {n}: give theta_0 where the graph is "
            "narrow, or use ContrastiveDivergence"
        )
    number = math.fsum(map(math.log, factors.cards)) + math.log(kept / drawn)
    return np.concatenate(found)[:n], number, math.sqrt((1.0 - kept / drawn) / kept)
