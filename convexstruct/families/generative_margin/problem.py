r"""Discriminative training of generative models: problem (P) of Yu, Bertsekas and Rousu (paper 0).

    minimise    - sum_i c_i' theta_i + eta sum_k w_k eps_k                                       (2)
    subject to  a_k(s)' theta + b_k(s) <= eps_k            for every labelling s of example k     (3)
                1' e^{theta_i} <= 1                        for every block i                      (4)
                theta <= 0, eps >= 0                                                              (5)

with a_k(s) = counts_k(s) - counts_k(s*), b_k(s) = loss_k(s) and s* the true labelling. Because s = s* gives
a = 0, b = 0, eps_k >= 0 is implied, and so is theta <= 0 by (4). Eliminating eps,

    P(theta) = - c' theta + eta sum_k w_k max_s [a_k(s)' theta + b_k(s)].

**Dual.** With beta_k(s) >= 0, sum_s beta_k(s) <= eta w_k, mu = sum beta_k(s) a_k(s), omega = sum beta_k(s) b_k(s) (6),
v = c - mu and V_i = sum_j v_ij, maximising (D) over lambda in closed form (lambda_i = V_i; ours, the paper keeps
lambda) leaves

    D(mu, omega) = omega + sum_i [V_i ln V_i - sum_j v_ij ln v_ij],     v >= 0, else -inf.

The set script-D of (9), all such (mu, omega), is convex and contains 0: so t (mu, omega), 0 <= t <= 1, stays inside.
Any member therefore gives a lower bound: the largest D(t mu, t omega) over those t with v >= 0. (The paper projects mu
onto mu <= c instead, which may leave script-D: no bound. ``tests/families/generative_margin/test_problem.py`` shows it
fail.)

**General objectives, (28)-(30)**: h, f and further limits of theta; `general` says what changes. **Loss-rescaled
slacks**: with ``rescaled`` the rows (3) are a_k(s)'theta + 1 <= eps_k / b_k(s) where b_k(s) > 0. That is (3) with
b_k(s) a_k(s) for a_k(s), also in mu (`convexstruct.features.counts.rescaled`); all else stays.

**Dual witness.** A given (mu, omega) alone proves no bound, since its membership in script-D cannot be checked. A dual
point is therefore a mixture of labellings and Gibbs distributions q_k(s) ~ exp(Theta' counts_k(s) + B loss_k(s)), in
the arrays that `convexstruct.core.mixtures` names; beta_k = eta w_k (sum of shares times distributions), and a Gibbs
distribution has the same share in all examples. The problem recomputes (mu, omega) from the mixture.

**Rounding.** `primal` and `dual` are the same formulas on numbers that carry their errors (`convexstruct.rounding`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import networkx as nx
import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from convexstruct.arrays import OPTIONAL, Index, Labels, Point, Vector
from convexstruct.brief import brief
from convexstruct.core.mixtures import Mixture, outside_simplex, read_mixture
from convexstruct.families.generative_margin import capped
from convexstruct.families.generative_margin.constraints import Constraint
from convexstruct.families.generative_margin.distributions import default_c, stacked
from convexstruct.families.generative_margin.general import General, read_pieces
from convexstruct.families.generative_margin.in_files import (
    CountsInFiles,
    FiledCounts,
    from_files,
    member_of,
    most_violated,
)
from convexstruct.families.generative_margin.member import Evaluation, Member, digest, ruled_out
from convexstruct.families.generative_margin.objectives import Objective
from convexstruct.families.generative_margin.parameters import shifted, sum_level
from convexstruct.families.generative_margin.segment import balanced, best_on_segment, certain_on_segment
from convexstruct.families.generative_margin.slack_penalties import SlackPenalty
from convexstruct.features.counts.bounds import excess
from convexstruct.features.counts.counts import Counts, Examples, Oracle
from convexstruct.features.counts.hmm import HMMCounts
from convexstruct.features.counts.network import NetworkCounts
from convexstruct.features.counts.part import part
from convexstruct.features.counts.rescaled import LossRescaled
from convexstruct.features.counts.unlabelled import unlabelled
from convexstruct.graphs import TableLayout
from convexstruct.inference.sharded_oracle import ShardedOracle
from convexstruct.inference.shards import Shards, Workers, in_shards
from convexstruct.losses import Costs
from convexstruct.rounding import GREATEST, Rounded, binned, dot, entropy, exact, summed
from convexstruct.tolerances import DUAL_ROUNDING
from convexstruct.validation.arguments import flag, mapping, number
from convexstruct.validation.arrays import predictive, real


@dataclass(frozen=True, eq=False)
class GenerativeMargin:
    """Problem (P): data, prior distributions c, and the weight eta of the margin violations.

    Attributes
    ----------
    features : the counts of the data (`HMMCounts` or `NetworkCounts`), with loss and example weights.
    c : (d,) a distribution for each block, in theta's layout (`layout`).
    eta : positive weight of the violations, in nats a unit of loss.
    h : a penalty of the slacks (`slack_penalties`), None for the linear one of (2).
    f : a term of theta beside -c'theta (`objectives`), or None. With one, c may be any numbers >= 0.
    constraints : pieces of (30) beside (4) (`constraints`), or None.
    rescaled : True where the loss rescales the slacks; else None.
    workers : where maxima and sums over labellings are computed, if not here.
    """

    features: Counts
    c: Vector
    eta: float
    h: SlackPenalty | None = field(default=None, kw_only=True, metadata=OPTIONAL)
    f: Objective | None = field(default=None, kw_only=True, metadata=OPTIONAL)
    constraints: Sequence[Constraint] | None = field(default=None, kw_only=True, metadata=OPTIONAL)
    rescaled: bool | None = field(default=None, kw_only=True, metadata=OPTIONAL)
    workers: Workers | None = field(default=None, repr=False, kw_only=True, metadata=OPTIONAL)
    family: ClassVar[str] = "generative_margin"

    __repr__ = brief

    def __post_init__(self) -> None:
        for name, value in read_pieces(self.layout, self.c, self.h, self.f, self.constraints).items():
            object.__setattr__(self, name, value)
        object.__setattr__(self, "eta", number("eta", self.eta, above=0))
        object.__setattr__(self, "rescaled", None if self.rescaled is None else flag("rescaled", self.rescaled) or None)
        if isinstance(self.margins, LossRescaled):
            self.margins.check()
        if self.general is not None:
            self.general.check()

    @classmethod
    def hmm(
        cls,
        symbols: Sequence[ArrayLike],
        states: Sequence[ArrayLike],
        n_states: int,
        n_symbols: int,
        *,
        eta: float,
        c: ArrayLike | Mapping[str, ArrayLike] | None = None,
        loss: Costs | Sequence[ArrayLike] = "hamming",
        hidden: Sequence[ArrayLike] | None = None,
        weights: ArrayLike | None = None,
        **objective: Any,
    ) -> GenerativeMargin:
        """Train a hidden Markov model; arguments as in `HMMCounts.read`, c by default uniform.

        ``c`` is a vector (d,) or a mapping of "initial" (S,), "transition" (S, S), "emission" (S, M). objective : h, f,
        constraints and rescaled, as the problem's own.
        """
        features = HMMCounts.read(symbols, states, n_states, n_symbols, loss, hidden, weights)
        return cls(features, default_c(c, features.tables), eta, **objective)

    @classmethod
    def network(
        cls,
        graph: nx.DiGraph,
        assignments: ArrayLike | Mapping[Any, ArrayLike],
        hidden: Sequence[Any],
        *,
        eta: float,
        c: ArrayLike | Mapping[Any, ArrayLike] | None = None,
        loss: Costs | Mapping[Any, Costs] = "hamming",
        weights: ArrayLike | None = None,
        **objective: Any,
    ) -> GenerativeMargin:
        """Train a Bayesian network; arguments as in `NetworkCounts.read`, c by default uniform; objective as above."""
        features = NetworkCounts.read(graph, assignments, hidden, loss, weights)
        return cls(features, default_c(c, features.tables), eta, **objective)

    #: Hidden Markov models of sequences in files that only workers read.
    from_files = classmethod(from_files)

    # -- the parts of the problem ------------------------------------------------------------------------------------

    @cached_property
    def general(self) -> General | None:
        """What (28)-(30) add to (2)-(5); None where they add nothing."""
        if self.h is None and self.f is None and self.constraints is None:
            return None
        pieces = tuple(self.constraints or ())
        return General(self.layout, self.examples.weights, self.c, self.eta, self.h, self.f, pieces)

    @property
    def examples(self) -> Examples:
        return self.counts.examples

    @cached_property
    def counts(self) -> Counts | CountsInFiles:
        """The feature map; where it lies in files, sums over them."""
        features = self.features
        return CountsInFiles(features, self.c, self.workers) if isinstance(features, FiledCounts) else features

    @cached_property
    def margins(self) -> Counts:
        """The feature map whose counts and losses stand in the rows (3)."""
        return LossRescaled(self.counts) if self.rescaled else self.counts

    @property
    def oracle(self) -> Oracle:
        """The oracle over all labellings: that of `margins`, unless the examples are split into shards."""
        return self.margins if self.shards is None else ShardedOracle(self.shards)

    @cached_property
    def shards(self) -> Shards | None:
        """Feature maps of some of the examples, with about as many hidden variables each; None for files."""
        if isinstance(self.features, FiledCounts):
            return None
        hidden = np.bincount(self.examples.example, minlength=self.n_examples)
        return in_shards(self.workers, hidden, lambda each: part(self.margins, each[0], each[-1] + 1))

    @property
    def layout(self) -> TableLayout:
        return self.features.tables

    @property
    def dimension(self) -> int:
        return self.layout.dimension

    @property
    def n_examples(self) -> int:
        return len(self.examples)

    @cached_property
    def truth_each(self) -> sp.csr_array:
        """counts_k(s*) for each example; sparse (K, d)."""
        return self.counts.counts_each(self.examples.truth)

    @cached_property
    def truth_counts(self) -> Vector:
        """sum_k w_k counts_k(s*); shape (d,)."""
        return self.counts.counts(self.examples.truth)

    def uniform(self) -> Vector:
        """theta of uniform distributions; shape (d,)."""
        return -np.log(self.layout.block_sizes.astype(np.float64))[self.layout.block_of]

    @cached_property
    def trivial_value(self) -> float:
        """-c'theta at uniform distributions, sum_i ln n_i nats, n_i the size of block i (1 where all are 1). Violations
        are left out: of separable data they are 0 at the optimum, and with them eta would make any gap look small."""
        return float(-self.c @ self.uniform()) or 1.0

    def trivial(self) -> tuple[Point, Point]:
        """Uniform distributions, and the dual point beta = 0 (no arrays)."""
        return self.repair({"theta": self.uniform()}), {}

    def rows(self, labels: Labels) -> tuple[sp.csr_array, Vector]:
        """The rows (3) of one labelling of all examples: a, sparse (K, d), and b (K,)."""
        a = self.margins.counts_each(labels)
        return (a if self.rescaled else sp.csr_array(a - self.truth_each)), self.features.loss(labels)

    capped = property(lambda self: self.h is not None and self.h.most < np.inf, doc="Whether h caps the slacks.")

    @cached_property
    def inside(self) -> Vector:
        """A theta that keeps the cap and all limits with room. ValueError, with its proof (`capped`), if none does."""
        return capped.inside(self)

    # -- primal --------------------------------------------------------------------------------------------------------

    def violated(self, theta: Vector) -> tuple[Vector, Labels]:
        """max_s [a_k(s)'theta + b_k(s)] of each example (K,), and a labelling (P,) that attains it."""
        with np.errstate(invalid="ignore", over="ignore"):
            best, labels = self.oracle.best(theta, 1.0)
            return (best if self.rescaled else np.asarray(best - self.truth_each @ theta)), labels

    def evaluate(self, theta: Vector) -> Evaluation:
        """P(theta), whether theta satisfies (4) or not, with one call of the oracle; inf where it is undefined."""
        slack, labels, counts, loss = most_violated(self, theta)
        truth = 0.0 if self.rescaled else self.truth_counts
        mu, omega = self.eta * (counts - truth), self.eta * loss  # the cut of (2)-(5), where h is linear
        with np.errstate(invalid="ignore", over="ignore"):
            value = float(self._objective(theta, slack))
        return Evaluation(np.inf if np.isnan(value) else value, slack, labels, mu, omega)

    def shift(self, theta: Vector) -> Vector:
        """The nearest point of (4) along each block; see `shifted`."""
        return shifted(self.layout, theta)

    def as_point(self, value: Any) -> Point:
        """Read theta: an array (d,), or a mapping with "theta", or with one array a table."""
        if isinstance(value, Mapping):
            if set(value) == set(self.layout.names):
                value = stacked("point", value, self.layout, finite=False)
            else:
                value = mapping("point", value, {"theta"}, otherwise=" or the tables' names")["theta"]
        return {"theta": real("theta", value, (self.dimension,), finite=False, keep=False)}

    def primal(self, point: Point) -> Rounded:
        """The objective (2) at theta, with eps eliminated, and an allowance for its rounding; inf where undefined.

        A theta accepted as feasible may have 1'e^theta_i above 1 by rounding. The upper end also bounds P where it is
        shifted by delta, so as to be exactly feasible: the counts of a labelling sum to the number of its terms N_k,
        so |P(theta) - P(theta - delta)| <= max(delta) (1'c + 2 eta sum_k w_k N_k), N_k times max_s b_k(s) if rescaled.
        """
        theta, examples = point["theta"], self.examples
        if (theta[(self.c > 0) | (self.truth_counts > 0)] == -np.inf).any() or np.isnan(theta).any():
            return Rounded(np.inf)
        largest = max(np.abs(theta).max(where=theta > -np.inf, initial=0.0), float(examples.max_loss.max()))
        if largest > GREATEST:
            return Rounded(self.evaluate(theta).value, np.inf)
        with np.errstate(all="ignore"):
            value = self._objective(exact(theta), excess(self.margins, theta))
            level, margin = sum_level(self.layout, theta)
        if not np.isfinite(value):
            return Rounded(np.inf)
        if self.general is not None:  # `residuals` says of any theta that may be infeasible that it is
            return value
        delta = 0.0 if (level > 0).any() or (theta > 0).any() else max(float(np.max(level + margin)), 0.0)
        terms = self.truth_each.sum(axis=1) * (examples.max_loss if self.rescaled else 1.0)
        moved = float(self.c.sum()) + 2 * self.eta * float(examples.weights @ terms)
        return Rounded.of(value, value.allowance, 1.001 * delta * moved)  # others are repaired by `certify`

    def _objective(self, theta: Any, slack: Any) -> Rounded:
        """P from theta and its slacks: of arrays, or of arrays with errors."""
        if self.general is not None:
            return self.general.objective(theta, slack)
        used = self.c > 0
        found: Rounded = self.eta * dot(self.examples.weights, slack) - summed(self.c[used] * theta[used])
        return found

    def repair(self, point: Point) -> Point:
        theta = point["theta"]
        return {"theta": self.shift(theta) if self.general is None else capped.repaired(self, theta)}

    def residuals(self, point: Point) -> Mapping[str, float]:
        """How far theta lies outside (4): max_i (1'e^theta_i - 1)_+; outside (5): max theta_+. With other
        objectives or limits: the largest of all, where it is not certain that there is none."""
        theta = point["theta"]
        if self.general is not None:
            return capped.residuals(self, theta)
        with np.errstate(over="ignore"):
            excess = float(np.max(np.expm1(np.maximum(self.layout.block_logsumexp(theta), 0.0))))
        return {"(4) sum of probabilities above 1": excess, "(5) theta above 0": float(max(theta.max(), 0.0))}

    # -- dual ----------------------------------------------------------------------------------------------------------

    def dual_value(self, mu: Vector, omega: float) -> float:
        """D(mu, omega) = omega + sum_i [V_i ln V_i - sum_j v_ij ln v_ij], v = c - mu; -inf where some v < 0."""
        v = self.c - mu
        return -np.inf if (v < 0).any() else float(self._dual_function(v, omega))

    def _dual_function(self, v: Any, omega: float) -> Rounded:
        """D from v >= 0: an array, or one with errors."""
        total = binned(v, self.layout.block_of, len(self.layout.block_sizes))
        found: Rounded = omega + summed(entropy(v)) - summed(entropy(total))
        return found

    def best_on_segment(
        self, mu: Vector, omega: float, safe: tuple[Vector, float] | None = None
    ) -> tuple[float, float]:
        """(t, D) at the best point of safe + t ((mu, omega) - safe), 0 <= t <= 1, inside the domain of D.

        Valid for any two members of script-D, which is convex; ``safe`` must lie in the domain (default 0, which does).
        Where mu <= c implies mu = 0 in a whole column and mu is nearly 0 there, it is taken as 0: `member` proves that
        a nearby member has it exactly.
        """
        safe_mu, safe_omega = safe if safe is not None else (np.zeros_like(mu), 0.0)
        mu, safe_mu = self._balanced(mu), self._balanced(safe_mu)
        start = self.c - safe_mu, safe_omega
        return best_on_segment(
            self.layout, start, mu - safe_mu, omega - safe_omega, -1e-15 * self.c, self._dual_function
        )

    @cached_property
    def ruled_out(self) -> list[Index]:
        return ruled_out(self.margins, self.c)

    def _balanced(self, mu: Vector) -> Vector:
        return balanced(mu, self.ruled_out, self.eta)

    def aggregate(self, dual_point: Point) -> tuple[Vector, float]:
        """(mu, omega) of a dual witness, recomputed from the data; negative shares count as 0, and shares that sum to
        more than 1 in an example are scaled down."""
        found = self._member(dual_point)
        return found.mu.value, float(found.omega)

    def dual(self, dual_point: Point) -> Rounded:
        """A lower bound on the optimum from a dual witness, with the allowance for its rounding: the largest
        D(t mu, t omega) over 0 <= t <= 1 with v >= 0 for certain; -inf if shares are off by over `DUAL_ROUNDING`."""
        if self._dual_infeasibility(dual_point) > DUAL_ROUNDING:
            return Rounded(-np.inf)
        return self.segment(dual_point)[1]

    def segment(self, dual_point: Point) -> tuple[float, Rounded]:
        """(t, D) at the t of the segment that `dual` takes."""
        found = self._member(dual_point)
        if self.general is not None:
            with np.errstate(all="ignore"):  # what overflows is no bound
                return self.general.segment(found, self._multipliers(dual_point)[1])
        return certain_on_segment(self.c, found, self.best_on_segment, self._dual_function)

    def dual_residuals(self, dual_point: Point) -> Mapping[str, float]:
        """How far the shares are from distributions, and how far mu rises above c."""
        infeasible = self._dual_infeasibility(dual_point)
        above = np.inf
        if np.isfinite(infeasible):
            found = self._member(dual_point)
            with np.errstate(invalid="ignore", over="ignore"):
                above = float(np.max(found.mu.value - found.mu.errors - self.c))
        return {"shares outside the simplex": infeasible, "mu above c": np.inf if np.isnan(above) else max(above, 0.0)}

    def _member(self, dual_point: Point) -> Member:
        """The member of script-D that a witness defines; the last one is kept, since `certify` needs it twice."""
        mixture, mass = self._read_dual(dual_point), self._multipliers(dual_point)[0]
        steepest = np.inf if self.general is None else self.general.h.steepest
        key = digest((*mixture, *(() if mass is None else (mass,))))
        last: tuple[bytes, Member] | None = self.__dict__.get("_last")
        if last is None or last[0] != key:
            last = key, member_of(self, mixture, mass, steepest)
            self.__dict__["_last"] = last
        return last[1]

    def _dual_infeasibility(self, dual_point: Point) -> float:
        found = self._read_dual(dual_point)
        more = [each for each in self._multipliers(dual_point) if each is not None]
        return outside_simplex((*found, *more), found.label_shares, found.gibbs_shares)

    def _read_dual(self, dual_point: Point) -> Mixture:
        extra = () if self.general is None else ("mass", "rows")
        given = mapping("dual_point", dual_point, (), (*Mixture._fields, *extra))
        found = read_mixture(given, self.n_examples, self.dimension, self.examples.cards)
        fixed = ~self.examples.free
        if (found.labels[:, fixed] != self.examples.truth[fixed]).any():
            raise ValueError("dual_point['labels'] differs from the truth where that is observed")
        if self.rescaled and len(found.gibbs):
            raise ValueError("dual_point['gibbs'] is given, wanted labels alone: the loss rescales the slacks")
        return found

    def _multipliers(self, dual_point: Point) -> tuple[Vector | None, Vector]:
        """(mass (K,), rows (n,)) of a witness, negative ones set to 0; None and empty with (2)-(5) alone."""
        if self.general is None:
            return None, np.zeros(0)
        return self.general.multipliers(dual_point)

    # -- prediction ----------------------------------------------------------------------------------------------------

    def predict(self, point: ArrayLike | Point, examples: Any = None) -> list[Labels]:
        """The most probable hidden values of each example given the rest: argmax_s theta'counts_k(s).

        point : theta (d,), or a mapping as in `as_point`.
        examples : None, the problem's own; or new ones without labels. Hidden Markov model: K integer sequences of
            symbols (T_k,). With channels: K integer tables (T_k, C). Bayesian network: integers (K, n_nodes), the
            columns as in training, -1 for each value that is to be predicted.

        Returns one array an example: the states (T_k,) of a chain, including observed ones for the problem's own
        examples; the values of a network's hidden nodes, in the order of the graph's nodes.

        Raises
        ------
        ValueError
            If theta or an example does not fit the problem, or an example has nothing to predict.
        """
        theta = predictive(self.as_point(point), least=-np.inf)["theta"]
        features = self.features if examples is None else unlabelled(self.features, examples)
        labels = (self.oracle if examples is None and not self.rescaled else features).best(theta, 0.0)[1]
        return np.split(labels, np.flatnonzero(np.diff(features.examples.example)) + 1)
