"""The folder of the real sets during the tests."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from convexstruct.datasets.real.sources import VARIABLE, available


@pytest.fixture
def present(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Skips a test of a real set that is not here, in the folder named by the environment, else that of data beside the
    repository."""
    beside = Path(__file__).resolve().parents[3] / "shared" / "data"
    if VARIABLE not in os.environ and beside.is_dir():
        monkeypatch.setenv(VARIABLE, str(beside))

    def look(name: str) -> None:
        (state,) = (each.state for each in available() if each.source.name == name)
        if state != "here":
            pytest.skip(f"{name} is {state}: `convexstruct data` says where it comes from")

    return look
