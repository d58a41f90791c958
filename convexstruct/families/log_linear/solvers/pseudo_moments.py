r"""Pseudo-moment matching (paper 4, 20.5): parameters in closed form from the data's own clique marginals.

At a fixed point of learning by belief propagation the beliefs have the moments of the data. In a tabular model these
are the marginals of the factors, beta_c = P^(x_c), so that no inference is needed: parameters with exactly these
beliefs are

    table_c = ln beta_c - sum_{v in c} ln beta_v,      table_v = ln beta_v

where mu = beta_v is what two clusters share (the slide divides each potential by one mu of its edges, which is the
same distribution). Where a variable has no table of its own, the first factor that holds it does not subtract it. On
trees this is the maximum of the likelihood, and a `MarkovRandomField` certifies it. Elsewhere it is a fixed point of
belief propagation: nothing is claimed.

The method needs a free parameter for every entry of every table, no penalty, and factors that share at most one
variable; other problems raise ValueError. So do joint labels that never occur: their entries would be -infinity, and no
maximum exists.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

import networkx as nx
import numpy as np

from convexstruct.arrays import Vector
from convexstruct.core.iterate import Iterate
from convexstruct.core.solution import Solution
from convexstruct.families.log_linear.approximate_field import ApproximateField
from convexstruct.families.log_linear.markov_field import MarkovRandomField
from convexstruct.families.log_linear.penalty import NO_PENALTY
from convexstruct.features.graphs.factors import Factors
from convexstruct.validation.arguments import sentence


@dataclass(frozen=True)
class PseudoMoments:
    """Pseudo-moment matching; no options."""

    def iterate(
        self, problem: MarkovRandomField | ApproximateField, start: Solution | None = None
    ) -> Iterator[Iterate]:
        """Yield one iterate, the closed form; ``start`` is not used."""
        if said := unfit(problem):
            raise sentence(said)
        order = problem.factors.design.indices
        point = {"theta": np.empty(problem.dimension)}
        point["theta"][order] = tables(problem.factors, problem.sums[order] / problem.mass)
        said = "pseudo-moment matching: the maximum on trees; elsewhere a fixed point of belief propagation"
        if isinstance(problem, MarkovRandomField):
            value, bound = float(problem.primal(point)), float(problem.dual(point))
            yield Iterate(point, point, value, bound, 1, done=True, message=said)
        else:
            yield Iterate(point, None, math.inf, -math.inf, 0, done=True, message=f"{said}, no bound")


def unfit(problem: MarkovRandomField | ApproximateField) -> str:
    """Why there is no closed form; "" where there is one."""
    factors, penalty = problem.factors, problem.penalty
    if penalty != NO_PENALTY:
        return (
            f"problem has a penalty (lam {penalty.lam:g}, l1 {penalty.l1:g}), wanted none: pseudo-moment matching "
            "takes no penalty, use DoubleLoop"
        )
    design = factors.design
    free = design.shape[0] == design.shape[1] == design.nnz and (design.data == 1).all()
    if not free or len(np.unique(design.indices)) < design.shape[1] or (np.diff(design.indptr) != 1).any():
        return (
            "factors have tied parameters or features, wanted a free parameter for every entry of every table: "
            "pseudo-moment matching is for tabular models, use DoubleLoop"
        )
    wide = [(c, set(scope)) for c, scope in enumerate(factors.scopes) if len(scope) > 1]
    for (c, one), (e, other) in itertools.combinations(wide, 2):
        if len(one & other) > 1:
            return f"scopes[{c}] and scopes[{e}] share {len(one & other)} variables, wanted at most one"
    absent = problem.sums[design.indices] <= 0
    if factors.forbidden is not None:
        absent &= ~factors.forbidden
    if absent.any():
        row = int(np.flatnonzero(absent)[0])
        c = int(np.searchsorted(factors.start, row, side="right")) - 1
        labels = tuple(int(i) for i in np.unravel_index(row - factors.start[c], factors.shapes[c]))
        return (
            f"samples never have labels {labels} of variables {factors.scopes[c]}: without a penalty the likelihood "
            "has no maximum; use a penalty and DoubleLoop"
        )
    return ""


def in_closed_form(problem: MarkovRandomField) -> bool:
    """Whether pseudo-moments are the maximum of the likelihood: the factors form a tree, or several."""
    pairs = [((c,), v) for c, scope in enumerate(problem.factors.scopes) if len(scope) > 1 for v in scope]
    return not unfit(problem) and (not pairs or nx.is_forest(nx.Graph(pairs)))


def tables(factors: Factors, shares: Vector) -> Vector:
    """The stacked tables (T,) whose beliefs are ``shares`` (T,), the data's marginals, positive where they are not
    forbidden."""
    never = np.zeros(len(shares), dtype=bool) if factors.forbidden is None else factors.forbidden
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
