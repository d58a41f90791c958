r"""A primal-dual interior point method for training a convex energy network, in its labels and its weights at once.

J of `problem` is the least value over W = (U, Q, v), with Q semidefinite and v >= 0, of

    max over Y in the cube of   L(Y, W) = sum_i Delta(t_i, y_i) - <W, s(Y)> + lam/2 |W|^2,

and with r = |Y - T|, q = 1 - r, and multipliers z, u >= 0 of r >= 0 and q >= 0, Lambda >= 0 of Q and nu >= 0 of v, the
optimum is where

    g(r, W) - z + u = 0,      lam U = s_U,      lam Q = s_Q + Lambda,      lam v = s_v + nu,
    r z = 0,    q u = 0,    Q Lambda = 0,    v nu = 0,

g being the slope of the loss-augmented energies in r. Newton's steps aim at products of mu in place of 0, which falls
from step to step (Mehrotra 1992; Nesterov and Todd's scaling of Q and Lambda). With B the Hessians of the examples'
energies plus z/r + u/q, of L x L numbers each, and S the derivative of s in r, a step (dr, dW) solves

    B dr + S' dW = right,      lam dW - S dr + H dW = wanted,

H being the scaling of Q and Lambda, and nu/v. So [lam + H + S B^-1 S'] dW = wanted + S B^-1 right: a step costs a
system of the size of W, and what makes it.

**Features of different sizes.** The system is scaled to a diagonal of 1. U is carried along with r in place of
s_U(r)/lam: where a feature is 1e9, the rounding of r alone moves s_U/lam by more than U itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from convexstruct import deadline
from convexstruct.arrays import Matrix, Point, Tensor, Vector
from convexstruct.core.cholesky import solver
from convexstruct.core.iterate import Iterate
from convexstruct.families.energy_network.energy import sigmoid
from convexstruct.families.energy_network.inference import layer
from convexstruct.families.energy_network.problem import ConvexEnergyNetwork

#: The share of the way to the border that a step goes at most.
SHORT_OF_BORDER = 0.99
#: A step this short, or a mean product this small, which is 1/2 at first: the rest is rounding.
LEAST_STEP, LEAST_MU = 1e-8, 1e-17
#: Systems of at most so many unknowns are solved (128 MB), and derivatives of at most so many numbers held (256 MB).
MOST_UNKNOWNS, MOST_NUMBERS = 4000, 2**25


def operations(problem: ConvexEnergyNetwork) -> float:
    """Multiplications in a step, about; inf where it takes more memory than the limits above."""
    (n, n_labels), d = problem.T.shape, problem.X.shape[1]
    rest = n_labels * (n_labels + 1) // 2 + (0 if problem.hidden is None else len(problem.hidden))
    unknowns = n_labels * d + rest
    if unknowns > MOST_UNKNOWNS or n * n_labels * rest > MOST_NUMBERS:
        return np.inf
    return float(n * n_labels**2 * d**2 + 2 * n * n_labels * rest**2 + unknowns**3 / 3)


def central_path(problem: ConvexEnergyNetwork, calls: int) -> Iterator[Iterate]:
    """Yield W and r after each step, until the rest is rounding. calls : sums over the examples before."""
    path = _Path(problem)
    here, length, mu = path.first(), 1.0, 1.0
    while True:
        point: Point = {name: each for name, each in path.weights(here).items() if name in problem.shapes}
        point, value = problem.stretched(point, path.labels(here))
        size = sum(float(np.vdot(w, w)) for w in problem.weights(here.r).values())
        found = Iterate(point, {"r": here.r}, value, float(here.r.sum()) - 0.5 * problem.lam * size, calls)
        if length <= LEAST_STEP or mu <= LEAST_MU:
            break
        yield found
        calls += 1
        try:
            here, length, mu = path.next(here)
        except np.linalg.LinAlgError:  # an eigenvalue of Q or Lambda is below rounding
            break
    yield replace(found, done=True, message="no step gets nearer: the rest is rounding")


class _Place(NamedTuple):
    """r, q, z, u (N, L); U (L, d); Q, Lambda (L, L); v, nu (K,). Or a change of all these."""

    r: Matrix
    q: Matrix
    z: Matrix
    u: Matrix
    U: Matrix
    Q: Matrix
    Lambda: Matrix
    v: Vector
    nu: Vector

    def plus(self, length: float, change: _Place) -> _Place:
        return _Place(*(each + length * by for each, by in zip(self, change)))

    def products(self) -> float:
        """The sum of all products that are 0 at the optimum."""
        return float(sum(np.vdot(*pair) for pair in self.pairs()))

    def pairs(self) -> tuple[tuple[Any, Any], ...]:
        return (self.r, self.z), (self.q, self.u), (self.Q, self.Lambda), (self.v, self.nu)

    def room(self, change: _Place) -> float:
        """The longest step along ``change`` that keeps all signs, and Q and Lambda semidefinite."""
        falls = [0.0]
        for name, each, by in zip(self._fields, self, change):
            if name in ("Q", "Lambda"):
                half = scipy.linalg.solve_triangular(np.linalg.cholesky(each), np.eye(len(each)), lower=True)
                falls.append(-float(np.linalg.eigvalsh(half @ by @ half.T)[0]))
            elif name != "U":
                falls.append(float((-by / each).max(initial=0.0)))
        return 1.0 / max(falls) if max(falls) > 0.0 else np.inf


class _Path:
    """The steps for one problem."""

    def __init__(self, problem: ConvexEnergyNetwork) -> None:
        self.problem, self.signs = problem, 1.0 - 2.0 * problem.T
        n_labels = problem.T.shape[1]
        self.a, self.b = layer(problem.hidden, n_labels)
        i, j = np.triu_indices(n_labels)
        # an orthonormal basis of the symmetric matrices, in which Q and Lambda are vectors
        self.basis = np.zeros((len(i), n_labels, n_labels))
        self.basis[np.arange(len(i)), i, j] = self.basis[np.arange(len(i)), j, i] = np.where(i == j, 1.0, 0.5**0.5)

    def first(self) -> _Place:
        """The middle of the cube, with multipliers 1; U = 0. Multipliers of Q and v are of the size of s there, a sum
        over all examples, and Q and v such that all products are the same."""
        half, one = np.full(self.signs.shape, 0.5), np.ones(self.signs.shape)
        eye = np.eye(self.signs.shape[1])
        s_q, s_v = self.problem.statistics(half)[1:]
        of_q, of_v = max(1.0, float(np.abs(s_q).max())), np.maximum(1.0, np.abs(s_v))
        U = np.zeros(self.problem.shapes["U"])
        return _Place(half, half, one, one, U, 0.5 / of_q * eye, of_q * eye, 0.5 / of_v, of_v)

    def labels(self, here: _Place) -> Matrix:
        return np.asarray(self.problem.T + self.signs * here.r)

    def weights(self, here: _Place) -> Point:
        return {"U": here.U, "Q": here.Q, "v": here.v}

    def next(self, here: _Place) -> tuple[_Place, float, float]:
        """The place after a step, its length, and the mean product there. LinAlgError where a matrix is singular."""
        newton, degree = _Newton(self, here), 2 * here.r.size + len(here.Q) + len(here.v)
        before = here.products()
        ahead = newton.step(0.0, None)
        after = here.plus(min(1.0, here.room(ahead)), ahead).products()
        change = newton.step((after / before) ** 3 * before / degree, ahead)
        length = min(1.0, SHORT_OF_BORDER * here.room(change))
        found = here.plus(length, change)
        return found, length, found.products() / degree


class _Newton:
    """Newton's system at a place, factored."""

    def __init__(self, path: _Path, here: _Place) -> None:
        deadline.check()
        problem, signs, self.path, self.here = path.problem, path.signs, path, here
        lam, y, point = problem.lam, path.labels(here), path.weights(here)
        energy = problem.energy(point)
        s_u, s_q, s_v = problem.statistics(here.r)
        self.slope = signs * energy.gradient(problem.scores(point), y) - here.z + here.u
        self.off = lam * point["U"] - s_u, lam * here.Q - s_q - here.Lambda, lam * here.v - s_v - here.nu
        i = np.arange(signs.shape[1])
        b = energy.hessians(y) * (signs[:, :, None] * signs[:, None, :])
        b[:, i, i] += here.z / here.r + here.u / here.q
        self.inverse = np.linalg.inv(b)
        # S' without its part in U: (N, L, entries of Q and v)
        of_q = np.tensordot(y, path.basis, (1, 2)).transpose(0, 2, 1)
        of_v = sigmoid(y @ path.a.T + path.b)[:, None, :] * path.a.T
        self.rest = signs[:, :, None] * np.concatenate((of_q, of_v), axis=2)
        half = np.linalg.cholesky(here.Q)
        values, vectors = np.linalg.eigh(half.T @ here.Lambda @ half)
        if not values[0] > 0.0:
            raise np.linalg.LinAlgError
        self.G = half @ (vectors * values**-0.25)  # G^-1 Q G^-T = G' Lambda G = Diag(root)
        self.G_inverse, self.root = np.linalg.inv(self.G), np.sqrt(values)
        self.between = self.G_inverse.T @ self.G_inverse
        matrix = self._matrix()
        self.even = 1.0 / np.sqrt(np.diag(matrix))
        self.solve = solver(matrix * self.even[:, None] * self.even)

    def _matrix(self) -> Matrix:
        """lam + H + S B^-1 S'."""
        path, signs, X = self.path, self.path.signs, self.path.problem.X
        n_labels, d = self.here.U.shape
        n_q = len(path.basis)
        found = np.zeros((n_labels * d + self.rest.shape[2],) * 2)
        weight = signs[:, :, None] * self.inverse * signs[:, None, :]
        carried = self.inverse @ self.rest
        blocks = [slice(j * d, (j + 1) * d) for j in range(n_labels)]
        last = slice(n_labels * d, None)
        for j, block in enumerate(blocks):
            deadline.check()
            for k in range(j + 1):
                found[block, blocks[k]] = _gram(X, weight[:, j, k])
            found[last, block] = -((signs[:, j, None] * carried[:, j]).T @ X)
        low = self.rest.reshape(-1, self.rest.shape[2])
        found[last, last] = low.T @ carried.reshape(low.shape)
        turned = self.between @ path.basis @ self.between
        found[last, last][:n_q, :n_q] += np.tensordot(turned, path.basis, ((1, 2), (1, 2)))
        i = np.arange(len(found))
        found[i, i] += path.problem.lam
        v = i[len(i) - len(self.here.v) :]
        found[v, v] += self.here.nu / self.here.v
        return np.tril(found) + np.tril(found, -1).T

    def step(self, mu: float, ahead: _Place | None) -> _Place:
        """The change towards products of ``mu``, corrected by those of the change ``ahead``."""
        here, path = self.here, self.path
        size, n_q = here.U.size, len(path.basis)
        of_z, of_u, of_v = mu - here.r * here.z, mu - here.q * here.u, mu - here.v * here.nu
        near = np.diag(mu - self.root**2)  # what products of Q and Lambda are wanted to change by, between G and G'
        if ahead is not None:
            of_z, of_u, of_v = of_z - ahead.r * ahead.z, of_u - ahead.q * ahead.u, of_v - ahead.v * ahead.nu
            second = self.G_inverse @ ahead.Q @ ahead.Lambda @ self.G
            near = near - 0.5 * (second + second.T)
        of_q = self.G_inverse.T @ (2.0 * near / np.add.outer(self.root, self.root)) @ self.G_inverse
        right = of_z / here.r - of_u / here.q - self.slope
        off_u, off_q, off_v = self.off
        wanted = np.concatenate((-off_u.ravel(), np.tensordot(path.basis, of_q - off_q), of_v / here.v - off_v))
        moved = np.einsum("nij,nj->ni", self.inverse, right)
        found = self.even * self.solve(self.even * (wanted + self._forth(moved)))
        dr = np.einsum("nij,nj->ni", self.inverse, right - self._back(found))
        dq, dv = np.tensordot(found[size : size + n_q], path.basis, 1), found[size + n_q :]
        dlambda = of_q - self.between @ dq @ self.between
        return _Place(
            dr, -dr, (of_z - here.z * dr) / here.r, (of_u + here.u * dr) / here.q,
            found[:size].reshape(here.U.shape), dq, 0.5 * (dlambda + dlambda.T), dv, (of_v - here.nu * dv) / here.v,
        )  # fmt: skip

    def _forth(self, dr: Matrix) -> Vector:
        """S dr."""
        of_u = -((self.path.signs * dr).T @ self.path.problem.X)
        return np.concatenate((np.asarray(of_u).ravel(), np.tensordot(self.rest, dr, ((0, 1), (0, 1)))))

    def _back(self, dw: Vector) -> Matrix:
        """S' dW; (N, L)."""
        size = self.here.U.size
        of_u = self.path.problem.X @ dw[:size].reshape(self.here.U.shape).T
        return np.asarray(self.rest @ dw[size:] - self.path.signs * of_u)


def _gram(X: Any, weight: Vector) -> Tensor:
    """X' Diag(weight) X."""
    if sp.issparse(X):
        return np.asarray((X.T @ X.multiply(weight[:, None])).todense())
    return np.asarray(X.T @ (weight[:, None] * X))
