from __future__ import annotations

import subprocess
import sys

import pytest

import convexstruct as cs


def test_every_public_name_is_there() -> None:
    for name in cs.__all__:
        assert getattr(cs, name) is not None
    assert sorted(cs.__all__) == sorted(dir(cs))


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="'nothing'"):
        _ = cs.nothing


@pytest.mark.parametrize("command", ["import convexstruct", "import convexstruct.cli as c; c.main(['list', '--json'])"])
def test_neither_cvxpy_nor_matplotlib_is_imported_before_it_is_needed(command: str) -> None:
    later = ("cvxpy", "matplotlib", "clarabel", "scs", "sklearn")
    code = f"{command}\nimport sys\nsys.exit(' '.join(m for m in {later} if m in sys.modules) or 0)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_models_are_there_when_asked_for() -> None:
    assert "generative_margin.primal" in cs.models.FORMULATIONS
