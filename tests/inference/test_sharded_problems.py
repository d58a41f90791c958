"""Every problem of the registry whose examples can lie in shards: the same sums, bounds, runs and predictions there."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import astuple, fields, replace
from functools import partial
from itertools import islice
from typing import Any, get_args, get_type_hints

import networkx as nx
import numpy as np
import pytest

from convexstruct.core import registry
from convexstruct.core.driver import solve
from convexstruct.families.log_linear import (
    ConditionalRandomField,
    HiddenField,
    HiddenMarkov,
    PseudoLikelihood,
)
from convexstruct.families.regularized_risk import RegularizedRisk
from convexstruct.families.regularized_risk.solvers.semismooth_newton.smoothed_risk import SmoothedRisk
from convexstruct.families.structured_svm import StructuredSVM
from convexstruct.families.structured_svm.oracle_problem import OracleSVM
from convexstruct.features.graphs.factors import tabular_factors
from convexstruct.inference.hidden_markov import random_models
from convexstruct.inference.shards import sharded
from tests.core.problems import KINDS, one_of_each, small_problems
from tests.inference.test_shards import Inline

#: The most that a sum over shards may differ from the serial one, relative to the largest entry, or to 0.01
#: where all are 0.
SUMS = 1e-12
#: The same where the oracle rounds scores, minimum cuts by the largest of the batch, or solves a linear program.
ROUGHLY = 1e-8
#: The same of allowances, which are bounds on the rounding of sums that are added in another order.
ALLOWANCES = 0.1
#: The same of the bounds of a whole run, whose later rounds start from such sums.
RUNS = 1e-9
#: So many problems of each class are cut into three shards; the first are those of `MORE`.
SUMMED_OVER = 10
#: So many problems of each class are solved by each solver, and cut into one shard and into many.
TRIED = 1

#: Single nodes stand last, so that the last of many shards has no edge.
LENGTHS = [6, 5, 4, 3, 2, 1, 1]


def drawn(seed: int, n_labels: int = 3, n_features: int = 4) -> tuple[list[Any], list[Any]]:
    rng = np.random.default_rng(seed)
    return [rng.normal(size=(n, n_features)) for n in LENGTHS], [rng.integers(0, n_labels, n) for n in LENGTHS]


def svm(**more: Any) -> StructuredSVM:
    return StructuredSVM.read(*drawn(1), 3, **({"C_mean": 2.0} | more))


def places(scores: Any, y: Any) -> Any:
    return scores[np.arange(len(y)), y].sum(axis=0)


def wrong_places(y: Any, found: Any) -> float:
    return float((y != found).sum())


def best_places(scores: Any, y: Any, w: Any) -> Any:
    return (scores @ w + (0.0 if y is None else np.arange(scores.shape[1]) != y[:, None])).argmax(axis=1)


def own_oracle() -> Any:
    rng = np.random.default_rng(11)
    examples = [(rng.normal(size=(n, 3, 4)), rng.integers(0, 3, n)) for n in LENGTHS]
    return StructuredSVM.from_oracle(places, wrong_places, best_places, examples, exact=True, C=1.0)


def field(**more: Any) -> ConditionalRandomField:
    return ConditionalRandomField.read(*drawn(9), 3, weights=np.linspace(0.5, 2, 7), **({"C_mean": 2.0} | more))


def partly_known(forbidden: Any = None) -> HiddenField:
    rng, (x, labels) = np.random.default_rng(11), drawn(11)
    hidden = [np.append(each[1:] == each[:-1], False) | (rng.random(len(each)) < 0.3) for each in labels]
    known = [np.where(*each) for each in zip(hidden, [-1] * len(labels), labels)]
    return HiddenField.conditional(x, known, 3, weights=np.linspace(0.5, 2, 7), forbidden=forbidden, lam=0.1)


def conditionals() -> PseudoLikelihood:
    rng = np.random.default_rng(12)
    factors = tabular_factors(nx.convert_node_labels_to_integers(nx.grid_2d_graph(3, 3)), 2)
    return PseudoLikelihood.read(factors, rng.integers(0, 2, size=(40, 9)), weights=rng.uniform(0.5, 2, 40), C=1.0)


#: Besides the cases: examples of one node, so that shards without an edge have fewer weights; an oracle that pickles.
MORE: tuple[Callable[[], Any], ...] = (
    svm, partial(svm, loss="zero_one"), field, partial(field, l1=0.1), partly_known,
    partial(partly_known, np.eye(3, dtype=bool)), own_oracle, conditionals,
)  # fmt: skip
#: The classes of problems whose examples can lie in shards.
CUT = tuple(kind for kind in KINDS if any(each.name == "workers" for each in fields(kind)))
each_kind = pytest.mark.parametrize("kind", CUT, ids=lambda kind: kind.__name__)


def problems(kind: type) -> Iterator[Any]:
    """Those of this class: ours, then those of the cases."""
    yield from (problem for made in MORE if isinstance(problem := made(), kind))
    yield from small_problems((kind,))


def sums_of_svm(problem: Any, w: Any) -> list[Any]:
    found = problem.most_violated(w)
    if isinstance(problem, OracleSVM):  # the last: the rounding of each example
        return [found.value, found.hinge, found.violation, found.labels, problem.primal({"w": w}).allowance]
    listed = [found.value, found.hinge, found.moved is None, problem.primal({"w": w})]
    if not problem.oracle.relaxed:
        listed += [found.violation, problem.margins(w)(found.labels)]
    if problem.oracle.summable:
        listed += [*problem.softened(w, 1.5)]
    return listed


def sums_of_log_linear(problem: Any, theta: Any) -> list[Any]:
    if isinstance(problem, HiddenMarkov):
        return [*problem.expected(random_models(3, problem.n_states, problem.observed.n_symbols, seed=1))]
    listed = [*problem.value_and_gradient(theta)]
    if isinstance(problem, HiddenField):
        listed += [*problem.unclamped(theta), *problem.clamped(theta)]
    return [*listed, problem.curvature(theta)]


def sums_of_risk(problem: RegularizedRisk, w: Any) -> list[Any]:
    w, alpha = w.reshape(problem.shape), np.abs(np.resize(w, problem.n_pieces))
    plane, near = problem.touching(w)[0], SmoothedRisk.whole(problem).at(w.ravel(), problem.values(w))[0]
    sums = [problem.forward(w), problem.adjoint(alpha), problem.value(w)]
    return [*sums, plane.a, plane.b, near.slope_w, near.slope_b]


#: What shards add up or bring back at a vector, by family.
SUMMED: dict[str, Callable[[Any, Any], list[Any]]] = {
    "structured_svm": sums_of_svm,
    "generative_margin": lambda problem, x: [
        *problem.oracle.best(x, 2.5),
        *(() if problem.rescaled else astuple(problem.oracle.expected(x, 1.0))),
    ],
    "gaussian_process": lambda problem, x: [*problem.log_partition(problem.multiply(x))],
    "log_linear": sums_of_log_linear,
    "regularized_risk": sums_of_risk,
}


def alike(problem: Any, cut: Any, scale: float) -> None:
    """At a drawn vector, the sums of ``cut`` and its bounds are those of ``problem``."""
    n = 1 if isinstance(problem, HiddenMarkov) else problem.dimension
    x = scale * np.random.default_rng(6).normal(size=n)
    x = problem.project(x) if hasattr(problem, "project") else x
    found, serial = (SUMMED[problem.family](each, x) for each in (cut, problem))
    most = SUMS if getattr(problem, "inference", "exact") == "exact" else ROUGHLY
    for one, other in zip(map(np.asarray, found), map(np.asarray, serial), strict=True):
        assert one.shape == other.shape
        assert np.abs(one * 1.0 - other).max(initial=0.0) <= most * np.abs(other).max(initial=0.01)
    trivial = problem.trivial()
    point = trivial[0] if isinstance(problem, HiddenMarkov) else problem.as_point(x)
    for one, other in ((cut.primal(point), problem.primal(point)), (cut.dual(trivial[1]), problem.dual(trivial[1]))):
        assert float(one) == float(other) or abs(float(one) - float(other)) <= most * abs(float(other))
        assert one.allowance == pytest.approx(other.allowance, rel=ALLOWANCES if most == SUMS else 1.0)


@each_kind
def test_shards_give_the_serial_sums_and_bounds(kind: type) -> None:
    for i, problem in enumerate(islice(problems(kind), SUMMED_OVER)):
        for n_shards, scale in ((3, 20.0), *(((1, 1.0), (50, 0.1)) if i < TRIED else ())):
            alike(problem, sharded(problem, Inline(), n_shards), scale)


@each_kind
def test_a_problem_in_shards_says_and_predicts_what_the_whole_does_and_can_be_cut_again(kind: type) -> None:
    problem = next(problems(kind))
    cut = sharded(sharded(problem, Inline(), 3), Inline(), 2)
    assert cut.shards is not None
    assert len(cut.shards.parts) == 2
    assert type(cut) is type(problem)
    assert repr(cut) == repr(problem)
    point, _ = problem.trivial()
    for found, wanted in zip(cut.predict(point), problem.predict(point), strict=True):
        assert np.array_equal(found, wanted)


def test_data_that_are_replaced_are_cut_anew() -> None:
    problem = next(problems(RegularizedRisk))
    cut, w = sharded(problem, Inline(), 3), np.ones(problem.shape)
    cut.forward(w)
    np.testing.assert_allclose(replace(cut, X=2.0 * problem.X).forward(w), 2.0 * problem.forward(w), rtol=SUMS)


@pytest.mark.parametrize("solver", [None, *registry.solvers().values()], ids=lambda s: s.__name__ if s else "default")
def test_a_run_on_shards_has_the_bounds_of_the_serial_run(solver: type | None) -> None:
    wanted: Any = CUT if solver is None else get_type_hints(solver.iterate)["problem"]  # type: ignore[attr-defined]
    taken = 0
    for kind in set(CUT) & set(wanted if solver is None else get_args(wanted) or (wanted,)):
        tried = 0
        for problem in problems(kind):
            options = None if solver is None else solver()
            try:
                serial = solve(problem, options, tol=1e-2, max_iterations=4)
            except ValueError:  # the solver is for other problems of the class
                continue
            found = solve(problem, options, tol=1e-2, max_iterations=4, executor=Inline())
            assert (found.status, found.iterations) == (serial.status, serial.iterations), problem
            assert found.primal == pytest.approx(serial.primal, rel=RUNS), problem
            assert found.lower_bound == pytest.approx(serial.lower_bound, rel=RUNS), problem
            taken, tried = taken + 1, tried + 1
            if tried == TRIED:
                break
    assert taken or solver is None or not set(CUT) & set(get_args(wanted) or (wanted,))


@pytest.fixture(scope="module", params=["threads", "fork", pytest.param("spawn", marks=pytest.mark.slow)])
def executor(request: pytest.FixtureRequest) -> Iterator[Executor]:
    if request.param == "threads":
        with ThreadPoolExecutor(2) as threads:
            yield threads
    else:
        with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context(request.param)) as processes:
            yield processes


@each_kind
def test_every_executor_gives_the_serial_sums_and_a_bracket_that_overlaps(
    kind: type, executor: Executor, request: pytest.FixtureRequest, caplog: pytest.LogCaptureFixture
) -> None:
    if request.node.callspec.params["executor"] == "spawn" and kind not in CUT[::3]:
        return  # every kind travels to the processes of a fork; those of a cluster are in `test_cluster`
    problem = next(problems(kind))
    alike(problem, sharded(problem, executor, 3), 1.0)
    serial, found = (solve(problem, tol=1e-2, max_iterations=20, executor=where) for where in (None, executor))
    assert found.status is serial.status
    assert found.lower_bound <= serial.primal
    assert serial.lower_bound <= found.primal
    assert not [each for each in caplog.records if each.name.startswith("convexstruct")]  # nothing failed in a worker


def test_what_is_wrong_with_an_oracle_in_shards_names_the_example_of_the_whole() -> None:
    broken = replace(own_oracle(), best=lambda x, y, w: [7, 7] if len(y) == 3 else y)
    with ThreadPoolExecutor(2) as threads, pytest.raises(ValueError, match=f"best of example {LENGTHS.index(3)} "):
        sharded(broken, threads, 5).most_violated(np.ones(4))


def test_problems_without_sums_over_examples_are_refused_in_one_sentence() -> None:
    refused = {type(problem): problem for problem in one_of_each().values() if not isinstance(problem, CUT)}
    assert {kind.__name__ for kind in refused} == {
        "ApproximateField", "BoxProjection", "ConvexEnergyNetwork", "EnergyInference", "LatentSVM",
        "MarginLabelling", "MarginalProjection", "MarkovRandomField", "PermutationInvariantMargin",
        "UnrolledEnergyNetwork", "UnsupervisedMargin",
    }  # fmt: skip
    for kind, problem in refused.items():
        came = f"executor came with an? {kind.__name__} of the family '{problem.family}', which has no sums over"
        with pytest.raises(ValueError, match=came):
            solve(problem, executor=Inline())


def test_other_arguments_are_refused_in_one_sentence() -> None:
    with pytest.raises(ValueError, match="n_shards is 0, wanted a whole number of at least 1"):
        sharded(svm(), Inline(), 0)
    with pytest.raises(ValueError, match=r"executor is 'threads', wanted a concurrent\.futures\.Executor or"):
        sharded(svm(), "threads")
    with pytest.raises(ValueError, match="problem is 3, wanted a problem of a family"):
        sharded(3, Inline())
