"""The lower bound as a table: the theorem's values exactly, rounds that are 1/(lam eps), and Pragam below (26)."""

from __future__ import annotations

import pytest

from convexstruct.families.regularized_risk.experiments import hadamard
from convexstruct.families.regularized_risk.solvers.bmrm import QpBMRM
from convexstruct.tolerances import ROUNDING
from tests.families.quick_runs import quick


def test_every_value_is_that_of_the_theorem_and_pragam_is_below_26_and_the_bundles() -> None:
    result = quick("hadamard").result
    for row in result.rows:
        cells = dict(zip(result.columns, row))
        t = cells["t"]
        assert isinstance(t, int)
        assert cells["J(w_t)"] == pytest.approx(1 / (2 * hadamard.LAM * t), rel=ROUNDING)
        assert cells["J_t(w_t)"] == pytest.approx(-1 / (2 * hadamard.LAM * t), rel=ROUNDING)
        assert cells["1/(lam eps)"] == pytest.approx(t, rel=ROUNDING)
        assert cells["qp-bmrm"] == cells["ls-bmrm"] == t
        taken, allowed, off = (float(cells[name] or 0.0) for name in ("pragam", "pragam by (26)", "off"))
        assert 1 <= taken <= min(allowed, t)
        assert off < ROUNDING


def test_a_run_that_deviates_is_seen() -> None:
    rounds = hadamard.follow(hadamard.instance(8), QpBMRM(), 5)
    rounds.value[2] *= 1.001
    assert hadamard.deviation(rounds) == pytest.approx(1e-3, rel=1e-3)
