"""Every family with examples in shards: serial sums and overlapping brackets on every executor, and a killed worker."""

from __future__ import annotations

import logging
import multiprocessing
import os
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp

from convexstruct.core.driver import solve
from convexstruct.core.registry import families
from convexstruct.core.solution import Status
from convexstruct.datasets import HARD, ring
from convexstruct.families.gaussian_process import GaussianProcessSequences
from convexstruct.families.generative_margin import GenerativeMargin
from convexstruct.families.log_linear import ConditionalRandomField
from convexstruct.families.projection import BoxProjection
from convexstruct.families.regularized_risk import (
    LsBMRM,
    PegasosN,
    Pragam,
    PragamB,
    QpBMRM,
    RegularizedRisk,
    SemismoothNewton,
)
from convexstruct.families.regularized_risk.solvers.smoothed_risk import SmoothedRisk
from convexstruct.families.structured_svm import StructuredSVM
from convexstruct.families.unsupervised_margin import UnsupervisedMargin
from convexstruct.inference.parallel import in_shards, sharded
from convexstruct.inference.shards import Shards, cuts
from tests.inference.test_parallel import Inline

#: The most that a sum over shards may differ from the serial one, relative.
SUMS = 1e-12


def chains(**more: Any) -> StructuredSVM:
    rng = np.random.default_rng(1)
    lengths = [4, 1, 6, 2, 3, 1, 5]
    labels = [rng.integers(0, 3, n) for n in lengths]
    return StructuredSVM.read([rng.normal(size=(n, 4)) for n in lengths], labels, 3, **({"C_mean": 2.0} | more))


def graphs(shape: Callable[[int], nx.Graph], edge_features: bool, n_labels: int = 3, **more: Any) -> StructuredSVM:
    rng = np.random.default_rng(2)
    lengths = [4, 3, 1, 5, 3]
    drawn = [shape(n) for n in lengths]
    given = [np.array(graph.edges, dtype=np.int64).reshape(-1, 2) for graph in drawn]
    labels = [rng.integers(0, n_labels, n) for n in lengths]
    of_edges = [rng.uniform(0.1, 1, (len(edges), 2)) for edges in given] if edge_features else None
    x = [rng.normal(size=(n, 3)) for n in lengths]
    return StructuredSVM.read(x, labels, n_labels, edges=given, edge_features=of_edges, **({"C": 1.0} | more))


SVMS: dict[str, Callable[[], StructuredSVM]] = {
    "chains": chains,
    "weighted chains": lambda: chains(weights=np.linspace(0.5, 2, 7)),
    "slack scaling": lambda: chains(scaling="slack"),
    "zero-one loss": lambda: chains(loss="zero_one"),
    "trees": lambda: graphs(lambda n: nx.star_graph(n - 1), False),
    "trees with edge features": lambda: graphs(lambda n: nx.star_graph(n - 1), True),
    "cycles": lambda: graphs(lambda n: nx.cycle_graph(n) if n > 2 else nx.path_graph(n), True),
    "cuts": lambda: graphs(nx.complete_graph, False, 2, associative=True, inference="minimum_cut"),
    "relaxed": lambda: graphs(nx.complete_graph, False, inference="relaxed"),
}


def alike(found: Any, serial: Any) -> None:
    """Equal to `SUMS` relative to the largest entry."""
    found, serial = np.asarray(found), np.asarray(serial)
    assert found.shape == serial.shape
    assert np.abs(found - serial).max(initial=0.0) <= SUMS * np.abs(serial).max(initial=0.0)


@pytest.mark.parametrize("n_shards", [1, 2, 50])
@pytest.mark.parametrize("made", SVMS.values(), ids=SVMS)
def test_shards_of_a_structural_svm_give_the_serial_oracle(made: Callable[[], StructuredSVM], n_shards: int) -> None:
    problem = made()
    cut = sharded(problem, Inline(), n_shards)
    for scale in (0.1, 3.0):
        w = problem.project(scale * np.random.default_rng(3).normal(size=problem.dimension))
        node, edge = problem.scores(w)
        serial = problem.most_violated(w)
        for found in (cut.most_violated(w), cut.violated(node, edge, w)):
            alike(found.value, serial.value)
            alike(found.hinge, serial.hinge)
            alike(found.violation, serial.violation)
            assert (found.moved is None) is (serial.moved is None)
        here, there = cut.oracle.best(node, edge), problem.oracle.best(node, edge)
        alike(here.upper, there.upper)
        alike(problem.score(node, edge, here.labels), here.scores)
        alike(cut.primal({"w": w}), problem.primal({"w": w}))
        if not problem.oracle.summable:
            continue
        for one, other in zip(cut.oracle.two_best(node, edge), problem.oracle.two_best(node, edge)):
            assert np.array_equal(np.isfinite(one.scores), np.isfinite(other.scores))
            alike(one.scores[np.isfinite(one.scores)], other.scores[np.isfinite(other.scores)])
        for share in (None, np.linspace(0, 1, problem.n_examples)):
            for part, whole in zip(cut.oracle.sums(node, edge, share), problem.oracle.sums(node, edge, share)):
                alike(part, whole)
        drawn, wanted = (each.oracle.sample(node, edge, np.random.default_rng(4)) for each in (cut, problem))
        assert np.array_equal(drawn, wanted)


def sequences(same_inputs: bool = False) -> GaussianProcessSequences:
    rng = np.random.default_rng(5)
    lengths = [3, 1, 7, 2, 4]
    inputs = [rng.integers(0, 3, (n, 1)) if same_inputs else rng.normal(size=(n, 2)) for n in lengths]
    return GaussianProcessSequences.read(inputs, [rng.integers(0, 3, n) for n in lengths], 3)


@pytest.mark.parametrize("n_shards", [1, 2, 50])
@pytest.mark.parametrize("same_inputs", [False, True])
def test_shards_of_sequences_give_the_serial_log_partition_and_mean(same_inputs: bool, n_shards: int) -> None:
    problem = sequences(same_inputs)
    cut = sharded(problem, Inline(), n_shards)
    for scale in (0.0, 1.0, 20.0):
        u = scale * np.random.default_rng(6).normal(size=problem.dimension)
        found, serial = cut.log_partition(problem.multiply(u)), problem.log_partition(problem.multiply(u))
        alike(found[0], serial[0])
        alike(found[1], serial[1])
        assert cut.dual({"u": u}) == problem.dual({"u": u})


def risks(sparse: bool = False) -> dict[str, RegularizedRisk]:
    """Each loss, with groups of one and of several pieces, offsets, an example without pieces, and large features."""
    rng = np.random.default_rng(7)
    n, d = 23, 4
    dense = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.6)
    X = sp.csr_array(dense) if sparse else dense
    y, levels, some = np.sign(rng.normal(size=n)), rng.integers(0, 3, n), rng.integers(0, 2, (n, 3))
    some[[0, 9, n - 1]] = 1  # these have all labels: no piece
    omega = rng.uniform(0.5, 2.0, n)
    of = np.sort(np.append(np.arange(7), rng.integers(0, 7, n - 7)))
    return {
        "binary": RegularizedRisk.binary(X, y, 0.05),
        "weighted, with a bias": RegularizedRisk.binary(X, y, 0.05, bias=True, weights=omega),
        "multiclass": RegularizedRisk.multiclass(X, levels, 0.05),
        "multilabel": RegularizedRisk.multilabel(X, some, 0.05),
        "ordinal": RegularizedRisk.ordinal(X, levels, 0.05),
        "ordinal, thresholds given": RegularizedRisk.ordinal(X, levels, 0.05, thresholds=[-0.5, 0.5]),
        "pieces": RegularizedRisk.pieces(X, rng.normal(size=n), 0.05, of, weights=omega[:7]),
        "pieces with floor": RegularizedRisk.pieces(X, rng.normal(size=n), 0.05, of, floor=True),
        "one example": RegularizedRisk.pieces(X, rng.normal(size=n), 0.05),
        "large features": RegularizedRisk.binary(X * 2.0**110, y, 0.05 * 2.0**220),
    }


@pytest.mark.parametrize("n_shards", [1, 3, 50])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("name", risks())
def test_shards_of_a_risk_give_the_serial_values_and_gradients(name: str, sparse: bool, n_shards: int) -> None:
    problem = risks(sparse)[name]
    cut = sharded(problem, Inline(), n_shards)
    whole, parts = SmoothedRisk.whole(problem), SmoothedRisk.whole(cut)
    rng = np.random.default_rng(8)
    for scale in (0.0, 1.0, 20.0):
        w, alpha = scale * rng.normal(size=problem.shape), scale * rng.random(problem.n_pieces)
        alike(cut.forward(w), problem.forward(w))
        alike(cut.adjoint(alpha), problem.adjoint(alpha))
        alike(cut.value(w), problem.value(w))
        found, wanted = cut.touching(w)[0], problem.touching(w)[0]
        alike(found.a, wanted.a)
        alike(found.b, wanted.b)
        z = problem.values(w)
        here, there = parts.at(w.ravel(), z)[0], whole.at(w.ravel(), z)[0]
        alike(here.slope_w, there.slope_w)
        alike(here.slope_b, there.slope_b)
        assert cut.primal(problem.as_point(w)) == problem.primal(problem.as_point(w))
        assert cut.dual({"alpha": alpha}) == problem.dual({"alpha": alpha})


@pytest.mark.parametrize("name", risks())
def test_every_solver_of_a_risk_ends_in_the_serial_bracket_with_shards_too(name: str) -> None:
    problem = risks(sparse=True)[name]
    reached = 0
    for solver in (SemismoothNewton(), QpBMRM(), LsBMRM(), PragamB(), Pragam(), PegasosN()):
        try:
            serial = solve(problem, solver, tol=1e-2, max_iterations=100)
        except ValueError:  # not for this loss
            continue
        where = Inline()
        found = solve(problem, solver, tol=1e-2, max_iterations=100, executor=where)
        assert where.tasks > 0
        assert found.lower_bound <= serial.primal
        assert serial.lower_bound <= found.primal
        reached += found.status is Status.OPTIMAL
    assert reached >= 2


def test_another_x_in_a_sharded_risk_gets_shards_of_its_own() -> None:
    problem = risks()["binary"]
    cut = sharded(problem, Inline(), 3)
    w = np.ones(problem.shape)
    cut.forward(w)
    alike(replace(cut, X=2.0 * problem.X).forward(w), 2.0 * problem.forward(w))


def hidden() -> GenerativeMargin:
    data = ring(12, 8, 5, HARD, seed=2)
    return GenerativeMargin.hmm(data.symbols, data.states, 5, data.n_symbols, eta=0.2, loss="ring")


def fields(**more: Any) -> ConditionalRandomField:
    rng = np.random.default_rng(9)
    lengths = [4, 1, 6, 2, 3, 1, 5]
    labels = [rng.integers(0, 3, n) for n in lengths]
    x = [rng.normal(size=(n, 4)) for n in lengths]
    return ConditionalRandomField.read(x, labels, 3, weights=np.linspace(0.5, 2, 7), **({"C_mean": 2.0} | more))


@pytest.mark.parametrize("n_shards", [1, 3, 50])
def test_shards_of_a_random_field_give_the_serial_sums_and_bounds(n_shards: int) -> None:
    problem = fields()
    cut = sharded(problem, Inline(), n_shards)
    for scale in (0.0, 1.0, 20.0):
        theta = scale * np.random.default_rng(6).normal(size=problem.dimension)
        for found, serial in zip(cut.value_and_gradient(theta), problem.value_and_gradient(theta)):
            alike(found, serial)
        if scale < 20.0:  # edges share a table, whose curvature is of their sum: about the same
            np.testing.assert_allclose(cut.curvature(theta), problem.curvature(theta), rtol=0.3, atol=0.1)
        assert cut.primal({"theta": theta}) == problem.primal({"theta": theta})
        assert cut.dual(problem.witness(theta)) == problem.dual(problem.witness(theta))


PROBLEMS: dict[str, Callable[[], Any]] = {
    "log_linear": fields,
    "generative_margin": hidden, "structured_svm": chains, "gaussian_process": sequences,
    "regularized_risk": lambda: risks()["multiclass"],
}  # fmt: skip


@pytest.mark.parametrize("made", [chains, fields, sequences, PROBLEMS["regularized_risk"]])
def test_a_problem_in_shards_says_what_the_whole_says(made: Callable[[], Any]) -> None:
    problem = made()
    cut = sharded(sharded(problem, Inline(), 3), Inline(), 2)
    assert repr(cut).partition("(")[2] == repr(problem).partition("(")[2]
    point, _ = problem.trivial()
    for found, wanted in zip(cut.predict(point), problem.predict(point), strict=True):
        assert np.array_equal(found, wanted)


def to_places(scores: Any, y: Any) -> Any:
    """Joint feature of a permutation: the sum of the scores (n, n, d) of its entries; any labelling may repeat."""
    return scores[np.arange(len(y)), y].sum(axis=0)


def best_places(scores: Any, y: Any, w: Any) -> Any:
    table = scores @ w + (0.0 if y is None else np.arange(scores.shape[1]) != y[:, None])
    return table.argmax(axis=1)


def wrong_places(y: Any, found: Any) -> float:
    return float((y != found).sum())


def with_own_oracle() -> Any:
    rng = np.random.default_rng(11)
    examples = [(rng.normal(size=(n, 3, 4)), rng.integers(0, 3, n)) for n in (4, 1, 6, 2, 3)]
    return StructuredSVM.from_oracle(to_places, wrong_places, best_places, examples, exact=True, C=1.0)


def test_an_oracle_of_the_users_works_on_shards(executor: Executor, caplog: pytest.LogCaptureFixture) -> None:
    problem = with_own_oracle()
    cut, w = sharded(problem, executor, 3), np.random.default_rng(12).normal(size=4)
    alike(cut.most_violated(w).hinge, problem.most_violated(w).hinge)
    assert np.array_equal(cut.most_violated(w).labels, problem.most_violated(w).labels)
    alike(cut._violated(w)[1], problem._violated(w)[1])  # rounding of each example
    alike(cut.primal({"w": w}).allowance, problem.primal({"w": w}).allowance)
    assert cut.some(np.array([1])).n_examples == 1
    bracket_of(problem, executor)
    assert caplog.records == []  # nothing failed in a worker


def test_what_is_wrong_with_an_oracle_in_shards_names_the_example_of_the_whole() -> None:
    problem = with_own_oracle()
    broken = replace(problem, best=lambda x, y, w: [7, 7] if len(y) == 3 else y)
    with ThreadPoolExecutor(2) as threads, pytest.raises(ValueError, match="best of example 4"):
        sharded(broken, threads, 5).most_violated(np.ones(4))


def test_every_family_with_examples_is_here_and_the_others_say_so() -> None:
    others: dict[str, Any] = {
        "projection": BoxProjection.simplex([0.3, 0.9]),
        "unsupervised_margin": UnsupervisedMargin.multiclass([[0.0], [1.0]], 2, 1.0, 0.5),
    }
    assert set(families()) == set(PROBLEMS) | set(others)
    not_cut = {one.name for one in families().values() for kind in one.problems if kind not in in_shards.registry}
    assert not_cut == set(others)
    for family, problem in others.items():
        came = f"executor came with an? {type(problem).__name__} of the family '{family}', which cannot be cut"
        with pytest.raises(ValueError, match=came):
            solve(problem, executor=Inline())


@pytest.fixture(
    scope="module",
    params=["threads", "fork", *(pytest.param(each, marks=pytest.mark.slow) for each in ("spawn", "forkserver"))],
)
def executor(request: pytest.FixtureRequest) -> Iterator[Executor]:
    if request.param == "threads":
        with ThreadPoolExecutor(2) as threads:
            yield threads
    else:
        with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context(request.param)) as processes:
            yield processes


def bracket_of(problem: Any, where: Executor) -> None:
    """The brackets with and without ``where`` are certified and overlap."""
    serial, found = solve(problem, tol=1e-3), solve(problem, tol=1e-3, executor=where)
    assert found.status is serial.status is Status.OPTIMAL
    assert found.lower_bound <= serial.primal
    assert serial.lower_bound <= found.primal


def sums_of(problem: Any, where: Executor) -> None:
    """What shards on ``where`` add up or bring back, at a drawn point, is what the whole problem gives."""
    cut, rng = sharded(problem, where, 3), np.random.default_rng(10)
    if isinstance(problem, RegularizedRisk):
        w, alpha = rng.normal(size=problem.shape), rng.random(problem.n_pieces)
        pairs = [(cut.forward(w), problem.forward(w)), (cut.adjoint(alpha), problem.adjoint(alpha))]
    else:
        x = rng.normal(size=problem.dimension)
        found, serial = (SUMMED[problem.family](each, x) for each in (cut, problem))
        pairs = list(zip(found, serial, strict=True))
    for one, other in pairs:
        alike(one, other)


SUMMED: dict[str, Callable[[Any, Any], tuple[Any, ...]]] = {
    "log_linear": lambda problem, x: problem.value_and_gradient(x),
    "generative_margin": lambda problem, x: astuple(problem.oracle.expected(x, 1.0)),
    "structured_svm": lambda problem, x: (problem.most_violated(x).hinge, *problem.oracle.sums(*problem.scores(x))),
    "gaussian_process": lambda problem, x: problem.log_partition(problem.multiply(x)),
}


@pytest.mark.parametrize("made", PROBLEMS.values(), ids=PROBLEMS)
def test_sums_on_every_executor_are_the_serial_ones(made: Callable[[], Any], executor: Executor) -> None:
    sums_of(made(), executor)


@pytest.mark.parametrize("made", PROBLEMS.values(), ids=PROBLEMS)
def test_brackets_overlap_on_every_executor(made: Callable[[], Any], executor: Executor) -> None:
    bracket_of(made(), executor)


@dataclass(frozen=True)
class Part:
    """Counts its calls in a file. The first process other than ``home`` that works on the part ``deadly`` dies."""

    number: int
    deadly: bool
    home: int
    folder: Path

    def work(self, x: float) -> float:
        with (self.folder / f"done-{self.number}").open("a") as file:
            file.write("x")
        died = self.folder / "died"
        if self.deadly and os.getpid() != self.home and not died.exists():
            died.touch()
            os._exit(1)
        return x * self.number

    def done(self) -> int:
        return len((self.folder / f"done-{self.number}").read_text())


def killed(where: Executor, folder: Path) -> list[Part]:
    """The parts after a round in which a worker died; the round's answers are right."""
    parts = [Part(i, i == 3, os.getpid(), folder) for i in range(6)]
    shards = Shards(tuple(parts), where)
    for _ in range(3):
        assert shards.map("work", 2.0) == [2.0 * i for i in range(6)]
    assert (folder / "died").exists()
    return parts


@pytest.mark.slow
def test_a_worker_killed_in_mid_round_costs_what_was_not_done(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with (
        ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as processes,
        caplog.at_level(logging.WARNING, logger="convexstruct.inference.shards"),
    ):
        parts = killed(processes, tmp_path)
    assert parts[3].done() == 3 + 1  # three rounds, and once where it was lost
    assert all(part.done() <= 3 + 1 for part in parts)
    assert "done in this process" in caplog.text or "done here" in caplog.text


@pytest.mark.slow
def test_a_dask_cluster_serves_and_a_worker_killed_there_costs_its_shard(tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        where = client.get_executor()
        for made in PROBLEMS.values():
            sums_of(made(), where)
            bracket_of(made(), where)
        parts = killed(where, tmp_path)
        assert parts[3].done() <= 3 + 1
        assert max(part.done() for part in parts) <= 3 + 1


@pytest.mark.parametrize("sizes", [[1], [5, 1, 1, 1], [1, 1, 1, 9], [2] * 7])
def test_shards_are_never_empty_and_hold_every_example(sizes: list[int]) -> None:
    for n_shards in (1, 2, 3, 100):
        at = cuts(np.array(sizes), n_shards)
        assert at[0] == 0
        assert at[-1] == len(sizes)
        assert len(at) - 1 <= min(n_shards, len(sizes))
        assert (np.diff(at) > 0).all()
