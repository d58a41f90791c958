r"""The conditional random field of paper 2, E.2, in explicit features: what the kernel CRF is with a linear kernel.

    min_w  lam/2 (|W|^2 + |V|^2 / eta) + sum_i [ln sum_y e^{score_i(y)} - score_i(y_i)],
           score(y) = sum_p x_p'W[:, y_p] + sum_p V[y_{p-1}, y_p]

With k(x, x') = x'x, W = X'A and V = eta B they are one problem: |W|^2 = <A, G A>, |V|^2 / eta = eta |B|^2, X W = G A.
Here it is minimised in w = (W, V / sqrt(eta)), by SciPy's L-BFGS and with no kernel anywhere, and certified by its own
gradient: P - P* <= |grad|^2 / (2 lam), because the prior makes it lam-strongly convex.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.optimize import minimize

from convexstruct.arrays import Labels, Matrix, Vector
from convexstruct.core.certificates import relative_gap
from convexstruct.graphs import Chains, chains
from convexstruct.oracles.chain.chain import sum_product, viterbi

#: Steps that L-BFGS remembers, and the most it may take.
MEMORY = 60
ITERATIONS = 5000


@dataclass(frozen=True)
class Fitted:
    """w and its bounds. primal, lower_bound : of the optimum. iterations, seconds : of the run."""

    w: Vector
    primal: float
    lower_bound: float
    iterations: int
    seconds: float

    @property
    def gap(self) -> float:
        return relative_gap(self.primal, self.lower_bound)


@dataclass(frozen=True, eq=False)
class LinearCRF:
    """inputs : (L_i, d) by sequence. labels : (L_i,) by sequence. n_labels : S. eta, lam as in the kernel CRF."""

    inputs: Sequence[Matrix]
    labels: Sequence[Labels]
    n_labels: int
    eta: float
    lam: float

    @cached_property
    def chains(self) -> Chains:
        return chains([len(one) for one in self.labels])

    @cached_property
    def x(self) -> Matrix:
        """All inputs, packed; shape (P, d)."""
        return np.asarray(np.concatenate(self.inputs)[self.chains.packed])

    def split(self, w: Vector) -> tuple[Matrix, Matrix]:
        """(W (d, S), V (S, S)), the scores' weights."""
        s = self.n_labels
        return w[: -s * s].reshape(-1, s), np.sqrt(self.eta) * w[-s * s :].reshape(s, s)

    @cached_property
    def truth(self) -> Vector:
        """The features of the true labellings; same layout as w."""
        packed = np.concatenate(self.labels)[self.chains.packed]
        pairs = np.zeros((self.n_labels, self.n_labels))
        np.add.at(pairs, (packed[self.chains.previous], packed[self.chains.later]), 1.0)
        return self._features(np.eye(self.n_labels)[packed], pairs)

    def objective(self, w: Vector) -> tuple[float, Vector]:
        """The value and the gradient."""
        label, transition = self.split(w)
        sums = sum_product(self.chains, self.x @ label, transition)
        value = 0.5 * self.lam * float(w @ w) - float(self.truth @ w) + float(sums.log_partition.sum())
        return value, self.lam * w - self.truth + self._features(sums.node, sums.edge)

    def fit(self, gap: float) -> Fitted:
        """Minimise until the certified relative gap is within ``gap``, or nothing more can be gained."""
        begin = time.perf_counter()
        found = self._fitted(np.zeros(len(self.truth)), 0)

        def judge(w: Vector) -> None:
            nonlocal found
            found = self._fitted(w.copy(), found.iterations + 1)
            if found.gap <= gap:
                raise StopIteration

        if found.gap > gap:
            options = {"maxcor": MEMORY, "maxiter": ITERATIONS, "maxfun": 2 * ITERATIONS, "ftol": 0.0, "gtol": 0.0}
            minimize(self.objective, found.w, jac=True, method="L-BFGS-B", callback=judge, options=options)
        return replace(found, seconds=time.perf_counter() - begin)

    def predict(self, w: Vector, inputs: Sequence[Matrix]) -> list[Labels]:
        """The best labelling of each sequence."""
        laid, node, edge = self._scores(w, inputs)
        return [np.asarray(part) for part in laid.split(viterbi(laid, node, edge)[1][laid.flat])]

    def posteriors(self, w: Vector, inputs: Sequence[Matrix]) -> list[Matrix]:
        """The probability of each label at each position, by sequence (length, S)."""
        laid, node, edge = self._scores(w, inputs)
        return [np.asarray(part) for part in laid.split(sum_product(laid, node, edge).node[laid.flat])]

    def _scores(self, w: Vector, inputs: Sequence[Matrix]) -> tuple[Chains, Matrix, Matrix]:
        label, transition = self.split(w)
        laid = chains([len(one) for one in inputs])
        return laid, (np.concatenate(list(inputs)) @ label)[laid.packed], transition

    def _fitted(self, w: Vector, iterations: int) -> Fitted:
        value, gradient = self.objective(w)
        return Fitted(w, value, value - float(gradient @ gradient) / (2.0 * self.lam), iterations, 0.0)

    def _features(self, node: Matrix, edge: Matrix) -> Vector:
        return np.concatenate(((self.x.T @ node).ravel(), np.sqrt(self.eta) * edge.ravel()))
