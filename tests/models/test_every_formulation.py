"""What every formulation does, over the registry: it shows its equations, is swept without compiling again, is
certified at its present parameters, and refuses to write out too many labellings.

Each formulation is built from the first verified case that has it as reference. Optima are compared elsewhere: those of
small instances with enumeration in the family's tests, those of the cases by `convexstruct verify`.
"""

from __future__ import annotations

import inspect
from functools import cache
from typing import Any

import pytest

from convexstruct.core import registry
from convexstruct.core.cases import Case, Instance
from convexstruct.core.solution import Status
from convexstruct.models import FORMULATIONS, Formulation
from convexstruct.models.constraint_generation import ConstraintGeneration
from convexstruct.tolerances import HIGH
from convexstruct.verification.references import formulate

#: Cases that are left to `convexstruct verify`: a general solver takes a second and more on them, 0.1 on the next.
LARGE = {
    "amn-planted-grid", "crf-planted", "crf-planted-lasso", "hmm-planted-missing-mass", "latent-chains", "latent-loops",
    "network-planted",
}  # fmt: skip
#: The first other case of each formulation, by "family.name".
CASES: dict[str, Case] = {}
for family in registry.families().values():
    for case in (case for case in family.cases if case.name not in LARGE):
        CASES.setdefault(f"{family.name}.{case.formulation}", case)


def stated(name: str, instance: Instance | None = None) -> Any:
    """The formulation of its case, or of ``instance`` with the case's further arguments."""
    case = CASES[name]
    return formulate(case, case.make(0) if instance is None else instance)


@cache
def of_case(name: str) -> Any:
    """The formulation of its case, built and compiled once for the tests that do not change what it is."""
    return stated(name)


def returned(name: str) -> str:
    """What its builder is annotated to return; to build all would take seconds before any test."""
    return str(inspect.signature(FORMULATIONS[name].builder).return_annotation)


STATED = [name for name in FORMULATIONS if returned(name) != ConstraintGeneration.__name__]
WRITTEN_OUT = [name for name in FORMULATIONS if "limit" in inspect.signature(FORMULATIONS[name].builder).parameters]


@pytest.mark.parametrize("name", STATED)
def test_it_shows_every_equation_with_its_number(name: str) -> None:
    formulation = of_case(name)
    assert isinstance(formulation, Formulation)
    shown = formulation._repr_latex_()
    assert formulation.source
    assert formulation.equations
    assert shown.startswith("$$")
    assert shown.count("{") == shown.count("}")
    assert "None" not in shown
    for label, part in formulation.parts.items():
        assert part.latex.count("{") == part.latex.count("}")
        assert rf"\tag{{{label}}}" in shown
        if label != formulation.objective_label:
            assert rf"\tag{{{label}}}" not in formulation.without(label)._repr_latex_()
    page = formulation._repr_html_()
    assert "variables" in page
    assert all(f"{cone} cone rows" in page for cone in formulation.sizes.cones)


@pytest.mark.parametrize("name", STATED)
def test_its_parameters_are_swept_without_compiling_again_and_it_is_certified_at_their_values(name: str) -> None:
    """What the swept one claims is what one made for the new values claims."""
    formulation = of_case(name)
    assert formulation.problem.is_dcp(dpp=True)
    if not formulation.parameters:
        return  # nothing is swept
    before = formulation.solve()
    compiled = formulation.problem._cache.param_prog
    assert compiled is not None
    for parameter in formulation.parameters.values():
        parameter.value = 0.8 * parameter.value
    swept = formulation.solve()
    assert formulation.problem._cache.param_prog is compiled
    assert swept.status is before.status
    assert formulation.recover is not None
    now = formulation.recover(formulation).problem
    if before.status is Status.OPTIMAL and type(now) is type(CASES[name].build()):
        fresh = stated(name, Instance(now))
    else:  # (P_n) at a centre, and what is not certified
        fresh = stated(name)
        for key, parameter in fresh.parameters.items():
            parameter.value = formulation.parameters[key].value
    assert swept.value == pytest.approx(fresh.reference().value, rel=HIGH.gap, abs=HIGH.gap)


@pytest.mark.parametrize("name", WRITTEN_OUT)
def test_too_many_labellings_are_refused_in_one_sentence_with_their_number(name: str) -> None:
    case, instance = CASES[name], CASES[name].make(0)
    arguments = {} if case.arguments is None else case.arguments(instance)
    with pytest.raises(ValueError, match=r"\d+ (labellings|assignments|combinations)") as refused:
        FORMULATIONS[name].builder(instance.problem, **{**arguments, "limit": 1})
    assert "\n" not in str(refused.value)
