"""What every experiment does, over the registry: a quick run on small data."""

from __future__ import annotations

import json

import pytest
from matplotlib.figure import Figure

from convexstruct.experiments import EXPERIMENTS
from tests.families.quick_runs import quick

#: Quick runs that take more than 3 s.
SLOW = {
    "chunking",
    "collapse-sdp",
    "cutting-planes",
    "ocr",
    "online-learners",
    "proposition2",
    "scene",
    "scene-spen",
    "snakes",
    "table1",
    "table2",
    "table3",
}
#: They leave nothing out.
WHOLE = {"surrogates"}


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] * (n in SLOW)) for n in EXPERIMENTS])
def test_a_quick_run_tells_its_steps_draws_and_says_what_it_leaves_out(name: str) -> None:
    result, told = quick(name)
    assert told == [(k, len(told)) for k in range(len(told))]
    assert len(told) > 0
    assert len(result.rows) > 0
    assert json.loads(json.dumps(result.as_json(), allow_nan=False))["columns"] == list(result.columns)
    assert [note.startswith("quick: ") for note in result.notes].count(True) == (name not in WHOLE)
    assert all(isinstance(figure, Figure) and figure.axes for figure in result.figures.values())
    assert len(result.figures) > 0
    assert EXPERIMENTS[name].run.__doc__
