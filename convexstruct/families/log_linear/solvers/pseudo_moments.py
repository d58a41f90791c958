r"""Pseudo-moment matching (paper 4, 20.5): parameters in closed form from the data's own clique marginals.

At a fixed point of learning by belief propagation the beliefs have the moments of the data. In a tabular model these
are the marginals of the factors, beta_c = P^(x_c), so that no inference is needed: parameters with exactly these
beliefs are

    table_c = ln beta_c - sum_{v in c} ln beta_v,      table_v = ln beta_v

where mu = beta_v is what two clusters share (the slide divides each potential by one mu of its edges, which is the
same distribution). Where a variable has no table of its own, the first factor that holds it does not subtract it. On
trees this is the maximum of the likelihood. Elsewhere it is a fixed point of belief propagation: nothing is claimed.

The method needs a free parameter for every entry of every table, no penalty, and factors that share at most one
variable; other problems raise ValueError. So do joint labels that never occur: their entries would be -infinity, and no
maximum exists.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from convexstruct.arrays import Index, Vector
from convexstruct.core.iterate import Iterate
from convexstruct.core.solution import Solution
from convexstruct.families.log_linear.approximate_field import ApproximateField
from convexstruct.families.log_linear.markov_field import MarkovRandomField
from convexstruct.features.graphs.factors import Factors
from convexstruct.validation.arguments import sentence


@dataclass(frozen=True)
class PseudoMoments:
    """Pseudo-moment matching; no options."""

    def iterate(
        self, problem: MarkovRandomField | ApproximateField, start: Solution | None = None
    ) -> Iterator[Iterate]:
        """Yield one iterate, the closed form; ``start`` is not used."""
        penalty = problem.penalty
        if penalty.lam or penalty.l1:
            raise sentence(
                f"problem has a penalty (lam {penalty.lam:g}, l1 {penalty.l1:g}), wanted none: pseudo-moment matching "
                "takes no penalty, use DoubleLoop"
            )
        order = _columns(problem.factors)
        shares = np.asarray(problem.sums[order] / problem.mass)
        theta = np.empty(problem.factors.dimension)
        theta[order] = tables(problem.factors, shares)
        said = "pseudo-moment matching: the maximum on trees; elsewhere a fixed point of belief propagation, no bound"
        yield Iterate({"theta": theta}, None, math.inf, -math.inf, 0, done=True, message=said)


def _columns(factors: Factors) -> Index:
    """The parameter of each entry of the tables; ValueError where parameters are tied, scaled, or of features."""
    design = factors.design
    free = design.shape[0] == design.shape[1] == design.nnz and (design.data == 1).all()
    if not free or len(np.unique(design.indices)) < design.shape[1] or (np.diff(design.indptr) != 1).any():
        raise sentence(
            "factors have tied parameters or features, wanted a free parameter for every entry of every table: "
            "pseudo-moment matching is for tabular models, use DoubleLoop"
        )
    wide = [(c, set(scope)) for c, scope in enumerate(factors.scopes) if len(scope) > 1]
    for (c, one), (e, other) in itertools.combinations(wide, 2):
        if len(one & other) > 1:
            raise sentence(f"scopes[{c}] and scopes[{e}] share {len(one & other)} variables, wanted at most one")
    return np.asarray(design.indices)


def tables(factors: Factors, shares: Vector) -> Vector:
    """The stacked tables (T,) whose beliefs are ``shares`` (T,), the data's marginals.

    Raises
    ------
    ValueError
        If a joint label never occurs; the message names it.
    """
    never = np.zeros(len(shares), dtype=bool) if factors.forbidden is None else factors.forbidden
    absent = (shares <= 0) & ~never
    if absent.any():
        row = int(np.flatnonzero(absent)[0])
        c = int(np.searchsorted(factors.start, row, side="right")) - 1
        labels = tuple(int(i) for i in np.unravel_index(row - factors.start[c], factors.shapes[c]))
        raise sentence(
            f"samples never have labels {labels} of variables {factors.scopes[c]}: without a penalty the likelihood "
            "has no maximum; use a penalty and DoubleLoop"
        )
    each = zip(np.split(shares, factors.start[1:-1]), np.split(never, factors.start[1:-1]), factors.shapes)
    parts = [(part.reshape(shape), out.reshape(shape)) for part, out, shape in each]
    home: dict[int, int] = {}
    for c, scope in sorted(enumerate(factors.scopes), key=lambda each: len(each[1]) > 1):
        for v in scope:
            home.setdefault(v, c)
    found = []
    for c, ((part, out), scope) in enumerate(zip(parts, factors.scopes)):
        table = np.log(np.where(out, 1.0, part))  # the parameter of a forbidden entry has no effect
        for axis, v in enumerate(scope):
            if home[v] != c:
                others = tuple(k for k in range(len(scope)) if k != axis)
                table = table - np.log(part.sum(axis=others, keepdims=True))
        found.append(table.ravel())
    return np.concatenate(found)
