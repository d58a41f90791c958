r"""The cases of paper 2: risks built backwards from their optimum or solved by hand, enumerable ones, and larger ones.

**Built backwards.** Take alpha in Q and w* = -A' alpha / lam. The pair is optimal if in each group only the highest
pieces have a positive alpha (and if the zero piece is among the highest where alpha sums to less than the share). For a
loss given by pieces the offsets c can be chosen so. For the hinge choose the margins m_i = 1 where 0 < alpha_i < 1/n,
m_i < 1 where alpha_i = 1/n, m_i > 1 where alpha_i = 0, and build the features

    x_i = (y_i m_i - b*) w*/|w*|^2 + z_i,   z_i orthogonal to w*,   sum_i alpha_i y_i z_i = 0

so that y_i (<w*, x_i> + b*) = m_i, and sum_i alpha_i y_i x_i = lam w* with lam = sum_i alpha_i m_i / |w*|^2. With a
bias this needs sum_i alpha_i y_i = 0, which holds in Q; without one b* = 0.

**By hand.** Each example x_i = r e_i is a separate problem. By symmetry alpha is spread evenly over the pieces of its
group. If their sum is t, |A' alpha|^2 = (r t)^2 s, with s = K/(K-1) for K classes, and s = 1/p + 1/q for p labels that
the example has and q that it has not. The best t is min(share, lam / (r^2 s)), and its value t - (r t)^2 s / (2 lam).

Most cases use the solver that `solve` chooses; some, where the paper's solvers reach the tolerance quickly, use those.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp

from convexstruct.arrays import Labels, Matrix, Vector
from convexstruct.core.cases import Case, Instance, seeded
from convexstruct.datasets.generated.hadamard import hadamard
from convexstruct.datasets.generated.margins import BinarySet, dense_margins, sparse_margins
from convexstruct.families.regularized_risk.problem import RegularizedRisk
from convexstruct.families.regularized_risk.solvers.bmrm import LsBMRM, QpBMRM
from convexstruct.families.regularized_risk.solvers.pegasos import PegasosN
from convexstruct.families.regularized_risk.solvers.pragam import Pragam, PragamB

BINARY = "support vector machine"
PIECES = "regularized risk with piecewise linear losses"

# -- built backwards ---------------------------------------------------------------------------------------------------


def plant(rng: np.random.Generator, n: int, d: int, bias: bool, weighted: bool) -> Instance:
    """A support vector machine with n (even) examples, some with margins below 1, some at 1."""
    half = n // 2
    y = np.tile((1.0, -1.0), half)
    omega = np.repeat(rng.uniform(0.5, 2.0, size=half), 2) if weighted else np.ones(n)
    share = omega / omega.sum()
    kind = np.repeat(np.concatenate(([0, 1, 2], rng.integers(0, 3, size=half - 3))), 2)
    alpha = np.select([kind == 0, kind == 1], [0.0, np.repeat(rng.uniform(0.2, 0.8, size=half), 2) * share], share)
    margin = np.select([kind == 0, kind == 1], [rng.uniform(1.1, 2.0, size=n), 1.0], rng.uniform(0.0, 0.9, size=n))
    w = rng.normal(size=d)
    b = float(rng.uniform(1.5, 2.5)) if bias else 0.0  # far from 0, so that a regularised bias differs
    along = w / (w @ w)
    z = rng.normal(size=(n, d))
    z -= np.outer(z @ w, along)
    free = int(np.flatnonzero(kind == 1)[0])
    z[free] -= (alpha * y) @ z / (alpha[free] * y[free])
    x = np.outer(y * margin - b, along) + z
    lam = float(alpha @ margin) / float(w @ w)
    problem = RegularizedRisk.binary(x, y, lam, bias=bias, weights=omega if weighted else None)
    point = {"w": w, "b": np.array([b])} if bias else {"w": w}
    return Instance(problem, problem.primal(point), point)


planted = seeded(21, plant, 24, 6, bias=False, weighted=False)
planted_bias = seeded(22, plant, 30, 5, bias=True, weighted=True)


def plant_pieces(rng: np.random.Generator, n_groups: int, d: int, floor: bool) -> Instance:
    """Groups of one to four pieces, up to three with a positive alpha. With a zero piece alpha sums to less than the
    share, and is 0 in every third group."""
    sizes = rng.integers(1, 5, size=n_groups)
    of = np.repeat(np.arange(n_groups), sizes)
    omega = rng.uniform(0.5, 2.0, size=n_groups)
    share = omega / omega.sum()
    lam = 0.3
    a = rng.normal(size=(len(of), d))
    alpha, value = np.zeros(len(of)), np.zeros(len(of))
    for g in range(n_groups):
        pieces = np.flatnonzero(of == g)
        active = rng.permutation(pieces)[: int(rng.integers(1, min(len(pieces), 3) + 1))]
        part, top = 1.0, float(rng.uniform(0.1, 1.0))
        if floor and g % 3 < 2:
            part, top = (0.0, float(-rng.uniform(0.1, 1.0))) if g % 3 == 0 else (0.6, 0.0)
        alpha[active] = part * share[g] * rng.dirichlet(np.ones(len(active)))
        value[pieces] = top - rng.uniform(0.1, 1.0, size=len(pieces))
        value[active] = top
    w = -a.T @ alpha / lam
    problem = RegularizedRisk.pieces(a, value - a @ w, lam, example=of, floor=floor, weights=omega)
    return Instance(problem, problem.primal({"w": w}), {"w": w})


planted_pieces = seeded(23, plant_pieces, 12, 8, floor=False)
planted_floor = seeded(24, plant_pieces, 15, 6, floor=True)


# -- by hand -----------------------------------------------------------------------------------------------------------


def on_hadamard(d: int, lam: float, seed: int) -> Instance:
    """(14): the optimum is -1/(2 lam d), at minus the sum of the columns over lam d."""
    a = hadamard(d)
    problem = RegularizedRisk.pieces(a, np.zeros(d), lam)
    return Instance(problem, -1.0 / (2.0 * lam * d), {"w": -a.sum(axis=0) / (lam * d)})


hadamard_small = partial(on_hadamard, 32, 0.01)


def every_piece(instance: Instance) -> dict[str, Any]:
    """The plane of each piece of (14): the columns are orthogonal, so at w = a_i the i-th piece is the highest."""
    problem = instance.problem
    assert isinstance(problem, RegularizedRisk)
    return {"planes": [problem.subgradient(row) for row in np.asarray(problem.matrix())]}


def divided_by_lam(problem: RegularizedRisk) -> float:
    """lam, the ratio of the problem's optimum to that of the textbook pair."""
    return problem.lam


def even(lam: float, r: Vector, spread: Vector) -> tuple[Vector, float]:
    """(t, optimum) of the examples x_i = r_i e_i, as above; ``spread`` is s."""
    n = len(r)
    t = np.minimum(1.0 / n, lam / (r**2 * spread))
    return t, float(np.sum(t - (r * t) ** 2 * spread / (2.0 * lam)))


def separate_classes(seed: int) -> Instance:
    """Some examples have margin 1 at the optimum, others less."""
    rng = np.random.default_rng([25, seed])
    n, k, lam = 7, 4, 0.2
    r, y = rng.uniform(0.5, 3.0, size=n), rng.integers(0, k, size=n)
    t, optimum = even(lam, r, np.full(n, k / (k - 1)))
    w = np.tile(-r * t / (lam * (k - 1)), (k, 1))
    w[y, np.arange(n)] = r * t / lam
    return Instance(RegularizedRisk.multiclass(np.diag(r), y, lam, n_classes=k), optimum, {"w": w})


def separate_labels(seed: int) -> Instance:
    rng = np.random.default_rng([26, seed])
    n, k, lam = 6, 5, 0.2
    r = rng.uniform(0.5, 3.0, size=n)
    has = np.array([rng.permutation(k) < count for count in rng.integers(1, k, size=n)])
    p = has.sum(axis=1)
    t, optimum = even(lam, r, 1.0 / p + 1.0 / (k - p))
    w = np.where(has, (r * t / (lam * p))[:, None], -(r * t / (lam * (k - p)))[:, None]).T
    return Instance(RegularizedRisk.multilabel(np.diag(r), has.astype(int), lam), optimum, {"w": w})


# -- the hinge ---------------------------------------------------------------------------------------------------------


def normal(
    rng: np.random.Generator, n: int, d: int, y: Any, lam: float, shift: Any = 0.0, **options: Any
) -> RegularizedRisk:
    """Normal features, moved by ``shift``."""
    return RegularizedRisk.binary(rng.normal(size=(n, d)) + shift, y, lam, **options)


enumerated = seeded(27, normal, 8, 3, np.tile([1, -1], 4), 0.1)
one_example = seeded(28, normal, 1, 4, [1], 0.05)
one_class = seeded(29, normal, 12, 3, -np.ones(12), 0.05, 0.5)
#: Two positive examples of forty, so that the bias matters.
FEW = np.where(np.arange(40) < 2, 1, -1)
unbalanced = seeded(30, normal, 40, 4, FEW, 0.05, 0.2 * FEW[:, None], bias=True)


def ties(seed: int) -> Instance:
    """Every example three times, and its mirror image (-x, -y): kinks coincide, and multipliers are not unique."""
    rng = np.random.default_rng([31, seed])
    x = np.tile(rng.integers(-2, 3, size=(4, 3)).astype(np.float64), (3, 1))
    y = np.tile([1, -1, 1, -1], 3)
    return Instance(RegularizedRisk.binary(np.vstack((x, -x)), np.concatenate((y, -y)), 0.1, bias=True))


def zeros(seed: int) -> Instance:
    """Rows and columns of zeros, and weights of very different size."""
    rng = np.random.default_rng([32, seed])
    x = rng.normal(size=(14, 5))
    x[:3] = 0.0
    x[:, 2] = 0.0
    weights = np.where(np.arange(14) % 2, 0.1, 10.0)
    y = np.where(rng.permutation(14) < 6, "no", "yes")
    return Instance(RegularizedRisk.binary(sp.csr_array(x), y, 0.05, bias=True, weights=weights))


def margins(
    make: Callable[..., BinarySet], n: int, d: int, lam: float, seed: int, bias: bool = False, **shape: Any
) -> Instance:
    made = make(n, d, seed=seed, **shape)
    return Instance(RegularizedRisk.binary(made.features, made.labels, lam, bias=bias))


#: Nearly no regularisation: alpha at its bounds and |w| large.
small_lam = partial(margins, dense_margins, 40, 5, 1e-4)
#: All margins are below 1: every alpha is 1/n, and w is near 0.
large_lam = partial(margins, dense_margins, 30, 5, 50.0)
sparse_rows = partial(margins, sparse_margins, 150, 400, 0.01, words=15)
sparse_many = partial(margins, sparse_margins, 2000, 5000, 1e-3)


def dense_rows(seed: int, scale: int = 1) -> Instance:
    return margins(dense_margins, 600 * scale, 30, 1e-3, seed, bias=True, positives=0.3)


# -- other losses ------------------------------------------------------------------------------------------------------


def clusters(rng: np.random.Generator, n: int, d: int, k: int) -> tuple[Matrix, Labels]:
    """Points near one of k centres, at least one point near each."""
    y = rng.permutation(np.concatenate((np.arange(k), rng.integers(0, k, size=n - k))))
    return np.asarray(rng.normal(size=(k, d))[y] + 0.7 * rng.normal(size=(n, d))), y


def enumerated_classes(rng: np.random.Generator) -> RegularizedRisk:
    return RegularizedRisk.multiclass(rng.normal(size=(6, 2)), rng.permutation([0, 1, 2, 0, 1, 2]), 0.3)


def classes(seed: int) -> Instance:
    """A cost matrix that is not symmetric, with a zero off its diagonal, and weights."""
    rng = np.random.default_rng([34, seed])
    x, y = clusters(rng, 25, 4, 4)
    cost = rng.uniform(0.5, 2.0, size=(4, 4)) * (1 - np.eye(4))
    cost[1, 2] = 0.0
    return Instance(RegularizedRisk.multiclass(x, y, 0.05, cost=cost, weights=rng.uniform(0.5, 2.0, size=25)))


def labels(seed: int) -> Instance:
    """Some examples have no label or all labels, and therefore no loss."""
    rng = np.random.default_rng([35, seed])
    x = rng.normal(size=(25, 4))
    has = (x @ rng.normal(size=(4, 4)) + rng.normal(size=(25, 4)) > 0).astype(int)
    has[0], has[1], has[2] = 0, 1, [1, 0, 1, 0]
    return Instance(RegularizedRisk.multilabel(x, has, 0.05))


def levels(seed: int) -> Instance:
    """Four levels and three free thresholds."""
    rng = np.random.default_rng([36, seed])
    x = rng.normal(size=(30, 3))
    score = x @ np.array([1.0, -0.5, 0.2]) + 0.5 * rng.normal(size=30)
    y = np.searchsorted(np.quantile(score, [0.25, 0.5, 0.75]), score)
    return Instance(RegularizedRisk.ordinal(x, y, 0.02, weights=rng.uniform(0.5, 2.0, size=30)))


def levels_fixed(rng: np.random.Generator) -> RegularizedRisk:
    x = rng.normal(size=(20, 3))
    y = np.searchsorted([-1.0, 0.5], x @ np.array([1.0, 1.0, -1.0]))
    return RegularizedRisk.ordinal(x, y, 0.05, thresholds=[-1.0, 0.5])


#: All cases of the family.
CASES: tuple[Case, ...] = (
    Case("risk-planted", BINARY, "(1)-(2)", "the optimum is known by construction", planted, "primal"),
    Case("risk-planted-bias", BINARY, "(20)-(22)", "the optimum is known by construction; bias and weights",
         planted_bias, "adjoint"),
    Case("risk-planted-pieces", PIECES, "(8)-(12)", "the optimum is known by construction; several pieces tie",
         planted_pieces, "primal"),
    Case("risk-planted-floor", PIECES, "(8)-(12)", "the optimum is known by construction; the zero piece ties too",
         planted_floor, "adjoint"),
    Case("risk-hadamard", PIECES, "(14)", "the lower bound's instance, d = 32: -1/(2 lam d)", hadamard_small,
         "piecewise", solver=QpBMRM()),
    Case("risk-bundle", PIECES, "(3), (14)", "the bundle of every piece is the risk itself: J_t* = J*", hadamard_small,
         "bmrm", arguments=every_piece),
    Case("risk-bundle-dual", PIECES, "(10)-(11)", "the same by the subproblem's dual", hadamard_small, "bmrm_dual",
         arguments=every_piece),
    Case("risk-smoothed", PIECES, "(23)", "alpha_0 is optimal (even weights), so smoothing costs nothing: J_mu* = J*",
         hadamard_small, "smoothed"),
    Case("risk-smoothed-dual", PIECES, "(22), (23)", "the same by its adjoint", hadamard_small, "smoothed_dual"),
    Case("risk-textbook", BINARY, "(1)-(2), over lambda", "the textbook pair with C in place of lam: p*/lam",
         planted_bias, "svm", unit=divided_by_lam),
    Case("risk-textbook-dual", BINARY, "(20)-(22), over lambda", "the same by its dual", planted, "svm_dual",
         unit=divided_by_lam),
    Case("risk-separate-classes", PIECES, "(8)-(12)", "examples in dimensions of their own, solved by hand",
         separate_classes, "nesterov", solver=LsBMRM()),
    Case("risk-separate-labels", PIECES, "(8)-(12)", "multilabel examples in dimensions of their own, solved by hand",
         separate_labels, "adjoint"),
    Case("risk-enumerated", BINARY, "(8)-(9)", "all 2^8 planes of eight examples written out", enumerated, "piecewise",
         solver=QpBMRM()),
    Case("risk-enumerated-classes", PIECES, "(10)-(12)", "all 3^6 planes of six examples, in the adjoint",
         seeded(33, enumerated_classes), "piecewise_adjoint"),
    Case("risk-one-example", BINARY, "(1)-(2)", "n = 1; the reference by SCS", one_example, "primal", "SCS"),
    Case("risk-one-class", BINARY, "(21)-(22)", "every label is -1", one_class, "adjoint", solver=Pragam()),
    Case("risk-unbalanced", BINARY, "(20)-(22)", "two positive examples of forty, with bias", unbalanced, "primal",
         solver=PragamB()),
    Case("risk-ties", BINARY, "(17)", "equal and mirrored examples: ties everywhere", ties, "nesterov"),
    Case("risk-zeros", BINARY, "(18)-(19)", "empty rows and columns, weights a hundredfold apart", zeros,
         "nesterov_adjoint"),
    Case("risk-small-lam", BINARY, "(1)-(2)", "hardly regularised", small_lam, "primal"),
    Case("risk-large-lam", BINARY, "(21)-(22)", "no margin is reached", large_lam, "adjoint", solver=PegasosN()),
    Case("risk-sparse", BINARY, "(1)-(2)", "sparse rows, more features than examples", sparse_rows, "primal"),
    Case("risk-classes", PIECES, "(8)-(12)", "four classes, a cost matrix that is not symmetric, weights", classes,
         "primal"),
    Case("risk-labels", PIECES, "(8)-(12)", "label sets, empty and full ones among them", labels, "adjoint"),
    Case("risk-levels", PIECES, "(8)-(12)", "ordered levels, three free thresholds", levels, "primal"),
    Case("risk-levels-fixed", PIECES, "(8)-(12)", "ordered levels, thresholds given", seeded(37, levels_fixed),
         "nesterov"),
    Case("risk-hadamard-large", PIECES, "(14)", "the lower bound's instance, d = 256: -1/(2 lam d)",
         partial(on_hadamard, 256, 1e-4), "adjoint", quick=False),
    Case("risk-dense", BINARY, "(20)-(22)", "600 examples with bias in 30 dimensions", dense_rows, "primal",
         quick=False),
    Case("risk-sparse-many", BINARY, "(21)-(22)", "2000 sparse rows, 5000 features", sparse_many, "adjoint",
         quick=False, open=False),
)  # fmt: skip
