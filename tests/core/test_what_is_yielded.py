"""What a solver has yielded is the driver's: no solver writes into it afterwards, and none into its start."""

from __future__ import annotations

import inspect
import itertools
from typing import Any, get_args, get_type_hints

import networkx as nx
import numpy as np
import pytest
from numpy.typing import NDArray

from convexstruct import solvers
from convexstruct.arrays import Point
from convexstruct.core.driver import solve
from convexstruct.core.iterate import Iterate
from convexstruct.core.solution import Solution
from convexstruct.families.gaussian_process import GaussianProcessSequences
from convexstruct.families.generative_margin import GenerativeMargin
from convexstruct.families.log_linear import (
    ApproximateField,
    ConditionalRandomField,
    HiddenField,
    HiddenMarkov,
    MarkovRandomField,
    PseudoLikelihood,
)
from convexstruct.families.projection import BoxProjection, MarginalProjection
from convexstruct.families.regularized_risk import RegularizedRisk
from convexstruct.families.structured_svm import OracleSVM, StructuredSVM
from convexstruct.families.structured_svm.oracle_cases import matching
from convexstruct.families.unsupervised_margin import UnsupervisedMargin
from convexstruct.features.graphs.factors import tabular_factors
from tests.families.gaussian_process.kernel_chains import small
from tests.families.generative_margin.instances import small_hmm, small_network
from tests.models.structured_svm.instances import svm

#: So many rounds of each run are recorded.
ROUNDS = 12

#: All solvers, by name.
SOLVERS: dict[str, Any] = {
    name: value
    for name in solvers.__all__
    if inspect.isclass(value := getattr(solvers, name)) and value not in (Iterate, solvers.Solver)
}
#: Solvers whose test takes more than 3 s.
SLOW = {"ContrastiveDivergence", "ExcessiveGap"}


def instances() -> dict[type, list[Any]]:
    """A few small problems of each family, of every kind that some solver is for."""
    rng = np.random.default_rng(4)
    X, y = rng.normal(size=(30, 4)), rng.integers(3, size=30)
    edge, node = rng.normal(size=(4, 3, 3)), rng.normal(size=(6, 3))
    factors, samples = tabular_factors(nx.cycle_graph(4), 2), rng.integers(2, size=(90, 4))
    fields: dict[type, list[Any]] = {
        kind: [kind.read(factors, samples, l1=l1) for l1 in (0.0, 0.1)]
        for kind in (MarkovRandomField, PseudoLikelihood, ApproximateField)
    }
    partly = np.where(rng.random((90, 4)) < 0.3, -1, samples)
    fields[HiddenField] = [HiddenField.unconditional(factors, partly, l1=l1, lam=1.0) for l1 in (0.0, 0.1)]
    fields[HiddenMarkov] = [HiddenMarkov.read([[0, 1, 2, 0], [1, 1]], 2, 3)]
    return {
        GenerativeMargin: [small_hmm(0), small_network(0)],
        StructuredSVM: [svm(0), svm(0, weighted=True, as_kernel=True), svm(1, inference="relaxed")],
        OracleSVM: [matching(0).problem],
        ConditionalRandomField: [
            ConditionalRandomField.read([X[:4], X[4:7]], [y[:4], y[4:7]], 3, l1=l1, C=1.0) for l1 in (0.0, 0.1)
        ],
        **fields,
        GaussianProcessSequences: [small(0)],
        RegularizedRisk: [
            RegularizedRisk.binary(X, y > 0, 0.01),
            RegularizedRisk.binary(X, y > 0, 0.01, bias=True),
            RegularizedRisk.multiclass(X, y, 0.01),
            RegularizedRisk.ordinal(X, y, 0.01),
            RegularizedRisk.pieces(X, rng.normal(size=30), 0.1),
        ],
        BoxProjection: [BoxProjection.simplex(rng.normal(size=9))],
        MarginalProjection: [MarginalProjection.chains((4, 2), edge, node)],
        UnsupervisedMargin: [UnsupervisedMargin.read([X[:4], X[4:7]], 2, beta=1.0, label_balance=0.2)],
    }


def copied(point: Point) -> dict[str, NDArray[Any]]:
    return {name: np.array(value) for name, value in point.items()}


def unchanged(before: Point, after: Point) -> bool:
    return set(before) == set(after) and all(
        np.asarray(after[name]).tobytes() == np.asarray(value).tobytes() for name, value in before.items()
    )


def check(iterates: Any, start: Solution | None) -> int:
    """Record every iterate as it comes, and look at all of them at the end; how many came."""
    begin = None if start is None else (copied(start.point), copied(start.dual_point or {}))
    kept: list[tuple[Iterate, dict[str, NDArray[Any]], dict[str, NDArray[Any]]]] = []
    for iterate in itertools.islice(iterates, ROUNDS):
        witness = iterate.dual_point() if callable(iterate.dual_point) else iterate.dual_point
        kept.append((iterate, copied(iterate.point), copied(witness or {})))
        if iterate.done:
            break
    for at, (iterate, point, dual_point) in enumerate(kept, start=1):
        witness = iterate.dual_point() if callable(iterate.dual_point) else iterate.dual_point
        assert unchanged(point, iterate.point), f"the point of round {at} of {len(kept)} was written into"
        assert unchanged(dual_point, witness or {}), f"the dual point of round {at} of {len(kept)} was written into"
    if start is not None and begin is not None:
        assert unchanged(begin[0], start.point), "the start's point was written into"
        assert unchanged(begin[1], start.dual_point or {}), "the start's dual point was written into"
    return len(kept)


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in SOLVERS])
def test_what_a_solver_yielded_is_unchanged_at_the_end(name: str) -> None:
    solver = SOLVERS[name]()
    family = get_type_hints(SOLVERS[name].iterate)["problem"]
    rounds = 0
    made = instances()
    for problem in [each for one in get_args(family) or (family,) for each in made[one]]:
        try:
            rounds += check(solver.iterate(problem), None)
        except ValueError:  # a kind of problem that this solver is not for
            continue
        start = solve(problem, solver, max_iterations=3)
        rounds += check(solver.iterate(problem, start), start)
    assert rounds >= 2, f"{name} took none of the instances"
