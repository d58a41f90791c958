"""What every family's cases and mutants have in common, over the registry; as MathOptInterface has it.

Cases: what their generators make, and the optima built in or stored. Mutants: each fails its case. Solvers are in
`test_solvers`.
"""

from __future__ import annotations

import importlib

import pytest

import convexstruct as cs
from convexstruct.core.certificates import certify, relative_gap
from convexstruct.tolerances import HIGH, ROUNDING
from convexstruct.verification import Case, cases_for, families
from convexstruct.verification.fingerprint import fingerprint
from convexstruct.verification.references import others, stored
from tests.mutants import Mutant, assert_fails, honest, judged
from tests.verification.rows import told

CASES = [case for family in families() for case in cases_for(family)]
OPEN = [case for case in CASES if case.open]
#: Cases that are the same for every seed.
FIXED = {
    "hmm-ties", "svm-ties", "mrf-border", "mrf-uniform", "mrf-inside", "pl-coin", "pl-uniform", "risk-hadamard",
    "risk-bundle", "risk-bundle-dual", "risk-smoothed", "risk-smoothed-dual", "risk-hadamard-large",
}  # fmt: skip
#: The mutants of each family, by their names.
MUTANTS: dict[str, list[Mutant]] = {
    name: importlib.import_module(f"tests.families.{name}.mutants").MUTANTS for name in families()
}


def named(each: Case) -> str:
    return each.name


# -- cases -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES, ids=named)
def test_a_generator_is_deterministic_and_heeds_its_seed(case: Case) -> None:
    first, other = (fingerprint(case.make(seed).problem) for seed in (3, 4))
    assert (first == other) == (case.name in FIXED)
    if not case.open:  # of others a stored optimum has the fingerprint of another machine
        assert first == fingerprint(case.make(3).problem)


@pytest.mark.parametrize("case", OPEN, ids=named)
def test_a_point_built_in_attains_the_optimum_built_in_which_lies_within_certified_bounds(case: Case) -> None:
    """Of another seed: the first one's optimum is compared with the one that is stored."""
    instance = case.make(1)
    if instance.optimum is None:
        return  # nothing is built in
    problem, optimum = instance.problem, float(instance.optimum)
    if instance.point is not None:
        certificate = certify(problem, problem.as_point(instance.point))
        scale = max(abs(optimum), problem.trivial_value * ROUNDING, ROUNDING)
        assert certificate.infeasibility <= ROUNDING
        assert certificate.claimed == pytest.approx(optimum, rel=1e3 * ROUNDING, abs=ROUNDING * scale)
    if case.quick:
        found = cs.solve(problem, time_limit=20.0)
        rounding = case.accuracy * max(1.0, abs(optimum))
        assert found.lower_bound - rounding <= instance.optimum <= found.primal + rounding
        assert found.gap <= HIGH.gap or found.lower_bound == 0.0


@pytest.mark.parametrize("case", OPEN, ids=named)
def test_an_open_case_has_a_stored_optimum_in_a_tight_bracket_near_the_one_built_in(case: Case) -> None:
    """Stored optima are those that a general solver found (`convexstruct verify --refresh`)."""
    instance = case.make(0)
    kept, built = stored(case, instance.problem), instance.optimum
    assert kept is not None
    assert kept.accurate
    assert "cvxpy" in kept.version
    assert kept.formulation in (case.formulation, *others(case))  # of the same optimum
    least = instance.problem.trivial_value * HIGH.floor
    assert -ROUNDING <= relative_gap(kept.upper_bound, kept.lower_bound, least) <= HIGH.gap
    if built is not None:
        for value, bound in ((kept.upper_bound, built), (built, kept.lower_bound)):  # to the optimum's own rounding
            assert relative_gap(float(value), float(bound), least) >= -HIGH.gap


@pytest.mark.parametrize("name", families())
def test_a_family_has_at_least_twelve_cases_that_anyone_may_be_asked(name: str) -> None:
    assert sum(case.open for case in cases_for(name)) >= 12


# -- mutants -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", families())
def test_the_honest_solver_passes_every_case_of_a_mutant(name: str) -> None:
    """`convexstruct verify` has the others."""
    for case in dict.fromkeys(mutant.case for mutant in MUTANTS[name]):
        outcome = judged(honest, case)
        assert outcome.ok, told(outcome)


@pytest.mark.parametrize(
    "mutant", [pytest.param(one, id=f"{name}-{one.name}") for name, every in MUTANTS.items() for one in every]
)
def test_a_mutant_fails_and_what_is_wrong_with_it_is_named(mutant: Mutant) -> None:
    assert_fails(mutant)


def test_there_are_enough_mutants_and_no_two_have_one_name() -> None:
    for name, mutants in MUTANTS.items():
        assert len({mutant.name for mutant in mutants}) == len(mutants) >= 9, name
