"""Mutants of solvers of convex energy networks, each wrong on purpose by one plausible slip."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from convexstruct.families.energy_network import ConvexEnergyNetwork, EnergyInference, UnrolledEnergyNetwork
from tests.mutants import ABOVE, TOO_GOOD, Mutant, flattered_value, honest, loosened_bound


def wrong_sign(problem: ConvexEnergyNetwork) -> Any:
    """Labels on and off exchanged."""
    return honest(replace(problem, labels=1 - problem.labels)).point


def half_penalty(problem: ConvexEnergyNetwork) -> Any:
    return honest(replace(problem, lam=0.5 * problem.lam)).point


def mean_loss(problem: ConvexEnergyNetwork) -> Any:
    return honest(replace(problem, lam=problem.lam * len(problem.labels))).point


def no_curvature(problem: ConvexEnergyNetwork) -> Any:
    """Each label by itself: Q = 0."""
    point = honest(problem).point
    return {**point, "Q": np.zeros_like(point["Q"])}


def forgotten_half(problem: ConvexEnergyNetwork) -> Any:
    """Q of an energy with y'Qy in place of y'Qy/2."""
    point = honest(problem).point
    return {**point, "Q": 0.5 * point["Q"]}


def indefinite(problem: ConvexEnergyNetwork) -> Any:
    """Q with the part of s_Q that is not semidefinite."""
    solution = honest(problem)
    assert solution.dual_point is not None
    return {**solution.point, "Q": problem.statistics(solution.dual_point["r"])[1] / problem.lam}


def no_offsets(problem: ConvexEnergyNetwork) -> Any:
    hidden = problem.hidden
    assert hidden is not None
    return honest(replace(problem, hidden=hidden * np.append(np.ones(hidden.shape[1] - 1), 0.0))).point


def not_a_number(problem: ConvexEnergyNetwork) -> Any:
    point = honest(problem).point
    return {**point, "U": np.full_like(point["U"], np.nan)}


def outside_the_cube(problem: EnergyInference) -> Any:
    """The minimum without the cube."""
    return np.linalg.lstsq(problem.Q, problem.scores.T)[0].T


def vertices(problem: EnergyInference) -> Any:
    """The minimum, rounded to labels."""
    return np.round(honest(problem).point["Y"])


def twice_the_curvature(problem: EnergyInference) -> Any:
    return honest(replace(problem, Q=2.0 * problem.Q)).point


def minus_scores(problem: EnergyInference) -> Any:
    return honest(replace(problem, scores=-problem.scores)).point


def off(problem: UnrolledEnergyNetwork) -> Any:
    """The local energy with the sign changed."""
    point = honest(problem).point
    return {**point, "U": -point["U"], "B": -point["B"]}


MUTANTS: tuple[Mutant, ...] = (
    Mutant("wrong_sign", "labels exchanged", wrong_sign, "energy-small", ABOVE, "labels on and off exchanged"),
    Mutant("half_penalty", "lam/4 |W|^2", half_penalty, "energy-hidden", ABOVE, "with half the penalty"),
    Mutant("mean_loss", "the mean of the losses", mean_loss, "energy-small", ABOVE, "with lam N"),
    Mutant("no_curvature", "Q = 0", no_curvature, "energy-planted-zeros", ABOVE),
    Mutant("forgotten_half", "y'Qy", forgotten_half, "energy-excluding", ABOVE, "1/2 of y'Qy forgotten"),
    Mutant("indefinite", "Q not projected", indefinite, "energy-small", "Q not semidefinite"),
    Mutant("no_offsets", "b_k left out", no_offsets, "energy-hidden", ABOVE, "without the offsets"),
    Mutant("outside_the_cube", "no cube", outside_the_cube, "energy-inference-planted", "Y outside the cube"),
    Mutant("vertices", "labels in place of y", vertices, "energy-inference-low-rank", ABOVE),
    Mutant("twice_the_curvature", "y'Qy", twice_the_curvature, "energy-inference-planted", ABOVE, "1/2 of y'Qy"),
    Mutant("minus_scores", "+y'Ux", minus_scores, "energy-inference-hidden", ABOVE, "the scores' sign"),
    Mutant("off", "+y'Ux", off, "energy-steps-shown", ABOVE, may=True),
    Mutant("loosened_bound", "a bound that is claimed", loosened_bound, "energy-small", TOO_GOOD),
    Mutant("flattered_value", "a value that is claimed", flattered_value, "energy-hidden", TOO_GOOD),
    Mutant("not_a_number", "NaN", not_a_number, "energy-one-label", "NaN"),
)
