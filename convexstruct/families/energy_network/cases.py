"""The cases of convex energy networks: optima known by construction (`planted`), and small ones for reference."""

from __future__ import annotations

from typing import Any

import numpy as np

from convexstruct.core.cases import Case, Instance, Make, seeded
from convexstruct.families.energy_network.inference import EnergyInference
from convexstruct.families.energy_network.planted import (
    plant_flat,
    plant_inference,
    plant_ones,
    plant_shown,
    plant_zeros,
)
from convexstruct.families.energy_network.problem import ConvexEnergyNetwork

TRAINING = "convex energy network"
STEPS = "structured prediction energy network"
INFERENCE = "inference in a convex energy network"


def hidden_layer(rng: np.random.Generator, n_units: int, n_labels: int) -> Any:
    """Numbers of three decimals, the same on every machine; None of no units."""
    return np.round(rng.normal(size=(n_units, n_labels + 1)), 3) if n_units else None


def drawn(
    rng: np.random.Generator, n: int, d: int, n_labels: int, lam: float = 1.0, n_units: int = 0
) -> ConvexEnergyNetwork:
    """Labels that follow the inputs, with noise."""
    x = np.round(rng.normal(size=(n, d)), 3)
    labels = x @ rng.normal(size=(d, n_labels)) + rng.normal(size=(n, n_labels)) > 0.0
    return ConvexEnergyNetwork(x, labels.astype(np.int64), lam, hidden_layer(rng, n_units, n_labels))


def excluding(rng: np.random.Generator, n: int, n_labels: int, lam: float) -> ConvexEnergyNetwork:
    """One label of each example is on, so that labels repel each other."""
    x = np.round(rng.normal(size=(n, 2)), 3)
    return ConvexEnergyNetwork(x, np.eye(n_labels, dtype=np.int64)[rng.integers(n_labels, size=n)], lam)


def ties(rng: np.random.Generator) -> ConvexEnergyNetwork:
    """Every input twice, with the opposite of one label."""
    x = np.round(rng.normal(size=(4, 3)), 3)
    labels = rng.integers(2, size=(4, 3))
    return ConvexEnergyNetwork(np.concatenate((x, x)), np.concatenate((labels, labels ^ [1, 0, 0])), 0.5)


def low_rank(rng: np.random.Generator, n: int, n_labels: int, rank: int, n_units: int) -> EnergyInference:
    """Q of a small rank, in many directions of which E is linear."""
    b = np.round(rng.normal(size=(n_labels, rank)), 2)
    v = np.round(rng.uniform(0.1, 1.0, size=n_units), 3) if n_units else None
    scores = np.round(rng.normal(size=(n, n_labels)), 3)
    return EnergyInference(scores, b @ b.T, hidden_layer(rng, n_units, n_labels), v)


def small(seed: int, scale: int = 1) -> Instance:
    return seeded(112, drawn, 8 * scale, 3, 3)(seed)


def case(name: str, purpose: str, make: Make, formulation: str, **options: Any) -> Case:
    system = {"least_energy": INFERENCE, "local_energy": STEPS}.get(formulation, TRAINING)
    return Case(f"energy-{name}", system, "SPEN", purpose, make, formulation, **options)


#: All cases of the family.
CASES: tuple[Case, ...] = (
    case("planted-zeros", "labels that are all off: Q of rank one", seeded(110, plant_zeros, 4, 3), "primal"),
    case("planted-ones", "labels that are all on: Q = 0", seeded(111, plant_ones, 5, 2), "primal"),
    case("small", "the quadratic energy", small, "primal"),
    case("hidden", "a hidden layer", seeded(113, drawn, 8, 3, 3, 0.3, 4), "primal"),
    case("one-example", "one example", seeded(114, drawn, 1, 2, 3, 0.5, 2), "primal"),
    case("one-label", "one label", seeded(115, drawn, 8, 3, 1, 0.5, 2), "primal"),
    case("ties", "every input twice, one label of them opposite", seeded(116, ties), "primal"),
    case("weak-penalty", "a small lam: nearly separable", seeded(117, drawn, 8, 3, 2, 0.01), "primal"),
    case("strong-penalty", "a large lam: r is 1 nearly everywhere", seeded(118, drawn, 8, 3, 3, 100.0, 2), "primal"),
    case("excluding", "labels that repel each other", seeded(119, excluding, 9, 4, 0.5), "dual"),
    case("many-labels", "more labels than inputs", seeded(120, drawn, 6, 2, 7, 0.5), "primal"),
    case("inference-planted", "a minimum at faces and between", seeded(121, plant_inference, 6, 5, 0, 3),
         "least_energy"),
    case("inference-hidden", "the same with a hidden layer", seeded(122, plant_inference, 5, 4, 3, 4), "least_energy"),
    case("inference-flat", "no curvature: the sign of the score", seeded(124, plant_flat, 5, 4), "least_energy"),
    case("inference-low-rank", "Q without an inverse", seeded(125, low_rank, 12, 6, 2, 2), "least_energy"),
    case("steps-shown", "projected steps: labels that the inputs show, J = 0",
         seeded(126, plant_shown, 8, 3, "projected"), "local_energy"),
    case("steps-entropic", "entropic steps, the same", seeded(127, plant_shown, 6, 2, "entropic"), "local_energy"),
    case("larger", "60 examples, 5 labels", seeded(123, drawn, 60, 8, 5, 1.0, 3), "primal", quick=False, open=False),
)  # fmt: skip
