"""The objective of a structural SVM at a w, as the oracle gives it to the solvers."""

from __future__ import annotations

from dataclasses import dataclass

from convexstruct.arrays import Labels, Vector


@dataclass(frozen=True)
class Evaluation:
    """P at w, by one call of the oracle.

    value : P(w), or an upper bound on it if the oracle is approximate. hinge (N,) : H_i(w), or upper bounds.
    labels (P,) : the most violated labelling found for each example; violation (N,) : its violation, at least 0.
    moved (N,) : see `convexstruct.inference.exact.Best`.
    """

    value: float
    hinge: Vector
    labels: Labels
    violation: Vector
    moved: Vector | None = None

    @property
    def of_examples(self) -> tuple[Vector, Labels, Vector, Vector | None]:
        """All but the value."""
        return self.hinge, self.labels, self.violation, self.moved
