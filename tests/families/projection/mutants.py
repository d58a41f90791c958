"""Projections that are wrong on purpose, each by one plausible mistake: verification must refuse them all.

Each is the package's own solver with one thing changed, in the problem that it gets or in the answer that it returns.
`honest` is the solver unchanged.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from convexstruct.core.driver import solve
from convexstruct.families.projection.box import BoxProjection
from convexstruct.families.projection.solvers.marginal_ascent import MarginalAscent
from convexstruct.families.projection.tables import MarginalProjection
from convexstruct.oracles.polytope.clique_tables import CliqueTables
from convexstruct.tolerances import HIGH
from tests.mutants import ABOVE, TOO_GOOD, Mutant, common, honest, of_changed, writes_to

Projection = BoxProjection | MarginalProjection


# -- boxes -------------------------------------------------------------------------------------------------------------


def no_equality(problem: BoxProjection) -> Any:
    """Clips m and forgets <s, a> = z."""
    return np.clip(problem.m, problem.lower, problem.upper)


def clips_afterwards(problem: BoxProjection) -> Any:
    """Projects onto the plane first, then clips."""
    free = replace(problem, lower=-np.inf, upper=np.inf)
    return np.clip(honest(free).point["a"], problem.lower, problem.upper)


def scales_instead(problem: BoxProjection) -> Any:
    """Clips at 0 and divides by the sum."""
    a = np.maximum(problem.m, 0.0)
    return a * problem.z / a.sum()


def weight_not_squared(problem: BoxProjection) -> Any:
    """d_i (a_i - m_i)^2 where the paper has d_i^2."""
    return honest(replace(problem, d=np.sqrt(problem.d))).point


def positive_signs(problem: BoxProjection) -> Any:
    """The paper's "without loss of generality s > 0" is assumed of the data: the answer is that of |s|."""
    s = np.abs(problem.s)
    reachable = float(np.sum(s * np.clip(problem.m, problem.lower, problem.upper)))
    return honest(replace(problem, s=s, z=reachable)).point


def one_kink_late(problem: BoxProjection) -> Any:
    """Returns the breakpoint next to the root for rho, not the root."""
    solution = honest(problem)
    assert solution.dual_point is not None
    slope = problem.s / problem.weight
    kinks = np.concatenate(((problem.m - problem.lower) / slope, (problem.m - problem.upper) / slope))
    rho = float(solution.dual_point["rho"])
    return problem.at(float(kinks[np.argmin(np.abs(kinks - rho))]))


def rho_turned_round(problem: BoxProjection) -> Any:
    """Returns -rho, and claims the bound of rho."""
    solution = honest(problem)
    assert solution.dual_point is not None
    return {
        "point": solution.point,
        "dual_point": {"rho": -solution.dual_point["rho"]},
        "lower_bound": solution.lower_bound,
    }


# -- clique tables -----------------------------------------------------------------------------------------------------


def _without_agreements(problem: MarginalProjection) -> MarginalProjection:
    of = problem.structure
    return replace(problem, structure=CliqueTables(of.cards, of.component, (), of.n_components))


def no_agreement(problem: MarginalProjection) -> Any:
    """Every clique is projected onto its own simplex."""
    return honest(_without_agreements(problem)).point


def no_agreement_claimed(problem: MarginalProjection) -> Any:
    """The same, made to agree afterwards; claims the value of the problem without agreements."""
    loose = honest(_without_agreements(problem))
    return {"point": problem.repair(loose.point), "primal": loose.primal}


def one_way_agreement(problem: MarginalProjection) -> Any:
    """Edges agree with the node on their left only."""
    of = problem.structure
    half = replace(problem, structure=CliqueTables(of.cards, of.component, of.agreements[:1], of.n_components))
    return honest(half).point


def scale_of_one(problem: MarginalProjection) -> Any:
    """Tables sum to 1, not to C / N."""
    return honest(replace(problem, scale=np.ones_like(problem.scale))).point


def scaled_afterwards(problem: MarginalProjection) -> Any:
    """Projects onto tables that sum to 1 and multiplies the answer by z."""
    a = scale_of_one(problem)["a"]
    views = problem.structure.split(a)
    for table, component in zip(views, problem.structure.component):
        table *= problem.scale[component].reshape(-1, *(1,) * (table.ndim - 1))
    return a


def transposed(problem: MarginalProjection) -> Any:
    """Edge tables read as [label after, label before]."""
    tables = problem.tables(honest(problem).point)
    return {**tables, "edge": tables["edge"].transpose(0, 2, 1)}


def may_be_negative(problem: MarginalProjection) -> Any:
    """a >= 0 is dropped: the projection onto the plane of all equations, by least squares."""
    structure = problem.structure
    rows = []
    for unit in np.eye(structure.n_entries):
        tables = structure.split(unit)
        sums = [table.sum(axis=tuple(range(1, table.ndim))) for table in tables]
        rows.append(np.concatenate([*sums, *(each.ravel() for each in structure.disagreement(tables))]))
    equations = np.array(rows).T
    right = np.zeros(len(equations))
    right[: len(right) - structure.n_multipliers] = np.concatenate([problem.scale[c] for c in structure.component])
    return problem.m - np.linalg.lstsq(equations, equations @ problem.m - right)[0]


def stops_early(problem: MarginalProjection) -> Any:
    """Three steps, made feasible."""
    return solve(problem, MarginalAscent(steps=3), tol=HIGH, max_iterations=1).point


MUTANTS: tuple[Mutant, ...] = (
    Mutant("no_equality", "<s, a> = z is forgotten", no_equality, "box-planted", "<s, a> off z", "is m only clipped"),
    Mutant(
        "clips_afterwards", "it clips after projecting", clips_afterwards, "box-planted", "<s, a> off z", "rho wrong"
    ),
    Mutant("scales_instead", "it normalises", scales_instead, "box-simplex", ABOVE),
    Mutant("no_upper_bound", "no upper bound", of_changed(upper=np.inf), "box-capped", "a above", "without the upper"),
    Mutant("unweighted", "d is left out", of_changed(d=1.0), "box-planted", ABOVE, "without d"),
    Mutant("weight_not_squared", "d stands for d^2", weight_not_squared, "box-capped", ABOVE, "d in place of d^2"),
    Mutant("positive_signs", "s is taken as positive", positive_signs, "box-signs", "<s, a> off z", "only clipped"),
    Mutant("one_kink_late", "it stops at a breakpoint", one_kink_late, "box-bias", "<s, a> off z", "rho wrong"),
    Mutant("rho_turned_round", "rho has the wrong sign", rho_turned_round, "box-planted", "its dual point proves only"),
    Mutant("no_agreement", "no marginals agree", no_agreement, "tables-grid", "marginals that disagree", "by itself"),
    Mutant("no_agreement_claimed", "their cost is hidden", no_agreement_claimed, "tables-grid", TOO_GOOD),
    Mutant("one_way_agreement", "one side agrees", one_way_agreement, "tables-margins", "marginals that disagree"),
    Mutant("scale_of_one", "z is 1", scale_of_one, "tables-margins", "tables that do not sum", "is z left"),
    Mutant("scaled_afterwards", "z is multiplied in afterwards", scaled_afterwards, "tables-margins", ABOVE),
    Mutant("transposed", "edges are transposed", transposed, "tables-margins", "that disagree", "[first, second]"),
    Mutant("may_be_negative", "a >= 0 is dropped", may_be_negative, "tables-triples", "a below 0"),
    Mutant(
        "changed_input",
        "it writes to its input",
        writes_to(lambda problem: problem.m),
        "box-planted",
        "changes its input",
    ),
    Mutant("stops_early", "it stops after three steps", stops_early, "tables-margins", ABOVE),
    *common(loosened_bound="tables-tree", not_a_number="tables-loop"),
)
