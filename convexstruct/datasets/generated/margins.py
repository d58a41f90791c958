r"""Generated sets for binary classification, dense and sparse, in place of paper 2's data where these are missing.

    dense    x Gaussian, standard deviation of coordinate j ~ (1 + j)^-1/2, scaled to E|x|^2 = 1
    sparse   rows like documents: words drawn with probability ~ 1/(10 + rank), x = log(1 + count), scaled to |x| = 1
    labels   y = sign(<w*, x> + b*), w* Gaussian, b* such that a share ``positives`` is positive; then a share ``flips``
             of all labels changes sign, so that no hyperplane separates the set

Solvers differ on these sets because of the decaying spectrum of the dense one and the long tail of the sparse one; the
flips keep some margins violated at the optimum.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from convexstruct.arrays import Labels, Matrix, Vector
from convexstruct.brief import brief
from convexstruct.validation.arguments import number, sized, whole
from convexstruct.validation.arguments import seed as read_seed


@dataclass(frozen=True, eq=False)
class BinarySet:
    """Rows and labels, and the hyperplane they came from.

    features : (n, d), an array, or CSR from `sparse_margins`. labels : (n,) in {-1, +1}. w (d,), bias : the hyperplane
    that gave the labels, before some were flipped.
    """

    features: Matrix | sp.csr_array
    labels: Labels
    w: Vector
    bias: float

    __repr__ = brief


def dense_margins(n: int, d: int, *, flips: float = 0.1, positives: float = 0.5, seed: int = 0) -> BinarySet:
    """A dense set of n rows in d dimensions.

    Raises
    ------
    ValueError
        If n or d is below 1, or a share is outside its range: flips in [0, 1/2), positives in (0, 1).
    """
    n, d = whole("n", n, least=1), whole("d", d, least=1)
    _shares(flips, positives)
    sized("n", n, n * d)
    rng = np.random.default_rng(read_seed("seed", seed))
    spread = (1.0 + np.arange(d)) ** -0.5
    x = rng.normal(size=(n, d)) * (spread / np.sqrt(spread @ spread))
    return _labelled(x, flips, positives, rng)


def sparse_margins(
    n: int, d: int, *, words: int = 40, flips: float = 0.05, positives: float = 0.5, seed: int = 0
) -> BinarySet:
    """A sparse set of n rows in d dimensions; each row counts ``words`` words, which may repeat.

    Raises
    ------
    ValueError
        If n, d or words is below 1, or a share is outside its range: flips in [0, 1/2), positives in (0, 1).
    """
    n, d, words = whole("n", n, least=1), whole("d", d, least=1), whole("words", words, least=1)
    _shares(flips, positives)
    sized("n", n, n * words)
    sized("d", d, d)
    rng = np.random.default_rng(read_seed("seed", seed))
    popular = 1.0 / (10.0 + np.arange(d))
    drawn = rng.choice(d, size=n * words, p=popular / popular.sum())
    row = np.repeat(np.arange(n), words)
    counts = sp.csr_array(sp.coo_array((np.ones(n * words), (row, drawn)), shape=(n, d)))
    counts.sum_duplicates()
    value = np.log1p(counts.data)
    of_row = np.repeat(np.arange(n), np.diff(counts.indptr))
    length = np.sqrt(np.bincount(of_row, weights=value**2, minlength=n))
    x = sp.csr_array((value / length[of_row], counts.indices, counts.indptr), shape=(n, d))
    return _labelled(x, flips, positives, rng)


def _labelled(x: Matrix | sp.csr_array, flips: float, positives: float, rng: np.random.Generator) -> BinarySet:
    n, d = x.shape
    w: Vector = np.asarray(rng.normal(size=d))
    score: Vector = np.asarray(x @ w)
    bias = -float(np.quantile(score, 1.0 - positives))
    labels = np.where(score + bias > 0, 1, -1)
    labels[rng.permutation(n)[: round(flips * n)]] *= -1
    return BinarySet(x, labels, w, bias)


def _shares(flips: float, positives: float) -> None:
    number("flips", flips, least=0, below=0.5)
    number("positives", positives, above=0, below=1)
