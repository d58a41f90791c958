"""The experiment on scenes: its F1, its errors of differences, and what its quick run shows."""

from __future__ import annotations

import numpy as np
import pytest

from convexstruct.families.energy_network.experiments import scene_spen
from convexstruct.tolerances import LOW
from tests.families.quick_runs import quick


def test_f1_is_that_of_an_image() -> None:
    guessed = np.array([[1, 0, 0], [1, 1, 0], [0, 0, 0], [0, 1, 0]])
    truth = np.array([[1, 0, 0], [1, 0, 0], [0, 0, 0], [1, 0, 0]])
    assert scene_spen.f1(guessed, truth).tolist() == pytest.approx([1.0, 2.0 / 3.0, 1.0, 0.0])


@pytest.mark.slow
def test_a_quick_run_certifies_what_is_convex_and_no_more() -> None:
    result = quick("scene-spen").result
    rows = [dict(zip(result.columns, row)) for row in result.rows]
    assert [row["model"] for row in rows] == list(scene_spen.MODELS)
    for row in rows:
        gap, epoch = row["gap"], row["seconds an epoch"]
        spen = str(row["model"]).startswith("SPEN")
        assert (epoch is not None) == spen
        assert isinstance(gap, float)
        assert (gap <= LOW.gap) != spen
        assert 0.0 <= float(row["Hamming"] or 0.0) <= 0.5
