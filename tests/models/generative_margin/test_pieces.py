"""The formulations of (28)-(30): each agrees with the others on every combination, and certifies itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import cycle, product
from typing import Any

import pytest

from convexstruct.core.solution import Status
from convexstruct.families.generative_margin.constraints import Floor
from convexstruct.families.generative_margin.problem import GenerativeMargin
from convexstruct.families.generative_margin.slack_penalties import Huber, Quadratic
from convexstruct.models import FORMULATIONS
from convexstruct.models.generative_margin import entropy_dual
from convexstruct.tolerances import HIGH
from tests.families.generative_margin.instances import COMBINATIONS, STATED, small_hmm, small_network
from tests.reference import close, optimum

#: Slacks that the loss rescales, alone and with other pieces.
RESCALED: dict[str, dict[str, Any]] = {
    "rescaled": {"rescaled": True},
    "rescaled squares": {"rescaled": True, "h": Quadratic(0.5)},
    "rescaled, floor": {"rescaled": True, "h": Huber(2.0), "constraints": [Floor(-2.5)]},
}
BUILDERS = ("primal", "entropy_dual", "compact_dual", "n_slack")
#: Where constraint generation, whose master states the pieces as the primal does, runs too.
GENERATED = ("quadratic", "capped", "rows", *RESCALED)


@pytest.mark.parametrize(
    ("name", "make"), [*zip(STATED, cycle((small_hmm, small_network))), *product(RESCALED, (small_hmm,))]
)
def test_every_formulation_has_one_optimum_and_certifies_it(name: str, make: Callable[[int], GenerativeMargin]) -> None:
    plain = make(1)
    problem = replace(plain, **(RESCALED[name] if name in RESCALED else COMBINATIONS[name](plain.layout)))
    builders = [*BUILDERS[:3], *(("n_slack",) if name in GENERATED else ())]
    builders += ["dual_beta", "dual", "one_slack"] if name == "rescaled" else []
    said = [optimum(FORMULATIONS[f"generative_margin.{build}"].builder(problem)) for build in builders]
    for other in said[1:]:
        assert close(other.value, said[0].value, 3 * HIGH.gap)


def test_eta_is_a_parameter_of_the_dual_of_pieces_that_needs_no_new_compilation() -> None:
    plain = small_hmm(1)
    problem = replace(plain, **COMBINATIONS["ball"](plain.layout))
    built = entropy_dual(problem)
    assert built.problem.is_dcp(dpp=True)
    built.parameters["eta"].value = 0.5
    moved = built.solve("CLARABEL")
    assert moved.status is Status.OPTIMAL
    assert close(moved.primal, optimum(entropy_dual(replace(problem, eta=0.5))).value, 3 * HIGH.gap)


def test_what_has_no_cone_is_refused() -> None:
    plain = small_hmm(1)
    problem = replace(plain, **COMBINATIONS["reverse divergence"](plain.layout))
    for build in BUILDERS:
        with pytest.raises(ValueError, match="CVXPY has no cone for theta e"):
            FORMULATIONS[f"generative_margin.{build}"].builder(problem).reference("CLARABEL")
