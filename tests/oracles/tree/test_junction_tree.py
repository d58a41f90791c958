"""Junction-tree oracles against brute force over all labellings."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2

from convexstruct.arrays import Labels
from convexstruct.junction_trees import JunctionTree, junction_tree
from convexstruct.oracles import enumeration
from convexstruct.oracles.tree import junction_tree as oracle
from convexstruct.tolerances import ROUNDING

EXAMPLES = settings(max_examples=80, deadline=None, derandomize=True)


class Model(NamedTuple):
    tree: JunctionTree
    factors: list[oracle.Factor]
    n: int

    def truth(self, k: int) -> tuple[list[int], list[enumeration.Factor]]:
        """Example k as brute force takes it."""
        return list(self.tree.cards), [(scope, table[min(k, len(table) - 1)]) for scope, table in self.factors]


def graph_of(n_variables: int, scopes: Sequence[tuple[int, ...]]) -> nx.Graph:
    graph = nx.Graph()
    graph.add_nodes_from(range(n_variables))
    for scope in scopes:
        graph.add_edges_from(itertools.combinations(scope, 2))
    return graph


@st.composite
def models(draw: st.DrawFn, integers: bool = False) -> Model:
    """Random factors on 1 to 5 variables of 1 to 3 labels, in any order of their scopes; some tables are shared."""
    n_variables = draw(st.integers(1, 5))
    cards = [draw(st.integers(1, 3)) for _ in range(n_variables)]
    n = draw(st.integers(1, 3))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    scale = draw(st.sampled_from([1.0, 1e3]))
    forbid = draw(st.booleans())
    factors: list[oracle.Factor] = []
    for _ in range(draw(st.integers(0, 6))):
        size = int(rng.integers(1, min(3, n_variables) + 1))
        scope = tuple(int(v) for v in rng.permutation(n_variables)[:size])
        shape = (int(rng.choice([1, n])), *(cards[v] for v in scope))
        table = rng.integers(-1, 2, size=shape).astype(float) if integers else scale * rng.normal(size=shape)
        if forbid:
            table[rng.random(shape) < 0.2] = -np.inf
            table.reshape(len(table), -1)[:, 0] = 0.0
        factors.append((scope, table))
    return Model(junction_tree(graph_of(n_variables, [scope for scope, _ in factors]), cards), factors, n)


def score(labels: Labels, cards: Sequence[int], factors: Sequence[enumeration.Factor]) -> float:
    """The sum of the factors at one labelling; -inf where it is forbidden."""
    return float(sum(table[tuple(labels[v] for v in scope)] for scope, table in factors))


@given(models(integers=True) | models())
@EXAMPLES
def test_the_labelling_found_attains_the_best_score_and_is_the_same_alone_as_in_company(model: Model) -> None:
    before = [table.copy() for _, table in model.factors]
    scores, labels = oracle.best(*model)
    for (_, table), given_table in zip(model.factors, before):
        np.testing.assert_array_equal(table, given_table)
    for k in range(model.n):
        best, _ = enumeration.best(*model.truth(k))
        assert scores[k] == pytest.approx(best, rel=ROUNDING, abs=ROUNDING)
        assert score(labels[k], *model.truth(k)) == pytest.approx(best, rel=ROUNDING, abs=ROUNDING)
        alone = [(scope, table[None]) for scope, table in model.truth(k)[1]]
        np.testing.assert_array_equal(oracle.best(model.tree, alone, 1)[1][0], labels[k])


@given(models(integers=True) | models())
@EXAMPLES
def test_sums_and_marginals_are_those_of_brute_force(model: Model) -> None:
    sums = oracle.sum_product(*model)
    for k in range(model.n):
        cards, factors = model.truth(k)
        expected = enumeration.log_partition(cards, factors)
        assert sums.log_partition[k] == pytest.approx(expected, rel=ROUNDING, abs=ROUNDING)
        for scope in [*(scope for scope, _ in factors), *((v,) for v in range(len(cards)))]:
            truth = enumeration.marginal(cards, factors, scope)
            np.testing.assert_allclose(sums.marginal(scope)[k], truth, atol=ROUNDING)


@pytest.mark.parametrize("apart", [False, True], ids=["shared factors", "factors of their own"])
def test_samples_come_with_the_frequencies_of_the_gibbs_distribution(apart: bool) -> None:
    rng = np.random.default_rng(2)
    copies = 20_000
    scopes = [(0, 1), (2, 0), (3,), (2,)]  # variable 3 hangs on nothing
    tree = junction_tree(graph_of(4, scopes), [2] * 4)
    factors: list[oracle.Factor] = [(scope, rng.normal(size=(1, *[2] * len(scope)))) for scope in scopes]
    given_factors = [(scope, np.repeat(table, copies, axis=0)) for scope, table in factors] if apart else factors
    labels = oracle.sample(tree, given_factors, copies, rng)
    expected = enumeration.posterior(*Model(tree, factors, copies).truth(0)) * copies
    observed = np.bincount(labels @ 2 ** np.arange(4), minlength=16)
    assert expected.min() > 5
    assert ((observed - expected) ** 2 / expected).sum() < chi2.ppf(1 - 1e-4, 15)


def test_an_example_in_which_everything_is_forbidden_is_named() -> None:
    tree = junction_tree(graph_of(1, []), [2])
    table = np.array([[0.0, 0.0], [-np.inf, -np.inf]])
    with pytest.raises(ValueError, match="forbid every labelling of example 1"):
        oracle.sum_product(tree, [((0,), table)], 2)


def test_an_example_whose_scores_overflow_is_not_said_to_be_forbidden() -> None:
    tree = junction_tree(graph_of(2, [(0, 1)]), [2, 2])
    low = np.full((2, 2), -1.7e308)
    factors: list[oracle.Factor] = [((0,), low), ((1,), low * [[0.0], [1.0]])]
    with np.errstate(over="ignore"), pytest.raises(ValueError, match="scores overflow on example 1"):
        oracle.sum_product(tree, factors, 2)
