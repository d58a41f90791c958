"""Where no bound improves, for want of digits, a run ends."""

from __future__ import annotations

from importlib import import_module
from itertools import islice

import pytest

from convexstruct.tolerances import MID
from tests.models.generative_margin.instances import INSTANCES

#: Solvers by the module where their PATIENCE is (method, proximal_rsd, working_sets), an instance
#: that ends by it alone, and the rounds that it takes at most.
ENDS = {
    "entropic_proximal.method": ("EntropicProximal", "hamming loss, two states", 120),
    "proximal_rsd": ("ProximalRSD", "ring loss, ragged, weighted", 400),
    "working_sets": ("CoordinateWorkingSets", "ring loss, ragged, weighted", 400),
}


@pytest.mark.parametrize("name", ENDS)
def test_a_run_ends_where_nothing_improves(name: str) -> None:
    module = import_module(f"convexstruct.families.generative_margin.solvers.{name}")
    solver, instance, rounds = ENDS[name]
    problem = INSTANCES[instance]()
    iterates = []
    for iterate in islice(getattr(module, solver)().iterate(problem), rounds):
        iterates.append(iterate)
        if iterate.done:
            break
    assert iterates[-1].done
    best, bound = min(each.primal for each in iterates), max(each.lower_bound for each in iterates)
    assert best - bound <= 1e-3 * MID.gap * abs(best)
