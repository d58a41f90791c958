"""A sample of benchmarks/malformed.py: malformed input of each public function gives one sentence; data are copied."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import convexstruct as cs
from benchmarks import malformed
from benchmarks.malformed_doors import constructors
from convexstruct import graphs
from convexstruct.datasets.real import conll2000, connect4, protein, svmlight


@pytest.mark.slow
def test_two_thousand_malformed_inputs_end_in_one_sentence_each() -> None:
    table = malformed.run(2000, seed=1)
    assert sum(row["trials"] for row in table.values()) > 1900
    assert {name: row["examples"] for name, row in table.items() if row["count"]} == {}


def owned(value: Any) -> Any:
    """A copy in which numbers stand in arrays: a list of them is one, or holds some."""
    if sp.issparse(value) or isinstance(value, np.ndarray):
        return value.copy()
    if not isinstance(value, (list, tuple)) or not value:
        return value
    try:
        array = np.array(value)
    except ValueError:  # ragged
        array = np.array(None)
    return array if array.dtype.kind in "iuf" else [owned(each) for each in value]


def arrays(value: Any) -> Iterator[Any]:
    """Every array in ``value`` that a caller may write to."""
    if sp.issparse(value):
        yield from (value.data, value.indices)
    elif isinstance(value, np.ndarray):
        yield value
    elif isinstance(value, list):
        for each in value:
            yield from arrays(each)


X = np.random.default_rng(0).normal(size=(6, 3))
#: The constructors of problems with other data than `benchmarks.malformed_doors` has.
OTHER: dict[str, tuple[dict[str, Any], ...]] = {
    "GenerativeMargin.hmm": ({"symbols": [np.zeros((2, 2), int), np.zeros((1, 2), int)], "c": None},),
    "StructuredSVM.read": (
        {"node_features": sp.csr_array(X), "edge_features": [np.ones((1, 2)), np.ones((2, 2))]},
        {"node_features": None, "kernel": np.eye(6)},
    ),
    "RegularizedRisk.multiclass": ({"X": sp.csr_array(X), "cost": np.array([[0.0, 1, 1], [2, 0, 1], [1, 1, 0]])},),
    "MarginalProjection.chains": ({"scale": np.ones(2)},),
}
DOORS = {name: door for name, door in constructors().items() if hasattr(door[0](**door[1]), "trivial")}
GIVEN = [(name, change) for name in DOORS for change in ({}, *OTHER.get(name, ()))]


@pytest.mark.parametrize(("name", "change"), GIVEN, ids=[f"{name}, {', '.join(more)}" for name, more in GIVEN])
def test_what_is_written_to_the_data_afterwards_changes_nothing(name: str, change: dict[str, Any]) -> None:
    build, sound = DOORS[name]
    data = {key: owned(value) for key, value in (sound | change).items() if key != "examples"}
    kept = {key: value for key, value in sound.items() if key == "examples"}
    problem = build(**data, **kept)
    before = cs.solve(build(**{key: owned(value) for key, value in data.items()}, **kept), tol="MID")
    written = list(arrays(list(data.values())))
    assert written or kept
    for array in written:
        array[...] = 0 if array.dtype.kind in "iu" else 1e3
    after = cs.certify(problem, before.point, before.dual_point)
    assert (after.primal, after.lower_bound) == (before.primal, before.lower_bound)


def test_huge_views_and_long_names_are_refused_in_a_short_sentence() -> None:
    huge: Any = np.broadcast_to(1.0, (10**12,))
    with pytest.raises(ValueError, match="hidden is an array of shape"):
        cs.GenerativeMargin.network(graphs.chain_graph(3, 2), [[0, 1, 1]], huge, eta=1.0)
    with pytest.raises(ValueError, match="wanted at least one variable, each once") as caught:
        cs.MarginalProjection.graph(["x" * 10_000], [[1.0]])
    assert len(str(caught.value)) <= 300


@pytest.mark.parametrize(
    "parse", [conll2000.parse, connect4.parse, protein.parse, lambda text: svmlight.parse(text, 3)]
)
@pytest.mark.parametrize("line", ["x" * 10_000, "\a" * 10_000])
def test_a_long_line_of_a_data_set_is_cut(parse: Any, line: str) -> None:
    with pytest.raises(ValueError, match="line 1 of") as caught:
        parse(line)
    assert len(str(caught.value)) <= 300
