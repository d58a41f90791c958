r"""Labels read from M of the relaxation, and how labels without names are compared with true ones.

For labels y, M_ij = [y_i = y_j], and M - 11'/kappa has the centred indicators of kappa labels as its range, of rank
kappa - 1. So rows of M are placed by the kappa - 1 leading eigenvectors of M - 11'/kappa, each times the root of its
eigenvalue, and grouped: by sign if kappa = 2, else by k-means. C gives no labels, since C = 1/kappa everywhere is
optimal.

The result is a partition; the numbers of its labels are arbitrary. For a comparison with true labels, one map for all
sequences is chosen so that the fewest positions are wrong (paper 3, section 4): an assignment problem.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy
from numpy.typing import ArrayLike
from scipy.linalg import eigh

from convexstruct.arrays import Labels, Matrix
from convexstruct.validation.arguments import sentence, whole
from convexstruct.validation.arrays import real, wholes

#: Rounds of k-means at most; it converges far sooner.
ROUNDS = 1000


def labels_from_gram(M: ArrayLike, n_labels: int) -> Labels:
    """Labels (p1,) from a symmetric matrix M (p1, p1); always the same for the same M. ValueError if M is not square
    and finite, or has fewer rows than there are labels."""
    read = real("M", M, ("rows", "columns"))
    kappa, n = whole("n_labels", n_labels, least=2), len(read)
    if read.shape != (n, n) or n < kappa:
        raise sentence(f"M has shape {read.shape}, wanted a square of at least {kappa} rows, as many as labels")
    # all eigenvectors: LAPACK returns none of a subset that cuts through an eigenvalue of multiplicity n - 1
    values, vectors = (part[..., 1 - kappa :] for part in eigh(0.5 * (read + read.T) - 1.0 / kappa))
    if kappa == 2:
        return np.asarray(vectors[:, 0] * np.sign(vectors[np.abs(vectors[:, 0]).argmax(), 0]) < 0, dtype=np.int64)
    return k_means(vectors * np.sqrt(np.maximum(values, 0.0)), kappa)


def k_means(points: Matrix, n_groups: int) -> Labels:
    """Groups (n,) of points (n, d) by Lloyd's iteration, from a deterministic start: the point farthest
    from 0, then each time the point farthest from those chosen."""
    far = (points**2).sum(axis=1)
    chosen: list[int] = []
    for _ in range(n_groups):
        chosen.append(int(far.argmax()))
        away = ((points - points[chosen[-1]]) ** 2).sum(axis=1)
        far = away if len(chosen) == 1 else np.minimum(far, away)
    centres, labels = points[chosen], np.full(len(points), -1, dtype=np.int64)
    for _ in range(ROUNDS):
        nearest = ((points[:, None] - centres) ** 2).sum(axis=2).argmin(axis=1)
        if (nearest == labels).all():
            break
        labels = nearest.astype(np.int64)
        for group in np.unique(labels):
            centres[group] = points[labels == group].mean(axis=0)
    return labels


class Named(NamedTuple):
    """names (n_predicted,): the true label that each predicted one stands for, -1 if for none. error: share of wrong
    positions under that map, the least of all maps that give different labels different names, or of all maps."""

    names: Labels
    error: float


def best_names(predicted: Any, true: Any, shared: bool = False) -> Named:
    """The best map from predicted to true labels, over all positions; arrays (n,), or lists of arrays of one length.
    With ``shared`` several predicted labels may have one name. ValueError if they differ in length or are empty."""
    one, other = (_flat(name, each) for name, each in (("predicted", predicted), ("true", true)))
    if len(one) != len(other):
        raise sentence(f"predicted has {len(one)} labels, wanted one for each of the {len(other)} true ones")
    counts = np.zeros((int(one.max()) + 1, int(other.max()) + 1), dtype=np.int64)
    np.add.at(counts, (one, other), 1)
    shares = (np.arange(len(counts)), counts.argmax(axis=1))
    rows, columns = shares if shared else scipy.optimize.linear_sum_assignment(counts, maximize=True)
    names = np.full(len(counts), -1, dtype=np.int64)
    names[rows] = columns
    return Named(names, 1.0 - float(counts[rows, columns].sum()) / len(one))


def _flat(name: str, labels: Any) -> Labels:
    """One array, or a list of arrays one after the other."""
    if isinstance(labels, list) and labels and isinstance(labels[0], (list, tuple, np.ndarray)):
        each = (wholes(f"{name}[{i}]", part, ("positions",), least=0) for i, part in enumerate(labels))
        return np.concatenate(list(each))
    return wholes(name, labels, ("positions",), least=0)
