"""A sample of benchmarks/malformed.py: malformed input of each public function gives one sentence; data are copied."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import convexstruct as cs
from benchmarks import malformed
from convexstruct import graphs
from convexstruct.datasets.real import conll2000, connect4, protein, svmlight


@pytest.mark.slow
def test_two_thousand_malformed_inputs_end_in_one_sentence_each() -> None:
    table = malformed.run(2000, seed=1)
    assert sum(row["trials"] for row in table.values()) > 1900
    assert {name: row["examples"] for name, row in table.items() if row["count"]} == {}


X = np.random.default_rng(0).normal(size=(6, 3))
LABELS = [np.array([0, 1]), np.array([1, 0, 1, 0])]
BUILDERS: dict[str, tuple[Any, list[Any]]] = {
    "generative_margin": (
        lambda s, t, w, c: cs.GenerativeMargin.hmm(s, t, 2, 2, eta=0.5, weights=w, c=c),
        [[np.array([0, 1]), np.array([1])], [np.array([1, 1]), np.array([0])], np.ones(2), np.full(10, 0.5)],
    ),
    "generative_margin, channels": (
        lambda s, t, w: cs.GenerativeMargin.hmm(s, t, 2, 2, eta=0.5, weights=w),
        [[np.array([[0, 1], [1, 1]]), np.array([[1, 0]])], [np.array([1, 1]), np.array([0])], np.ones(2)],
    ),
    "generative_margin, tree": (
        lambda p, a: cs.GenerativeMargin.network(graphs.tree_graph(p, 2), a, [1, 2], eta=0.5),
        [np.array([-1, 0, 0, 1]), np.array([[0, 1, 1, 0], [1, 0, 0, 0]])],
    ),
    "structured_svm, trees": (
        lambda x, y, e, f: cs.StructuredSVM.read(x, y, 2, edges=e, edge_features=f, C=1.0),
        [
            [X[:2].copy(), X[2:].copy()],
            LABELS,
            [np.array([[0, 1]]), np.array([[0, 1], [0, 2], [0, 3]])],
            [np.ones((1, 2)), np.arange(6.0).reshape(3, 2)],
        ],
    ),
    "generative_margin, network": (
        lambda a, w: cs.GenerativeMargin.network(graphs.chain_graph(3, 2), a, [0, 2], eta=0.5, weights=w),
        [np.array([[0, 1, 1], [1, 0, 0]]), np.ones(2)],
    ),
    "structured_svm, kernel": (
        lambda k, y: cs.StructuredSVM.read(None, y, 2, C=1.0, kernel=k),
        [np.eye(6), LABELS],
    ),
    "structured_svm, grid": (
        lambda x, y, e: cs.StructuredSVM.read(x, y, 2, edges=e, C=1.0, inference="relaxed"),
        [
            [X[:2].copy(), X[2:].copy()],
            LABELS,
            [np.array([[0, 1]]), np.array([[0, 1], [2, 3], [0, 2], [1, 3]])],
        ],
    ),
    "regularized_risk, multilabel": (
        lambda x, y: cs.RegularizedRisk.multilabel(x, y, 0.1),
        [X.copy(), np.tile(np.eye(3), (2, 1))],
    ),
    "regularized_risk, ordinal": (
        lambda x, y, t: cs.RegularizedRisk.ordinal(x, y, 0.1, thresholds=t),
        [X.copy(), np.array([0, 1, 2] * 2), np.array([0.0, 1.0])],
    ),
    "regularized_risk, pieces": (
        lambda a, b, e: cs.RegularizedRisk.pieces(a, b, 0.1, example=e, floor=True),
        [X.copy(), np.zeros(6), np.array([0, 0, 1, 1, 2, 2])],
    ),
    "tables, graph": (
        lambda m, d: cs.MarginalProjection.graph([["a", "b"], ["b"]], m, d=d),
        [[np.ones((2, 2)), np.arange(2.0)], np.ones(2)],
    ),
    "structured_svm": (
        lambda x, y, loss, w: cs.StructuredSVM.read(x, y, 2, loss=loss, weights=w, C=1.0),
        [X.copy(), LABELS, np.array([[0.0, 1.0], [2.0, 0.0]]), np.ones(2)],
    ),
    "structured_svm, sparse": (lambda x, y: cs.StructuredSVM.read(x, y, 2, C=1.0), [sp.csr_array(X), LABELS]),
    "regularized_risk": (
        lambda x, y, w: cs.RegularizedRisk.binary(x, y, 0.1, weights=w),
        [X.copy(), np.array([-1.0, 1.0] * 3), np.ones(6)],
    ),
    "regularized_risk, sparse": (
        lambda x, y, c: cs.RegularizedRisk.multiclass(x, y, 0.1, cost=c),
        [sp.csr_array(X), np.array([0, 1] * 3), np.array([[0.0, 1.0], [2.0, 0.0]])],
    ),
    "box": (
        lambda m, low, high, s, d: cs.BoxProjection(m, low, high, s, 1.0, d),
        [X[0].copy(), np.zeros(3), np.ones(3), np.ones(3), np.ones(3)],
    ),
    "tables": (
        lambda lengths, edge, node, scale: cs.MarginalProjection.chains(lengths, edge, node, scale=scale),
        [np.array([2, 3]), np.ones((3, 2, 2)), np.ones((5, 2)), np.ones(2)],
    ),
    "gaussian_process": (
        lambda x, y: cs.GaussianProcessSequences.read(x, y, 2),
        [[X[:2].copy(), X[2:].copy()], LABELS],
    ),
    "gaussian_process, gram": (
        lambda gram, y: cs.GaussianProcessSequences.from_gram(gram, y, 2),
        [np.eye(6), LABELS],
    ),
}


def arrays(data: list[Any]) -> list[Any]:
    """Every array in ``data`` that a caller may write to."""
    found = []
    for each in data:
        parts = each if isinstance(each, list) else [each]
        found += [array for part in parts for array in ((part.data, part.indices) if sp.issparse(part) else (part,))]
    return found


@pytest.mark.parametrize("name", BUILDERS)
def test_what_is_written_to_the_data_afterwards_changes_nothing(name: str) -> None:
    build, given = BUILDERS[name]
    data = [[a.copy() for a in each] if isinstance(each, list) else each.copy() for each in given]
    problem = build(*data)
    before = cs.solve(build(*data), tol="MID")
    for array in arrays(data):
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
