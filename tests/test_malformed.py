"""A sample of benchmarks/malformed.py: malformed input of each public function gives one sentence; data are copied."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import convexstruct as cs
from benchmarks import malformed
from convexstruct import graphs
from convexstruct.datasets.real import conll2000, connect4, protein, svmlight
from tests.refusals import tables


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
    if any(isinstance(each, np.ndarray) for each in value):
        return [owned(each) for each in value]
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


X, W = np.random.default_rng(0).normal(size=(5, 3)), [1.0, 2.0]
EDGES, EACH = [[[0, 1]], [[0, 1], [1, 2]]], [np.ones((1, 2)), np.ones((2, 2))]
#: The readers of problems, by their names in the tables of refusals; what else is given to them there is other data.
READERS = {
    str(door): door
    for door in reversed(tables())
    if isinstance(made := getattr(door.call, "__self__", door.call), type)
    and hasattr(made, "trivial")
    and any(isinstance(each, (list, np.ndarray)) for each in door.sound.values())
}
OTHER: dict[str, tuple[dict[str, Any], ...]] = {
    "GenerativeMargin.hmm": ({"symbols": [np.zeros((2, 2), int), np.zeros((1, 2), int)], "c": None},),
    "StructuredSVM": (
        {"node_features": sp.csr_array(X), "edges": EDGES, "edge_features": EACH, "weights": W},
        {"node_features": None, "kernel": np.eye(5), "loss": [[0.0, 1.0], [1.0, 0.0]]},
    ),
    "ConditionalRandomField.read": ({"weights": W},),
    "MarkovRandomField.read": ({"weights": [2.0]},),
    "PseudoLikelihood.read": ({"weights": [2.0]},),
    "HiddenMarkov.read": ({"weights": [2.0]},),
    "RegularizedRisk.binary": ({"weights": np.ones(6)},),
    "RegularizedRisk.multiclass": ({"cost": np.array([[0.0, 1, 1], [2, 0, 1], [1, 1, 0]])},),
    "MarginalProjection.chains": ({"scale": np.ones(1)},),
}
GIVEN = [(name, change) for name in READERS for change in ({}, *OTHER.get(name, ()))]


@pytest.mark.parametrize(("name", "change"), GIVEN, ids=[f"{name}, {', '.join(more)}" for name, more in GIVEN])
def test_what_is_written_to_the_data_afterwards_changes_nothing(name: str, change: dict[str, Any]) -> None:
    build: Any = READERS[name].call
    given = {**READERS[name].sound, **change}
    data = {key: owned(value) for key, value in given.items() if key != "examples"}
    kept = {key: value for key, value in given.items() if key == "examples"}
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
