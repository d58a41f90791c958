"""Rows of `exact.py` for risks and energy networks, whose formulas take exact numbers as they stand.

The loss of an example of an energy network is at least its value with any y in the cube: J is held against its value
with the y that the problem finds, at the exact product of the factor that stands for Q. The lower bound of a risk is
held against the exact optimum, as far as the solver finds which pieces are largest there, and against the least of the
exact objectives at its points.
"""

from __future__ import annotations

import contextlib
import itertools
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks.exact import (
    DIGITS,
    EXACT,
    RANDOM,
    ZERO,
    Exactly,
    Instance,
    Row,
    exactly,
    numbers,
    short_run,
    twin,
    weights,
)
from convexstruct.arrays import Point, Vector
from convexstruct.families.energy_network import ConvexEnergyNetwork, EnergyInference, UnrolledEnergyNetwork
from convexstruct.families.energy_network.energy import Energy, factor, minimise
from convexstruct.families.energy_network.unrolled import KINDS, LOSSES
from convexstruct.families.regularized_risk import RegularizedRisk

# -- risks -------------------------------------------------------------------------------------------------------------


def exact_risk(problem: RegularizedRisk) -> Any:
    """A copy whose `values` and `losses` take exact numbers, and its shares, which are no floats in general."""
    _ = problem.single  # of the sparse matrix, computed before the copy
    loss = twin(problem.loss, combine=exactly(problem.loss.combine), offset=exactly(problem.loss.offset))
    counts = np.full(loss.n_groups, loss.n_groups if loss.kind == "pieces" else problem.X.shape[0])
    omega = 1 / exactly(counts)
    if problem.weights is not None:
        omega = (exactly(problem.weights) / exactly(problem.weights).sum())[loss.example]
    return twin(problem, X=exactly(problem.X), loss=loss), omega


def objective(problem: RegularizedRisk) -> Any:
    """J as a function of a point."""
    exact, omega = exact_risk(problem)

    def value(point: Point) -> Any:
        w = exactly(point["w"])
        values = exact.values(w, exactly(point["b"]) if "b" in point else None)
        return EXACT.mpf(problem.lam) / 2 * (w * w).sum() + omega @ exact.losses(values)

    return value


def optimum(problem: RegularizedRisk, point: Point, alpha: Vector) -> Any:
    """The least objective at a point, or where for one of some tolerances the pieces with larger multipliers tie.

    lam w + sum_p alpha_p row_p = 0; the values of these pieces are t_g; their alpha sum to omega_g, or t_g = 0.
    """
    exact, omega = exact_risk(problem)
    d, n_groups, group = problem.dimension + problem.n_biases, problem.loss.n_groups, problem.group

    def values(x: Exactly) -> Exactly:
        return exact.values(*np.split(x, [problem.dimension]))

    level = values(exactly(np.zeros(d)))
    rows, of = np.array([values(x) - level for x in exactly(np.eye(d))]), np.eye(n_groups)[group]
    value = objective(problem)
    least = value(point)
    for near in (1e-12, 1e-9, 1e-6):
        on, rest = alpha > near * problem.shares[group], problem.shares - alpha @ of
        zero = (rest > near * problem.shares) & problem.loss.floor
        ties = len(level[on])
        matrix, right = exactly(np.zeros([d + ties + n_groups] * 2)), exactly(np.zeros(d + ties + n_groups))
        matrix[range(problem.dimension), range(problem.dimension)] = EXACT.mpf(problem.lam)
        matrix[:d, d : d + ties], matrix[d : d + ties, :d] = rows[:, on], rows[:, on].T
        matrix[d : d + ties, d + ties :], right[d : d + ties] = exactly(-of[on]), -level[on]
        matrix[d + ties :, d : d + ties] = exactly(of[on].T * ~zero[:, None])
        matrix[range(d + ties, len(right)), range(d + ties, len(right))] = exactly(zero * 1.0)
        right[d + ties :] = np.where(zero, 0, omega)
        with contextlib.suppress(ZeroDivisionError):  # a singular matrix
            x = np.array(list(EXACT.lu_solve(EXACT.matrix(matrix.tolist()), list(right))))
            least = min(least, value(dict(zip("wb", np.split(x[:d], [problem.dimension])))))
    return least


def risk(rng: RANDOM, ordinary: bool) -> Instance:
    """The optimum is known at the end of a run only. Free offsets that fit the heaviest of examples whose weights range
    over many scales leave next to nothing, which is no ordinary value: it is less than what that fit is wrong by."""
    problem = _risk(rng, ordinary)
    ordinary = ordinary and not (problem.n_biases and problem.shares.min() < 1e-3)
    point, witness = short_run(problem)
    least = optimum(problem, point, witness["alpha"])
    return Instance(problem, objective(problem), lambda _: least, ordinary, ends=(point, witness))


def _risk(rng: RANDOM, ordinary: bool) -> RegularizedRisk:
    """A risk of up to five examples and four unknowns, of any loss, dense or sparse, with and without weights."""
    kind = str(rng.choice(["binary", "binary", "bias", "multiclass", "multilabel", "ordinal", "free", "pieces"]))
    n = 3 if kind == "free" else int(rng.integers(2, 6))
    X = numbers(rng, (n, 1 if kind in ("multiclass", "multilabel", "free") else int(rng.integers(1, 3))), ordinary)
    example, floor = np.arange(n) // int(rng.choice([1, 2, n])), bool(rng.random() < 0.5)  # of pieces
    lam, omega = 10.0 ** rng.uniform(-3, 1), weights(rng, example[-1] + 1 if kind == "pieces" else n, ordinary)
    if not ordinary and rng.random() < 0.4:  # a feature that is large and nearly constant
        X, lam = rng.normal(size=X.shape) + 10.0 ** rng.uniform(6, 19), 10.0 ** rng.uniform(-8, 0)
    elif not ordinary:
        w_matters = float(np.clip(np.abs(X).max(), 1e-150, 1e150)) ** 2
        lam = lam * w_matters if rng.random() < 0.5 else 10.0 ** rng.uniform(-300, 300)
    given, y = sp.csr_array(X) if rng.random() < 0.4 else X, rng.permutation(np.arange(n) % 2)
    if kind == "pieces":
        return RegularizedRisk.pieces(given, numbers(rng, n, ordinary), lam, example, floor=floor, weights=omega)
    targets: dict[str, tuple[Any, dict[str, Any]]] = {
        "bias": (y, {"bias": True}),
        "multiclass": (rng.integers(3, size=n), {"n_classes": 3}),
        "multilabel": (rng.permuted(np.resize([1, 0, 0, 0, 1, 1], (n, 3)), axis=1), {}),
        "ordinal": (y, {"thresholds": [float(rng.normal())]}),
        "free": (rng.permutation(n), {}),
    }
    target, options = targets.get(kind, (y, {}))
    read = getattr(RegularizedRisk, {"bias": "binary", "free": "ordinal"}.get(kind, kind))
    return read(given, target, lam, weights=omega, **options)  # type: ignore[no-any-return]


# -- energy networks ---------------------------------------------------------------------------------------------------


def _hidden(rng: RANDOM, n_labels: int, ordinary: bool) -> Any:
    units = int(rng.integers(0, 3))
    return numbers(rng, (units, n_labels + 1), ordinary) if units else None


def _energy(Q: Exactly, v: Any, hidden: Any) -> Energy:
    layer = exactly(np.zeros((0, len(Q) + 1)) if hidden is None else hidden)
    return Energy(Q, exactly([] if v is None else v), layer[:, :-1], layer[:, -1])


def convex(rng: RANDOM, ordinary: bool) -> Instance:
    n, d, n_labels = rng.integers(1, 4, size=3).tolist()
    lam = float(rng.uniform(0.1, 10.0) if ordinary else 10.0 ** rng.uniform(-8, 8))
    x, hidden = numbers(rng, (n, d), ordinary), _hidden(rng, n_labels, ordinary)
    problem = ConvexEnergyNetwork(x, rng.integers(2, size=(n, n_labels)), lam, hidden)
    T = exactly(problem.T)
    exact = twin(problem, X=exactly(problem.X), T=T)

    def primal(point: Point) -> Any:
        b, y = exactly(factor(point["Q"])), problem.T
        with np.errstate(all="ignore"), contextlib.suppress(np.linalg.LinAlgError):  # J overflows, or is asked at T
            y = np.nan_to_num(problem.worst(problem.repair(point)))
        v, U = np.maximum(point.get("v", np.zeros(0)), 0.0), exactly(point["U"])
        energy, scores, y = _energy(b @ b.T, v, hidden), exact.X @ U.T + (1 - 2 * T), exactly(y)
        lost = np.maximum(energy.values(scores, T) - energy.values(scores, y), 0)
        return lam / 2 * ((U**2).sum() + (energy.Q**2).sum() + (energy.v**2).sum()) + lost.sum()

    def dual(witness: Point) -> Any:
        r = exactly(np.clip(witness["r"], 0.0, 1.0))
        s_u, s_q, s_v = exact.statistics(r)
        with EXACT.workdps(DIGITS):
            values = np.array(EXACT.eigsy(EXACT.matrix(s_q.tolist()), eigvals_only=True))
            blur = (s_q**2).sum() / lam * EXACT.mpf(10) ** (10 - DIGITS)  # of the eigenvalues
        paid = sum((np.maximum(each, 0) ** 2).sum() for each in (values, s_v)) + (s_u**2).sum()
        return r.sum() - paid / (2 * lam) + blur

    shares = [{"r": 10.0 ** (rng.uniform(-12, 0) * (not ordinary)) * rng.uniform(size=T.shape)} for _ in range(3)]
    with np.errstate(all="ignore"):
        points = [problem.as_point(problem.weights(each["r"])) for each in shares]
    return Instance(problem, primal, dual, ordinary, points, shares, short_run(problem))


def inference(rng: RANDOM, ordinary: bool) -> Instance | None:
    """Q is semidefinite, or up to rounding: then the corners of the cube say more than its tangents."""
    n, n_labels = rng.integers(1, 4, size=2).tolist()
    b = numbers(rng, (n_labels, int(rng.integers(1, n_labels + 1))), ordinary) * (1.0 if ordinary else 1e-150)
    Q = b @ b.T
    if rng.random() < 0.3:
        Q = np.diag(np.append(np.full(n_labels - 1, -1e-13), 1.0)) * float(np.abs(Q).max())
    hidden = _hidden(rng, n_labels, ordinary)
    v = None if hidden is None else np.abs(numbers(rng, len(hidden), ordinary))
    try:
        problem = EnergyInference(numbers(rng, (n, n_labels), ordinary), Q, hidden, v)
    except ValueError:  # Q underflows, and has an eigenvalue below 0
        return None
    energy, scores = _energy(exactly(problem.energy.Q), v, hidden), exactly(problem.scores)

    def primal(point: Point) -> Any:
        return energy.values(scores, exactly(point["Y"])).sum()

    def dual(point: Point) -> Any:
        return min(primal(point) - energy.gaps(scores, exactly(point["Y"])).sum(), least)

    drawn: list[Point] = [{"Y": y} for y in (rng.random((n, n_labels)), rng.integers(2, size=(n, n_labels)) * 1.0)]
    corners: list[Point] = [{"Y": np.tile(y, (n, 1)).astype(float)} for y in itertools.product((0, 1), repeat=n_labels)]
    best = {"Y": problem.trivial()[0]["Y"]}
    with np.errstate(all="ignore"), contextlib.suppress(np.linalg.LinAlgError):
        best = {"Y": np.clip(np.nan_to_num(minimise(problem.energy, problem.scores)), 0.0, 1.0)}
    points = [best, *drawn]
    least = min(primal(point) for point in [*corners, *points])
    return Instance(problem, primal, dual, ordinary, points, points)


def unrolled(rng: RANDOM, ordinary: bool) -> Instance:
    """J through all steps; below, only 0 is known."""
    n, d, n_labels, n_units = rng.integers(1, 3, size=4).tolist()
    kind, loss = str(rng.choice(KINDS)), str(rng.choice(LOSSES))
    steps = np.abs(numbers(rng, int(rng.integers(1, 4)), ordinary))
    lam = float(rng.uniform(0.0, 1.0) if ordinary else 10.0 ** rng.uniform(-8, 8))
    labels, X = rng.integers(2, size=(n, n_labels)), numbers(rng, (n, d), ordinary)
    problem = UnrolledEnergyNetwork(X, labels, lam, n_units, steps, kind, loss)

    def primal(point: Point) -> Any:
        at = {name: exactly(each) for name, each in point.items()}
        scores, found = problem.forward(at, exactly(problem.X))
        if found.diverged is not None:
            return ZERO
        of_truth, lost = (problem.energies(at, scores, y) for y in (exactly(problem.T), found.y[-1]))
        hinge = np.maximum(of_truth - lost + problem.losses(found.y[-1]), 0)
        return hinge.sum() + lam / 2 * sum((each**2).sum() for each in at.values())

    sizes = rng.choice([1.0, 10.0] if ordinary else [1.0], size=4)  # steps multiply what larger weights are wrong by
    points = [{name: size * numbers(rng, shape, ordinary) for name, shape in problem.shapes.items()} for size in sizes]
    return Instance(problem, primal, lambda _: 0, points=points, witnesses=[{}])


ROWS: dict[type, tuple[Row, ...]] = {
    RegularizedRisk: (risk,),
    ConvexEnergyNetwork: (convex,),
    EnergyInference: (inference,),
    UnrolledEnergyNetwork: (unrolled,),
}
