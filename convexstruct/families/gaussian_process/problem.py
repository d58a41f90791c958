r"""Gaussian process sequence labelling, the kernel CRF: (32) of paper 2, appendix E.2 (Altun, Hofmann and Smola 2004).

A function of the cliques of a chain is drawn from a Gaussian process. With t(p, s) the score of label s at position p
and t(s', s) the score of a transition, stationary, the minimisation is over one coefficient u for each score:

    P(u) = lam/2 u'Ku - <z, Ku> + sum_i ln sum_y exp <z_y, Ku>,      t = K u                              (32)

    K((p, s), (q, r)) = [s = r] k(x_p, x_q),     K((s', s), (r', r)) = eta [s' = r'] [s = r],    0 between the two,

z_y counts what labelling y of sequence i uses, z is the sum of that over the true labellings, and lam = 1 in the paper.
K is never inverted: in t the first term is lam/2 t'K^{-1}t, which says the same only if K has an inverse.

(The scan lost (32); it is restored from its description and from Altun, Hofmann and Smola. The kernel is the sum of a
kernel over observations and one over transitions; "stationary" means that neither depends on the position.)

E.2 calls the variables of (32) marginals without consistency constraints (corrected: they are coefficients; z - lam u
are marginals at the optimum, and consistent), and says that (23) and (25) are the projections of E.1 (corrected: those
leave out the entropy, and the dual's gradient has no Lipschitz constant at the border of the polytope).

**Distinct inputs.** Positions whose inputs are equal have equal scores, so u holds one row for each of the D distinct
inputs: u = (A, B), A (D, S) and B (S, S), and t = (G A, eta B) with the Gram matrix G (D, D).

**Kernels that depend on the position** (``stationary`` = False), the part of a sequence, which E.2 states first:

    K((p, s), (q, r)) = [p = q] [s = r] k(x_p, x_q),     K((p, s', s), (q, r', r)) = eta [p = q] [s' = r'] [s = r]

for positions p, q of any two sequences, counted from their beginnings. Nothing is shared between positions: u has a row
for each pair of a position and an input that stands there, R of them, and a table of transitions for each step, so that
A (R, S) and B (T - 1, S, S), T the length of the longest sequence (at least 2). K is block diagonal, a Gram matrix a
position. At positions that no sequence of the problem reaches all scores are 0. Below, D is R then.

**Dual.** ln sum_y e^<z_y, t> is the greatest value of <m, t> + H(m) over distributions of y with mean m = E z_y, and on
a chain H is a function of the edge marginals alone. Swapping min and max, u = (z - m) / lam, and

    D(m) = sum_i H(m_i) - (z - m)'K(z - m) / (2 lam),     m_i in the marginal polytope of chain i,

which is a lower bound at every such m, because lam/2 |u - (z - m) / lam|_K^2 >= 0. Every m in the interior of the
polytope is the mean of some Gibbs distribution: so a dual point is a vector u', {"u": (n,)}, and m is the Gibbs mean at
t' = K u'. Every finite u' is feasible. For u' = u

    P(u) - D(m(u)) = |lam u - (z - m(u))|_K^2 / (2 lam) = |grad|_K^2 / (2 lam),

lam u - (z - m) being the gradient of P in the inner product u'Kv: the certified gap is a norm of the gradient.

**Rounding.** Both are evaluated on numbers with their errors. D is computed not for the Gibbs distribution of t' but
for the Markov chain of the transition probabilities as they were computed (`convexstruct.oracles.chain.sums`), which is
a distribution whatever their rounding errors. Its entropy is ln Z - <m, t'> less a divergence of the order of their
squares, so that D = sum_i (ln Z_i - <z_i, t'>) + <z - m, t'> - (z - m)'K(z - m) / (2 lam) less that.

K is taken to be positive semidefinite, as Gram matrices are. If the rounded matrix has an eigenvalue -eps, P is
unbounded below. The lower bound then holds for P on the set of all u = (z - m) / lam, in which the optimum for a Gram
matrix lies, up to eps |m - m'|^2 / (2 lam).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from convexstruct.arrays import OPTIONAL, Index, Labels, Matrix, Point, Vector
from convexstruct.brief import brief
from convexstruct.core.certificates import Unconstrained
from convexstruct.families.gaussian_process.kernels import Gram, Kernel, read_inputs
from convexstruct.families.gaussian_process.sequences import Sequences, same_lengths
from convexstruct.features.graphs.feature_sizes import uneven
from convexstruct.graphs import Chains, as_sequences, chains, starts
from convexstruct.inference.shards import Shards, Workers, in_shards
from convexstruct.oracles.chain.chain import sum_product, viterbi
from convexstruct.oracles.chain.sums import ChainSums, less_divergence
from convexstruct.rounding import Rounded, RoundedArray, adjoint, binned, dot, exact, joined, summed
from convexstruct.validation.arguments import flag, mapping, number, sized, whole
from convexstruct.validation.arrays import predictive, real


@dataclass(frozen=True)
class Value:
    """P at u.

    u, t (n,) : the point and its scores t = K u. value : P(u).
    g (n,) : lam u - (z - m(u)), the gradient of P in the inner product u'Kv: P changes by g'K e where u changes by a
        small e. K g is the Euclidean gradient, and g'K g / (2 lam) = P(u) - D(m(u)).
    """

    u: Vector
    t: Vector
    value: float
    g: Vector


@dataclass(frozen=True, eq=False)
class GaussianProcessSequences(Unconstrained):
    """Problem (32): sequences of inputs with labels, a kernel, and the weights of its two parts.

    Attributes
    ----------
    gram : k at the D distinct inputs.
    places : (P,) the distinct input of each position, one sequence after the other.
    labels : (P,) the true label of each position, 0 .. S - 1.
    lengths : (N,) positions of each sequence.
    n_labels : S.
    eta : variance of each transition's score; at least 0. With 0 all transitions have score 0.
    lam : weight of the prior, 1 in the paper; dividing k and eta by it is the same.
    stationary : whether the kernel is the same at, and between, all positions; else each has scores of its own.
    workers : where forward-backward runs, if not here; products with K stay here.
    """

    gram: Gram
    places: Index
    labels: Labels
    lengths: Index
    n_labels: int
    eta: float = 1.0
    lam: float = 1.0
    stationary: bool = True
    workers: Workers | None = field(default=None, repr=False, kw_only=True, metadata=OPTIONAL)
    family: ClassVar[str] = "gaussian_process"

    __repr__ = brief

    def __post_init__(self) -> None:
        if not isinstance(self.gram, Gram):
            object.__setattr__(self, "gram", Gram(self.gram))
        n = self.n_labels
        object.__setattr__(self, "n_labels", whole("n_labels", n, least=1))
        sized("n_labels", self.n_labels, self.n_labels * (self.n_labels + self.gram.size))
        flat, _ = as_sequences("labels", [self.labels], int(n))
        object.__setattr__(self, "labels", flat)
        places, _ = as_sequences("places", [self.places], self.gram.size)
        object.__setattr__(self, "places", places.astype(np.intp))
        object.__setattr__(self, "lengths", chains(self.lengths).lengths)
        total = int(self.lengths.sum())
        for name, found in (("labels", len(flat)), ("places", len(places))):
            if found != total:
                raise ValueError(f"{name} has {found} entries, the sequences have {total} positions")
        object.__setattr__(self, "eta", number("eta", self.eta, least=0))
        object.__setattr__(self, "lam", number("lam", self.lam, above=0))
        object.__setattr__(self, "stationary", flag("stationary", self.stationary))
        sized("n_labels", self.n_labels, self.dimension)

    @classmethod
    def read(
        cls,
        inputs: Sequence[ArrayLike],
        labels: Sequence[ArrayLike],
        n_labels: int,
        *,
        kernel: Kernel | str | tuple[str, Mapping[str, Any]] = "rbf",
        eta: float = 1.0,
        lam: float = 1.0,
        stationary: bool = True,
    ) -> GaussianProcessSequences:
        """Sequences of inputs (length, d) and of labels (length,), and a kernel by name.

        ``kernel`` is "rbf", "linear", "polynomial", or a pair of a name and its parameters
        (`kernels`). Equal inputs are stored once.

        Raises
        ------
        ValueError
            If shapes or lengths do not fit, numbers are not finite, labels are out of range, or the kernel is unknown.
        """
        chosen = Kernel.read(kernel)
        tables = read_inputs(inputs)
        flat, lengths = as_sequences("labels", labels, whole("n_labels", n_labels, least=1))
        same_lengths(np.array([len(table) for table in tables]), lengths, "inputs")
        distinct, places = np.unique(np.concatenate(tables), axis=0, return_inverse=True)
        return cls(Gram.of(chosen, distinct), places.reshape(-1), flat, lengths, n_labels, eta, lam, stationary)

    @classmethod
    def from_gram(
        cls,
        gram: ArrayLike | Gram,
        labels: Sequence[ArrayLike],
        n_labels: int,
        *,
        places: Sequence[ArrayLike] | None = None,
        eta: float = 1.0,
        lam: float = 1.0,
        stationary: bool = True,
    ) -> GaussianProcessSequences:
        """The problem of a Gram matrix over all positions, one sequence after the other, or over distinct inputs, with
        ``places``.

        ``places`` holds for each sequence the rows of ``gram`` that its positions use.

        Raises
        ------
        ValueError
            If ``gram`` is not square, symmetric and positive semidefinite, or does not fit the sequences.
        """
        checked = gram if isinstance(gram, Gram) else Gram(gram)  # type: ignore[arg-type]
        flat, lengths = as_sequences("labels", labels, whole("n_labels", n_labels, least=1))
        if places is None:
            if checked.size != len(flat):
                raise ValueError(f"gram is {checked.size} x {checked.size}, the sequences have {len(flat)} positions")
            rows = np.arange(len(flat))
        else:
            rows, sizes = as_sequences("places", places, checked.size)
            same_lengths(sizes, lengths, "places")
        return cls(checked, rows.astype(np.intp), flat, lengths, n_labels, eta, lam, stationary)

    # -- the parts of the problem ------------------------------------------------------------------------------------

    @cached_property
    def blocks(self) -> tuple[Index, ...]:
        """For each position the inputs that stand there, in the order of the rows of A; one of all if stationary."""
        if self.stationary:
            return (np.arange(self.gram.size),)
        step, places = self.chains.step, self.places[self.chains.packed]
        return tuple(np.unique(places[step == t]) for t in range(self.chains.n_steps))

    @cached_property
    def first(self) -> Index:
        """The row of A at which each of ``blocks`` begins, and the number of rows at the end."""
        return starts([len(inputs) for inputs in self.blocks])

    @cached_property
    def rows(self) -> Index:
        """The row of A of each position; (P,)."""
        if self.stationary:
            return self.places
        step = self.chains.step[self.chains.flat]
        rows = np.empty_like(self.places)
        for t, inputs in enumerate(self.blocks):
            here = step == t
            rows[here] = self.first[t] + np.searchsorted(inputs, self.places[here])
        return rows

    @cached_property
    def grams(self) -> tuple[Matrix, ...]:
        """The diagonal blocks of K, for one label."""
        matrix = self.gram.matrix
        return (matrix,) if self.stationary else tuple(matrix[np.ix_(inputs, inputs)] for inputs in self.blocks)

    @cached_property
    def chains(self) -> Chains:
        return chains(self.lengths)

    @cached_property
    def sequences(self) -> Sequences:
        return Sequences(self.lengths, self.rows, np.arange(self.n_inputs))

    @cached_property
    def shards(self) -> Shards | None:
        """Some of the sequences each, with about as many positions; every one is sent the scores of its inputs."""
        return in_shards(self.workers, self.lengths, self.sequences.some)

    @property
    def n_inputs(self) -> int:
        """D, the number of distinct inputs, or R."""
        return int(self.first[-1])

    @property
    def transitions(self) -> tuple[int, ...]:
        """The shape of B: (S, S) or (T - 1, S, S)."""
        s = self.n_labels
        return (s, s) if self.stationary else (max(self.chains.n_steps - 1, 1), s, s)

    @property
    def dimension(self) -> int:
        """n = D S + S^2, or R S + (T - 1) S^2, the length of u."""
        return self.n_inputs * self.n_labels + math.prod(self.transitions)

    def split(self, u: Any) -> tuple[Any, Any]:
        """Views of a vector (n,) as labels (D, S) and transitions [previous, current] (S, S), or (T - 1, S, S)."""
        cut = self.n_inputs * self.n_labels
        return u[:cut].reshape(-1, self.n_labels), u[cut:].reshape(*self.transitions)

    @property
    def packed_places(self) -> Index:
        """The row of A of each packed position; shape (P,)."""
        return self.sequences.packed_places

    @cached_property
    def truth(self) -> Vector:
        """z (n,): how often each input has each label, and each transition occurs, in the true labellings."""
        z = np.zeros(self.dimension)
        label, transition = self.split(z)
        np.add.at(label, (self.rows, self.labels), 1.0)
        packed, laid = self.labels[self.chains.packed], self.chains
        pair = packed[laid.previous], packed[laid.later]
        np.add.at(transition, pair if self.stationary else (laid.step[laid.later] - 1, *pair), 1.0)
        return z

    def multiply(self, u: Any) -> Any:
        """K u (n,): one product with each Gram matrix."""
        label, transition = self.split(u)
        parts = (adjoint(gram.T, label[low:high]) for gram, (low, high) in zip(self.grams, pairwise(self.first)))
        return joined(*parts, self.eta * transition)

    def log_partition(self, scores: Vector) -> tuple[float, Vector]:
        """(sum_i ln sum_y exp <z_y, t>, m = sum_i E z_y) at scores t (n,), by forward-backward; no product with K."""
        label, transition = self.split(scores)
        edge = np.ascontiguousarray(transition)
        if self.shards is None:
            value, by_input, by_pair = self.sequences.log_partition(label, edge)
            return value, np.concatenate((by_input.ravel(), by_pair.ravel()))
        parts, mean = self.shards.parts, np.zeros(self.dimension)
        found = self.shards.map_each("log_partition", [(label[part.inputs], edge) for part in parts])
        of_label, of_transition = self.split(mean)
        for part, (_, by_input, by_pair) in zip(parts, found):
            of_label[part.inputs] += by_input
            of_transition += by_pair
        return sum(value for value, _, _ in found), mean

    @property
    def trivial_value(self) -> float:
        """P(0) = (number of positions) ln S, with S = 2 in place of S = 1, which would make it 0."""
        return len(self.labels) * math.log(max(self.n_labels, 2))

    def trivial(self) -> tuple[Point, Point]:
        """u = 0 as point and as dual point, whose Gibbs distribution is uniform."""
        return {"u": np.zeros(self.dimension)}, {"u": np.zeros(self.dimension)}

    # -- primal --------------------------------------------------------------------------------------------------------

    def at(self, u: Vector, t: Vector) -> Value:
        """P at u with t = K u known, by one forward-backward pass, without bounds on the rounding."""
        log_partition, mean = self.log_partition(t)
        value = float(0.5 * self.lam * (u @ t) - self.truth @ t + log_partition)
        return Value(u, t, value, self.lam * u - (self.truth - mean))

    def as_point(self, value: Any) -> Point:
        """Read u: an array (n,), or a mapping with "u"."""
        if isinstance(value, Mapping):
            value = mapping("point", value, {"u"})["u"]
        return {"u": real("u", value, (self.dimension,), finite=False, keep=False)}

    def primal(self, point: Point) -> Rounded:
        """(32) at u, with its allowance; inf where it is undefined."""
        u = exact(point["u"])
        with np.errstate(all="ignore"):
            t = self.multiply(u)
            if not self._added_up(np.abs(t.value) + t.errors):
                return Rounded(math.inf)
            label, transition = self.split(t)
            losses = self._losses(label[self.packed_places], transition)[0]
            value: Rounded = 0.5 * self.lam * dot(u, t) + summed(losses)
            return value if math.isfinite(value) else Rounded(math.inf)

    # -- dual ----------------------------------------------------------------------------------------------------------

    def dual(self, dual_point: Point) -> Rounded:
        """A valid lower bound, with its allowance: D at the marginals of t' = K u'; -inf where t' is not finite."""
        u = self._read_dual(dual_point)
        with np.errstate(all="ignore"):
            t = self.multiply(u)
            if not self._added_up(np.abs(t)):
                return Rounded(-math.inf)
            label, transition = self.split(exact(t))
            losses, gibbs = self._losses(label[self.packed_places], transition)
            losses = less_divergence(losses, self.chains.lengths, self.n_labels)
            apart = self._apart(gibbs)
            value: Rounded = summed(losses) + dot(t, apart) - 0.5 * dot(apart, self.multiply(apart)) / self.lam
            return value if math.isfinite(value) else Rounded(-math.inf)

    def _added_up(self, sizes: Vector) -> bool:
        """Whether scores of these sizes can be added along a sequence, and twice, without overflow."""
        return bool(sizes.max(initial=0.0) < np.finfo(float).max / (4.0 * self.chains.n_steps))

    def _losses(self, node: RoundedArray, edge: RoundedArray) -> tuple[RoundedArray, ChainSums]:
        """(ln Z_i - <z_i, t> of each sequence, (N,), the sums over its labellings)."""
        laid = self.chains
        gibbs = sum_product(laid, node.value, edge.value)
        apart = gibbs.log_losses(laid, node, edge, self.labels[laid.packed])
        return binned(apart, laid.chain, laid.n_chains), gibbs

    def _apart(self, gibbs: ChainSums) -> RoundedArray:
        """z - m (n,). Over the labels of an input it sums to 0: the entry of the most probable one is minus the sum of
        the others, which are known to more digits where it is nearly certain."""
        label, transition = self.split(exact(self.truth))
        node, edge = (RoundedArray(x, gibbs.relative * x + gibbs.absolute) for x in (gibbs.node, gibbs.edge))
        mean = adjoint(self.sequences.sums.T, node)
        others = np.arange(self.n_labels) != mean.value.argmax(axis=1)[:, None]
        known = (label - mean) * others
        found: RoundedArray = joined(known - known.sum(axis=1)[:, None] * ~others, transition - edge)
        return found

    def dual_residuals(self, dual_point: Point) -> Mapping[str, float]:
        """Empty: Gibbs marginals lie in the marginal polytope for every u'."""
        self._read_dual(dual_point)
        return {}

    def _read_dual(self, dual_point: Point) -> Vector:
        u = mapping("dual_point", dual_point, {"u"})["u"]
        return real("dual_point['u']", u, (self.dimension,), finite=False, keep=False)

    # -- what is learnt ------------------------------------------------------------------------------------------------

    def rounding_reason(self, point: Point, dual_point: Point | None) -> str:
        """What makes the allowances large: a kernel of very different sizes, or a small lam."""
        sizes = np.sqrt(np.maximum(np.diagonal(self.gram.matrix), 0.0))[None]
        said = uneven("the square root of kernel[{0}, {0}]", sizes, "scale the inputs, or take another kernel")
        return said or f"lam = {self.lam:.1e} lets large terms cancel: take a larger lam"

    def predict(self, point: Any, examples: Sequence[ArrayLike] | None = None) -> list[Labels]:
        """The best labelling of each sequence under the scores that u gives, argmax_y <z_y, t>; (length,) each.

        Parameters
        ----------
        point : u, as `as_point` reads it.
        examples : new sequences without labels, a table (length, columns) each; by default those of the problem.
            Columns are features where the problem knows its kernel (`read`). A problem made from a Gram matrix alone
            (`from_gram`) cannot evaluate k: then they are k between the new position and each of the D inputs.

        Raises
        ------
        ValueError
            If ``point`` has the wrong shape, or ``examples`` are not tables of finite numbers with the right number of
            columns.
        """
        laid, node, edge = self._scores(point, examples)
        return [np.asarray(part) for part in laid.split(viterbi(laid, node, edge)[1][laid.flat])]

    def posteriors(self, point: Any, examples: Sequence[ArrayLike] | None = None) -> list[Matrix]:
        """The probability of each label at each position (length, S) under e^<z_y, t>; arguments as in `predict`.

        Taking the most probable label at each position gives the least expected number of wrong labels; the best
        labelling of the whole sequence may differ from it and have a greater one.
        """
        laid, node, edge = self._scores(point, examples)
        return [np.asarray(part) for part in laid.split(sum_product(laid, node, edge).node[laid.flat])]

    def _scores(self, point: Any, examples: Sequence[ArrayLike] | None) -> tuple[Chains, Matrix, Matrix]:
        """The sequences laid out, their node scores (P, S), packed, and the edge scores."""
        point = predictive(self.as_point(point))
        label, transition = self.split(point["u"])
        edge = self.eta * transition
        if examples is None:
            return self.chains, self.split(self.multiply(point["u"]))[0][self.packed_places], edge
        tables = read_inputs(examples, "examples")
        laid = chains([len(table) for table in tables])
        known = self.gram.against(tables)[laid.packed]
        if self.stationary:
            return laid, known @ label, edge
        node, steps = np.zeros((laid.n_positions, self.n_labels)), max(laid.n_steps - 1, len(edge))
        for t, inputs in enumerate(self.blocks[: laid.n_steps]):
            here = label[self.first[t] : self.first[t + 1]]
            node[laid.rows(t)] = known[laid.rows(t)][:, inputs] @ here
        return laid, node, np.concatenate((edge, np.zeros((steps - len(edge), *edge.shape[1:]))))
