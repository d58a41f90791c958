"""Convex energy networks in CVXPY: the builders of its formulations."""

from convexstruct.models.energy_network.inference import least_energy
from convexstruct.models.energy_network.local import local_energy
from convexstruct.models.energy_network.training import dual, primal

__all__ = ["dual", "least_energy", "local_energy", "primal"]
