"""One file a table or figure of a paper, in its family's folder; `EXPERIMENTS` has them all by name."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from convexstruct.core import registry
from convexstruct.core.experiment import Cell, Experiment, Result, Sheet, Steps
from convexstruct.validation.arguments import Named, no_attribute

__all__ = ["EXPERIMENTS", "Cell", "Experiment", "Result", "Sheet", "Steps"]

#: By the name that ``convexstruct reproduce`` takes.
EXPERIMENTS: dict[str, Experiment] = Named("experiment", registry.experiments())

if not TYPE_CHECKING:  # a type checker knows the names
    __getattr__ = partial(no_attribute, __name__, __all__)
