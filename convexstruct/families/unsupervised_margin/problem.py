r"""Unsupervised max-margin Markov networks as a semidefinite program (paper 3, section 3).

Labels are chosen with the weights, so that the margin loss (4) of a supervised network on these labels is least. The
relaxation (9)-(11) of Theorem 1 is convex in (M, N, C, D) and does not change when labels are renamed; so C = 1/kappa
and D = 1/kappa^2 are optimal in it, the maximum over the dual variables is attained at uniform ones, and what is left
is the **reduced SDP**

    minimise over (M, N)   omega(M, N) = p1 (1 - 1/kappa)
                                         - (<K, M> + <E, N> - 1'K1/kappa - p2^2/kappa^2) / (2 beta)

    s.t.   M - 11'/kappa >= 0,  N - 11'/kappa^2 >= 0 (semidefinite),   diag(M) = 1,  diag(N) = 1,   M >= 0,  N >= 0,
           |M 1 / p1 - 1/kappa| <= eps1,   |N 1 / p2 - 1/kappa^2| <= eps2,                                         (9)
           N_kl <= M_kl (current),  N_kl <= M_kl (previous),  N_kl >= M_kl (current) + M_kl (previous) - 1.       (11)

omega is a lower bound on the margin loss of every labelling that is balanced to eps1 and eps2. (9) is lost in the scan
of the paper, and C e = e, D e = e are not printed (both restored).

    p1, p2      rows: positions of all sequences, end to end; pairs of neighbours (previous row, current row)
    K           (p1, p1) inner products of the rows' features, X X'
    E           (p2, p2) all ones: the Gram matrix of the transition indicators, which are the same for every pair
    M, N        (p1, p1), (p2, p2): M_ij = 1 if two rows have the same label, N_kl = 1 if two pairs have the same two
    M_kl        (current) stands for M at the current rows of the pairs k and l, (previous) at their previous rows

**Point** {"M": (p1, p1), "N": (p2, p2)}. **Dual witness** {"P": (p1, p1), "u", "y": (p1,), "W_current", "W_previous",
"W_pair": (p2, p2), "v", "z": (p2,)}, missing ones being 0: multipliers of the entries, of the rows (9), of the
diagonals and of (11). Every finite witness gives a bound, since it is made feasible (`.rounding` has the formula).

**Without pairs** it is the multiclass relaxation of section 2.2 with De = e, which collapses in the same way:
n (1 - 1/kappa) - (max <K, M> - 1'K1/kappa) / (2 beta). The two-class SDP (3) is another problem, tighter than this one
with kappa = 2: its loss is a maximum over lambda, never below 0, and the loss here is the maximised function at
lambda = 1/2 (`.permutation_invariant` has the same for sequences).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from convexstruct.arrays import Index, Labels, Matrix, Point
from convexstruct.families.unsupervised_margin.feasible import FeasibleSet
from convexstruct.families.unsupervised_margin.interior import least_pair_balance
from convexstruct.families.unsupervised_margin.labels_from_gram import labels_from_gram
from convexstruct.families.unsupervised_margin.rounding import lower_bound, upper_bound
from convexstruct.features.graphs.feature_sizes import uneven
from convexstruct.features.graphs.gram import check_semidefinite, symmetric
from convexstruct.graphs import starts
from convexstruct.rounding import Rounded, RoundedArray, adjoint, exact
from convexstruct.tolerances import ROUNDING
from convexstruct.validation.arguments import choice, mapping, number, refuse, sentence, sequence, sized, whole
from convexstruct.validation.arrays import frozen, predictive, raw, real, wholes


@dataclass(frozen=True, eq=False)
class UnsupervisedMargin:
    """The reduced SDP of one set of unlabelled sequences; made by `read` or `multiclass`.

    Attributes
    ----------
    features : (p1, d) features of every row; None where a kernel was given instead.
    kernel : (p1, p1) Gram matrix that was given; None where it is features features'.
    lengths : (n,) rows of each example, in the order of the rows.
    pairs : (p2, 2) previous row, current row: neighbours in an example, or none at all.
    n_labels : kappa. beta : weight of |w|^2 / 2, positive.
    label_balance, pair_balance : eps1 and eps2, shares of p1 and of p2.
    """

    features: Matrix | None
    kernel: Matrix | None
    lengths: Index
    pairs: Index
    n_labels: int
    beta: float
    label_balance: float
    pair_balance: float
    family: ClassVar[str] = "unsupervised_margin"

    @classmethod
    def read(
        cls,
        observations: Sequence[ArrayLike] | None,
        n_labels: int,
        *,
        beta: float,
        label_balance: float,
        pair_balance: float = 1.0,
        pairs: str = "chain",
        n_symbols: int | None = None,
        kernel: ArrayLike | None = None,
        lengths: ArrayLike | None = None,
    ) -> UnsupervisedMargin:
        """Validate unlabelled sequences.

        Parameters
        ----------
        observations : for each example its features (length, d), or whole symbols (length,), which become indicators.
            None where ``kernel`` and ``lengths`` are given.
        n_labels : kappa, from 2 to the number of rows.
        beta : weight of |w|^2 / 2 in the margin loss (4), where losses are summed over examples; positive.
        label_balance : eps1 of (9), above 0: each label has a share of rows within eps1 of 1/kappa.
        pair_balance : eps2 of (9): each pair of labels has a share of pairs within eps2 of 1/kappa^2. 1 excludes
            nothing.
        pairs : "chain", each row after the one before it in its example, or "none".
        n_symbols : number of symbols; by default the largest one that occurs plus 1.
        kernel : (p1, p1) Gram matrix over all rows, positive semidefinite, in place of features.
        lengths : with ``kernel``, rows of each example.

        Raises
        ------
        ValueError
            If an argument is malformed or out of range; if no feasible point exists for a balance, in which case the
            message gives the smallest balance that is wanted.
        """
        features = matrix = None
        if kernel is not None:
            if observations is not None:
                raise sentence("observations and kernel are both given, wanted one of them")
            sizes = wholes("lengths", lengths, ("examples",), least=1, what="numbers of rows")
            n_rows = int(sizes.sum())
            matrix = real("kernel", kernel, (n_rows, n_rows), why="one row and column for each row of the examples")
            matrix = frozen(symmetric("kernel", matrix))
            check_semidefinite("kernel", matrix)
        else:
            if lengths is not None:
                refuse("lengths", lengths, "None where observations are given: they have their own lengths")
            features, sizes = _read_observations(observations, n_symbols)
            n_rows = len(features)
        kappa = whole("n_labels", n_labels, least=2)
        if kappa > n_rows:
            raise sentence(f"n_labels is {kappa}, wanted at most the number of rows, {n_rows}")
        sized("n_labels squared times the number of rows", kappa**2 * n_rows, kappa**2 * n_rows)
        problem = cls(
            features,
            matrix,
            sizes.astype(np.intp),
            _read_pairs(pairs, sizes.astype(np.intp)),
            kappa,
            number("beta", beta, above=0),
            number("label_balance", label_balance, above=0),
            number("pair_balance", pair_balance, least=0),
        )
        if problem.feasible.inside is None:
            if not problem.n_pairs:
                at, rows = problem.label_balance, f"{n_rows} rows and {kappa} labels"
                raise sentence(
                    f"label_balance is {at:g}, too tight for {rows}: no double is inside, wanted 1e-12 or more"
                )
            least = least_pair_balance(problem.n_pairs, kappa)
            raise sentence(
                f"pair_balance is {problem.pair_balance:g}, too tight for {problem.n_pairs} pairs and {kappa} labels: "
                f"wanted above {least:.9g}, the smallest for which a feasible N exists"
            )
        return problem

    @classmethod
    def multiclass(cls, x: ArrayLike, n_labels: int, beta: float, balance: float) -> UnsupervisedMargin:
        """Points (n, d) without structure: the multiclass relaxation of section 2.2, with De = e and M >= 0.

        With two labels the weights of the classes differ by w of (1), and beta here is twice the beta there.

        Raises
        ------
        ValueError
            As `read`.
        """
        table = real("x", x, ("points", "features"))
        return cls.read([table], n_labels, beta=beta, label_balance=balance, pairs="none")

    def __repr__(self) -> str:
        return (
            f"UnsupervisedMargin({len(self.lengths)} examples, {self.n_rows} rows, {self.n_pairs} pairs, "
            f"{self.n_labels} labels, beta {self.beta:g}, balance {self.label_balance:g} and {self.pair_balance:g})"
        )

    # -- sizes ---------------------------------------------------------------------------------------------------------

    @property
    def n_rows(self) -> int:
        """p1."""
        return int(self.lengths.sum())

    @property
    def n_pairs(self) -> int:
        """p2."""
        return len(self.pairs)

    @property
    def previous(self) -> Index:
        """(p2,) the previous row of each pair."""
        return self.pairs[:, 0]

    @property
    def current(self) -> Index:
        """(p2,) the current row of each pair."""
        return self.pairs[:, 1]

    @cached_property
    def feasible(self) -> FeasibleSet:
        """The constraints: how far points are from them, and feasible points."""
        return FeasibleSet(self.n_rows, self.pairs, self.n_labels, self.label_balance, self.pair_balance)

    @cached_property
    def rounded_gram(self) -> RoundedArray:
        """K (p1, p1): the given kernel, which is exact, or features features' with their error."""
        if self.features is None:
            return exact(self.kernel)  # type: ignore[arg-type]  # one of the two is given
        with np.errstate(all="ignore"):
            found: RoundedArray = adjoint(self.features.T, exact(self.features.T))
        return found

    @cached_property
    def gram(self) -> Matrix:
        """K as it is computed."""
        return frozen(self.rounded_gram.value)

    @cached_property
    def root(self) -> Matrix:
        """X (p1, d) with K = X X': the features, or, where there are more of them than rows, a square root of K."""
        if self.features is not None and self.features.shape[1] <= self.n_rows:
            return self.features
        values, vectors = np.linalg.eigh(self.gram)
        kept = values > 0
        return np.asarray(vectors[:, kept] * np.sqrt(values[kept]))

    @cached_property
    def trivial_value(self) -> float:
        """p1 (1 - 1/kappa) + ((1 - 1/kappa) tr K + (1 - 1/kappa^2) p2) / (2 beta): the sizes of the terms of omega for
        labels drawn at random, row by row."""
        kappa = self.n_labels
        with np.errstate(over="ignore"):
            gained = (1 - 1 / kappa) * float(np.trace(self.gram)) + (1 - 1 / kappa**2) * self.n_pairs
            return self.n_rows * (1 - 1 / kappa) + gained / (2 * self.beta)

    def trivial(self) -> tuple[Point, Point]:
        """A point strictly inside (`interior`), and no multipliers."""
        return dict(self.feasible.safe), {}

    # -- primal --------------------------------------------------------------------------------------------------------

    def as_point(self, value: Any) -> Point:
        """Read {"M": (p1, p1), "N": (p2, p2)}; M alone, or an array, where there are no pairs."""
        if not self.n_pairs and not isinstance(value, Mapping):
            value = {"M": value}
        read = mapping("point", value, {"M"} if not self.n_pairs else {"M", "N"}, () if self.n_pairs else {"N"})
        none = np.zeros((0, 0))
        return {
            name: real(name, read.get(name, none), (size, size), finite=False, keep=False)
            for name, size in (("M", self.n_rows), ("N", self.n_pairs))
        }

    def primal(self, point: Point) -> Rounded:
        """omega(M, N); the allowance also covers the rise of omega up to a feasible point, so that value plus allowance
        is an upper bound on the optimum even where the point is infeasible. inf where the point is not finite."""
        with np.errstate(all="ignore"):
            if not all(np.isfinite(x).all() for x in point.values()):
                return Rounded(np.inf)
            found = upper_bound(self.feasible, self.rounded_gram, self.beta, point)
            return found if np.isfinite(found) else Rounded(np.inf)

    def repair(self, point: Point) -> Point:
        """A feasible point near the point: entries corrected, then a step inside; see `FeasibleSet`."""
        return self.feasible.repair(point)

    def residuals(self, point: Point) -> Mapping[str, float]:
        """Violation of each constraint, in units of the entries of M and N; of (9) in those of eps1 and eps2."""
        return self.feasible.residuals(point)

    # -- dual ----------------------------------------------------------------------------------------------------------

    def dual(self, dual_point: Point) -> Rounded:
        """The lower bound of any witness with its allowance; -inf where the witness is not finite."""
        witness = self.read_dual(dual_point)
        with np.errstate(all="ignore"):
            if not all(np.isfinite(array).all() for array in witness.values()):
                return Rounded(-np.inf)
            found = lower_bound(self.feasible, self.rounded_gram, self.beta, witness)
            return found if np.isfinite(found) else Rounded(-np.inf)

    def dual_residuals(self, dual_point: Point) -> Mapping[str, float]:
        """Empty where the witness is finite, since every such witness is made feasible."""
        finite = all(np.isfinite(array).all() for array in self.read_dual(dual_point).values())
        return {} if finite else {"witness not finite": np.inf}

    def read_dual(self, dual_point: Point) -> Point:
        """Multipliers by name, missing ones as 0; ValueError if a shape is wrong."""
        n, p2 = self.n_rows, self.n_pairs
        shapes: dict[str, tuple[int, ...]] = {"P": (n, n), "u": (n,), "y": (n,), "v": (p2,), "z": (p2,)}
        shapes |= dict.fromkeys(("W_current", "W_previous", "W_pair"), (p2, p2))
        given = mapping("dual_point", dual_point, (), shapes)
        return {
            name: real(f"dual_point[{name!r}]", given.get(name, np.zeros(shape)), shape, finite=False, keep=False)
            for name, shape in shapes.items()
        }

    def rounding_reason(self, point: Point, dual_point: Point | None) -> str:
        """Which data make the allowances large: a row so large that its rounding swamps the inner products of others,
        or a balance that rounding alone may exceed."""
        sizes = np.sqrt(np.maximum(np.diagonal(self.gram), 0.0))
        if said := uneven("the size of row {}", sizes[None]):
            return said
        for name in ("label_balance", "pair_balance") if self.n_pairs else ("label_balance",):
            if (balance := getattr(self, name)) <= ROUNDING:
                return f"{name} is {balance:.1e}, about what rows are out of balance by rounding: take a larger one"
        return ""

    # -- what is learnt ------------------------------------------------------------------------------------------------

    def predict(self, point: Any, examples: Any = None) -> list[Labels]:
        """Labels (length,) of each example, read from M (`labels_from_gram`); the numbering of the labels is arbitrary.

        Raises
        ------
        ValueError
            If the point has the wrong shape, or ``examples`` are given: the SDP labels only its own rows; others need
            weights, which a supervised network trained on these labels has.
        """
        if examples is not None:
            refuse("examples", examples, "None: M says the labels of the problem's own rows alone")
        labels = labels_from_gram(predictive(self.as_point(point))["M"], self.n_labels)
        return np.split(labels, np.cumsum(self.lengths)[:-1])


def _read_observations(given: Any, n_symbols: Any) -> tuple[Matrix, Index]:
    """Features (p1, d) of all rows, and the rows of each example (n,)."""
    wanted = "a list of features (length, d) or of symbols (length,) of at least one example"
    each = sequence("observations", given, wanted, least=1)
    if raw("observations[0]", each[0]).ndim != 1:
        if n_symbols is not None:
            refuse("n_symbols", n_symbols, "None where observations are features")
        tables = [real(f"observations[{i}]", one, ("length", "features")) for i, one in enumerate(each)]
        for i, table in enumerate(tables):
            if table.shape[1] != tables[0].shape[1]:
                raise sentence(
                    f"observations[{i}] has {table.shape[1]} columns, observations[0] has {tables[0].shape[1]}"
                )
        return frozen(np.concatenate(tables)), np.array([len(table) for table in tables])
    most = None if n_symbols is None else whole("n_symbols", n_symbols, least=1) - 1
    rows = [wholes(f"observations[{i}]", one, ("length",), least=0, most=most) for i, one in enumerate(each)]
    flat = np.concatenate(rows)
    count = int(flat.max()) + 1 if most is None else most + 1
    sized("the number of symbols", count, count * len(flat))
    return frozen((flat[:, None] == np.arange(count)).astype(np.float64)), np.array([len(row) for row in rows])


def _read_pairs(given: Any, lengths: Index) -> Index:
    """Pairs (p2, 2) of neighbours, both rows of the same example."""
    if choice("pairs", given, ("chain", "none")) == "none":
        return frozen(np.zeros((0, 2), dtype=np.intp))
    current = np.setdiff1d(np.arange(lengths.sum()), starts(lengths))
    return frozen(np.stack((current - 1, current), axis=1))
