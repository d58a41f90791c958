from __future__ import annotations

import importlib
import pkgutil
from typing import Any

import pytest

from convexstruct.core import registry
from convexstruct.core.registry import System
from convexstruct.experiments import EXPERIMENTS
from convexstruct.models import FORMULATIONS
from convexstruct.verification import SYSTEMS, cases_for, families
from convexstruct.verification.cases import select

#: The classes that solve: frozen dataclasses of options with a generator `iterate`.
SOLVERS = {
    name
    for family in registry.families().values()
    for entry in pkgutil.walk_packages([str(family.folder / "solvers")], f"{family.package}.solvers.")
    for name, one in vars(importlib.import_module(entry.name)).items()
    if isinstance(one, type) and not getattr(one, "_is_protocol", False) and "iterate" in vars(one)
}

CASES = [case for family in families() for case in cases_for(family)]


def test_names_are_unique() -> None:
    names = [case.name for case in CASES]
    assert len(set(names)) == len(names)
    assert not set(names) & set(families())
    assert all(case.paper and case.equations and case.build().family == case.family for case in CASES)


def test_every_system_has_a_case_and_experiments_of_its_family() -> None:
    for system in SYSTEMS:
        assert all(EXPERIMENTS[name].family == system.family for name in system.experiments)
        assert any(case.system == system.name for case in CASES)


@pytest.mark.slow
@pytest.mark.parametrize("system", SYSTEMS, ids=lambda system: system.name)
def test_the_solvers_of_a_system_are_those_that_take_one_of_its_problems(system: System) -> None:
    solvers = {solver.__name__: solver for solver in registry.families()[system.family].solvers}
    taking: set[str] = set()
    for case in sorted((case for case in CASES if case.system == system.name), key=lambda case: not case.quick):
        if not case.quick and taking >= set(system.solvers):
            break
        problem = case.build()
        own = isinstance(problem, system.problems or object)  # wide fields have small exact ones as their cases
        for name, solver in solvers.items():
            if name not in taking and (own or name in system.solvers) and _takes(solver(), problem):
                taking.add(name)
    assert taking == set(system.solvers)


def _takes(solver: Any, problem: Any) -> bool:
    """Whether the solver does anything with the problem but refuse it."""
    try:
        next(iter(solver.iterate(problem)))
    except ValueError:
        return False
    return True


def test_nothing_that_exists_is_missing_from_the_list() -> None:
    for family in families():
        of_family = [system for system in SYSTEMS if system.family == family]
        listed = {f"{family}.{name}" for system in of_family for name in system.formulation}
        assert listed == {name for name in FORMULATIONS if name.startswith(f"{family}.")}
        experiments = {name for system in of_family for name in system.experiments}
        assert experiments == {name for name, one in EXPERIMENTS.items() if one.family == family}
    assert {name for system in SYSTEMS for name in system.solvers} == SOLVERS


def test_every_formulation_that_is_listed_is_the_reference_of_a_case() -> None:
    rows = {f"{case.family}.{case.formulation}" for case in CASES}
    assert rows == set(FORMULATIONS)


def test_a_family_a_case_or_everything_can_be_selected() -> None:
    assert select(None) == tuple(CASES)
    assert select("generative_margin") == cases_for("generative_margin")
    assert [case.name for case in select("hmm-ties")] == ["hmm-ties"]
    assert all(case.quick for case in select(None, quick=True))
    assert all(case.open for case in select(None, open_only=True))
    for system in SYSTEMS:
        assert list(select(system.name)) == [case for case in cases_for(system.family) if case.system == system.name]
    with pytest.raises(ValueError, match="too large"):
        select("hmm-ring-cuts", open_only=True)


def test_an_unknown_name_is_answered_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"wanted a family, a system or a case: one of .* names, the nearest .*hmm"):
        select("hmm")
    with pytest.raises(ValueError, match="the nearest generative_margin"):
        select("generative_margn")
    with pytest.raises(ValueError, match="the nearest hmm-ties"):
        select("hmm-tied")
    with pytest.raises(ValueError, match=f"wanted one of {', '.join(families())}"):
        cases_for("hmm")
