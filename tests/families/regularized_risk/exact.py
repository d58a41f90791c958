"""The optimum of a tiny risk without weights and free offsets, to 150 digits: every set of active pieces is tried."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal, localcontext
from itertools import combinations, product

import scipy.sparse as sp

from convexstruct.families.regularized_risk.problem import RegularizedRisk

#: Digits of all sums, and the share of the largest term by which the equations of a set of active pieces may be off: a
#: singular set is off by more, or solves them as well.
DIGITS, LEFT = 300, Decimal("1e-150")


def optimum(problem: RegularizedRisk) -> Decimal:
    """J* by its KKT conditions: with S_g the active pieces of group g, the zero piece among them, and G = A A', alpha
    and xi solve

        c_p - (G alpha)_p / lam = xi_g  for p in S_g,      sum of alpha over S_g = share_g,

    and are optimal where alpha >= 0 and no other piece of a group is above xi_g.
    """
    with localcontext() as context:
        context.prec = DIGITS
        return _optimum(problem)


def _optimum(problem: RegularizedRisk) -> Decimal:
    A, loss, zero = problem.matrix(), problem.loss, Decimal(0)
    rows = [[Decimal(float(x)) for x in row] for row in (A.toarray() if sp.issparse(A) else A)]
    c = [Decimal(float(x)) for x in loss.offset]
    groups = [list(range(i, j)) for i, j in zip(loss.start[:-1].tolist(), loss.start[1:].tolist())]
    if loss.floor:
        for group in groups:
            group.append(len(rows))
            rows.append([zero] * len(rows[0]))
            c.append(zero)
    lam, share = Decimal(problem.lam), 1 / Decimal(len(groups))
    gram = [[sum((x * y for x, y in zip(left, right)), zero) / lam for right in rows] for left in rows]
    for sets in product(*([*_subsets(group)] for group in groups)):
        active = [(p, g) for g, chosen in enumerate(sets) for p in chosen]
        system = [
            [gram[p][r] for r, _ in active] + [Decimal(int(g == h)) for h in range(len(groups))] + [c[p]]
            for p, g in active
        ]
        system += [
            [Decimal(int(g == h)) for _, g in active] + [zero] * len(groups) + [share] for h in range(len(groups))
        ]
        found = solved(system)
        if found is None or min(found[: len(active)]) < 0:
            continue
        xi = found[len(active) :]
        pull = [sum((row[p] * a for (p, _), a in zip(active, found)), zero) for row in gram]
        if all(c[p] - pull[p] <= xi[g] for g, group in enumerate(groups) for p in group if (p, g) not in active):
            return sum((a * pull[p] for (p, _), a in zip(active, found)), zero) / 2 + share * sum(xi)
    raise AssertionError("no set of active pieces is optimal")


def _subsets(group: list[int]) -> Iterator[tuple[int, ...]]:
    return (chosen for size in range(1, len(group) + 1) for chosen in combinations(group, size))


def solved(system: list[list[Decimal]]) -> list[Decimal] | None:
    """The solution of the rows (coefficients, right side), by elimination; None where there is none that is unique."""
    rows = [list(row) for row in system]
    for k in range(len(rows)):
        at = max(range(k, len(rows)), key=lambda i: abs(rows[i][k]))
        if not rows[at][k]:
            return None
        rows[k], rows[at] = rows[at], rows[k]
        for row in rows[k + 1 :]:
            if row[k]:
                factor = row[k] / rows[k][k]
                row[k:] = [x - factor * y for x, y in zip(row[k:], rows[k][k:])]
    found: list[Decimal] = []
    for k in reversed(range(len(rows))):
        known = sum((x * y for x, y in zip(rows[k][k + 1 : -1], found)), Decimal(0))
        found.insert(0, (rows[k][-1] - known) / rows[k][k])
    for row in system:
        terms = [x * y for x, y in zip(row, found)] + [-row[-1]]
        if abs(sum(terms, Decimal(0))) > LEFT * max(abs(term) for term in terms):
            return None
    return found
