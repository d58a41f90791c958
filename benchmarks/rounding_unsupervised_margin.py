"""Trials of `UnsupervisedMargin`: reduced SDPs whose optimum is a labelling, known in rational arithmetic.

Entries of M lie in [0, 1]; in a chain a row is the current one of one pair at most, and the previous one of one. So
where K_ij is positive for rows of one label and at most -2 (0 without pairs) for rows of two, M loses twice what N
gains, and M, N of the labelling are optimal; `tight` has the multipliers that prove it. Where K is
s (M - 11'/kappa) of a balanced labelling, P = 0 proves it too: the largest eigenvalue s n / kappa is kappa - 1 times
there. Where all rows are alike (`alike`), M may be taken as (1 - m) I + m 11', and m is as small as eigenvalues or as
large as (9) lets it: optima on the border of these, below which the values of points a little outside lie. Rounded to
floats, and moved by a few units, these are the hardest points.

`PermutationInvariantMargin` and `RelaxedLoss` are tried by their formulas: at a labelling, the first one's tangents
from above and any x of its polytope from below; at any matrices, the second one's tangents and what a distribution
attains.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from benchmarks.exact import ZERO, Exactly, exactly
from benchmarks.rounding import Trial
from convexstruct.arrays import Labels, Matrix, Point
from convexstruct.families.unsupervised_margin import UnsupervisedMargin
from convexstruct.families.unsupervised_margin.label_exchanges import polytope
from convexstruct.families.unsupervised_margin.permutation_invariant import PermutationInvariantMargin
from convexstruct.families.unsupervised_margin.relaxed_loss import RelaxedLoss
from convexstruct.families.unsupervised_margin.rounding import objective

#: Powers of ten that scales are drawn from.
REACH = 300.0
#: By how much points and witnesses are moved, relative to their entries.
MOVES = (0.0, 1e-16, 1e-14, 1e-10, 1e-4, 1.0)


@dataclass(frozen=True)
class Planted:
    """A problem, the labels that are optimal, and the optimum."""

    problem: UnsupervisedMargin
    labels: Labels
    optimum: Fraction
    tied: bool
    ordinary: bool


def exact(problem: UnsupervisedMargin, point: Point) -> Any:
    """omega at a point; of features with the exact inner products."""
    n, kappa = problem.n_rows, problem.n_labels
    features = None if problem.features is None else exactly(problem.features)
    gram = exactly(problem.gram) if features is None else features @ features.T
    gained = (gram * (exactly(point["M"]) - Fraction(1, kappa))).sum()
    gained += (exactly(point["N"]) - Fraction(1, kappa**2)).sum()
    return n * (1 - Fraction(1, kappa)) - gained / (2 * Fraction(problem.beta))


def matrices(problem: UnsupervisedMargin, labels: Labels) -> Point:
    """M and N of a labelling."""
    pair = labels[problem.previous] * problem.n_labels + labels[problem.current]
    return {"M": (labels[:, None] == labels).astype(float), "N": (pair[:, None] == pair).astype(float)}


def tight(problem: UnsupervisedMargin, labels: Labels) -> Point:
    """Multipliers whose bound is the optimum but for rounding: nothing is left for the eigenvalues."""
    n, p2 = problem.n_rows, problem.n_pairs
    now, before = (labels[rows][:, None] == labels[rows] for rows in (problem.current, problem.previous))
    ties = {"W_current": -1.0 * ~now, "W_previous": -1.0 * (now & ~before), "W_pair": np.ones((p2, p2))}
    rest = problem.gram.copy()
    for name, rows in (("W_current", problem.current), ("W_previous", problem.previous)):
        np.subtract.at(rest, np.ix_(rows, rows), ties[name])
    return {"P": rest, "u": np.zeros(n), "y": np.zeros(n), "v": np.zeros(p2), "z": np.zeros(p2), **ties}


def planted(rng: np.random.Generator) -> Planted | None:
    """A problem of four to eight rows; None where its balances leave nothing inside."""
    ordinary, kappa = bool(rng.random() < 0.4), int(rng.choice([2, 2, 3, 4]))
    n = int(rng.integers(max(4, kappa), 9))
    tied = rng.random() < 0.3 and kappa != 3
    if tied:
        n = kappa * int(rng.integers(1, 8 // kappa + 1)) if kappa == 4 else 2 * int(rng.integers(2, 5))
    labels = rng.permutation(np.arange(n) % kappa)
    with_pairs = not tied and rng.random() < 0.6
    lengths = [n - n // 2, n // 2] if rng.random() < 0.5 else [n]
    scale = 1.0 if ordinary else 10.0 ** (rng.uniform(0 if with_pairs else -REACH / 2, REACH / 2))
    beta = float(rng.uniform(0.1, 10)) if ordinary else 10.0 ** rng.uniform(-REACH, REACH)
    pairs: Any = "chain" if with_pairs else np.zeros((0, 2), dtype=np.int64)
    signs, given = np.where(labels == 0, 1.0, -1.0), {}
    if tied:
        scale = 2.0 ** round(np.log2(scale))
        same = (labels[:, None] == labels) - 1.0 / kappa  # exact: kappa is 2 or 4
        given = {"kernel": scale * same, "lengths": lengths}
    elif kappa == 2 and rng.random() < 0.4:
        size = np.sqrt(scale) * rng.uniform(2.0 if with_pairs else 0.1, 4.0, size=(n, int(rng.integers(1, 4))))
        given = {"observations": np.split(signs[:, None] * size, np.cumsum(lengths)[:-1])}
    else:
        size = rng.uniform(2.0 if with_pairs else 0.0, 4.0, size=(n, n))
        if not ordinary and rng.random() < 0.3:
            size = np.maximum(size, 2.0 if with_pairs else 0.0) * 10.0 ** rng.uniform(0, 12, size=(n, n))
        size = np.where(labels[:, None] == labels, 1.0, -1.0) * np.maximum(size, size.T) * scale
        np.fill_diagonal(size, np.abs(size).sum(axis=1))
        given = {"kernel": size, "lengths": lengths}
    counts = [int((labels == s).sum()) for s in range(kappa)]
    far = max(abs(Fraction(count, n) - Fraction(1, kappa)) for count in counts)
    least = np.nextafter(float(far), 1.0) if far else 0.0
    balance = max(least, float(rng.choice([1e-300, 1e-15, 1e-9, 0.05, 0.5]) if not ordinary else 0.3 + least))
    pair_balance = 1.0 if ordinary else float(rng.choice([1.0, 1.0, 0.76]))
    observations = given.pop("observations", None)
    options = {"beta": beta, "label_balance": balance, "pair_balance": pair_balance, "pairs": pairs}
    try:
        problem = UnsupervisedMargin.read(observations, kappa, **options, **given)
    except ValueError:
        return None
    return Planted(problem, labels, exact(problem, matrices(problem, labels)), tied, ordinary)


def alike(rng: np.random.Generator) -> tuple[UnsupervisedMargin, Fraction, float, float]:
    """(problem, optimum, m there, sign of c): K = c 11' + d I, without pairs."""
    kappa, n = int(rng.integers(2, 5)), int(rng.integers(4, 9))
    balance = float(rng.choice([1e-3, 0.05, 0.1]))
    size = 10.0 ** rng.uniform(-100, 100)
    sign = float(rng.choice([-1.0, 1.0]))
    kernel = np.full((n, n), sign * size) + np.diag(np.full(n, 2.0 * n * size))
    beta = size * float(rng.uniform(0.1, 10))
    options = {"label_balance": balance, "pairs": np.zeros((0, 2), dtype=np.int64), "kernel": kernel, "lengths": [n]}
    problem = UnsupervisedMargin.read(None, kappa, beta=beta, **options)  # type: ignore[arg-type]
    least = max(Fraction(0), (Fraction(n, kappa) - 1) / (n - 1))
    most = min(Fraction(1), (n * (Fraction(1, kappa) + Fraction(balance)) - 1) / (n - 1))
    m = least if sign < 0 else most
    diagonal, off = Fraction(float(kernel[0, 0])), Fraction(float(kernel[0, 1]))
    gained = n * diagonal + n * (n - 1) * m * off - (n * diagonal + n * (n - 1) * off) / kappa
    return problem, n * (1 - Fraction(1, kappa)) - gained / (2 * Fraction(beta)), float(m), sign


def _alike_trials(rng: np.random.Generator) -> Iterator[Trial]:
    problem, optimum, m, sign = alike(rng)
    n, told = problem.n_rows, f"alike, {problem!r}"
    for by in (0.0, 1e-16, 1e-14, 1e-10, 1e-3):
        near = m + sign * by * (1 + abs(m))
        point = {"M": np.where(np.eye(n, dtype=bool), 1.0, near), "N": np.zeros((0, 0))}
        yield Trial("primal", problem.primal(point), optimum, told=f"{told}, m beyond by {by:g}")
    witness = {"u": np.full(n, float(problem.gram[0, 1])) if sign > 0 else np.zeros(n)}
    yield Trial("dual", problem.dual(witness), optimum, told=told)
    witness["y"] = rng.normal(size=n) * 10.0 ** rng.uniform(-20, 0) * float(problem.gram[0, 0])
    yield Trial("dual", problem.dual(witness), optimum, told=told)


def _formula_trials(rng: np.random.Generator) -> Iterator[Trial]:
    """omega where its sums cancel: entries far larger than their sum, features whose inner products cancel."""
    n, kappa, beta = int(rng.integers(4, 9)), int(rng.choice([2, 3])), 10.0 ** rng.uniform(-9, 0)
    features = rng.normal(size=(n, 30)) + np.where(np.arange(30) < 2, 1e6, 0.0)
    options = {"beta": beta, "label_balance": 0.5, "pair_balance": 1.0}
    problem = UnsupervisedMargin.read([features], kappa, **options)
    point = matrices(problem, np.arange(n) % kappa)
    for side in ("primal", "dual"):
        yield Trial(side, problem.primal(point), exact(problem, point), told="features that cancel")
    kernel = np.diag(rng.uniform(1, 2, size=n)) * 10.0 ** rng.uniform(-20, 0)
    problem = UnsupervisedMargin.read(None, kappa, **options, kernel=kernel, lengths=[n])
    noise = rng.normal(size=(n - 1, n - 1)) * 10.0 ** rng.uniform(0, 6)
    point = {"M": np.eye(n), "N": noise - noise.T + 1.0 / kappa**2}
    value = objective(problem.gram, n - 1, kappa, beta, point)
    for side in ("primal", "dual"):
        yield Trial(side, value, exact(problem, point), told="pairs that cancel")
    noise = rng.normal(size=(n, n)) * 10.0 ** rng.uniform(0, 6)
    point = {"M": noise - noise.T + 1.0 / kappa, "N": np.full((n - 1, n - 1), 1.0 / kappa**2)}
    kernel = np.full((n, n), 1.0 / 3.0) + np.eye(n)
    value = objective(kernel, n - 1, kappa, beta, point)
    problem = UnsupervisedMargin.read(None, kappa, **options, kernel=kernel, lengths=[n])
    for side in ("primal", "dual"):
        yield Trial(side, value, exact(problem, point), told="rows that cancel")


def _chain(rng: np.random.Generator) -> UnsupervisedMargin:
    """One chain of four rows with features of any size."""
    features = rng.normal(size=(4, 2)) * 10.0 ** rng.uniform(-6, 6, size=rng.choice([1, 2]))
    beta = 10.0 ** rng.uniform(-6, 6)
    return UnsupervisedMargin.read([features], int(rng.choice([2, 3])), beta=beta, label_balance=0.6)


def _exchange_trials(rng: np.random.Generator) -> Iterator[Trial]:
    """f of a labelling from above, and what some x gains there from below; G by the definition of its vectors."""
    problem = _chain(rng)
    k, n, pairs = problem.n_labels, problem.n_rows, problem.pairs.tolist()
    labels = rng.permutation(np.arange(n) % k)
    keep = np.eye(k, dtype=object)[labels] + ZERO
    change = keep - (1 - keep) / (k - 1)
    features = exactly(problem.features)
    vectors = []
    for i in range(n):
        own = [np.kron(*((keep[p], change[c]) if c == i else (change[p], keep[c]))) for p, c in pairs if i in (p, c)]
        vectors.append([*np.kron(features[i], change[i]), *np.sum(own, axis=0)])
    zeros = [ZERO] * (features.shape[1] * k)
    vectors += [[*zeros, *-np.kron(change[p], change[c])] for p, c in pairs]
    gram = np.array(vectors, dtype=object) @ np.array(vectors, dtype=object).T
    at, beta, (matrix, right) = PermutationInvariantMargin(problem), Fraction(problem.beta), polytope(problem)
    gain = np.array([int(i < n) for i in range(at.size)], dtype=object)
    told = f"exchanges, {problem!r}"
    for _ in range(3):
        x, z = rng.normal(size=at.size), rng.random(len(right)) * 10.0 ** rng.uniform(-3, 3)
        image = gram @ exactly(x)
        left = np.maximum(gain - image / beta - exactly(z) @ exactly(matrix), ZERO)
        truth = exactly(x) @ image / (2 * beta) + exactly(right) @ exactly(z) + left.sum()
        yield Trial("primal", at.primal({**matrices(problem, labels), "x": x, "z": z}), truth, told=told)
        inside = exactly(at._inside_polytope(x))
        yield Trial("dual", at.dual({"x": x}), gain @ inside - inside @ gram @ inside / (2 * beta), told=told)


def _loss_trials(rng: np.random.Generator) -> Iterator[Trial]:
    """Theorem 1's function at exact marginals from both sides, and its tangent from above."""
    problem = _chain(rng)
    k, n, q = problem.n_labels, problem.n_rows, problem.n_pairs
    shapes = {"M": (n, n), "N": (q, q), "C": (n, k), "D": (q, k**2)}
    of = RelaxedLoss(problem, {name: rng.normal(size=shape) for name, shape in shapes.items()})
    gram, beta = exactly(problem.features) @ exactly(problem.features).T, Fraction(problem.beta)
    given = {name: exactly(array) for name, array in of.given.items()}
    taken = (gram * given["M"]).sum() + given["N"].sum()

    def square(mu: Exactly, nu: Exactly) -> Any:
        return ((mu * (gram @ mu)).sum() + (nu.sum(axis=0) ** 2).sum()) / 2

    told = f"loss, {problem!r}"
    for _ in range(3):
        y = rng.integers(k, size=(8, n))
        marginals = {"mu": np.eye(k)[y].mean(axis=0), "nu": np.eye(k * k)[y[:, :-1] * k + y[:, 1:]].mean(axis=0)}
        mu, nu = (exactly(marginals[name]) for name in ("mu", "nu"))
        linear = (mu * (gram @ given["C"])).sum() + nu.sum(axis=0) @ given["D"].sum(axis=0)
        truth = n - (mu * given["C"]).sum() + (linear - square(mu, nu) - taken / 2) / beta
        yield Trial("dual", of.dual(marginals), truth, told=told)
        for tilt in (0.0, 1.0):
            point = {**marginals, "b": tilt * rng.normal(size=(q, k))}
            yield Trial("primal", of.primal(point), truth, told=told)
        # the tangent itself, at (mu, nu) and any b
        b, spread = exactly(point["b"]), (given["D"] - nu).sum(axis=0).reshape(k, k)
        scores = gram @ (given["C"] - mu) - beta * given["C"]
        for at, (before, now) in enumerate(problem.pairs.tolist()):
            scores[now] += (spread - b[at][:, None]).max(axis=0)
            scores[before] += b[at]
        tangent = n + (scores.max(axis=1).sum() + square(mu, nu) - taken / 2) / beta
        yield Trial("primal", of.primal(point), tangent, told=f"tangent, {told}")


def _moved(rng: np.random.Generator, x: Matrix, by: float) -> Matrix:
    noise = rng.normal(size=x.shape)
    noise = noise + noise.T if x.ndim == 2 else noise
    return np.asarray(x + by * noise * (np.abs(x).max(initial=0.0) or 1.0))


def trials(rng: np.random.Generator) -> Iterator[Trial]:
    """The formula of omega from both sides, upper bounds near and beyond the optimum, lower bounds of multipliers."""
    while True:
        yield from _alike_trials(rng)
        yield from _formula_trials(rng)
        yield from _exchange_trials(rng)
        yield from _loss_trials(rng)
        made = planted(rng)
        if made is None or (made.problem.n_pairs and made.problem.pair_balance < 0.76):
            continue
        problem, optimum = made.problem, made.optimum
        size, told = problem.trivial_value, f"{problem!r}, tied {made.tied}"
        kernel = problem.features is None
        best = matrices(problem, made.labels)
        safe = problem.feasible.safe if problem.feasible.inside is not None else best
        for _ in range(4):
            by, beyond = float(rng.choice(MOVES)), float(rng.choice([0.0, 1e-15, 1e-8, 0.1]))
            point = {name: _moved(rng, x + beyond * (x - safe[name]), by) for name, x in best.items()}
            ordinary = made.ordinary and by <= 1e-16 and beyond == 0.0
            bound = problem.primal(point)
            yield Trial("primal", bound, optimum, ordinary, size, f"{told}, moved {by:g}, beyond {beyond:g}")
            if kernel:
                with np.errstate(all="ignore"):
                    value = objective(problem.gram, problem.n_pairs, problem.n_labels, problem.beta, point)
                truth = exact(problem, point)
                yield Trial("primal", value, truth, told=f"objective, {told}")
                yield Trial("dual", value, truth, told=f"objective, {told}")
        for _ in range(6):
            witness = dict(tight(problem, made.labels))
            if made.tied and rng.random() < 0.6:
                witness["P"] = np.zeros_like(witness["P"])
            by, names = float(rng.choice(MOVES)), rng.choice(list(witness), size=3)
            scale = float(np.abs(problem.gram).max()) or 1.0
            for name in names:
                if by and witness[name].size:
                    noise = by * rng.normal(size=witness[name].shape) * (1.0 if name[0] in "Wvz" else scale)
                    witness[name] = witness[name] + (noise + noise.T if noise.ndim == 2 else noise)
            ordinary = made.ordinary and by == 0.0
            yield Trial("dual", problem.dual(witness), optimum, ordinary, size, f"{told}, witness moved {by:g} {names}")
