r"""Constraint generation where each constraint belongs to a labelling: the part that such families share.

In each round an oracle finds the most violated labelling of each example at the master's solution, and those of its
constraints that are new are added.

    slack "n"     a slack for each example: up to N constraints a round
    slack "one"   one slack for the weighted sum of the examples' constraints: one constraint a round
    slack "none"  no slack (the hard margin): up to N constraints a round

Multipliers of the master are made feasible by setting negative ones to 0 and scaling them down where their sum exceeds
its limit.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Literal, NamedTuple, TypeVar, get_args

import numpy as np
import scipy.sparse as sp

from convexstruct.arrays import Flags, Index, Labels, Matrix, Point, Vector
from convexstruct.core.certificates import Problem
from convexstruct.marginals.triplets import sums_by
from convexstruct.models.constraint_generation import ConstraintGeneration
from convexstruct.tolerances import ROUNDING
from convexstruct.validation.arguments import choice

Slack = Literal["n", "one", "none"]
P = TypeVar("P", bound=Problem)


class Rows(NamedTuple):
    """Rows of margin constraints. a : sparse (R, d). b : (R,), losses. of : (R,), the number of each row's slack."""

    a: sp.csr_array
    b: Vector
    of: Index


class LabellingCuts(ConstraintGeneration[P]):
    """A margin problem by constraints of labellings.

    slack : "n", "one" or "none"; the master's slack variable, if any, is called "eps" or "xi".
    labels : for each round the labelling (P,) of all examples that was found. in_master : for each round the examples
    (N,) whose constraint was added to the master.
    """

    def __init__(self, problem: P, slack: Slack) -> None:
        super().__init__(problem)
        self.slack = choice("slack", slack, get_args(Slack))
        self.labels: list[Labels] = []
        self.in_master: list[Flags] = []
        self._rows: list[Rows] = []
        self._multipliers: Matrix = np.zeros((0, len(self.weights)))

    # -- hooks of a family -----------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def weights(self) -> Vector:
        """Hook: the weights (N,) of the examples."""

    @property
    @abstractmethod
    def starts(self) -> Index:
        """Hook: where each example begins in a labelling of all examples, and the length of that labelling (N + 1,)."""

    @abstractmethod
    def limit(self, problem: P) -> float:
        """Hook: the largest sum of the multipliers of an example of weight 1 in ``problem``."""

    @abstractmethod
    def rows_of(self, labels: Labels) -> tuple[sp.csr_array, Vector]:
        """Hook: the constraints' a (N, d) and b (N,) for one labelling of all examples."""

    @abstractmethod
    def bound_above(self) -> tuple[Labels, Vector]:
        """Hook: call `improve` with a feasible point made from the master's solution x. Returns the most violated
        labelling (P,) of all examples at x, and b - a'x of each example (N,), without slacks."""

    # -- cuts ------------------------------------------------------------------------------------------------------

    def separate(self) -> tuple[float, int]:
        """Add the most violated constraint of each example (or of all together), if it is new. No labelling is added
        twice, so a master that was solved inaccurately cannot make the loop run for ever."""
        assert self.master is not None
        labels, each = self.bound_above()
        named = self.master.variables
        slack = next((np.asarray(named[name].value) for name in ("eps", "xi") if name in named), np.zeros(len(each)))
        if self.slack == "one":
            known: Flags = np.full(len(each), any((row == labels).all() for row in self.labels))
            violations = np.full(len(each), self.weights @ each - slack[0])
        else:
            known = np.zeros(len(each), dtype=bool)
            for row, kept in zip(self.labels, self.in_master):
                known |= kept & np.logical_and.reduceat(row == labels, self.starts[:-1])
            violations = each - slack
        new = (violations > ROUNDING * max(1.0, float(np.abs(each).max()))) & ~known
        if not new.any():
            return float(violations.max()), 0
        a, b = self.rows_of(labels)
        self.labels.append(labels)
        self.in_master.append(new)
        if self.slack == "one":
            together = sp.csr_array((self.weights @ a)[None, :])
            self._rows.append(Rows(together, np.array([self.weights @ b]), np.zeros(1, dtype=np.intp)))
            return float(violations.max()), 1
        at = np.flatnonzero(new)
        self._rows.append(Rows(a[at], b[at], at))
        return float(violations.max()), len(at)

    def found(self) -> Rows | None:
        """The constraints found so far, in the order of the rounds; None where there are none."""
        if not self._rows:
            return None
        a, b, of = zip(*self._rows)
        return Rows(sp.csr_array(sp.vstack(a, format="csr")), np.concatenate(b), np.concatenate(of))

    def slack_of(self, rows: Rows) -> sp.csr_array:
        """The sparse (R, slacks) matrix that gives each row its slack."""
        return sums_by(rows.of, 1 if self.slack == "one" else len(self.weights)).T

    # -- multipliers -----------------------------------------------------------------------------------------------

    def multipliers_of(self, rows: Rows, label: str) -> Vector:
        """The master's multipliers (R,) of its equation ``label``: negative ones set to 0, and those of a slack scaled
        down where their sum exceeds its limit."""
        assert self.master is not None
        alpha: Vector = np.maximum(np.asarray(self.master.dual_values[label], dtype=np.float64), 0.0)
        if self.slack == "none":
            return alpha
        most = self.limit(self.problem) * (self.weights if self.slack == "n" else np.ones(1))
        return alpha / np.maximum(np.bincount(rows.of, weights=alpha, minlength=len(most)) / most, 1.0)[rows.of]

    def by_example(self, alpha: Vector) -> Matrix:
        """Multipliers (R,) of the rows as multipliers (rounds, N) of the labellings of each example."""
        if self.slack == "one":
            return np.outer(alpha, self.weights)
        spread = np.zeros((len(self.labels), len(self.weights)))
        spread[np.asarray(self.in_master)] = alpha
        return spread

    def witness(self) -> Point:
        """The multipliers of the best lower bound, as a mixture of labellings."""
        rounds, limits = len(self._multipliers), self.limit(self.certified()) * self.weights
        labels = np.array(self.labels[:rounds], dtype=np.int64).reshape(rounds, int(self.starts[-1]))
        shares = self._multipliers / limits
        return {"labels": labels, "label_shares": shares / np.maximum(shares.sum(axis=0), 1.0)}
