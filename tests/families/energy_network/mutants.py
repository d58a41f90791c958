"""Mutants of solvers of convex energy networks, each wrong on purpose by one plausible slip."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from convexstruct.families.energy_network import ConvexEnergyNetwork, EnergyInference
from tests.mutants import ABOVE, Mutant, common, honest, instead

Solver = Callable[[Any], Any]


def returned(**change: Callable[[Any], Any]) -> Solver:
    """The right solution with these arrays changed."""

    def solved(problem: Any) -> Any:
        point = honest(problem).point
        return {**point, **{name: of(point[name]) for name, of in change.items()}}

    return solved


def indefinite(problem: ConvexEnergyNetwork) -> Any:
    """Q with the part of s_Q that is not semidefinite."""
    solution = honest(problem)
    assert solution.dual_point is not None
    return {**solution.point, "Q": problem.statistics(solution.dual_point["r"])[1] / problem.lam}


def no_offsets(problem: ConvexEnergyNetwork) -> Any:
    assert problem.hidden is not None
    return problem.hidden * np.append(np.ones(problem.hidden.shape[1] - 1), 0.0)


def outside_the_cube(problem: EnergyInference) -> Any:
    """The minimum without the cube."""
    return np.linalg.lstsq(problem.Q, problem.scores.T)[0].T


MUTANTS: tuple[Mutant, ...] = (
    Mutant("wrong_sign", "labels on and off exchanged", instead(labels=lambda problem: 1 - problem.labels),
           "energy-small", ABOVE, "labels on and off exchanged"),
    Mutant("half_penalty", "lam/4 |W|^2", instead(lam=lambda problem: 0.5 * problem.lam), "energy-hidden", ABOVE,
           "with half the penalty"),
    Mutant("mean_loss", "the mean of the losses", instead(lam=lambda problem: problem.lam * len(problem.labels)),
           "energy-small", ABOVE, "with lam N"),
    Mutant("no_curvature", "each label by itself: Q = 0", returned(Q=np.zeros_like), "energy-planted-zeros", ABOVE),
    Mutant("forgotten_half", "Q of y'Qy in place of y'Qy/2", returned(Q=lambda q: 0.5 * q), "energy-excluding", ABOVE,
           "1/2 of y'Qy forgotten"),
    Mutant("indefinite", "Q not projected", indefinite, "energy-small", "Q not semidefinite"),
    Mutant("no_offsets", "b_k left out", instead(hidden=no_offsets), "energy-hidden", ABOVE, "without the offsets"),
    Mutant("outside_the_cube", "no cube", outside_the_cube, "energy-inference-planted", "Y outside the cube"),
    Mutant("vertices", "rounded to labels", returned(Y=np.round), "energy-inference-low-rank", ABOVE),
    Mutant("twice_the_curvature", "y'Qy", instead(Q=lambda problem: 2.0 * problem.Q), "energy-inference-planted",
           ABOVE, "1/2 of y'Qy"),
    Mutant("minus_scores", "+y'Ux", instead(scores=lambda problem: -problem.scores), "energy-inference-hidden",
           ABOVE, "the scores' sign"),
    Mutant("off", "the local energy with the other sign", returned(U=np.negative, B=np.negative), "energy-steps-shown",
           ABOVE, may=True),
    Mutant("not_a_number", "NaN", returned(U=lambda u: np.full_like(u, np.nan)), "energy-one-label", "NaN"),
    *common(loosened_bound="energy-small", flattered_value="energy-hidden"),
)  # fmt: skip
