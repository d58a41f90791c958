"""Both ways in which A of a smoothed risk is held."""

from __future__ import annotations

import pytest

from convexstruct.families.regularized_risk.solvers.semismooth_newton import smoothed_risk


@pytest.fixture(params=[0, smoothed_risk.WRITTEN_OUT], ids=["sparse", "written out"])
def written_out(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A of several scores a piece, as sparse rows and as a table."""
    monkeypatch.setattr(smoothed_risk, "WRITTEN_OUT", request.param)
