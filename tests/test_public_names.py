from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

import convexstruct as cs
from convexstruct.validation.arguments import SENTENCE_CHARACTERS


def test_every_public_name_is_there() -> None:
    for name in cs.__all__:
        assert getattr(cs, name) is not None
    assert sorted(cs.__all__) == sorted(dir(cs))


def test_a_name_is_imported_when_it_is_used_with_its_own_family_alone() -> None:
    loaded = "families = {m.split('.')[2] for m in sys.modules if m.startswith('convexstruct.families.')}\n"
    code = "import sys, convexstruct as cs\n" + loaded + "assert not families and 'numpy' not in sys.modules\n"
    code += "cs.RegularizedRisk\n" + loaded + "assert families == {'regularized_risk'}, families\n"
    code += "assert len(cs.solvers.__all__) > 40\n" + loaded + "assert len(families) == 8, families"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("of", "name", "near"),
    [
        ("", "GenerativeMargn", "GenerativeMargin"), ("datasets", "conect4", "connect4"),
        ("solvers", "slove", "nearest solve"), ("models", "structured_svn", "structured_svm"),
        ("experiments", "EXPERIMENT", "EXPERIMENTS"), ("estimators", "ChainTager", "ChainTagger"),
        ("verification", "verfy", "verify"),
    ],
)  # fmt: skip
def test_an_unknown_name_is_an_attribute_error_of_one_sentence_with_the_names_that_are_near(
    of: str, name: str, near: str
) -> None:
    module = importlib.import_module(f"convexstruct.{of}".rstrip("."))
    with pytest.raises(AttributeError) as raised:
        getattr(module, name)
    assert str(raised.value).startswith(f"{module.__name__} has no {name!r}, wanted one of ")
    assert near in str(raised.value)
    assert len(str(raised.value)) <= SENTENCE_CHARACTERS


def test_neither_cvxpy_nor_matplotlib_is_imported_before_it_is_needed() -> None:
    later = ("cvxpy", "matplotlib", "clarabel", "scs", "sklearn")
    code = "from convexstruct.cli import main; import sys; main(['list', '--json'])\n"
    code += f"sys.exit(' '.join(m for m in {later} if m in sys.modules) or 0)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_models_are_there_when_asked_for() -> None:
    assert "generative_margin.primal" in cs.models.FORMULATIONS
