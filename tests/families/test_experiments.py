"""Over the registry: every experiment has a quick run on small data, which `quick_runs.run` checks."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from convexstruct.experiments import EXPERIMENTS
from tests.families.quick_runs import quick

#: Quick runs that take more than 3 s.
SLOW = {"ocr"}
#: Experiments whose quick run is made, and so checked, in their own tests.
ELSEWHERE = {
    name
    for file in Path(__file__).parent.glob("*/experiments/test_*.py")
    for name in re.findall(r"quick\(\"([\w-]+)\"\)", file.read_text(encoding="utf-8"))
}
HERE = [name for name in EXPERIMENTS if name not in ELSEWHERE]


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in HERE])
def test_a_quick_run_tells_its_steps_draws_and_says_what_it_leaves_out(name: str) -> None:
    assert quick(name).result.columns


def test_every_experiment_says_what_it_does_and_none_that_is_run_elsewhere_is_unknown() -> None:
    assert set(EXPERIMENTS) >= ELSEWHERE
    assert all(experiment.file.run.__doc__ for experiment in EXPERIMENTS.values())
