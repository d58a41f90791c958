"""The folder of the real sets during the tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from convexstruct.datasets.real.sources import VARIABLE, data_root


@pytest.fixture
def real_data(monkeypatch: pytest.MonkeyPatch) -> Path:
    """The data root: that named by the environment, else a folder of data beside the repository."""
    beside = Path(__file__).resolve().parents[3] / "shared" / "data"
    if VARIABLE not in os.environ and beside.is_dir():
        monkeypatch.setenv(VARIABLE, str(beside))
    return data_root()
