"""Where no bound improves, for want of digits, a run ends."""

from __future__ import annotations

from itertools import islice

import pytest

from convexstruct.core.iterate import Solver
from convexstruct.families.generative_margin import CoordinateWorkingSets, EntropicProximal, ProximalRSD
from convexstruct.tolerances import MID
from tests.models.generative_margin.instances import INSTANCES

#: Solvers with a PATIENCE (of method, proximal_rsd and working_sets), an instance that ends by it alone, and the rounds
#: that it takes at most.
ENDS: list[tuple[Solver, str, int]] = [
    (EntropicProximal(), "hamming loss, two states", 120),
    (ProximalRSD(), "ring loss, ragged, weighted", 400),
    (CoordinateWorkingSets(1), "ring loss, ragged, weighted", 400),
]


@pytest.mark.parametrize(("solver", "instance", "rounds"), ENDS, ids=[type(each[0]).__name__ for each in ENDS])
def test_a_run_ends_where_nothing_improves(solver: Solver, instance: str, rounds: int) -> None:
    iterates = []
    for iterate in islice(solver.iterate(INSTANCES[instance]()), rounds):
        iterates.append(iterate)
        if iterate.done:
            break
    assert iterates[-1].done
    best, bound = min(each.primal for each in iterates), max(each.lower_bound for each in iterates)
    assert best - bound <= 1e-3 * MID.gap * abs(best)
