"""Log-linear models in shards: serial sums, overlapping brackets, and what has no examples to cut."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from typing import Any

import networkx as nx
import numpy as np
import pytest

from convexstruct.core.driver import solve
from convexstruct.families.log_linear import (
    ApproximateField,
    HiddenField,
    HiddenMarkov,
    MarkovRandomField,
    PseudoLikelihood,
)
from convexstruct.features.graphs.factors import tabular_factors
from convexstruct.inference.hidden_markov import random_models
from convexstruct.inference.parallel import sharded
from tests.inference.test_parallel import Inline
from tests.inference.test_sharded_families import alike


def forked() -> Executor:
    return ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("fork"))


def partly_known(kind: str) -> HiddenField:
    rng = np.random.default_rng(11)
    if kind == "samples":
        labels = rng.integers(-1, 3, size=(23, 5))
        return HiddenField.unconditional(tabular_factors(nx.cycle_graph(5), 3), labels, lam=0.1)
    lengths = [4, 1, 6, 2, 3, 1, 5]
    known = [rng.integers(-1, 3, n) for n in lengths]
    x, omega = [rng.normal(size=(n, 4)) for n in lengths], np.linspace(0.5, 2, 7)
    forbidden = np.eye(3, dtype=bool) if kind == "forbidden" else None
    given = [np.where(np.append(part[1:] == part[:-1], False), -1, part) for part in known]
    return HiddenField.conditional(x, given, 3, weights=omega, forbidden=forbidden, lam=0.1)


def conditionals() -> PseudoLikelihood:
    rng = np.random.default_rng(12)
    factors = tabular_factors(nx.convert_node_labels_to_integers(nx.grid_2d_graph(3, 3)), 2)
    return PseudoLikelihood.read(factors, rng.integers(0, 2, size=(40, 9)), weights=rng.uniform(0.5, 2, 40), C=1.0)


def sequences_of_symbols() -> HiddenMarkov:
    rng = np.random.default_rng(13)
    symbols = [rng.integers(0, 3, n) for n in (5, 1, 7, 3, 3)]
    return HiddenMarkov.read(symbols, 2, 3, weights=[1.0, 2.0, 0.5, 1.0, 3.0], pseudocounts=0.1)


@pytest.mark.parametrize("n_shards", [1, 3, 50])
@pytest.mark.parametrize("kind", ["samples", "chains", "forbidden"])
def test_shards_of_hidden_variables_give_the_serial_sums(kind: str, n_shards: int) -> None:
    problem = partly_known(kind)
    cut = sharded(problem, Inline(), n_shards)
    for scale in (0.0, 1.0, 5.0):
        theta = scale * np.random.default_rng(6).normal(size=problem.dimension)
        for method in ("unclamped", "clamped"):
            for found, serial in zip(getattr(cut, method)(theta), getattr(problem, method)(theta)):
                alike(found, serial)
        assert cut.primal({"theta": theta}) == problem.primal({"theta": theta})
        assert cut.curvature(theta).shape == (problem.dimension,)


@pytest.mark.parametrize("n_shards", [1, 3, 50])
def test_shards_of_conditionals_and_of_sequences_give_the_serial_sums(n_shards: int) -> None:
    problem = conditionals()
    cut = sharded(problem, Inline(), n_shards)
    theta = np.random.default_rng(6).normal(size=problem.dimension)
    for found, serial in zip(cut.value_and_gradient(theta), problem.value_and_gradient(theta)):
        alike(found, serial)
    alike(cut.curvature(theta), problem.curvature(theta))
    assert cut.dual(problem.witness(theta)) == problem.dual(problem.witness(theta))
    chains_ = sequences_of_symbols()
    models = random_models(3, 2, 3, seed=1)
    for found, serial in zip(sharded(chains_, Inline(), n_shards).expected(models), chains_.expected(models)):
        alike(found, serial)


@pytest.mark.parametrize("where", [lambda: ThreadPoolExecutor(2), forked], ids=["threads", "processes"])
@pytest.mark.parametrize(
    "made",
    [*(partial(partly_known, kind) for kind in ("samples", "chains", "forbidden")), conditionals, sequences_of_symbols],
    ids=["samples", "chains", "forbidden", "conditionals", "sequences"],
)
def test_they_end_alike_in_threads_and_processes(made: Callable[[], Any], where: Callable[[], Executor]) -> None:
    problem = made()
    serial = solve(problem, max_iterations=30)
    with where() as executor:
        found = solve(problem, max_iterations=30, executor=executor)
    assert found.status is serial.status
    assert found.lower_bound <= serial.primal
    assert serial.lower_bound <= found.primal
    assert found.primal == pytest.approx(serial.primal, rel=1e-4)


def test_a_markov_random_field_has_no_examples_to_cut_and_says_so() -> None:
    factors, samples = tabular_factors(nx.cycle_graph(4), 2), np.zeros((3, 4), dtype=np.int64)
    for kind in (MarkovRandomField, ApproximateField):
        with pytest.raises(ValueError, match=f"executor came with a {kind.__name__}, wanted None: its data enter"):
            solve(kind.read(factors, samples, lam=1.0), executor=Inline())


def test_a_cut_problem_is_cut_again_from_the_whole_and_says_what_it_says() -> None:
    for problem in (partly_known("chains"), conditionals(), sequences_of_symbols()):
        cut: Any = sharded(sharded(problem, Inline(), 3), Inline(), 2)
        assert cut.whole is problem
        assert repr(cut) == repr(problem)
        point, _ = problem.trivial()
        for found, wanted in zip(cut.predict(point), problem.predict(point), strict=True):
            assert np.array_equal(found, wanted)
