"""What every solver of the family does, on problems of each kind that it is for: how a run ends, and what is refused.

`tests/families/test_solvers.py` has what the solvers of all families share.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import networkx as nx
import numpy as np
import pytest

from convexstruct.core.certificates import certify
from convexstruct.core.driver import solve
from convexstruct.core.solution import Solution, Status
from convexstruct.families.log_linear import (
    FAMILY,
    LBFGS,
    ApproximateField,
    BaumWelch,
    ConditionalRandomField,
    ContrastiveDivergence,
    DoubleLoop,
    HiddenField,
    HiddenMarkov,
    ImportanceSampling,
    MarkovRandomField,
    PseudoLikelihood,
    PseudoMoments,
)
from convexstruct.features.graphs.factors import read_factors, tabular_factors
from convexstruct.tolerances import MID, ROUNDING
from tests.families.log_linear.fields import drawn
from tests.families.log_linear.random_fields import partly

OPTIMAL, STATIONARY, UNCERTIFIED = Status.OPTIMAL, Status.STATIONARY, Status.UNCERTIFIED


def case(kind: str) -> ConditionalRandomField:
    """That of this name."""
    found = next(each for each in FAMILY.cases if each.name == f"crf-{kind}").build(0)
    assert isinstance(found, ConditionalRandomField)
    return found


def pseudo(**options: Any) -> PseudoLikelihood:
    factors = tabular_factors(nx.cycle_graph(4), 2)
    return PseudoLikelihood.read(factors, np.random.default_rng(0).integers(2, size=(80, 4)), **options)


def approximate(**options: Any) -> ApproximateField:
    factors = tabular_factors(nx.cycle_graph(4), 2)
    return ApproximateField.read(factors, np.random.default_rng(0).integers(2, size=(80, 4)), **options)


def mixture(**options: Any) -> HiddenField:
    """The centre of a star is hidden."""
    samples = np.random.default_rng(2).integers(0, 2, size=(30, 4))
    samples[:, 0] = -1
    return HiddenField.unconditional(tabular_factors(nx.star_graph(3), 2), samples, **options)


def sequences() -> HiddenMarkov:
    rng = np.random.default_rng(3)
    return HiddenMarkov.read([rng.integers(0, 3, size=n) for n in (1, 4, 3, 2)], 2, 3)


class Posed(NamedTuple):
    """A solver, a problem, and how the run ends at the gap ``tol``."""

    solver: Any
    make: Callable[[], Any]
    ends: Status = OPTIMAL
    tol: float = MID.gap


POSED: dict[str, Posed] = {
    **{
        f"{name}, {kind}": Posed(solver, partial(case, kind), OPTIMAL, gap)
        for kind in ("chains", "forbidden", "stars-features", "cycles")
        for name, solver, gap in (
            ("L-BFGS", LBFGS(), 1e-8),
            ("L-BFGS, scalar", LBFGS(metric="scalar"), 1e-8),
            ("L-BFGS, one pair", LBFGS(memory=1), 1e-6),
        )
    },
    "L-BFGS, zeros": Posed(LBFGS(), partial(case, "elastic"), tol=1e-8),
    "L-BFGS, field": Posed(LBFGS(), lambda: drawn("grid", beta=1.0)),
    "L-BFGS, free field": Posed(LBFGS(), lambda: drawn("cycle", 1, 2000)),
    "L-BFGS, pseudolikelihood": Posed(LBFGS(), lambda: pseudo(l1=0.5)),
    "L-BFGS, free pseudolikelihood": Posed(LBFGS(), pseudo),
    "L-BFGS, observed": Posed(LBFGS(), lambda: partly(3, all_known=True), tol=1e-8),
    "L-BFGS, hidden": Posed(LBFGS(), lambda: partly(0), STATIONARY),
    "L-BFGS, hidden, zeros": Posed(LBFGS(), lambda: partly(6, l1=0.4), STATIONARY),
    "L-BFGS, mixture": Posed(LBFGS(), lambda: mixture(beta=1.0), STATIONARY),
    "Baum-Welch": Posed(BaumWelch(restarts=2), sequences, STATIONARY),
    "contrastive divergence": Posed(ContrastiveDivergence(steps=20), lambda: approximate(lam=0.1), UNCERTIFIED),
    "double loop": Posed(DoubleLoop(), lambda: approximate(lam=0.1), UNCERTIFIED),
    "importance sampling": Posed(ImportanceSampling(400), lambda: approximate(lam=0.1, l1=0.1), UNCERTIFIED),
    "pseudo-moments": Posed(PseudoMoments(), approximate, UNCERTIFIED),
    "pseudo-moments, tree": Posed(PseudoMoments(), lambda: drawn("tree", 2, 500)),
}
every = pytest.mark.parametrize("posed", POSED.values(), ids=POSED)


def test_every_solver_of_the_registry_is_in_the_table() -> None:
    assert {type(posed.solver) for posed in POSED.values()} == set(FAMILY.solvers)


@every
def test_it_ends_as_it_should_within_a_bracket_that_the_problem_certifies(posed: Posed, tmp_path: Path) -> None:
    """The values of its iterates are those of the problem."""
    problem, iterates = posed.make(), []
    found = solve(
        problem, posed.solver, tol=posed.tol, max_iterations=2000, callback=lambda one, _: iterates.append(one)
    )
    assert found.status is posed.ends, found
    assert found.certificate == certify(problem, found.point, found.dual_point)
    assert Solution.load(found.save(tmp_path / "solution.npz"), problem).certificate == found.certificate
    if posed.ends is UNCERTIFIED:
        assert found.lower_bound == -np.inf
        assert "no bound" in found.message
        return
    values = [one.primal for one in iterates]
    assert found.lower_bound <= min(*values, solve(problem).certificate.primal)
    for one in iterates[:: max(1, len(iterates) // 4)]:
        exact = float(problem.primal(problem.as_point(one.point)))
        assert one.primal == pytest.approx(exact, rel=ROUNDING, abs=ROUNDING)
    assert (np.diff(values) <= ROUNDING * max(1.0, values[0])).all()
    if getattr(problem, "l1", 0.0) or getattr(getattr(problem, "model", None), "l1", 0.0):
        theta = found.point["theta"]
        assert 0 < np.count_nonzero(theta) < len(theta)
    if posed.ends is STATIONARY:
        assert problem.stationarity(found.point) <= math.sqrt(ROUNDING)
        assert "P is not convex" in found.message


ONE = tabular_factors(nx.path_graph(2), 1)


@pytest.mark.parametrize(
    "problem",
    [
        MarkovRandomField.read(ONE, [[0, 0]], beta=1.0),
        MarkovRandomField.read(ONE, [[0, 0]]),
        PseudoLikelihood.read(ONE, [[0, 0]], l1=1.0),
        HiddenField.unconditional(ONE, [[0, -1]], C=1.0),
        HiddenMarkov.read([[0], [0, 0]], 2, 1),
    ],
    ids=lambda problem: type(problem).__name__,
)
def test_where_there_is_nothing_to_learn_the_optimum_is_0(problem: Any) -> None:
    assert 0.0 <= solve(problem, max_iterations=100).primal <= 1e-6


def test_of_several_starts_the_best_end_is_kept() -> None:
    """Each start ends by the HIDDEN_PATIENCE of lbfgs, without which it goes on by ever smaller steps."""
    problem = partly(5)
    for solver in (LBFGS(spread=2.0), BaumWelch(seed=5)):
        of = sequences() if isinstance(solver, BaumWelch) else problem
        one, several = solve(of, solver), solve(of, dataclasses.replace(solver, restarts=3))
        assert several.primal <= one.primal + ROUNDING


def shared() -> ApproximateField:
    """Two factors that share two variables, one of which has three."""
    return ApproximateField.read(read_factors([2, 2, 2], [[0, 1], [2, 1, 0]]), [[0, 0, 0], [1, 1, 1]])


UNFIT: dict[str, tuple[Any, Callable[[], Any], str]] = {
    "loop, l1": (DoubleLoop(), lambda: approximate(l1=1.0), "l1 = 1, wanted 0: the double loop .* PseudoLikelihood"),
    "CD, moments": (
        ContrastiveDivergence(),
        lambda: MarkovRandomField.read(tabular_factors(nx.path_graph(1), 2), moments=[0.5, 0.5]),
        "problem has moments and no samples",
    ),
    "moments, a penalty": (PseudoMoments(), lambda: approximate(lam=1.0), "pseudo-moment matching takes no penalty"),
    "moments, tied": (PseudoMoments(), lambda: drawn("path", tied=True), "wanted a free parameter for every entry"),
    "moments, shared pairs": (PseudoMoments(), shared, "share 2 variables, wanted at most one"),
    "loop, triples": (DoubleLoop(entropy="tree_reweighted"), shared, "a factor of more than two variables"),
    "moments, absent": (
        PseudoMoments(),
        lambda: ApproximateField.read(tabular_factors(nx.path_graph(2), 2), [[0, 0], [1, 1], [1, 0]]),
        r"never have labels \(0, 1\) of variables \(0, 1\): .* no maximum",
    ),
}


@pytest.mark.parametrize("name", UNFIT)
def test_what_a_solver_is_not_for_is_refused(name: str) -> None:
    solver, make, said = UNFIT[name]
    with pytest.raises(ValueError, match=said):
        solve(make(), solver)
