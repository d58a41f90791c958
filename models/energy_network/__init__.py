"""Convex energy networks in CVXPY: every formulation by name in `ENTRIES`."""

from convexstruct.models.energy_network import inference, local, training
from convexstruct.models.energy_network.inference import least_energy
from convexstruct.models.energy_network.local import local_energy
from convexstruct.models.energy_network.training import dual, primal
from convexstruct.models.formulation import Entry

#: Every formulation of the family.
ENTRIES: tuple[Entry, ...] = (*training.ENTRIES, *inference.ENTRIES, *local.ENTRIES)

__all__ = ["ENTRIES", "dual", "least_energy", "local_energy", "primal"]
