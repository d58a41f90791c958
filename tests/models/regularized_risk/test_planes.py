"""Cutting planes: all of them against loops over choices, those of a few points below J, and BMRM step by step."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from convexstruct.core.solution import Status
from convexstruct.models.regularized_risk.planes import bmrm, bmrm_dual, combinations, mixture
from convexstruct.models.regularized_risk.risk import primal
from convexstruct.tolerances import HIGH
from tests.models.regularized_risk.risks import INSTANCES
from tests.reference import optimum, with_solvers


@pytest.mark.parametrize("name", ["binary", "multiclass, cost", "pieces", "pieces, floor"])
def test_the_planes_are_every_choice_of_one_piece_a_group(name: str) -> None:
    problem = INSTANCES[name]()
    start, floor = problem.loss.start, problem.loss.floor
    choices = [[*range(a, b), *([None] if floor else [])] for a, b in itertools.pairwise(start)]
    written = set()
    for choice in itertools.product(*choices):
        alpha = np.zeros(problem.n_pieces)
        for g, p in enumerate(choice):
            if p is not None:
                alpha[p] = problem.shares[g]
        written.add(tuple(alpha))
    found = combinations(problem).toarray()
    assert {tuple(row) for row in found} == written
    assert len(found) == len(written)


@pytest.mark.parametrize(
    ("name", "solver"), with_solvers(["binary", "binary, bias, weighted", "multiclass, cost", "multilabel", "ordinal"])
)
def test_the_subproblem_and_its_dual_meet_below_the_optimum_and_the_bound_is_certified(name: str, solver: str) -> None:
    problem = INSTANCES[name]()
    expected = optimum(primal(problem)).value
    planes, lower = [problem.subgradient(np.zeros(problem.shape))], -np.inf
    for _ in range(4):
        master, dual = bmrm(problem, planes), bmrm_dual(problem, planes)
        solution = master.solve(solver)
        assert solution.status is Status.OPTIMAL, solution.message
        said = optimum(dual, solver).value
        assert said == pytest.approx(solution.primal, rel=HIGH.gap, abs=HIGH.gap)
        assert max(lower, said) <= expected + HIGH.gap
        assert said >= lower - HIGH.gap  # one plane more can only raise the optimum
        lower = said
        witness = mixture(planes, dual.variables["beta"].value)
        assert problem.dual(witness) >= said - HIGH.gap
        assert problem.dual(mixture(planes, master.dual_values["3"])) >= said - HIGH.gap
        planes.append(problem.subgradient(solution.point["w"]))
