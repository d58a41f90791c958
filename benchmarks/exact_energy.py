"""Rows of `exact.py` for energy networks, whose energies are evaluated in `DIGITS` digits.

The loss of an example is at least its value with any y in the cube: J is held against its value with the y that the
problem finds, at the exact product of the factor that stands for Q. A lower bound is held against the exact D, or the
exact tangent, at its witness. The steps of an unrolled network are repeated as they stand.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterable
from typing import Any

import mpmath
import numpy as np

from benchmarks.exact import DIGITS, ERROR, Exactly, Instance, Row, numbers
from convexstruct.arrays import Point
from convexstruct.core.driver import solve
from convexstruct.families.energy_network import ConvexEnergyNetwork, EnergyInference, UnrolledEnergyNetwork
from convexstruct.families.energy_network.energy import factor, minimise
from convexstruct.families.energy_network.unrolled import KINDS, LOSSES

RANDOM = np.random.Generator
#: e^-z is taken as 0 beyond: it is below every number that a double can be added to.
FAR = 10_000


def digits(values: Any) -> Exactly:
    """The floats of an array as numbers of `DIGITS` digits, in an array of the same shape."""
    given = np.asarray(values, dtype=float)
    return np.array([mpmath.mpf(x) for x in given.ravel().tolist()], dtype=object).reshape(given.shape)


def total(terms: Iterable[Any], sign: int) -> Any:
    """The sum, wrong by `ERROR` at most, and that to the side of ``sign``."""
    every = list(terms)
    return mpmath.fsum(every) + sign * ERROR * mpmath.fsum(map(abs, every))


def _vanishing(z: Any) -> Any:
    return mpmath.exp(-abs(z)) if abs(z) < FAR else mpmath.mpf(0)


def softplus(z: Exactly) -> Exactly:
    return np.array([max(x, 0) + mpmath.log1p(_vanishing(x)) for x in z], dtype=object)


def sigmoid(z: Exactly) -> Exactly:
    return np.array([(1 if x >= 0 else _vanishing(x)) / (1 + _vanishing(x)) for x in z], dtype=object)


def terms(scores: Exactly, Q: Exactly, hidden: Exactly, v: Exactly, y: Exactly) -> list[Any]:
    """What E(y) is the sum of; hidden (K, L + 1)."""
    return [*(-scores * y), *(y * (Q @ y) / 2), *(v * softplus(hidden[:, :-1] @ y + hidden[:, -1]))]


def _layer(problem: Any, n_labels: int) -> Exactly:
    return digits(np.zeros((0, n_labels + 1)) if problem.hidden is None else problem.hidden)


def _hidden(rng: RANDOM, n_labels: int, ordinary: bool) -> Any:
    units = int(rng.integers(0, 3))
    return numbers(rng, (units, n_labels + 1), ordinary) if units else None


# -- the convex network ------------------------------------------------------------------------------------------------


def convex(rng: RANDOM, ordinary: bool) -> Instance:
    n, d, n_labels = rng.integers(1, 4, size=3).tolist()
    lam = float(rng.uniform(0.1, 10.0) if ordinary else 10.0 ** rng.uniform(-8, 8))
    x, hidden = numbers(rng, (n, d), ordinary), _hidden(rng, n_labels, ordinary)
    problem = ConvexEnergyNetwork(x, rng.integers(2, size=(n, n_labels)), lam, hidden)
    layer, T = _layer(problem, n_labels), problem.T

    def primal(point: Point) -> Any:
        b, y = factor(point["Q"]), T
        with np.errstate(all="ignore"), contextlib.suppress(np.linalg.LinAlgError):  # J overflows, or is asked at T
            y = np.nan_to_num(problem.worst(problem.repair(point)))
        with mpmath.workdps(DIGITS):
            Q, U, v = digits(b) @ digits(b).T, digits(point["U"]), digits(np.maximum(point.get("v", np.zeros(0)), 0.0))
            least = [digits(lam) / 2 * each**2 for each in [*U.ravel(), *Q.ravel(), *v]]
            for of, to, at in zip(digits(problem.X) @ U.T, digits(T), digits(y)):
                lost = [*terms(of, Q, layer, v, to), *(-e for e in terms(of, Q, layer, v, at)), *abs(at - to)]
                least.append(max(total(lost, -1), mpmath.mpf(0)))
            return total(least, -1)

    def dual(witness: Point) -> Any:
        r = np.clip(witness["r"], 0.0, 1.0)
        with mpmath.workdps(DIGITS):
            t, move = digits(T), digits(1.0 - 2.0 * T) * digits(r)
            y = t + move
            rises = [softplus(layer[:, :-1] @ b + layer[:, -1]) - softplus(layer[:, :-1] @ a + layer[:, -1])
                     for a, b in zip(t, y)]  # fmt: skip
            s = (t.T @ move + move.T @ t + move.T @ move) / 2
            values = mpmath.eigsy(mpmath.matrix(s.tolist()), eigvals_only=True)
            paid = [*(move.T @ digits(problem.X)).ravel(), *(max(each, 0) for each in [*values, *sum(rises)])]
            blur = ERROR * (s**2).sum() / digits(lam)  # of the eigenvalues
            return total([*digits(r).ravel(), *(-(each**2) / (2 * digits(lam)) for each in paid), blur], 1)

    shares = [10.0 ** (rng.uniform(-12, 0) * (not ordinary)) * rng.uniform(size=T.shape) for _ in range(3)]
    best = solve(problem).dual_point if ordinary else None
    if best is not None:
        shares.append(best["r"])
    with np.errstate(all="ignore"):
        points = [problem.as_point(problem.weights(r)) for r in shares]
    points.append(problem.as_point({name: numbers(rng, shape, ordinary) for name, shape in problem.shapes.items()}))
    return Instance(
        problem, [(point, ordinary) for point in points], [({"r": r}, ordinary) for r in shares],
        primal, dual, f"{problem!r}, lam {lam:g}", ordinary, problem.trivial_value,
    )  # fmt: skip


# -- inference ---------------------------------------------------------------------------------------------------------


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
    layer, energy = _layer(problem, n_labels), problem.energy

    def value(point: Point, sign: int, bent: bool = False) -> Any:
        """The sum of the energies at Y, or of the tangents' bounds."""
        every = []
        with mpmath.workdps(DIGITS):
            Q, v = digits(energy.Q), digits(energy.v)
            for of, y in zip(digits(problem.scores), digits(point["Y"])):
                every += terms(of, Q, layer, v, y)
                if bent:
                    g = (Q @ y) - of + layer[:, :-1].T @ (v * sigmoid(layer[:, :-1] @ y + layer[:, -1]))
                    every += [-max(a * b, a * (b - 1)) for a, b in zip(g, y)]
            return total(every, sign)

    with np.errstate(all="ignore"):
        try:
            best = minimise(energy, problem.scores)
        except np.linalg.LinAlgError:
            best = problem.scores
    best = np.clip(np.nan_to_num(best), 0.0, 1.0)
    points: list[Point] = [
        {"Y": best},
        {"Y": rng.random((n, n_labels))},
        {"Y": rng.integers(2, size=(n, n_labels)) * 1.0},
    ]
    corners: list[Point] = [{"Y": np.tile(y, (n, 1)).astype(float)} for y in itertools.product((0, 1), repeat=n_labels)]
    least = min(value(point, -1) for point in [*corners, *points])
    return Instance(
        problem, [(point, ordinary) for point in points], [(point, ordinary) for point in points],
        lambda point: value(point, -1), lambda point: min(value(point, 1, bent=True), least),
        repr(problem), ordinary, problem.trivial_value,
    )  # fmt: skip


# -- steps that are unrolled -------------------------------------------------------------------------------------------


def unrolled(rng: RANDOM, ordinary: bool) -> Instance:
    """J through all steps; below, only 0 is known."""
    n, d, n_labels, n_units = rng.integers(1, 3, size=4).tolist()
    kind, loss = str(rng.choice(KINDS)), str(rng.choice(LOSSES))
    steps = np.abs(numbers(rng, int(rng.integers(1, 4)), ordinary))
    lam = float(rng.uniform(0.0, 1.0) if ordinary else 10.0 ** rng.uniform(-8, 8))
    labels, X = rng.integers(2, size=(n, n_labels)), numbers(rng, (n, d), ordinary)
    problem = UnrolledEnergyNetwork(X, labels, lam, n_units, steps, kind, loss)

    def primal(point: Point) -> Any:
        with mpmath.workdps(DIGITS):
            A, B, U, b, c = (digits(point[name]) for name in "ABUbc")
            layer, none, found = np.column_stack((A, b)), digits(np.zeros((n_labels, n_labels))), []
            for x, t in zip(digits(X), digits(problem.T)):
                logits, scores = B @ x, U @ x
                y = sigmoid(logits)
                for eta in digits(steps):
                    move = eta * (A.T @ (c * sigmoid(A @ y + b)) - scores)
                    logits = logits - move
                    y = sigmoid(logits) if kind == "entropic" else y - move
                    if kind == "projected":
                        y = np.array([min(max(each, 0), 1) for each in y], dtype=object)
                lost = list((y - t) ** 2) if loss == "squared" else [*t, *((1 - 2 * t) * y)]
                lost += [*terms(scores, none, layer, c, t), *(-e for e in terms(scores, none, layer, c, y))]
                found.append(max(total(lost, -1), mpmath.mpf(0)))
            weights = [each for name in "ABUbc" for each in digits(point[name]).ravel()]
            return total([*found, *(digits(lam) / 2 * each**2 for each in weights)], -1)

    points: list[Point] = []
    for size in rng.choice([1.0, 10.0], size=4):  # larger weights: the steps multiply what they are wrong by
        point = {name: size * numbers(rng, shape, True) for name, shape in problem.shapes.items()}
        points.append(point if ordinary else {name: numbers(rng, each.shape, False) for name, each in point.items()})
    told = f"{problem!r}, {kind}, {loss}"
    return Instance(problem, [(point, False) for point in points], [({}, False)], primal, lambda _: 0, told)


ROWS: dict[type, tuple[Row, ...]] = {
    ConvexEnergyNetwork: (convex,),
    EnergyInference: (inference,),
    UnrolledEnergyNetwork: (unrolled,),
}
