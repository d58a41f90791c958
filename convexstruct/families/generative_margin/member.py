r"""The member (mu, omega) of script-D that a dual witness of problem (P) defines, with its errors.

The data (c, eta, weights, losses) are taken to be exactly the doubles that are stored. A share b of a labelling or
distribution in example k means beta = eta p times it, where p is the rounded product b w_k, and the p of an example are
made to sum to less than w_k. Where c = 0 for a whole column of entries that every labelling uses equally often in all,
mu must be 0 there exactly: sums of p that cancel do so without error (`binned`), and of any other sum `near` proves it
of a member near by.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp

from convexstruct import deadline
from convexstruct.arrays import Index, Labels, Vector
from convexstruct.core.mixtures import Mixture
from convexstruct.features.counts import bounds
from convexstruct.features.counts.counts import Counts
from convexstruct.features.counts.rescaled import LossRescaled
from convexstruct.rounding import GREATEST, OUTWARD, UNIT, Rounded, RoundedArray, binned, dot, exact, gamma


@dataclass(frozen=True)
class Evaluation:
    """P at theta, and (mu, omega) of a maximising labelling: mu - c is a subgradient of P at theta.

    value : P(theta). slack (K,) : eps_k. labels (P,) : the maximising labelling. mu (d,), omega : its script-D point.
    """

    value: float
    slack: Vector
    labels: Labels
    mu: Vector
    omega: float


@dataclass(frozen=True)
class Member:
    """A member of script-D: mu (d,) and omega, with their errors; b (K,), at least 1'beta_k / (eta w_k)."""

    mu: RoundedArray
    omega: Rounded
    b: Vector = field(default_factory=lambda: np.zeros(0))


def digest(arrays: Iterable[Any]) -> bytes:
    """A number that tells witnesses apart."""
    found = hashlib.blake2b()
    for array in arrays:
        found.update(f"{array.dtype}{array.shape}".encode())
        found.update(np.ascontiguousarray(array).data)
    return found.digest()


def combined(
    features: Counts, truth: sp.csr_array, mixture: Mixture, mass: Vector | None = None, most_mass: float = np.inf
) -> tuple[RoundedArray, Rounded, Vector]:
    """(mu / eta, omega / eta, b) of a witness; negative shares count as 0, and shares that may sum to more than 1 are
    scaled down.

    features : the map of the rows (3), with Gibbs distributions unless it is `LossRescaled`. truth (K, d) :
    counts_k(s*). mass (K,) : multiplies the shares of each example, 1 by default; the sum of these
    products is lowered to ``most_mass`` where it is above.
    """
    if np.ptp(mixture.gibbs_shares, axis=1).any():
        raise ValueError("gibbs_shares must give one distribution the same share in every example")
    with np.errstate(all="ignore"):
        p = np.maximum(np.concatenate((mixture.label_shares, mixture.gibbs_shares)), 0.0)
        most = float(np.max(p.sum(axis=0), initial=0.0)) * (1.0 + gamma(len(p) + 8))
        if most > 1.0:
            p = p * (1.0 / most) * (1.0 - 8.0 * UNIT)
        if mass is not None:
            p = p * np.maximum(mass, 0.0)
            p = p * np.minimum(1.0, most_mass * (1.0 - gamma(len(p) + 16)) / np.maximum(p.sum(axis=0), 1e-300))
        masses = p.sum(axis=0) * (1.0 + gamma(len(p) + 8))
        p = p * features.examples.weights
        p[p < 1.0 / GREATEST] = 0.0  # products so small may have large relative errors
        rise, omega = exact(np.zeros(truth.shape[1])), Rounded(0.0)
        labelled = list(zip(mixture.labels, p))
        for theta, b, each in zip(mixture.gibbs, mixture.gibbs_loss, p[len(labelled) :]):
            deadline.check()
            if each.any():
                found = bounds.moments(features, theta, float(b), each)
                rise, omega = rise + found.rise, omega + found.loss
                labelled.append((found.base, each))
        plain = features.features if isinstance(features, LossRescaled) else features
        index, terms, errors = [np.zeros(0, dtype=np.intp)], [np.zeros(0)], [np.zeros(0)]
        hidden = np.bincount(features.examples.example, minlength=len(features.examples))
        for row, each in labelled:
            deadline.check()
            if not each.any():
                continue
            row = row.astype(np.int64)  # labels may come in one byte each; indices computed from them need more
            difference = plain.counts_each(row) - truth
            uses = np.abs(difference.data).astype(np.intp)  # so many terms p, rather than a product that is rounded
            loss = RoundedArray(features.loss(row), gamma(int(hidden.max()) + 4) * features.loss(row))
            used = exact(each) if plain is features else exact(each) * loss
            of_example = np.repeat(np.arange(len(each)), np.diff(difference.indptr))
            index.append(np.repeat(difference.indices, uses).astype(np.intp))
            terms.append(np.repeat(np.sign(difference.data) * used.value[of_example], uses))
            errors.append(np.repeat(used.errors[of_example], uses))
            omega = omega + dot(each, loss)
        of_labels = RoundedArray(np.concatenate(terms), np.concatenate(errors))
        return rise + binned(of_labels, np.concatenate(index), rise.value.size), omega, masses


def member(
    features: Counts, c: Vector, eta: float, rise: RoundedArray, omega: Rounded, masses: Vector, lightest: float
) -> Member:
    """The member of script-D that eta times what is `combined` defines, or one near by. lightest : the least w_k."""
    with np.errstate(all="ignore"):
        rise, short = near(features, c, rise, lightest)
        omega = Rounded.of(omega, omega.allowance, short * (omega + omega.allowance))
        return Member(eta * rise, eta * omega, masses + short)


def ruled_out(features: Counts, c: Vector) -> list[Index]:
    """The columns of entries whose counts add up to the same for every labelling, and in which all of c is 0."""
    return [column for column in bounds.shared_columns(features) if not c[column].any()]


def near(features: Counts, c: Vector, found: RoundedArray, lightest: float) -> tuple[RoundedArray, float]:
    """(rise, short) of a nearby member with mu = 0 exactly where mu <= c demands it; else unchanged.

    Where c = 0 in a whole column of entries whose counts add up to a constant (every state that may emit a symbol which
    c rules out), mu <= c means mu = 0 there, and no sum in floating point is 0 for certain. But mu is 0 for some real
    mixture near by: one that gives up a share ``short`` for labellings which differ from the truth at one position
    each, and which move the excess of one entry to others that lack as much. Their shares need not be known: what they
    take from mu elsewhere, and what they add to omega, raises D, and what they add to a few other entries is bounded.
    Where the loss rescales the counts, a b_k(s)-th of each labelling's counts is as much as was asked for.
    """
    rise, error = found.value.copy(), found.errors * OUTWARD
    columns = ruled_out(features, c)
    zero, moved, short = np.zeros(len(c), dtype=bool), np.zeros_like(rise), 0.0
    least = features.least_loss if isinstance(features, LossRescaled) else 1.0
    zero[[entry for column in columns for entry in column]] = True
    for column in columns:
        much, little = np.maximum(rise + error, 0.0)[column], np.maximum(error - rise, 0.0)[column]
        tight = zero | ((c == 0) & (rise + error > -8.0 * float(much.sum())))
        for i, j in zip(*np.nonzero((much[:, None] > 0) & (little > 0) & ~np.eye(len(column), dtype=bool))):
            for ways in bounds.gained(features, int(column[i]), int(column[j])):
                good = ways[~tight[ways].any(axis=1)]
                if len(good):  # the first by its entries, in whatever order the examples come
                    first = np.array(min(good.tolist()), dtype=np.intp)
                    np.add.at(moved, first, 2.0 * min(much[i], little[j]))
                    break
            else:
                return found, 0.0
        short += 2.0 * float(much.sum()) / (lightest * least)
    if not 0.0 < short < 0.5:
        return found, 0.0
    error += 1.001 * (moved + short * np.abs(rise))
    rise[zero] = error[zero] = 0.0
    return RoundedArray(rise, error), short
