"""General solvers that are interrupted."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from convexstruct.models.general_solvers import run


def test_what_scs_prints_when_it_is_interrupted_is_no_output(capsys: pytest.CaptureFixture[str]) -> None:
    def solve_via_data(*_: Any) -> dict[str, Any]:
        print("Failure:interrupted")  # as SCS 3 does, through Python's standard output
        return {"info": {"status": "interrupted"}}

    chain = SimpleNamespace(solve_via_data=solve_via_data)
    problem: Any = SimpleNamespace(get_problem_data=lambda *_, **__: ({}, chain, []))
    with pytest.raises(KeyboardInterrupt):
        run(problem, "SCS", {})
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "Failure:interrupted" in shown.err
