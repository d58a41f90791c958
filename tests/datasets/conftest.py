"""Where the real sets may be while the tests run."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from convexstruct.datasets.real.sources import VARIABLE, data_root


@pytest.fixture
def real_data(monkeypatch: pytest.MonkeyPatch) -> Path:
    """The data root: the one named by the environment, else a folder of data kept beside the repository."""
    beside = Path(__file__).resolve().parents[3] / "shared" / "data"
    if VARIABLE not in os.environ and beside.is_dir():
        monkeypatch.setenv(VARIABLE, str(beside))
    return data_root()
