"""A mixture of labellings that grows step by step: the witness of the solvers that use it has their bound."""

from __future__ import annotations

from itertools import islice

import pytest

from convexstruct.families.structured_svm.solvers import labelling_mixture
from convexstruct.families.structured_svm.solvers.block_frank_wolfe import BlockFrankWolfe
from convexstruct.families.structured_svm.solvers.subgradient import Subgradient
from convexstruct.tolerances import ROUNDING
from tests.models.structured_svm.instances import INSTANCES


@pytest.mark.parametrize("name", ["slack scaling, weighted, a cost matrix", "associative chains, three labels"])
@pytest.mark.parametrize(
    "solver",
    [BlockFrankWolfe(block=2, average=False), *(Subgradient(block=size, average=False) for size in (1, 2))],
)
@pytest.mark.parametrize("least", [labelling_mixture.LEAST_FACTOR, 0.5])
def test_the_witness_is_the_distribution_that_the_steps_lead_to(
    solver: BlockFrankWolfe | Subgradient, least: float, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Psi of the mixture, projected in an associative network, is lam w, also after later steps; at 0.5 the common
    factor is multiplied out all the time."""
    monkeypatch.setattr(labelling_mixture, "LEAST_FACTOR", least)
    problem = INSTANCES[name]()
    for iterate in list(islice(solver.iterate(problem), 12)):
        assert callable(iterate.dual_point)
        psi, loss = problem.aggregate(iterate.dual_point())
        assert problem.project(psi) / problem.lam == pytest.approx(iterate.point["w"], abs=ROUNDING)
        assert problem.dual_value(psi, loss) == pytest.approx(iterate.lower_bound, abs=ROUNDING)
