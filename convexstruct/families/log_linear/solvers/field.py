"""What approximate learning asks of a Markov random field: `WideField` and `MarkovRandomField` have it."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from convexstruct.arrays import Labels, Vector
from convexstruct.core.scale import Scale
from convexstruct.families.log_linear.penalty import Penalty
from convexstruct.features.graphs.factors import Factors
from convexstruct.validation.arguments import refuse


@runtime_checkable
class Field(Protocol):
    """Factors, and what the data's features sum to; samples and weights are None where only the sums are known."""

    @property
    def factors(self) -> Factors: ...

    @property
    def penalty(self) -> Penalty: ...

    @property
    def scale(self) -> Scale: ...

    @property
    def mass(self) -> float: ...

    @property
    def sums(self) -> Vector: ...

    @property
    def trivial_value(self) -> float: ...

    @property
    def samples(self) -> Labels | None: ...

    @property
    def weights(self) -> Vector | None: ...


def checked(problem: Field, who: str) -> None:
    """ValueError unless ``problem`` is a Markov random field."""
    if isinstance(problem, type) or not isinstance(problem, Field):
        refuse("problem", problem, f"a WideField or a MarkovRandomField: {who} is for them")
