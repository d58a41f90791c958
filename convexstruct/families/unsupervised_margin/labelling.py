r"""The problem that paper 3's SDPs relax: the labelling of least margin loss, itself (paper 3, sections 3 and 5).

    minimise over y in {0 .. kappa-1}^p1 and w   beta/2 |w|^2 + sum_i H_i(w; y_i)
    s.t.   |share of the rows with label u - 1/kappa| <= eps1 for every label u                                   (9)

with H_i the structured hinge of example i (`.supervised`). It is convex in w alone. With eps1 = 1 every labelling is
allowed, as in section 5, and one label for all rows is often the best.

**Lower bound** (ours): the collapsed relaxation on a segment. For a labelling with indicators C and D, omega(y) is a
maximum over marginals (Theorem 1), and mu = C + t (1/kappa - C), nu = D + t (1/kappa^2 - D) are marginals for

    0 <= t <= kappa/(kappa - 1) without pairs, kappa^2/(kappa^2 - 1) with pairs.

They give omega(y) >= t A - t^2 q(y), with A = p1 (1 - 1/kappa) and q(y) = (<K, M> + <E, N> - 1'K1/kappa -
p2^2/kappa^2) / (2 beta) >= 0. The reduced SDP is t = 1, its minimum A - max q, and its maximiser does not depend on t.
So if a witness of it proves the bound L, then q(y) <= A - L for every balanced y, and

    omega(y) >= max over t of t A - t^2 (A - L),

which is L or more, and always above 0, where L itself is often far below 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import ceil, floor
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from convexstruct.arrays import Index, Labels, Point
from convexstruct.families.structured_svm import StructuredSVM
from convexstruct.families.unsupervised_margin.problem import UnsupervisedMargin
from convexstruct.families.unsupervised_margin.supervised import supervised
from convexstruct.rounding import UNIT, Rounded
from convexstruct.validation.arguments import mapping, refuse, sentence
from convexstruct.validation.arrays import predictive, real


@dataclass(frozen=True, eq=False)
class MarginLabelling:
    """The labelling of least margin loss of the rows of an `UnsupervisedMargin`, which is its relaxation.

    data : the rows, pairs, kappa, beta and eps1; its ``pair_balance`` is 1, as no balance of pairs is asked of labels.

    **Point** {"labels": (p1,), "w": (d,)}: whole numbers, and the weights of the supervised network. **Dual point**: a
    witness of the relaxation.

    Raises
    ------
    ValueError
        If ``data`` is no `UnsupervisedMargin`, has pairs and a ``pair_balance`` below 1, or a ``label_balance`` that no
        labelling keeps.
    """

    data: UnsupervisedMargin
    family: ClassVar[str] = "unsupervised_margin"

    def __post_init__(self) -> None:
        if not isinstance(self.data, UnsupervisedMargin):
            refuse("data", self.data, "an UnsupervisedMargin")
        if self.data.n_pairs and self.data.pair_balance < 1.0:
            raise sentence(
                f"data has pair_balance {self.data.pair_balance:g}, wanted 1: labellings are held to the balance of "
                "labels alone"
            )
        fewest, most = self.counts
        each, left = divmod(self.data.n_rows, self.data.n_labels)
        if fewest > each or most < each + bool(left):
            raise sentence(
                f"data has label_balance {self.data.label_balance:g}, which no labelling of {self.data.n_rows} rows "
                f"with {self.data.n_labels} labels keeps: wanted {self._least_balance:.3g} or more"
            )

    def __repr__(self) -> str:
        return f"MarginLabelling({self.data!r})"

    # -- sizes ---------------------------------------------------------------------------------------------------------

    @cached_property
    def counts(self) -> tuple[int, int]:
        """The fewest and the most rows that a label may have, from exact fractions."""
        n, kappa = self.data.n_rows, self.data.n_labels
        room = Fraction(self.data.label_balance) * n
        return max(0, ceil(Fraction(n, kappa) - room)), min(n, floor(Fraction(n, kappa) + room))

    @property
    def _least_balance(self) -> float:
        n, kappa = self.data.n_rows, self.data.n_labels
        return max(n % kappa, (-n) % kappa) / (n * kappa)

    @cached_property
    def trivial_machine(self) -> StructuredSVM:
        """The network of the trivial labels."""
        return self.machine(self._even)

    @property
    def _even(self) -> Labels:
        """Labels in equal numbers, as far as possible, in the order of the rows."""
        return np.arange(self.data.n_rows) * self.data.n_labels // self.data.n_rows

    @property
    def trivial_value(self) -> float:
        """p1, the loss of w = 0 for any labels."""
        return float(self.data.n_rows)

    def trivial(self) -> tuple[Point, Point]:
        """Labels in equal numbers with w = 0; no multipliers."""
        return {"labels": self._even, "w": np.zeros(self.trivial_machine.dimension)}, {}

    def machine(self, labels: Any) -> StructuredSVM:
        """The max-margin Markov network of these labels, a convex problem whose optimum is omega(labels)."""
        return supervised(self.data, labels)

    # -- primal --------------------------------------------------------------------------------------------------------

    def as_point(self, value: Any) -> Point:
        """Read {"labels": (p1,), "w": (d,)}; labels that are finite must be whole numbers 0 .. kappa - 1."""
        read = mapping("point", value, {"labels", "w"})
        labels = real("labels", read["labels"], (self.data.n_rows,), finite=False, keep=False)
        known = labels[np.isfinite(labels)]
        if ((known != np.round(known)) | (known < 0) | (known >= self.data.n_labels)).any():
            refuse("labels", read["labels"], f"whole numbers from 0 to {self.data.n_labels - 1}")
        if len(known) == len(labels):
            labels = labels.astype(np.int64)
        return {"labels": labels, "w": self.trivial_machine.as_point({"w": read["w"]})["w"]}

    def primal(self, point: Point) -> Rounded:
        """The loss of the labels at w, with its allowance; inf where a number is not finite."""
        if not all(np.isfinite(array).all() for array in point.values()):
            return Rounded(np.inf)
        return self.machine(point["labels"]).primal({"w": point["w"]})

    def repair(self, point: Point) -> Point:
        """Labels within the balance: rows change from the most frequent label to the rarest, the last rows first."""
        labels, (fewest, most) = np.array(point["labels"], dtype=np.int64), self.counts
        counts = self.occurring(labels)
        while counts.max() > most or counts.min() < fewest:
            often, rarely = int(counts.argmax()), int(counts.argmin())
            labels[np.flatnonzero(labels == often)[-1]] = rarely
            counts = self.occurring(labels)
        return {**point, "labels": labels}

    def residuals(self, point: Point) -> Mapping[str, float]:
        """By how many rows, as a share of p1, a label has too many or too few."""
        if not np.isfinite(point["labels"]).all():
            return {"labels not finite": np.inf}
        counts, (fewest, most) = self.occurring(point["labels"]), self.counts
        off = max(int(counts.max()) - most, fewest - int(counts.min()), 0)
        return {"labels out of balance (9)": off / self.data.n_rows}

    def occurring(self, labels: Labels) -> Index:
        """(kappa,) how many rows have each label."""
        return np.bincount(labels.astype(np.int64), minlength=self.data.n_labels)

    # -- dual ----------------------------------------------------------------------------------------------------------

    def dual(self, dual_point: Point) -> Rounded:
        """max over t of t A - t^2 (A - L), where L is the relaxation's bound from the witness; -inf where that is not
        finite."""
        if self.dual_residuals(dual_point):
            return Rounded(-np.inf)
        relaxed, kappa = self.data.dual(dual_point), self.data.n_labels
        if not np.isfinite(relaxed):
            return Rounded(0.0)  # its sums overflow; a hinge is never below 0
        gain: Rounded = self.data.n_rows * (1.0 - Rounded(1.0) / kappa)
        bend = max((gain - relaxed).upper, 0.0)
        names = kappa**2 if self.data.n_pairs else kappa
        most = names / (names - 1) * (1.0 - 2.0 * UNIT)  # rounded down, so that no marginal is below 0
        t = most if bend == 0.0 else min(most, float(gain) / (2.0 * bend))
        value: Rounded = t * gain - Rounded(t) * t * bend
        return value

    def dual_residuals(self, dual_point: Point) -> Mapping[str, float]:
        """Those of the relaxation: empty where the witness is finite."""
        return self.data.dual_residuals(dual_point)

    def rounding_reason(self, point: Point, dual_point: Point | None) -> str:
        """As the relaxation has it."""
        return self.data.rounding_reason(point, dual_point)

    # -- what is learnt ------------------------------------------------------------------------------------------------

    def predict(self, point: Any, examples: Sequence[ArrayLike] | None = None) -> list[Labels]:
        """The labels of each example of the problem, or the network's predictions of others, given as
        `StructuredSVM.predict` takes them. The numbering of the labels is arbitrary.

        Raises
        ------
        ValueError
            If the point has the wrong shape or is not finite, or ``examples`` are malformed.
        """
        read = predictive(self.as_point(point))
        if examples is None:
            return np.split(read["labels"], np.cumsum(self.data.lengths)[:-1])
        return self.trivial_machine.predict({"w": read["w"]}, examples)
