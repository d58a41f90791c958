"""References are computed anew by each test: none is found in a cache."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _no_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CONVEXSTRUCT_CACHE", str(tmp_path / "cache"))
