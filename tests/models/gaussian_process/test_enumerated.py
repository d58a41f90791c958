"""The formulations of (32): each against every labelling written out, and against each other."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from convexstruct.families.gaussian_process.problem import GaussianProcessSequences
from convexstruct.models import Formulation
from convexstruct.tolerances import HIGH, MID
from tests.families.gaussian_process.kernel_chains import KERNELS, every_kernel, optimum, small
from tests.reference import optimum as reference
from tests.reference import stated

Builder = Callable[[GaussianProcessSequences], Formulation]

NAMES = ["primal", "dual", "compact_primal", "compact_dual"]
every_form = pytest.mark.parametrize("name", NAMES)


@every_form
@every_kernel
def test_each_form_has_the_optimum_of_every_labelling_written_out(
    name: str, kernel: tuple[str, dict[str, float]]
) -> None:
    problem = small(0, kernel, stationary=(NAMES.index(name) + KERNELS.index(kernel)) % 2 == 0)
    assert reference(stated(f"gaussian_process.{name}", problem)).value == pytest.approx(optimum(problem), rel=HIGH.gap)


@every_form
@pytest.mark.parametrize(
    "changed",
    [{"lam": 0.02}, {"lam": 50.0}, {"eta": 0.0}, {"lengths": (1, 1, 1)}, {"lengths": (4,)}, {"n_labels": 1}],
    ids=str,
)
def test_each_form_is_right_at_the_edges(name: str, changed: dict[str, float]) -> None:
    problem = small(1, stationary=NAMES.index(name) % 2 == 0, **changed)  # type: ignore[arg-type]  # options of several types
    value = reference(stated(f"gaussian_process.{name}", problem)).value
    assert value == pytest.approx(optimum(problem), rel=HIGH.gap, abs=HIGH.gap)


@pytest.mark.parametrize("dropped", ["arriving", "leaving", "sum"])
def test_marginals_that_agree_in_one_direction_only_bound_nothing(dropped: str) -> None:
    """The dual's value without one of its constraints exceeds the optimum, and so is no lower bound."""
    problem = small(4, lam=0.2)
    loose = stated("gaussian_process.compact_dual", problem).without(dropped).reference()
    assert loose.value > optimum(problem) * (1 + MID.gap)


def test_the_terms_of_the_sums_are_probabilities() -> None:
    """At the optimum the messages' terms are q(s | s'), and their multipliers the marginals of the compact dual."""
    problem = small(5)
    forward, marginal = (stated(f"gaussian_process.compact_{side}", problem) for side in ("primal", "dual"))
    reference(forward)
    reference(marginal)
    chains, s = problem.chains, problem.n_labels
    q = np.asarray(marginal.variables["q"].value).reshape(-1, s)
    multipliers = np.asarray(forward.dual_values["messages"])
    # "messages" has a row for each position that has a successor, in packed order, and each of its labels
    assert multipliers == pytest.approx(q[np.unique(chains.previous)].ravel(), abs=MID.gap)
    t = problem.multiply(np.asarray(marginal.variables["u"].value))
    label, _ = problem.split(problem.log_partition(t)[1])
    sums = np.zeros_like(label)
    np.add.at(sums, problem.packed_places, q)
    assert sums == pytest.approx(label, abs=MID.gap)


def test_the_compact_forms_grow_with_the_length_and_the_others_with_the_labellings() -> None:
    cones = {}
    for length in (3, 6):
        problem = small(10, lengths=(length,))
        cones[length] = {name: stated(f"gaussian_process.{name}", problem).sizes.cones["exponential"] for name in NAMES}
    assert cones[6]["primal"] == cones[3]["primal"] * 27
    assert cones[6]["compact_dual"] - cones[3]["compact_dual"] == 3 * 3 * 9
