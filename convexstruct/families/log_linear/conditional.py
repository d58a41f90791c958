r"""Conditional random fields (papers 1 and 4): the data of a structural SVM under the loss of likelihood.

    minimise over theta   P(theta) = C sum_i omega_i [ln Z_i(theta) - <theta, f(x_i, y_i)>] + R(theta),
                          ln Z_i = ln sum_y e^<theta, f(x_i, y)>,    R = lam/2 |theta|^2 + l1 |theta|_1

in nats, over the labellings y without a forbidden pair on any edge. f is that of
`convexstruct.features.graphs.pairwise`; lam and C follow the conventions of `convexstruct.core.scale`, and by default
lam = 0 and C = 1. CRFsuite minimises the same with c2 = lam/2 and c1 = l1 at C = 1.

**Dual.** ln Z_i is the greatest value of H(q) + E_q <theta, f(x_i, y)> over distributions q of y. Swapping min and max,

    D(q) = C sum_i omega_i H(q_i) - R*(Psi),      Psi = C sum_i omega_i (f(x_i, y_i) - E_q f(x_i, y)),

and every mixture t q + (1 - t) truth gives a lower bound too (`.penalty`). At the Gibbs distributions of theta, P - D
is the Fenchel gap R(theta) + R*(Psi) - <theta, Psi>, which is |grad P|^2 / (2 lam) where l1 = 0: of second order.

**Dual point**: a mixture in the arrays of `convexstruct.core.mixtures` without a loss, ``gibbs_loss`` absent or 0:
"gibbs" (g, d) natural parameters with "gibbs_shares" (g, N), "labels" (m, P) with "label_shares" (m, N). The missing
share is that of the truth. The mixture's entropy is bounded from below by the parts' entropies times their shares.

**Without a penalty** Psi must be 0, which no computed Psi is: the lower bound then holds over all theta at which no
score of a node or an edge exceeds 1000 nats (`.basis`), and is at least 0; a certificate of another theta has none.
"gibbs_in_basis" (g, d) may stand in place of "gibbs": parameters u of the basis, whose scores are those of T u without
its rounding. The optimum may not be attained: `runaway` looks for a direction along which P never rises.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar

import networkx as nx
import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from convexstruct import deadline
from convexstruct.arrays import OPTIONAL, Flags, Index, Labels, Matrix, Point, Tensor, Vector
from convexstruct.brief import brief
from convexstruct.core.mixtures import Mixture, of_examples, outside_simplex, read_mixture
from convexstruct.core.scale import Scale
from convexstruct.families.log_linear.basis import Basis, exact_scores, joined, pairwise_parts
from convexstruct.families.log_linear.entropy import add_gibbs, log_losses
from convexstruct.families.log_linear.in_files import from_files
from convexstruct.families.log_linear.penalised import Penalised
from convexstruct.families.log_linear.penalty import NO_PENALTY
from convexstruct.families.log_linear.separable import never_falling, never_true, separates
from convexstruct.features.counts.counts import example_weights
from convexstruct.features.graphs.feature_sizes import reason, squared
from convexstruct.features.graphs.filed import FiledFeatures
from convexstruct.features.graphs.forbidden import read_pairs
from convexstruct.features.graphs.pairwise import PairwiseFeatures, read_pairwise
from convexstruct.features.graphs.score_errors import score_errors
from convexstruct.inference.differences import Marginals
from convexstruct.inference.exact import ChainInference, Inference, exact_inference
from convexstruct.inference.prediction import of_one_kind, read_others
from convexstruct.inference.shards import Shards, Workers, in_files, in_shards
from convexstruct.oracles.blocks import copy_by_columns
from convexstruct.oracles.chain import chain
from convexstruct.rounding import GREATEST, TINY, Rounded, RoundedArray, exact, gamma, summed, total
from convexstruct.tolerances import DUAL_ROUNDING
from convexstruct.validation.arguments import mapping, number
from convexstruct.validation.arrays import predictive, raw

#: The end of the message about a graph that is too wide for sums over its labellings.
ADVICE = (
    "use an approximation: pseudolikelihood, or the Bethe or tree-reweighted entropy over the local polytope "
    "(cs.models.FORMULATIONS lists those of log_linear)"
)


@dataclass(frozen=True, eq=False)
class ConditionalRandomField(Penalised):
    """A conditional random field; made by `ConditionalRandomField.read`.

    features : the joint feature map of the examples. scale : lam and C. weights : (N,) omega_i > 0. l1 : weight of
    |theta|_1, at least 0. forbidden : (S, S) pairs of labels that no edge (first end, second end) may have; None: none.
    workers : where the examples are worked on, if not here.
    """

    features: PairwiseFeatures
    scale: Scale
    weights: Vector
    l1: float = 0.0
    forbidden: Flags | None = None
    workers: Workers | None = field(default=None, repr=False, kw_only=True, metadata=OPTIONAL)
    family: ClassVar[str] = "log_linear"

    __repr__ = brief

    @classmethod
    def read(
        cls,
        node_features: Any,
        labels: Sequence[ArrayLike],
        n_labels: int | None = None,
        *,
        edges: Sequence[ArrayLike] | Sequence[nx.Graph] | str = "chain",
        edge_features: Sequence[ArrayLike] | None = None,
        forbidden: ArrayLike | None = None,
        weights: ArrayLike | None = None,
        l1: float = 0.0,
        C: float | None = None,
        C_mean: float | None = None,
        lam: float | None = None,
        beta: float | None = None,
    ) -> ConditionalRandomField:
        """Validate data.

        Parameters
        ----------
        node_features, labels, n_labels, edges, edge_features : see `read_pairwise`.
        forbidden : (S, S) booleans, True where no edge may join these two labels, in the order of its two ends.
        weights : (N,) example weights omega_i, 1 by default.
        l1 : weight of |theta|_1, at least 0.
        C, C_mean, lam, beta : at most one; see `Scale`. None: no L2 penalty, and C = 1.

        Raises
        ------
        ValueError
            If an argument is malformed or out of range; if a true labelling is forbidden; if a graph is too wide for
            sums over its labellings (the message gives its width and the approximations to use instead).
        """
        features = read_pairwise(node_features, labels, n_labels, edges, edge_features)
        scale = Scale.read(features.n_examples, free=True, C=C, C_mean=C_mean, lam=lam, beta=beta)
        omega = example_weights(weights, features.n_examples)
        pairs = read_pairs(forbidden, features)
        problem = cls(features, scale, omega, number("l1", l1, least=0), pairs)
        vars(problem)["oracle"] = exact_inference(features, ADVICE)  # refuses graphs that are too wide
        return problem

    #: Examples in files that only workers read, with a penalty.
    from_files = classmethod(from_files)

    @cached_property
    def oracle(self) -> Inference:
        """Sums and maxima over the labellings of these examples."""
        return exact_inference(self.features.sample, ADVICE)

    @property
    def dimension(self) -> int:
        return self.features.dimension

    @property
    def n_examples(self) -> int:
        return self.features.n_examples

    def some(self, examples: Index) -> ConditionalRandomField:
        """The loss of some of the examples, in the order given, with the whole penalty."""
        return self.of_file(self.features.some(examples), self.weights[examples])

    def of_file(self, features: PairwiseFeatures, weights: Vector) -> ConditionalRandomField:
        """`some`, of other examples. ValueError if a truth among them is forbidden."""
        pairs = read_pairs(self.forbidden, features)
        return ConditionalRandomField(features, self.scale, weights, self.l1, pairs)

    @cached_property
    def shards(self) -> Shards | None:
        if isinstance(self.features, FiledFeatures):
            bare = replace(self, features=None, weights=None, workers=None)
            return in_files(self.features, self.workers, bare.of_file)
        return in_shards(self.workers, self.features.lengths, self.some)

    @property
    def ceiling(self) -> Vector:
        """C omega_i; shape (N,)."""
        return self.scale.C * self.weights

    @property
    def truth_joint(self) -> Vector:
        """sum_i C omega_i f(x_i, y_i); shape (d,)."""
        return self._constants[0]

    @property
    def trivial_value(self) -> float:
        """P(0) without forbidden pairs, C sum_i omega_i n_i ln S, with S at least 2."""
        return self._constants[1]

    @cached_property
    def _constants(self) -> tuple[Vector, float]:
        """`constants`, of examples in files from one pass."""
        if isinstance(self.features, FiledFeatures) and self.shards is not None:
            return self.shards.total(self.constants)
        return self.constants()

    def constants(self) -> tuple[Vector, float]:
        """(`truth_joint`, `trivial_value`), which no theta changes."""
        value = float(self.ceiling @ self.features.lengths) * math.log(max(self.features.n_labels, 2))
        return self.features.joint(self.features.truth, self.ceiling), value

    # -- what solvers ask ----------------------------------------------------------------------------------------------

    def scores(self, theta: Vector, features: PairwiseFeatures | None = None) -> tuple[Matrix, Tensor]:
        """(node (P, S), edge) scores of <theta, f(x, y)>, -inf where a pair is forbidden; of other examples if given,
        where those without edges need no weights of edges."""
        features = self.features if features is None else features
        own = theta[: features.dimension]
        edge = features.edge_scores(own)
        if self.forbidden is not None and features.n_edges:
            edge = np.where(self.forbidden, -np.inf, edge)
        return features.node_scores(own), edge

    def value_and_gradient(self, theta: Vector) -> tuple[float, Vector]:
        """L(theta) = C sum_i omega_i [ln Z_i - <theta, f(x_i, y_i)>], without R, and its gradient (d,), -Psi."""
        log_partition, mean = self.expectation(theta)
        return log_partition - float(theta @ self.truth_joint), mean - self.truth_joint

    def expectation(self, theta: Vector) -> tuple[float, Vector]:
        """(C sum_i omega_i ln Z_i, C sum_i omega_i E f(x_i, y)) under the Gibbs distributions of theta."""
        if self.shards is not None:
            return self.shards.total(self.expectation, theta)
        if isinstance(self.oracle, ChainInference):
            return self._chains_expectation(self.oracle, theta)
        node, edge = self.scores(theta)
        sums = self.oracle.sums(node, edge, self.ceiling)
        return float(self.ceiling @ sums.log_partition), self.features.adjoint(sums.node, sums.edge)

    def _chains_expectation(self, oracle: ChainInference, theta: Vector) -> tuple[float, Vector]:
        """`expectation` with features in the order of the packed chains, so that no table (P, S) is reordered."""
        ceiling, laid, weights = self.ceiling, oracle.layout, self.features.split(theta)[0]
        by_feature = np.empty(weights.shape[::-1])
        copy_by_columns(weights, by_feature.T)
        node = np.asarray(self._packed @ by_feature)
        edge = self.features.edge_scores(theta)
        if self.forbidden is not None:
            edge = np.where(self.forbidden, -np.inf, edge)
        alike = bool((ceiling == ceiling[0]).all())
        sums = chain.sum_product(laid, node, edge, None if alike else ceiling)
        if not alike:
            sums.node[:] *= ceiling[laid.chain][:, None]
        mean = np.empty(self.dimension)
        own, pairs = self.features.split(mean)
        copy_by_columns(np.asarray(self._packed.T @ sums.node).T, own)
        pairs[:] = sums.edge
        return float(ceiling @ sums.log_partition), ceiling[0] * mean if alike and ceiling[0] != 1.0 else mean

    @cached_property
    def _packed(self) -> Any:
        """The node features in the order of the packed chains; sparse ones with short indices."""
        assert isinstance(self.oracle, ChainInference)
        x = self.features.node_features[self.oracle.layout.packed]
        if sp.issparse(x):
            kind = np.min_scalar_type(-1 - max(*x.shape, x.nnz, 2**15))  # 32 bits where they are enough, else 64
            x.indices, x.indptr = x.indices.astype(kind), x.indptr.astype(kind)
        return x

    def curvature(self, theta: Vector) -> Vector:
        """C sum_i omega_i sum_v x_vj^2 p_v (1 - p_v), and the same of edges (of their sum, where they share a table):
        the diagonal of the Hessian of L without covariances inside an example; (d,)."""
        return self.of_shared_table(self.variances(theta))

    def of_shared_table(self, variances: Vector) -> Vector:
        """`curvature` from `variances`, which is changed."""
        if self.features.shared:
            pairs = self.features.split(variances)[1]
            pairs -= pairs**2 / max(float(pairs.sum()), TINY)
        return variances

    def variances(self, theta: Vector) -> Vector:
        """`curvature`, but for a table that edges share: there the expected counts, which add up over examples."""
        if self.shards is not None:
            return self.shards.total(self.variances, theta)
        features, ceiling = self.features, self.ceiling
        sums = self.oracle.sums(*self.scores(theta), ceiling)
        node = sums.node - sums.node**2 / ceiling[features.example][:, None]
        edge = sums.edge
        if edge.ndim == 3:
            edge = edge - edge**2 / ceiling[features.edge_example][:, None, None]
        return self._squared.adjoint(node, edge)

    @cached_property
    def _squared(self) -> PairwiseFeatures:
        return squared(self.features)

    def witness(self, theta: Vector) -> Point:
        """The Gibbs distributions of theta as a dual point."""
        return {"gibbs": theta[None].copy(), "gibbs_shares": np.ones((1, self.n_examples))}

    def witness_in_basis(self, u: Vector) -> Point:
        name = "gibbs_in_basis" if self.basis.parts else "gibbs"
        return {name: u[None].copy(), "gibbs_shares": np.ones((1, self.n_examples))}

    # -- primal --------------------------------------------------------------------------------------------------------

    def primal(self, point: Point) -> Rounded:
        """P(theta) with its allowance; inf where it is undefined, or scores might overflow."""
        theta = point["theta"]
        if not np.isfinite(theta).all():
            return Rounded(math.inf)
        with np.errstate(all="ignore"):
            value: Rounded = self.loss(theta) + self.penalty.value(theta)
        return value if math.isfinite(value) else Rounded(math.inf)

    def loss(self, theta: Vector) -> Rounded:
        """L(theta) with its allowance; inf where scores might overflow."""
        if self.shards is not None and self.penalty != NO_PENALTY:  # without a penalty a basis of all examples sharpens
            return self.shards.total(self.loss, theta)
        features = self.features
        theta = theta[: features.dimension]
        with np.errstate(all="ignore"):
            size, error = score_errors(features, theta)
            if not size.sum() < GREATEST:
                return Rounded(math.inf)
            ceiling = self.ceiling
            # the rounding of every labelling's score, and so of ln Z and of the truth's score
            moved = [float(ceiling @ each) for each in error]
            node, edge = exact_scores(self.basis.parts, theta, *self.scores(theta), moved)
            apart = log_losses(self.oracle, features, node, edge)
            value = summed(exact(self.weights) * self.scale.C * apart)
            return Rounded.of(value, value.allowance, 2.0 * sum(moved))

    # -- dual ----------------------------------------------------------------------------------------------------------

    def dual(self, dual_point: Point) -> Rounded:
        """A valid lower bound with its allowance: D at a mixture or, with a penalty, at the best mixture of it with
        the truth. At least 0, the bound of the truth alone; -inf if ``dual_point`` is no mixture."""
        mixture = self._read_dual(dual_point)
        if outside_simplex(mixture, mixture.label_shares, mixture.gibbs_shares) > DUAL_ROUNDING:
            return Rounded(-math.inf)
        with np.errstate(all="ignore"):
            basis = self.basis
            entropy, psi = basis.problem.enclosed(mixture)
            found = (basis.reach or self.penalty).lower_bound(entropy, psi.value, psi.errors + basis.off)
        return found if found > 0 else Rounded(0.0)

    def in_basis(self) -> Basis:
        """One basis of the node features for all labels, one of the edge features for all pairs of labels."""
        own, parts, said = pairwise_parts(self.features, self.ceiling)
        problem = replace(self, features=own)
        vars(problem)["oracle"] = self.oracle
        return joined(problem, parts, self.features.largest, said)

    def enclosed(self, mixture: Mixture) -> tuple[Rounded, RoundedArray]:
        """(C sum_i omega_i H_i, Psi), with their errors, of a mixture, its shares scaled to sum to at most 1."""
        features, ceiling = self.features, self.ceiling
        if self.shards is not None:
            start = features.node_start
            given = [(of_examples(mixture, start, low, high),) for low, high in pairwise(self.shards.at)]
            return self.shards.total_each(self.enclosed, given)
        parts = [np.maximum(part, 0.0) for part in (mixture.label_shares, mixture.gibbs_shares)]
        rows = len(parts[0]) + len(parts[1])
        smallest = float(ceiling.min())
        excess = gamma(rows + 16) + (rows * TINY / smallest if smallest > 0 else math.inf)
        clear = ceiling / np.maximum(parts[0].sum(axis=0) + parts[1].sum(axis=0), 1.0)
        if rows > 1:  # sums of shares are rounded; a single one is not
            clear *= max(1.0 - 2.0 * excess, 0.0)
        mixed, entropies = Marginals.none(features), []
        for row, share in zip(mixture.labels, parts[0] * clear):
            deadline.check()
            labels = row.astype(np.int64)
            first, second = labels[features.edges].T
            if self.forbidden is not None and share[features.edge_example[self.forbidden[first, second]]].any():
                return Rounded(-math.inf), exact(np.zeros(self.dimension))
            mixed.add_labelling(labels, share)
        for theta, share in zip(mixture.gibbs, parts[1] * clear):
            deadline.check()
            if share.any():
                entropies.append(add_gibbs(mixed, self.oracle, *self.scores(theta), share, self.forbidden))
        longest = int(features.lengths.max())
        mixed.relative += gamma(rows + longest + 2 * features.n_labels + 16)
        mixed.absolute += TINY * (rows + 4)
        value = total(entropies) if all(map(math.isfinite, entropies)) else Rounded(-math.inf)
        return value, mixed.psi(mixed.differences())

    def dual_residuals(self, dual_point: Point) -> Mapping[str, float]:
        """How far the shares are from distributions."""
        mixture = self._read_dual(dual_point)
        return {"shares outside the simplex": outside_simplex(mixture, mixture.label_shares, mixture.gibbs_shares)}

    def _read_dual(self, dual_point: Point) -> Mixture:
        given = dict(mapping("dual_point", dual_point, (), (*Mixture._fields, "gibbs_in_basis")))
        mapped = bool(self.basis.parts) and "gibbs_in_basis" not in given
        if "gibbs_in_basis" in given:
            given["gibbs"] = given.pop("gibbs_in_basis")
        if "gibbs" in given:
            given.setdefault("gibbs_loss", np.zeros(raw("dual_point['gibbs']", given["gibbs"]).shape[:1]))
        cards = np.broadcast_to(np.intp(self.features.n_labels), (self.features.n_nodes,))
        mixture = read_mixture(given, self.n_examples, self.dimension, cards)
        if mixture.gibbs_loss.any():
            raise ValueError("dual_point['gibbs_loss'] is not 0, wanted 0: a likelihood has no loss of labellings")
        if mapped:
            found = [self.basis.coordinates(theta) for theta in mixture.gibbs]
            mixture = mixture._replace(gibbs=np.reshape(found, mixture.gibbs.shape))
        return mixture

    def rounding_reason(self, point: Point, dual_point: Point | None) -> str:
        """Which data make the allowances large: a feature of another size than the rest, or a large C."""
        return reason(self.features.sample, self.scale.lam or self.l1, self.scale.C)

    # -- prediction ----------------------------------------------------------------------------------------------------

    def predict(self, point: Any, examples: Any = None) -> list[Labels]:
        """The most probable labelling of each example, one array (n_i,) an example.

        point : theta, as `as_point` reads it. examples : new examples without labels, as `StructuredSVM.predict` takes
        them; the problem's own by default.

        Raises
        ------
        ValueError
            If the examples cannot be read, or have other labels or features.
        """
        other, oracle = self._others(examples)
        return other.split_labels(oracle.best(*self.scores(predictive(self.as_point(point))["theta"], other)).labels)

    def posteriors(self, point: Any, examples: Any = None) -> list[Matrix]:
        """The probability of each label at each node (n_i, S), one array an example; arguments as in `predict`.

        The most probable labels of the nodes, unlike those of `predict`, make the least expected number of mistakes."""
        other, oracle = self._others(examples)
        sums = oracle.sums(*self.scores(predictive(self.as_point(point))["theta"], other))
        return np.split(sums.node, other.node_start[1:-1])

    def _others(self, examples: Any) -> tuple[PairwiseFeatures, Inference]:
        if examples is None:
            return self.features, self.oracle
        other = read_others(examples, self.features)
        of_one_kind(other, self.features)
        return other, exact_inference(other, ADVICE)

    def runaway(self, theta: Vector | None = None) -> Vector | None:
        """A direction along which L never rises and falls without attaining its infimum, so that without a penalty the
        likelihood has no maximum; None where none was found. Minus the indicator of the features >= 0 that no truth
        has, or theta where `separated`: both are proved. Or, to 1e-8, any where it is not large (`.separable`), looked
        for in the basis of the features."""
        unseen = never_true(self.features, self.truth_joint, self.expectation(np.zeros(self.dimension))[1])
        if unseen.any():
            return np.where(unseen, -1.0, 0.0)
        if theta is not None and np.isfinite(theta).all() and self.separated(theta):
            return theta
        problem = self.basis.problem
        found = never_falling(problem.features, self.oracle, problem.scores)
        return None if found is None else self.basis.theta(found)

    def separated(self, theta: Vector) -> bool:
        """Whether theta scores every truth above all other labellings, if there are any, by more than rounding."""
        return separates(self.features, self.oracle, *self.scores(theta), *score_errors(self.features, theta))
