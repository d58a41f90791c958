"""The example of Approx-Maximum-Entropy; `tests/models/log_linear` has its optima by formulas."""

from __future__ import annotations

import numpy as np
import pytest

from convexstruct.core.experiment import Result
from convexstruct.families.log_linear.examples import triangle
from tests.families.quick_runs import quick


@pytest.fixture(scope="module")
def result() -> Result:
    return quick("camel").result


def test_the_figures_of_the_literature_are_there(result: Result) -> None:
    found = {(row[0], row[3]): row[4] for row in result.rows}
    wanted = {
        ("as printed", "Bethe"): 1.25101, ("the slide's rows", "Bethe"): 1.39596,
        ("as printed", "exact"): 1.24245, ("the slide's rows", "exact"): 1.36892, ("inside", "Bethe"): 1.82923,
    }  # fmt: skip
    for key, value in wanted.items():
        assert found[key] == pytest.approx(value, abs=5e-6)
    for side in ("as printed", "the slide's rows", "inside"):
        assert found[side, "tree-reweighted"] >= found[side, "exact"]  # type: ignore[operator]  # both are numbers


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
