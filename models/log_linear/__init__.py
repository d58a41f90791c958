"""Log-linear models by likelihood in CVXPY: every formulation by name in `ENTRIES`."""

from convexstruct.models.formulation import Entry
from convexstruct.models.log_linear import likelihood as _likelihood
from convexstruct.models.log_linear.likelihood import allowed, likelihood

#: Every formulation of the family.
ENTRIES: tuple[Entry, ...] = (*_likelihood.ENTRIES,)

__all__ = ["ENTRIES", "allowed", "likelihood"]
