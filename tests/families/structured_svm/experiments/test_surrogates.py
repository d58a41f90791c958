"""The surrogates of paper 1 against their formulas, and what the slides' picture claims."""

from __future__ import annotations

import numpy as np
import pytest

from convexstruct.families.structured_svm.experiments import surrogates
from convexstruct.tolerances import ROUNDING

GRID = np.linspace(-3.0, 6.0, 37)


@pytest.mark.parametrize("loss", surrogates.LOSSES)
def test_one_wrong_label_is_charged_by_the_formulas(loss: float) -> None:
    margin = surrogates.hinge((loss,), GRID[:, None], "margin")
    slack = surrogates.hinge((loss,), GRID[:, None], "slack")
    np.testing.assert_allclose(margin, np.maximum(0.0, loss - GRID), atol=ROUNDING)
    np.testing.assert_allclose(slack, np.maximum(0.0, loss * (1.0 - GRID)), atol=ROUNDING)
    assert (np.minimum(margin, slack) >= loss * (GRID < 0)).all()


def test_of_two_wrong_labels_the_greater_charge_counts() -> None:
    margins = np.column_stack((GRID, np.full_like(GRID, 2.0)))
    margin = surrogates.hinge((1.0, 4.0), margins, "margin")
    slack = surrogates.hinge((1.0, 4.0), margins, "slack")
    np.testing.assert_allclose(margin, np.maximum(2.0, 1.0 - GRID), atol=ROUNDING)
    np.testing.assert_allclose(slack, np.maximum(0.0, 1.0 - GRID), atol=ROUNDING)
