"""The references of every family as another machine would compute them. Linear algebra on another CPU gives data that
differ by one rounding, and factors L of a matrix L L' whose columns differ in sign or by a rotation."""

from __future__ import annotations

import copy
import dataclasses
import json
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray

from convexstruct.core.cases import Instance
from convexstruct.core.certificates import Problem
from convexstruct.families.gaussian_process.kernels import Gram
from convexstruct.features.graphs.gram import Factor
from convexstruct.verification import Case, cases_for, families
from convexstruct.verification.references import formulate, packaged, stored

#: One rounding, relative.
NOISE = 3e-16
#: The number of machines that are imitated for each case; where a factor is taken, so many with other signs and so many
#: with a rotated factor.
MACHINES = 1
#: Cases whose stored reference took at most so many seconds are tried here, and all cases of the families in
#: ALL_CASES, whose formulations factor a matrix; FACTORED has a class for its factor.
SHORT_SECONDS = 0.04
FACTORED = "gaussian_process"
ALL_CASES = (FACTORED, "unsupervised_margin")

CASES = [
    case
    for family in families()
    for known in (json.loads(packaged(family).read_text()),)
    for case in cases_for(family, quick=True, open_only=True)
    if case.name in known and (known[case.name]["seconds"] <= SHORT_SECONDS or family in ALL_CASES)
]


def disturbed(value: Any, rng: np.random.Generator) -> Any:
    """A copy of a problem, or of a part of one, in which numbers that are not whole differ by a rounding."""
    if isinstance(value, np.ndarray) and value.dtype == np.float64:
        finite = value[np.isfinite(value)]
        if np.array_equal(finite, np.round(finite)):
            return value
        turned = value * (1.0 + rng.choice([-NOISE, 0.0, NOISE], size=value.shape))
        square = value.ndim == 2 and value.shape[0] == value.shape[1] and np.array_equal(value, value.T)
        return np.triu(turned) + np.triu(turned, 1).T if square else turned
    if sp.issparse(value):
        other = value.copy()
        other.data = disturbed(np.asarray(other.data), rng)
        return other
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        other = copy.copy(value)
        names = {field.name for field in dataclasses.fields(value)}
        if hasattr(other, "__dict__"):
            for name in set(other.__dict__) - names:  # what was computed from the data
                del other.__dict__[name]
        for name in names:
            object.__setattr__(other, name, disturbed(getattr(value, name), rng))
        return other
    return value


class Turned(Factor):
    """L Q for an orthogonal Q: as good a factor as L, but not triangular."""

    def solve(self, v: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(np.linalg.pinv(self.rows).T @ v)


def turned(found: Factor, signs: bool, rng: np.random.Generator) -> Factor:
    """The factor with ``signs`` changed, or turned, at random."""
    rank = found.rows.shape[1]
    if signs:
        return dataclasses.replace(found, rows=found.rows * rng.choice([-1.0, 1.0], size=rank))
    basis = np.linalg.qr(rng.normal(size=(rank, rank)))[0] if rank else np.zeros((0, 0))
    return Turned(found.rows @ basis, found.pivots, found.dropped)


def test_every_family_is_tried() -> None:
    assert {case.family for case in CASES} == set(families())


@pytest.mark.slow
@pytest.mark.parametrize(
    "case", [each for at, each in enumerate(CASES) if at % 2 or each.family in ALL_CASES], ids=repr
)
def test_a_reference_does_not_depend_on_the_machine(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(10)
    known = stored(case, case.build())
    assert known is not None
    plain = Gram.factor
    slack = 2.0 * case.accuracy * max(1.0, abs(known.value))
    for machine in range(MACHINES if case.family != FACTORED else 2 * MACHINES):
        signs = machine < MACHINES
        monkeypatch.setattr(Gram, "factor", lambda gram, signs=signs: turned(plain(gram), signs, rng))
        made = case.make(0)
        problem: Problem = disturbed(made.problem, rng)
        found = formulate(case, Instance(problem, point=made.point)).solve(case.formulation_solver, tol=case.accuracy)
        # The certificate is the judge: the solver may call a point inaccurate that is within the case's accuracy.
        said = found.message
        unit = 1.0 if case.unit is None else float(case.unit(problem))  # the formulation's objective, in the problem's
        assert unit * found.primal <= known.value + slack, (machine, said)
        if case.certified and np.isfinite(found.lower_bound):
            assert unit * found.lower_bound >= known.value - slack, (machine, said)
        else:
            assert "says optimal" in said, (machine, said)
