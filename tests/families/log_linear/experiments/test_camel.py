"""The example of Approx-Maximum-Entropy: every number by a closed formula, or by a search over one parameter."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import entr

from convexstruct.arrays import Vector
from convexstruct.core.experiment import Result
from convexstruct.families.log_linear.examples import triangle
from convexstruct.families.log_linear.experiments import camel
from convexstruct.tolerances import HIGH
from tests.families.quick_runs import quick


@pytest.fixture(scope="module")
def result() -> Result:
    return quick("camel").result


def bethe(moments: tuple[float, float]) -> float:
    """Three pairs less three nodes."""
    neither, mixed, both = camel.beliefs(moments)
    table = np.array([[neither, mixed], [mixed, both]])
    return float(3 * entr(table).sum() - 3 * entr(table.sum(axis=0)).sum())


def exact(moments: tuple[float, float]) -> float:
    """By symmetry k ones have probability p_k, spread over 1, 3, 3, 1 labellings; the moments leave p_0 open."""
    ways = np.array([1.0, 3.0, 3.0, 1.0])

    def shares(p0: float) -> Vector:
        p1 = moments[0] - 3 * p0
        rest = 1 - p0 - p1  # p_2 + p_3, and p_2 + 3 p_3 = E f11
        p3 = 0.5 * (moments[1] - rest)
        return np.array([p0, p1, rest - p3, p3])

    def negative(p0: float) -> float:
        p = shares(p0)
        return float(-(entr(np.maximum(p, 0)) + p * np.log(ways)).sum()) if p.min() >= -1e-12 else np.inf

    low = max(0.0, 0.5 * (moments[0] - 1.0))
    inside = np.linspace(low, moments[0] / 3, 2001)
    best = inside[np.argmin([negative(p0) for p0 in inside])]
    width = inside[1] - inside[0]
    found = minimize_scalar(negative, bounds=(best - width, best + width), method="bounded", options={"xatol": 1e-12})
    return -min(float(found.fun), negative(best))


@pytest.mark.parametrize(("side", "at"), list(enumerate([(2.0, 0.0), (5 / 3, 0.0), (1.5, 0.3)])))
def test_every_optimum_is_that_of_the_formula(result: Result, side: int, at: tuple[float, float]) -> None:
    rows = result.rows[3 * side : 3 * side + 3]
    assert [row[1:4] for row in rows] == [[*at, name] for name in ("exact", "Bethe", "tree-reweighted")]
    values = [float(row[4]) for row in rows]  # type: ignore[arg-type]  # cells of this column are numbers
    assert values[0] == pytest.approx(exact(at), abs=HIGH.gap)
    assert values[1] == pytest.approx(bethe(at), abs=HIGH.gap)
    assert values[2] >= values[0]


def test_the_figures_of_the_literature_are_there(result: Result) -> None:
    found = {(row[0], row[3]): row[4] for row in result.rows}
    wanted = {
        ("as printed", "Bethe"): 1.25101, ("the slide's rows", "Bethe"): 1.39596,
        ("as printed", "exact"): 1.24245, ("the slide's rows", "exact"): 1.36892, ("inside", "Bethe"): 1.82923,
    }  # fmt: skip
    for key, value in wanted.items():
        assert found[key] == pytest.approx(value, abs=5e-6)


def test_the_beliefs_are_the_published_ones(result: Result) -> None:
    assert result.rows[0][6:] == pytest.approx([2 / 3, 1 / 6, 0.0])
    assert result.rows[3][6:] == pytest.approx([5 / 9, 2 / 9, 0.0])


def test_it_says_that_no_maximum_exists_on_the_border_and_only_there(result: Result) -> None:
    said = [note for note in result.notes if "rises for ever" in note]
    assert len(said) == 2
    assert all("-1 for moments[1]" in note for note in said)


def test_the_slides_rows_give_five_thirds() -> None:
    """Erratum: the right-hand side of (20.17) is printed as 2."""
    rows = np.array([[0, 0, 0], [0, 1, 0], [1, 0, 0]])
    problem = triangle((5 / 3, 0.0))
    np.testing.assert_allclose(problem.factors.joint_each(rows).mean(axis=0), [5 / 3, 0.0])
    assert not np.allclose(problem.factors.joint_each(rows).mean(axis=0), [2.0, 0.0])
