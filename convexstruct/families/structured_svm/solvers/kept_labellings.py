"""The labellings that block-coordinate Frank-Wolfe keeps of an example, their multipliers and their columns.

The column of a labelling y is a(y) = e(y) df(y), with df and e as in `block_frank_wolfe`. Columns of one example are
held as a dense table over the entries of w at which any of them may differ from 0: with sparse features these are few.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from convexstruct.arrays import Index, Matrix, Vector


class Column(NamedTuple):
    """The numbers ``value`` at ``place``, entries of w; those that come several times at a place are to be added up.
    place : None if ``value`` is dense: all entries up to its length."""

    place: Index | None
    value: Vector


class Kept:
    """The labellings kept of an example, the truth first.

    labels : m labellings, in the bytes of their arrays, since these are compared fast.
    alpha, b : (m,) multipliers and losses.
    a, place : columns (m, k), and the entries (k,) of w that they have; a is None where columns are not held.
    gram : (m, m) inner products of the columns, while these are held.
    """

    def __init__(self, truth: bytes, ceiling: float) -> None:
        self.labels, self.alpha, self.b = [truth], np.array([ceiling]), np.zeros(1)
        self.release()

    def release(self) -> None:
        """Drop the columns, which can be computed again."""
        self.a: Matrix | None = None
        self.place: Index | slice = np.zeros(0, np.intp)
        self.gram: Matrix = np.zeros((1, 1))

    @property
    def held(self) -> int:
        """How many numbers the columns and their Gram matrix take."""
        return 0 if self.a is None else self.a.size + self.gram.size + self.a.shape[1]

    def add(self, labels: bytes, lost: float) -> None:
        """A labelling with this loss, without a multiplier."""
        self.labels = [*self.labels, labels]
        self.alpha, self.b = np.append(self.alpha, 0.0), np.append(self.b, lost)

    def extend(self, columns: list[Column], where: Index) -> None:
        """Columns after those held; the truth's is 0. where (d,) : work space, -1 everywhere before and after."""
        old = np.zeros((1, 0)) if self.a is None else self.a
        m, n = len(old), len(columns)
        if columns[0].place is None:
            new = np.array([value for _, value in columns])
            self.place = slice(0, new.shape[1])
            self.a = np.concatenate((old if old.size else np.zeros((1, new.shape[1])), new))
        else:
            assert not isinstance(self.place, slice)
            places = np.concatenate([place for place, _ in columns if place is not None])
            where[self.place] = np.arange(len(self.place))
            more = np.unique(places[where[places] < 0])
            where[more] = len(self.place) + np.arange(len(more))
            self.place = np.concatenate((self.place, more))
            self.a = np.zeros((m + n, len(self.place)))
            self.a[:m, : old.shape[1]] = old
            row = np.repeat(np.arange(m, m + n), [len(value) for _, value in columns])
            at = row * len(self.place) + where[places]
            self.a += np.bincount(at, np.concatenate([value for _, value in columns]), self.a.size).reshape(
                self.a.shape
            )
            where[self.place] = -1
        gram = np.empty((m + n, m + n))
        gram[:m, :m] = self.gram
        gram[m:] = self.a[m:] @ self.a.T
        gram[:m, m:] = gram[m:, :m].T
        self.gram = gram

    def take(self, kept: Index) -> None:
        """Keep some of the labellings, and of their entries of w those that one of them has."""
        self.labels = [self.labels[j] for j in kept]
        self.alpha, self.b = self.alpha[kept], self.b[kept]
        if self.a is not None:
            self.a, self.gram = self.a[kept], self.gram[np.ix_(kept, kept)]
            if not isinstance(self.place, slice):
                used = np.flatnonzero(self.a.any(axis=0))
                self.a, self.place = self.a[:, used], self.place[used]

    def settle(self) -> None:
        """After a visit: drop what has no multiplier, but for the truth. Steps, columns and the Gram matrix grow with
        the labellings kept, and one that is violated again is found again."""
        wanted = self.alpha > 0
        wanted[0] = True
        if not wanted.all():
            self.take(np.flatnonzero(wanted))
